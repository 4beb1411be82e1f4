//! Scenes of two or three threads, in every order.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use weft_limits::Budget;
use weft_threads::hop::{HopFlow, HopQueue};
use weft_threads::outlet::{Carries, DataOutbox, Flow, Outlet};
use weft_threads::pause::Pause;
use weft_threads::single_flight::SingleFlight;
use weft_threads::{Outbox, Reading, UnderlayWaker, sleep_until_woken, takes_resume};
use weft_wire::Message;
use weft_wire::payload::{Payload, PayloadView};
use weft_xgress::{Class, FlowSource, Tally};

/// Most interruptions of a thread that could go on, in a scene. Two are enough to find mistakes in the order
/// of steps.
const INTERRUPTIONS: usize = 3;

fn in_every_order(scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(INTERRUPTIONS);
    builder.check(scene);
}

// Work that one thread at a time does.

#[test]
fn what_is_asked_for_is_done_by_one_thread_at_a_time() {
    in_every_order(|| {
        let scene = Arc::new((SingleFlight::default(), AtomicUsize::new(0), Alone::default()));
        let ask = |scene: &(SingleFlight, AtomicUsize, Alone)| {
            let (flight, asked, done) = scene;
            asked.fetch_add(1, Ordering::Relaxed);
            assert!(flight.take(|| {
                done.set(asked.load(Ordering::Relaxed));
                true
            }));
        };
        let threads = [0; 2].map(|_| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || ask(&scene))
        });
        ask(&scene);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(scene.2.get(), 3, "something was asked for and not done");
    });
}

#[test]
fn a_thread_that_has_done_enough_is_told_that_something_may_be_left() {
    in_every_order(|| {
        let scene = Arc::new((SingleFlight::default(), AtomicUsize::new(0), Alone::default()));
        let ask = |scene: &(SingleFlight, AtomicUsize, Alone), mut enough: bool| {
            let (flight, asked, done) = scene;
            asked.fetch_add(1, Ordering::Relaxed);
            // A thread that was refused tries again later, as ends do by their clock.
            while !flight.take(|| {
                if std::mem::take(&mut enough) {
                    return false;
                }
                done.set(asked.load(Ordering::Relaxed));
                true
            }) {}
        };
        let thread = thread::spawn({
            let scene = Arc::clone(&scene);
            move || ask(&scene, true)
        });
        ask(&scene, false);
        thread.join().unwrap();
        assert_eq!(scene.2.get(), 2, "something was asked for and not done");
    });
}

/// State that two threads must not change at the same time: the number of threads inside, and the
/// result. No lock orders the threads: the single flight has to.
#[derive(Default)]
struct Alone {
    inside: AtomicUsize,
    result: AtomicUsize,
}

impl Alone {
    fn set(&self, value: usize) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "two at a time");
        self.result.store(value, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.result.load(Ordering::Relaxed)
    }
}

// The waker and the pause.

#[test]
fn a_wake_up_is_not_lost() {
    in_every_order(|| {
        let (waker, listed) = (UnderlayWaker::default(), Arc::new(AtomicUsize::new(0)));
        let lister = thread::spawn({
            let (waker, listed) = (waker.clone(), Arc::clone(&listed));
            move || {
                listed.store(1, Ordering::Release);
                waker.wake();
            }
        });
        let resumer = thread::spawn({
            let waker = waker.clone();
            move || waker.resume()
        });
        while listed.load(Ordering::Acquire) == 0 {
            sleep_until_woken(&waker);
        }
        lister.join().unwrap();
        resumer.join().unwrap();
        assert!(takes_resume(&waker) && !takes_resume(&waker), "one request is one");
    });
}

#[test]
fn a_connection_that_pauses_is_read_again() {
    in_every_order(|| {
        let (pause, connection) = (Arc::new(Pause::default()), UnderlayWaker::default());
        let _ = pause.went_over();
        let one = thread::spawn({
            let pause = Arc::clone(&pause);
            move || pause.came_back()
        });
        if pause.flow(&connection) == Reading::Pause {
            sleep_until_woken(&connection);
            assert!(takes_resume(&connection));
            assert_eq!(pause.flow(&connection), Reading::Continue);
        }
        one.join().unwrap();
        assert!(!pause.is_on());
    });
}

#[test]
fn a_connection_is_read_again_though_the_pause_goes_on_and_off() {
    in_every_order(|| {
        let (pause, connection) = (Arc::new(Pause::default()), UnderlayWaker::default());
        let _ = pause.went_over();
        let one = thread::spawn({
            let pause = Arc::clone(&pause);
            move || {
                pause.came_back();
                let _ = pause.went_over();
                pause.came_back();
            }
        });
        while pause.flow(&connection) == Reading::Pause {
            sleep_until_woken(&connection);
        }
        one.join().unwrap();
        assert!(!pause.is_on());
    });
}

