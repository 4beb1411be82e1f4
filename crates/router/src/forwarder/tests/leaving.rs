//! Circuits that their controller has ended, and that stay until they are done or quiet.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_channel::Outbox as _;

use super::done::{ends_here, in_transit, ways, with_waiting};
use super::idle::link;
use super::*;

const QUIET: Duration = Duration::from_secs(5);

/// The time until the circuit is taken down. `at_each` is called at intervals of 5 ms.
async fn taken_down_after(forwarder: Arc<Forwarder>, mut at_each: impl FnMut(Instant)) -> Duration {
    let (stop, begun) = (CancellationToken::new(), Instant::now());
    let task = Arc::clone(&forwarder).keep_time(stop.clone());
    unroute(&forwarder, false);
    let looking = async {
        while forwarder.counts().0 > 0 {
            at_each(begun);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    tokio::join!(task, looking);
    begun.elapsed()
}

fn is_about(took: Duration, expected: Duration) {
    assert!(took >= expected && took < expected + Duration::from_millis(100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_circuit_is_taken_down_once_its_time_is_over() {
    is_about(taken_down_after(in_transit(), |_| {}).await, QUIET);
}

#[tokio::test(start_paused = true)]
async fn a_router_between_waits_while_messages_come_and_no_longer() {
    // The router before this one has a slow link, and all of the queue.
    let (forwarder, slow) = (in_transit(), QUIET * 4);
    let circuit = forwarder.circuit("circuit").unwrap();
    let hear = |begun: Instant| {
        if begun.elapsed() < slow {
            circuit.hear();
        }
    };
    let took = taken_down_after(forwarder, hear).await;
    // Messages are noted to the second.
    let least = slow + QUIET - Duration::from_secs(1);
    assert!(took >= least && took < slow + QUIET + Duration::from_millis(100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_the_ends_send_a_circuit_that_has_ended_goes() {
    let forwarder = ends_here();
    let circuit = forwarder.circuit("circuit").unwrap();
    is_about(taken_down_after(forwarder, |_| circuit.hear()).await, QUIET * 12);
}

/// The time until a circuit is taken down whose connection takes one payload each `every`, and after so many no more.
async fn taken_down_when_slow(payloads: u64, every: Duration) -> Duration {
    let (forwarder, mut connection) = with_waiting(200);
    let mut taken = 0;
    let pull = |begun: Instant| {
        if taken < payloads && begun.elapsed() > every * (taken as u32 + 1) {
            connection.notice();
            assert!(connection.pull(weft_circuit::now()).is_some());
            taken += 1;
        }
    };
    taken_down_after(forwarder, pull).await
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_becomes_shorter_is_waited_for() {
    for (payloads, end) in [(20, 20), (90, 90)] {
        let took = taken_down_when_slow(payloads, Duration::from_secs(1)).await;
        let [least, most] = [end, end + 11].map(Duration::from_secs);
        assert!(took > least && took < most, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_becomes_shorter_too_slowly_is_waited_for_ten_minutes() {
    let took = taken_down_when_slow(199, Duration::from_secs(4)).await;
    is_about(took, QUIET * 120);
}

#[test]
fn a_late_reroute_revives_no_circuit_that_has_ended() {
    let forwarder = in_transit();
    assert_eq!(forwarder.routes_of("ctrl").len(), 1);
    unroute(&forwarder, false);
    // Its last messages take the new path, but no controller is told of it when it comes back.
    let _link = link(&forwarder, "l3");
    reroute(&forwarder).route(&ways(("l1", ForwardKind::Link), ("l3", ForwardKind::Link))).unwrap();
    let circuit = forwarder.circuit("circuit").unwrap();
    assert_eq!(circuit.next("l1").as_deref(), Some("l3"));
    assert_eq!((forwarder.routes_of("ctrl").len(), forwarder.counts().0), (0, 1));
    unroute(&forwarder, true);
    assert_eq!(attempt(&forwarder, REROUTE_ATTEMPT).unwrap_err(), NotObeyed::Over);
    assert_eq!(forwarder.counts().0, 0);
}
