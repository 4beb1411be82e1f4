//! Hops and outlets together: no payload that waits is lost or repeated when connections close and
//! flows move.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use weft_channel::{Outbox as _, UnderlayWaker};
use weft_limits::Budget;
use weft_wire::Message;
use weft_wire::payload::content_type::PAYLOAD;
use weft_wire::payload::{Ack, Payload, PayloadView};
use weft_xgress::{Class, FlowSource, Tally};

use crate::{Carries, DataOutbox, Flow, HopFlow, HopQueue, LastPort, Outlet, now};

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

fn payload(sequence: i32) -> Message {
    let data = Bytes::from(vec![7; 100]);
    Payload { sequence, data, ..Payload::default() }.into_message("c")
}

fn ack() -> Message {
    Ack { sequences: vec![1], ..Ack::default() }.into_message("c")
}

fn give(hop: &Arc<HopQueue<Listed>>, sequence: i32) {
    hop.push(Class::Payload, sequence, payload(sequence));
}

/// Everything that a connection would write now: sequences of payloads, and -1 for each ack.
fn taken(outbox: &mut DataOutbox<Listed>) -> Vec<i32> {
    outbox.notice();
    let messages = std::iter::from_fn(|| outbox.pull(now()));
    messages.map(|message| sequence(&message)).collect()
}

fn sequence(message: &Message) -> i32 {
    if message.content_type == PAYLOAD { PayloadView::of(message).unwrap().sequence } else { -1 }
}

