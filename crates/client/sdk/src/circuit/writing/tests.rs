use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use weft_channel::UnderlayWaker;
use weft_circuit::now;
use weft_e2e::KeyPair;
use weft_limits::Budget;
use weft_wire::edge::{Data, content_type, data_flags};
use weft_wire::payload::Payload;
use weft_xgress::{Class, End, Options, Role};

use super::*;
use crate::circuit::{Circuit, Home, Timers, Transport};
use crate::outlet::RouterOutlet;
use crate::routed::Routed;
use crate::sealing::{Inward, Keys};

struct Nobody;

impl Home for Nobody {
    fn hold_back(&self, _: bool) {}
    fn release(&self, _: u32) {}
    fn note_undelivered(&self) {}
}

/// A circuit whose flow control is at a router, which takes messages when the test asks for them.
fn circuit() -> Arc<Circuit> {
    let (outlet, _outbox) = RouterOutlet::new(UnderlayWaker::default());
    let (timers, _armed) = Timers::observed();
    let home: Weak<dyn Home> = Weak::<Nobody>::new();
    let transport = Transport::Routed(Routed::new(7));
    Circuit::new(home, outlet, timers, 7, Role::Initiator, "".into(), transport)
}

/// A circuit whose flow control is here, with memory from a budget.
fn own_circuit(budget: &Budget) -> Arc<Circuit> {
    own_circuit_of(Role::Initiator, budget)
}

fn own_circuit_of(role: Role, budget: &Budget) -> Arc<Circuit> {
    let (outlet, _outbox) = RouterOutlet::new(UnderlayWaker::default());
    let (timers, _armed) = Timers::observed();
    let home: Weak<dyn Home> = Weak::<Nobody>::new();
    let end = End::new(role, &Options::default(), budget, now());
    let transport = Transport::Own(Box::new(end));
    Circuit::new(home, outlet, timers, 7, role, "".into(), transport)
}

/// Both sides of a sealed direction: the circuit seals, the other side opens.
fn seal(circuit: &Circuit) -> Inward {
    let mut rng = rand::rng();
    let (dialer, host) =
        (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
    let ours = Keys::new(dialer.client_session(&host.public_key()).unwrap(), true, true);
    let theirs = Keys::new(host.server_session(&dialer.public_key()).unwrap(), true, true);
    let (outward, _, header) = ours.start();
    circuit.seal(outward, header);
    theirs.start().1
}

fn write(circuit: &Circuit, data: &[u8]) -> Poll<Result<usize, Unwritten>> {
    circuit.poll_write(&mut Context::from_waker(Waker::noop()), data)
}

/// Writes all of `data`, which there is room for.
fn write_all(circuit: &Circuit, mut data: &[u8]) {
    while !data.is_empty() {
        let Poll::Ready(taken) = write(circuit, data) else { panic!("no room") };
        data = &data[taken.unwrap()..];
    }
}

/// The next payload; `None` if none waits.
fn next(circuit: &Circuit) -> Option<Data> {
    let (message, _) = circuit.pull(Class::Payload, now())?;
    assert_eq!(message.content_type, content_type::DATA);
    Some(Data::from_message(&message).unwrap())
}

fn lengths(circuit: &Circuit) -> Vec<usize> {
    std::iter::from_fn(|| next(circuit)).map(|payload| payload.data.len()).collect()
}

#[tokio::test]
async fn a_write_that_finds_nothing_waiting_is_a_payload_at_once() {
    let circuit = circuit();
    for _ in 0..3 {
        write_all(&circuit, b"ping");
        assert_eq!(lengths(&circuit), [4]);
    }
}

#[tokio::test]
async fn small_writes_leave_together_while_others_wait() {
    let circuit = circuit();
    for _ in 0..70 {
        write_all(&circuit, &[1; 1024]);
    }
    // The first write, two full payloads, and the rest as soon as none waits before it.
    assert_eq!(lengths(&circuit), [1024, PAYLOAD_SIZE, PAYLOAD_SIZE, 5 * 1024]);
    write_all(&circuit, b"ping");
    assert_eq!(lengths(&circuit), [4]);
}

#[tokio::test]
async fn what_is_gathered_leaves_when_the_payload_before_it_does() {
    let circuit = circuit();
    write_all(&circuit, b"one");
    write_all(&circuit, b"two");
    write_all(&circuit, b"three");
    assert_eq!(&next(&circuit).unwrap().data[..], b"one");
    // A payload waits again: the gathered one.
    write_all(&circuit, b"four");
    assert_eq!(&next(&circuit).unwrap().data[..], b"twothree");
    assert_eq!(&next(&circuit).unwrap().data[..], b"four");
    assert!(next(&circuit).is_none());
}

#[tokio::test]
async fn a_message_keeps_its_borders_and_its_place() {
    let circuit = circuit();
    write_all(&circuit, b"one");
    write_all(&circuit, b"two");
    circuit.write_message(b"message").unwrap();
    circuit.write_message(b"another").unwrap();
    write_all(&circuit, b"three");
    let payloads: Vec<Data> = std::iter::from_fn(|| next(&circuit)).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(|payload| &payload.data[..]).collect();
    assert_eq!(payloads, [&b"one"[..], b"two", b"message", b"another", b"three"]);
}

#[tokio::test]
async fn the_end_comes_behind_what_is_gathered() {
    let circuit = circuit();
    write_all(&circuit, b"one");
    write_all(&circuit, b"two");
    circuit.finish();
    assert_eq!(&next(&circuit).unwrap().data[..], b"one");
    assert_eq!(&next(&circuit).unwrap().data[..], b"two");
    assert_eq!(next(&circuit).unwrap().flags, data_flags::FIN);
    assert!(matches!(write(&circuit, b"late"), Poll::Ready(Err(Unwritten::Ended))));
    assert!(matches!(circuit.write_message(b"late"), Err(Unwritten::Ended)));
}

#[tokio::test]
async fn a_host_that_ends_before_the_circuit_begins_sends_its_sealed_end() {
    let budget = Budget::new(1 << 20);
    let host = own_circuit_of(Role::Terminator, &budget);
    let mut inward = seal(&host);
    host.finish();
    assert!(host.pull(Class::Payload, now()).is_none());
    let start = own_circuit(&budget).pull(Class::Payload, now()).unwrap().0;
    host.on_payload(Payload::from_message(&start).unwrap());
    let sent = std::iter::from_fn(|| host.pull(Class::Payload, now()));
    let sent = sent.map(|(message, _)| Payload::from_message(&message).unwrap());
    let data: Vec<_> = sent.map(|payload| payload.data).filter(|data| !data.is_empty()).collect();
    assert_eq!(data.len(), 2, "the header and the end");
    for sealed in data {
        assert!(inward.is_cut());
        assert_eq!(inward.open(&Vec::new(), sealed).unwrap(), "");
    }
    assert!(!inward.is_cut());
}

#[tokio::test]
async fn an_aborted_circuit_forgets_what_is_gathered() {
    let circuit = circuit();
    write_all(&circuit, b"one");
    write_all(&circuit, b"two");
    circuit.closed_by_router(true);
    assert!(next(&circuit).is_none());
    assert!(matches!(write(&circuit, b"late"), Poll::Ready(Err(Unwritten::Ended))));
}

#[tokio::test]
async fn a_full_circuit_takes_one_gathered_payload_at_most() {
    let circuit = circuit();
    let mut taken = 0;
    while let Poll::Ready(Ok(length)) = write(&circuit, &[0; 100]) {
        taken += length;
    }
    let sent: usize = lengths(&circuit).iter().sum();
    assert_eq!(sent, taken);
    assert!(taken < (256 + 32 + 32) * 1024, "{taken}");
    assert!(matches!(write(&circuit, b"more"), Poll::Ready(Ok(4))));
}

#[tokio::test]
async fn room_that_was_promised_stays_when_other_circuits_use_up_the_memory() {
    let budget = Budget::new(1 << 20);
    let circuit = own_circuit(&budget);
    let writable = || circuit.poll_writable(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(writable(), Poll::Ready(Ok(()))));
    circuit.write_message(b"one").unwrap();
    assert!(matches!(writable(), Poll::Ready(Ok(()))));
    let others = budget.take_anyway(2 << 20);
    circuit.write_message(b"read from a socket meanwhile").unwrap();
    // One write was promised, and no more.
    assert!(matches!(circuit.write_message(b"more"), Err(Unwritten::Full)));
    assert!(matches!(writable(), Poll::Pending));
    drop(others);
    assert!(matches!(writable(), Poll::Ready(Ok(()))));
}

/// What the application does, and how many payloads the channel takes after that.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Message(usize),
    Take(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop_oneof![1..200usize, 1..70_000usize].prop_map(Step::Write),
        1 => (0..3000usize).prop_map(Step::Message),
        2 => (1..5usize).prop_map(Step::Take),
    ];
    prop::collection::vec(step, 1..80)
}

