use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

use bytes::Bytes;
use weft_limits::Budget;
use weft_xgress::{Options, Role};

use super::*;

/// A task that counts how often it is woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn driver(role: Role, now: Instant) -> Driver<End> {
    Driver::new(End::new(role, &Options::default(), &Budget::unlimited(), now))
}

/// The classes that are listed, and the armed deadline.
fn done(steps: Steps) -> (Vec<Class>, Option<Instant>) {
    let (mut listed, mut armed) = (Vec::new(), None);
    steps.carry_out(|class, _| listed.push(class), |at| armed = Some(at));
    (listed, armed)
}

/// Passes all messages of one end to the other.
fn pass(from: &mut Driver<End>, to: &mut Driver<End>, now: Instant) {
    while let Some(payload) = from.pull(Class::Payload, |end| end.poll_transmit(now)) {
        to.machine.on_payload(payload, now);
    }
    while let Some(ack) = from.pull(Class::Ack, End::poll_ack) {
        to.machine.on_ack(&ack, now);
    }
}

#[test]
fn an_end_is_listed_once_until_it_has_nothing_more() {
    let now = Instant::now();
    let mut end = driver(Role::Initiator, now);
    assert_eq!(done(end.steps(false)).0, [], "no connection takes it");
    assert_eq!(done(end.steps(true)).0, [Class::Payload]);
    assert_eq!(done(end.steps(true)).0, []);
    assert!(end.pull(Class::Payload, |end| end.poll_transmit(now)).is_some());
    end.machine.write(Bytes::from_static(b"more")).unwrap();
    assert_eq!(done(end.steps(true)).0, [], "the connection asks again");
    assert!(end.pull(Class::Payload, |end| end.poll_transmit(now)).is_some());
    assert!(end.pull(Class::Payload, |end| end.poll_transmit(now)).is_none());
    end.machine.write(Bytes::from_static(b"and more")).unwrap();
    assert_eq!(done(end.steps(true)).0, [Class::Payload]);
    // Once the end sends another way, the end of the former listing changes nothing.
    let former = end.listing().number();
    end.relist();
    assert_eq!(done(end.steps(true)).0, [Class::Payload]);
    assert!(!end.unlist(Class::Payload, former));
    assert_eq!(done(end.steps(true)).0, []);
    assert!(end.unlist(Class::Payload, end.listing().number()));
    assert_eq!(done(end.steps(true)).0, [Class::Payload]);
}

#[test]
fn tasks_are_woken_when_there_is_something_and_only_once() {
    let now = Instant::now();
    let (mut one, mut other) = (driver(Role::Initiator, now), driver(Role::Terminator, now));
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    let cx = Context::from_waker(&waker);
    let woken = || task.0.load(Ordering::Relaxed);
    other.wake_to_read(&cx);
    other.wake_to_write(&cx);
    done(other.steps(true));
    assert_eq!(woken(), 0, "the circuit has not begun");
    pass(&mut one, &mut other, now);
    done(other.steps(true));
    assert_eq!(woken(), 1, "it can write");
    one.machine.write(Bytes::from_static(b"data")).unwrap();
    pass(&mut one, &mut other, now);
    done(other.steps(true));
    assert_eq!(woken(), 2, "it can read");
    done(other.steps(true));
    assert_eq!(woken(), 2);
}

#[test]
fn one_deadline_is_armed_and_a_payload_without_an_ack_is_sent_again() {
    let now = Instant::now();
    let mut end = driver(Role::Initiator, now);
    assert!(end.pull(Class::Payload, |end| end.poll_transmit(now)).is_some());
    assert!(end.pull(Class::Payload, |end| end.poll_transmit(now)).is_none(), "it waits");
    let at = done(end.steps(true)).1.unwrap();
    assert_eq!(done(end.steps(true)).1, None, "armed already");
    assert!(!end.fires(at + Duration::from_secs(1), at), "nobody armed this");
    assert!(end.fires(at, at));
    let (listed, again) = done(end.steps(true));
    assert_eq!(listed, [Class::Payload]);
    assert!(end.pull(Class::Payload, |end| end.poll_transmit(at)).is_some());
    let again = again.or(done(end.steps(true)).1).unwrap();
    assert!(again > at);
}