fn open(outlet: &Arc<Outlet<Listed>>, carries: Carries) -> DataOutbox<Listed> {
    outlet.open(carries, UnderlayWaker::default())
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_payload_is_known_and_that_of_a_payload_that_is_lost_is_not() {
    let outlet = Outlet::new(Budget::unlimited());
    let mut connection = open(&outlet, Carries::Payloads);
    let hop = HopQueue::new(Arc::clone(&outlet));
    let begun = now();
    for sequence in 0..100 {
        give(&hop, sequence);
    }
    let wait = Duration::from_millis(20);
    tokio::time::advance(wait).await;
    taken(&mut connection);
    // The probe has the waiting time of a burst that has left, however late it is read.
    let waits = outlet.probe().take(begun + Duration::from_secs(60));
    assert_eq!(waits, [wait]);
    let (stuck, other) = (Outlet::new(Budget::unlimited()), Outlet::new(Budget::unlimited()));
    let hop = HopQueue::new(Arc::clone(&stuck));
    give(&hop, 0);
    let late = || now() + Duration::from_secs(60);
    assert_eq!(stuck.probe().take(late()).len(), 1, "it waits still");
    hop.move_to(&other);
    assert!(stuck.probe().take(late()).is_empty() && other.probe().take(late()).is_empty());
    give(&hop, 1);
    hop.close();
    assert!(other.probe().take(late()).is_empty());
}

#[test]
fn acks_have_a_connection_of_their_own_while_there_is_one() {
    let outlet = Outlet::new(Budget::unlimited());
    let (mut data, mut acks) = (open(&outlet, Carries::Payloads), open(&outlet, Carries::Acks));
    let hop = HopQueue::new(Arc::clone(&outlet));
    give(&hop, 0);
    hop.push(Class::Ack, 0, ack());
    assert_eq!((taken(&mut data), taken(&mut acks)), (vec![0], vec![-1]));
    drop(acks);
    hop.push(Class::Ack, 0, ack());
    assert_eq!(taken(&mut data), [-1]);
}

#[test]
fn busy_flows_keep_their_connection_and_share_all() {
    let outlet = Outlet::new(Budget::unlimited());
    let mut ports: Vec<_> = (0..3).map(|_| open(&outlet, Carries::Payloads)).collect();
    let hops: Vec<_> = (0..6).map(|_| HopQueue::new(Arc::clone(&outlet))).collect();
    let mut before = Vec::new();
    for round in 0..5 {
        hops.iter().for_each(|hop| give(hop, round));
        let counts: Vec<_> = ports.iter_mut().map(|port| taken(port).len()).collect();
        assert_eq!(counts, [2, 2, 2], "round {round}");
        before.push(counts);
    }
}

#[test]
fn a_connection_that_closes_hands_its_flows_to_another() {
    let outlet = Outlet::new(Budget::unlimited());
    let (mut one, mut two) = (open(&outlet, Carries::Payloads), open(&outlet, Carries::Payloads));
    let hops: Vec<_> = (0..4).map(|_| HopQueue::new(Arc::clone(&outlet))).collect();
    hops.iter().for_each(|hop| give(hop, 0));
    // The connection that closes has noticed half of the flows, and taken one payload.
    one.notice();
    let lost = one.pull(Instant::now()).unwrap();
    hops.iter().for_each(|hop| give(hop, 1));
    let of_lost = hops.iter().find(|hop| hop.bytes() < hops[1].bytes()).unwrap();
    of_lost.put_back(lost);
    drop(one);
    let mut all = taken(&mut two);
    all.sort_unstable();
    assert_eq!(all, [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn what_waits_goes_along_when_the_way_changes() {
    let (first, second) = (Budget::new(1 << 20), Budget::new(1 << 20));
    let (from, to) = (Outlet::new(first.clone()), Outlet::new(second.clone()));
    let (mut old, mut new) = (open(&from, Carries::Payloads), open(&to, Carries::Payloads));
    let hop = HopQueue::new(Arc::clone(&from));
    (0..10).for_each(|sequence| give(&hop, sequence));
    old.notice();
    assert_eq!(sequence(&old.pull(Instant::now()).unwrap()), 0);
    hop.move_to(&to);
    assert!(old.pull(Instant::now()).is_none(), "the former outlet has it no more");
    assert_eq!((first.used(), second.used() > 0), (0, true));
    assert_eq!(taken(&mut new), (1..10).collect::<Vec<_>>());
    // The end of the former connection changes nothing any more.
    drop(old);
    give(&hop, 10);
    assert_eq!(taken(&mut new), [10]);
}

#[test]
fn a_hop_waits_while_its_neighbour_is_away() {
    let outlet = Outlet::new(Budget::unlimited());
    let port = open(&outlet, Carries::Payloads);
    let hop = HopQueue::new(Arc::clone(&outlet));
    give(&hop, 0);
    outlet.close();
    drop(port);
    give(&hop, 1);
    let back = Outlet::new(Budget::unlimited());
    let mut port = open(&back, Carries::Payloads);
    hop.move_to(&back);
    assert_eq!(taken(&mut port), [0, 1]);
    hop.close();
    give(&hop, 2);
    assert_eq!((taken(&mut port), hop.bytes()), (vec![], 0));
}

#[test]
fn an_outlet_that_is_closed_lists_nothing() {
    let outlet: Arc<Outlet<Listed>> = Outlet::new(Budget::unlimited());
    let hop = HopQueue::new(Arc::clone(&outlet));
    assert!(!outlet.list(Class::Payload, &LastPort::default(), Listed(Arc::clone(&hop), 0)));
    let _port = open(&outlet, Carries::Payloads);
    assert!(outlet.list(Class::Payload, &LastPort::default(), Listed(Arc::clone(&hop), 0)));
    outlet.close();
    assert!(!outlet.list(Class::Payload, &LastPort::default(), Listed(hop, 0)));
}

proptest! {
    /// Every payload is written once, while connections open and close and flows move.
    #[test]
    fn nothing_is_lost_or_repeated(steps in prop::collection::vec((0u8..6, 0usize..3), 1..200)) {
        let outlets: Vec<_> = (0..2).map(|_| Outlet::new(Budget::unlimited())).collect();
        let mut ports: Vec<Vec<DataOutbox<Listed>>> =
            outlets.iter().map(|outlet| vec![open(outlet, Carries::Payloads)]).collect();
        let hops: Vec<_> = (0..3).map(|_| HopQueue::new(Arc::clone(&outlets[0]))).collect();
        let (mut given, mut came) = ([0; 3], 0);
        for (step, pick) in steps {
            let at = pick % 2;
            match step {
                0 | 1 => {
                    give(&hops[pick], given[pick]);
                    given[pick] += 1;
                }
                2 => came += ports[at].iter_mut().map(|port| taken(port).len()).sum::<usize>(),
                3 if ports[at].len() > 1 => drop(ports[at].swap_remove(0)),
                3 => ports[at].push(open(&outlets[at], Carries::Payloads)),
                4 => hops[pick].move_to(&outlets[at]),
                // A flow is noticed, and nothing of it is taken yet.
                _ => ports[at].iter_mut().for_each(|port| port.notice()),
            }
        }
        for _ in 0..2 {
            came += ports.iter_mut().flatten().map(|port| taken(port).len()).sum::<usize>();
        }
        prop_assert_eq!(came, given.iter().sum::<i32>() as usize);
        prop_assert!(hops.iter().all(|hop| hop.bytes() == 0));
    }
}