#[test]
fn a_pause_is_kept_alive_by_one_task() {
    in_every_order(|| {
        let (pause, tasks) = (Arc::new(Pause::default()), Arc::new(AtomicUsize::new(1)));
        assert!(pause.went_over());
        let task = thread::spawn({
            let (pause, tasks) = (Arc::clone(&pause), Arc::clone(&tasks));
            move || {
                if !pause.keep_alive_goes_on() {
                    tasks.fetch_sub(1, Ordering::AcqRel);
                }
            }
        });
        let next = thread::spawn({
            let (pause, tasks) = (Arc::clone(&pause), Arc::clone(&tasks));
            move || {
                if pause.went_over() {
                    tasks.fetch_add(1, Ordering::AcqRel);
                }
            }
        });
        pause.came_back();
        task.join().unwrap();
        next.join().unwrap();
        assert!(pause.is_on());
        assert_eq!(tasks.load(Ordering::Acquire), 1);
    });
}

// The listing at an outlet.

struct Listed(Arc<HopQueue<Self>>, u32);

impl FlowSource for Listed {
    type Frame = Message;

    fn pull(&self, class: Class, _: Instant) -> Option<(Message, u64)> {
        self.0.pull(self.1, class)
    }

    fn tally(&self) -> &Tally {
        self.0.tally()
    }
}

impl Flow for Listed {
    fn unlisted(&self, class: Class) {
        self.0.unlisted(self.1, class);
    }
}

impl HopFlow for Listed {
    fn of_hop(hop: Arc<HopQueue<Self>>, listing: u32) -> Self {
        Self(hop, listing)
    }
}

fn give(hop: &Arc<HopQueue<Listed>>, sequence: i32) {
    let payload = Payload { sequence, data: Bytes::from_static(b"7"), ..Payload::default() };
    hop.push(Class::Payload, sequence, payload.into_message("c"));
}

/// The number of listings of a flow, if otherwise only the caller holds the flow.
fn listings(hop: &Arc<HopQueue<Listed>>) -> usize {
    Arc::strong_count(hop) - 1
}

/// Serves a connection once; returns the sequence numbers of the messages to write.
fn served(outbox: &mut DataOutbox<Listed>) -> Vec<i32> {
    outbox.notice();
    let messages = std::iter::from_fn(|| outbox.pull(Instant::now()));
    messages.map(|message| PayloadView::of(&message).unwrap().sequence).collect()
}

#[test]
fn a_connection_that_sleeps_is_woken_for_every_payload() {
    in_every_order(|| {
        let (outlet, waker) = (Outlet::new(Budget::unlimited()), UnderlayWaker::default());
        let mut outbox = outlet.open(Carries::Payloads, waker.clone());
        let hop = HopQueue::new(Arc::clone(&outlet));
        let giver = thread::spawn({
            let hop = Arc::clone(&hop);
            move || (0..2).for_each(|sequence| give(&hop, sequence))
        });
        let mut came = served(&mut outbox);
        while came.len() < 2 {
            sleep_until_woken(&waker);
            came.extend(served(&mut outbox));
        }
        assert_eq!(came, [0, 1]);
        giver.join().unwrap();
    });
}

#[test]
fn two_flows_are_listed_at_once() {
    in_every_order(|| {
        let (outlet, waker) = (Outlet::new(Budget::unlimited()), UnderlayWaker::default());
        let mut outbox = outlet.open(Carries::Payloads, waker.clone());
        let givers = [0, 1].map(|sequence| {
            let hop = HopQueue::new(Arc::clone(&outlet));
            thread::spawn(move || give(&hop, sequence))
        });
        let mut came = served(&mut outbox);
        while came.len() < 2 {
            sleep_until_woken(&waker);
            came.extend(served(&mut outbox));
        }
        came.sort_unstable();
        assert_eq!(came, [0, 1]);
        for giver in givers {
            giver.join().unwrap();
        }
    });
}

#[test]
fn a_flow_of_a_connection_that_closes_goes_to_the_other() {
    in_every_order(|| {
        let outlet = Outlet::new(Budget::unlimited());
        let mut one = outlet.open(Carries::Payloads, UnderlayWaker::default());
        let mut other = outlet.open(Carries::Payloads, UnderlayWaker::default());
        let hop = HopQueue::new(Arc::clone(&outlet));
        let closer = thread::spawn(move || {
            one.notice();
            drop(one);
        });
        let giver = thread::spawn({
            let hop = Arc::clone(&hop);
            move || give(&hop, 0)
        });
        closer.join().unwrap();
        giver.join().unwrap();
        assert_eq!(served(&mut other), [0]);
    });
}

