use std::time::Duration;

use weft_channel::UnderlayWaker;
use weft_circuit::now;
use weft_wire::edge::TraceRoute;

use super::*;
use crate::routed::Routed;

struct Nobody;

impl Home for Nobody {
    fn hold_back(&self, _: bool) {}
    fn release(&self, _: u32) {}
    fn note_undelivered(&self) {}
}

#[tokio::test]
async fn a_request_for_a_hop_names_the_time_of_day() {
    let (outlet, _outbox) = RouterOutlet::new(UnderlayWaker::default());
    let (timers, _armed) = Timers::observed();
    let home: Weak<dyn Home> = Weak::<Nobody>::new();
    let transport = Transport::Routed(Routed::new(7));
    let circuit = Circuit::new(home, outlet, timers, 7, Role::Initiator, "".into(), transport);
    let (before, day) = (since_1970(), Duration::from_secs(24 * 3600));
    tokio::time::pause();
    tokio::time::advance(day).await;
    let _answer = circuit.trace(1).unwrap();
    let (message, _) = circuit.pull(Class::Ack, now()).unwrap();
    let asked = TraceRoute::from_message(&message).unwrap();
    let after = Duration::from_millis(asked.timestamp).checked_sub(before).unwrap();
    assert!(after.abs_diff(day) < day / 2, "{after:?}");
}