/// Bytes that are their own places in a stream, from one on. They are copied in blocks, because a closure for each byte takes
/// long without optimisation.
fn numbered(from: usize, length: usize) -> Vec<u8> {
    let block: Vec<u8> = (0..=u8::MAX).collect();
    let blocks = block.repeat(length / block.len() + 2);
    blocks[from % block.len()..][..length].to_vec()
}

proptest! {
    #[test]
    fn bytes_that_are_written_are_sent_in_order(steps in steps(), sealed in any::<bool>()) {
        let circuit = circuit();
        let mut inward = if sealed { seal(&circuit) } else { Inward::Plain };
        let (mut written, mut sent) = (Vec::new(), Vec::new());
        let mut take = |sent: &mut Vec<u8>| {
            let payload = next(&circuit).filter(|payload| payload.flags & data_flags::FIN == 0);
            let Some(payload) = payload else { return false };
            assert!(payload.data.len() <= PAYLOAD_SIZE + 64);
            sent.extend_from_slice(&inward.open(&Vec::new(), payload.data).unwrap());
            true
        };
        for step in steps {
            match step {
                Step::Write(length) => {
                    let data = numbered(written.len(), length);
                    let mut rest = &data[..];
                    while !rest.is_empty() {
                        match write(&circuit, rest) {
                            Poll::Ready(taken) => {
                                let (now, later) = rest.split_at(taken.unwrap());
                                written.extend_from_slice(now);
                                rest = later;
                            }
                            Poll::Pending => prop_assert!(take(&mut sent)),
                        }
                    }
                }
                Step::Message(length) => {
                    let data = numbered(written.len(), length);
                    while let Err(Unwritten::Full) = circuit.write_message(&data) {
                        prop_assert!(take(&mut sent));
                    }
                    written.extend_from_slice(&data);
                }
                Step::Take(count) => {
                    let _ = (0..count).take_while(|_| take(&mut sent)).count();
                }
            }
        }
        circuit.finish();
        while take(&mut sent) {}
        prop_assert_eq!(written.len(), sent.len());
        prop_assert!(written == sent);
    }
}