#[test]
fn a_flow_that_nobody_took_is_listed_by_its_next_payload() {
    in_every_order(|| {
        let outlet = Outlet::new(Budget::unlimited());
        let hop = HopQueue::new(Arc::clone(&outlet));
        let giver = thread::spawn({
            let hop = Arc::clone(&hop);
            move || give(&hop, 0)
        });
        let mut outbox = outlet.open(Carries::Payloads, UnderlayWaker::default());
        giver.join().unwrap();
        give(&hop, 1);
        assert_eq!(listings(&hop), 1);
        assert_eq!(served(&mut outbox), [0, 1]);
    });
}

#[test]
fn an_outlet_that_closes_keeps_no_flow() {
    in_every_order(|| {
        let outlet = Outlet::new(Budget::unlimited());
        let open = || outlet.open(Carries::Payloads, UnderlayWaker::default());
        let _connections = [open(), open()];
        let hop = HopQueue::new(Arc::clone(&outlet));
        let giver = thread::spawn({
            let hop = Arc::clone(&hop);
            move || give(&hop, 0)
        });
        outlet.close();
        giver.join().unwrap();
        assert_eq!(listings(&hop), 0);
    });
}

#[test]
fn a_payload_goes_along_when_its_flow_moves() {
    in_every_order(|| {
        let (from, to) = (Outlet::new(Budget::unlimited()), Outlet::new(Budget::unlimited()));
        let mut former = from.open(Carries::Payloads, UnderlayWaker::default());
        let mut new = to.open(Carries::Payloads, UnderlayWaker::default());
        let hop = HopQueue::new(Arc::clone(&from));
        let giver = thread::spawn({
            let hop = Arc::clone(&hop);
            move || give(&hop, 0)
        });
        let server = thread::spawn(move || served(&mut former));
        hop.move_to(&to);
        giver.join().unwrap();
        let mut came = server.join().unwrap();
        came.extend(served(&mut new));
        assert_eq!(came, [0]);
    });
}

#[test]
fn a_connection_takes_nothing_of_a_flow_that_has_moved() {
    in_every_order(|| {
        let (from, to) = (Outlet::new(Budget::unlimited()), Outlet::new(Budget::unlimited()));
        let mut former = from.open(Carries::Payloads, UnderlayWaker::default());
        let mut new = to.open(Carries::Payloads, UnderlayWaker::default());
        let hop = HopQueue::new(Arc::clone(&from));
        give(&hop, 0);
        let moved = Arc::new(AtomicUsize::new(0));
        let server = thread::spawn({
            let moved = Arc::clone(&moved);
            move || {
                let has_moved = moved.load(Ordering::Acquire) > 0;
                let came = served(&mut former);
                assert!(came.is_empty() || !has_moved, "it was listed elsewhere");
                came
            }
        });
        hop.move_to(&to);
        moved.store(1, Ordering::Release);
        let mut came = server.join().unwrap();
        came.extend(served(&mut new));
        assert_eq!(came, [0]);
    });
}

#[test]
fn a_flow_that_is_handed_back_while_it_moves_is_listed_once() {
    in_every_order(|| {
        let (from, to) = (Outlet::new(Budget::unlimited()), Outlet::new(Budget::unlimited()));
        let former = from.open(Carries::Payloads, UnderlayWaker::default());
        let mut new = to.open(Carries::Payloads, UnderlayWaker::default());
        let hop = HopQueue::new(Arc::clone(&from));
        give(&hop, 0);
        let closer = thread::spawn(move || drop(former));
        hop.move_to(&to);
        closer.join().unwrap();
        assert_eq!(listings(&hop), 1);
        assert_eq!(served(&mut new), [0]);
    });
}

#[test]
fn a_flow_that_moves_before_it_is_refused_is_listed_once() {
    in_every_order(|| {
        // The first outlet is not served.
        let (from, to) = (Outlet::new(Budget::unlimited()), Outlet::new(Budget::unlimited()));
        let mut new = to.open(Carries::Payloads, UnderlayWaker::default());
        let hop = HopQueue::new(from);
        let giver = thread::spawn({
            let hop = Arc::clone(&hop);
            move || give(&hop, 0)
        });
        hop.move_to(&to);
        giver.join().unwrap();
        give(&hop, 1);
        assert_eq!(listings(&hop), 1);
        assert_eq!(served(&mut new), [0, 1]);
    });
}
