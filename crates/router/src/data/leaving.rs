//! Circuits that the controller has ended, and that are taken down once they are done or quiet: one task and
//! one timer for all of them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;

use crate::forwarder::Forwarder;

/// The shortest time without messages after which a circuit counts as quiet.
const LEAST: Duration = Duration::from_millis(10);
/// The first look at a circuit comes after one part in this many of the time after which it counts
/// as quiet, because the other side of a circuit mostly closes its end soon after the first side.
const FIRST_LOOK: u32 = 32;

/// A circuit is taken down after this many times the time after which it counts as quiet, and after this time at the
/// soonest, whatever its ends still send: its data has arrived by then. The time begins anew whenever fewer bytes wait
/// for neighbours than ever before, as over a slow link, for ten times as long in all.
const LONGEST: u32 = 12;
const LONGEST_LEAST: Duration = Duration::from_secs(60);
const LONGEST_SHRINKING: u32 = 10;

/// A circuit that is to be taken down.
struct Leaving {
    circuit: Box<str>,
    since: Instant,
    /// The fewest bytes that have waited for neighbours whenever the circuit was looked at.
    fewest: u64,
    /// When fewer bytes waited than ever before: `fewest` was noted at that time.
    shrunk: Instant,
    /// The time until the circuit is looked at again.
    wait: Duration,
}

/// Takes down the circuits that are `given`: each once its ends on this router are gone and nothing waits for
/// a neighbour, or once the circuit has had no message of its other end for the time `quiet` and its queues for
/// neighbours do not become shorter. A circuit whose queues do not become shorter for [`LONGEST`] times that time,
/// and for a minute at least, is taken down whatever its ends send.
pub(super) async fn take_down(
    forwarder: Arc<Forwarder>,
    quiet: Duration,
    mut given: UnboundedReceiver<Box<str>>,
    stop: CancellationToken,
) {
    let quiet = quiet.max(LEAST);
    let longest = quiet.saturating_mul(LONGEST).max(LONGEST_LEAST);
    let mut all = DelayQueue::new();
    loop {
        let leaving = tokio::select! {
            () = stop.cancelled() => return,
            circuit = given.recv() => {
                let Some(circuit) = circuit else { return };
                let wait = quiet / FIRST_LOOK;
                let since = Instant::now();
                let fewest = forwarder.waiting(&circuit);
                all.insert(Leaving { circuit, since, fewest, shrunk: since, wait }, wait);
                continue;
            }
            Some(due) = all.next() => due.into_inner(),
        };
        if forwarder.unroute_if_done(&leaving.circuit) {
            continue;
        }
        let waiting = forwarder.waiting(&leaving.circuit);
        let shrunk = if waiting < leaving.fewest { Instant::now() } else { leaving.shrunk };
        let in_all = longest.saturating_mul(LONGEST_SHRINKING);
        let over = longest.saturating_sub(shrunk.elapsed());
        let over = over.min(in_all.saturating_sub(leaving.since.elapsed()));
        if over.is_zero() {
            forwarder.unroute(&leaving.circuit);
            continue;
        }
        let counts_from = if waiting > 0 { shrunk } else { leaving.since };
        let left = quiet.saturating_sub(counts_from.elapsed());
        let left = match left.is_zero() {
            true => forwarder.unroute_if_quiet(&leaving.circuit, quiet),
            false => Some(left),
        };
        let Some(left) = left else { continue };
        // No later than the circuit may be quiet.
        let wait = leaving.wait.saturating_mul(2).min(left.max(LEAST)).min(over);
        let fewest = leaving.fewest.min(waiting);
        all.insert(Leaving { fewest, shrunk, wait, ..leaving }, wait);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;
    use weft_channel::Outbox as _;

    use super::*;
    use crate::forwarder::tests::{ends_here, in_transit, with_waiting};

    const QUIET: Duration = Duration::from_secs(5);

    /// The time until the circuit is taken down. `at_each` is called at intervals of 5 ms.
    async fn taken_down_after(
        forwarder: Arc<Forwarder>,
        mut at_each: impl FnMut(Instant),
    ) -> Duration {
        let (leaving, left) = unbounded_channel();
        let (stop, begun) = (CancellationToken::new(), Instant::now());
        let task = take_down(Arc::clone(&forwarder), QUIET, left, stop.clone());
        leaving.send("circuit".into()).unwrap();
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
        is_about(taken_down_after(forwarder, |_| circuit.hear()).await, QUIET * LONGEST);
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
        is_about(took, QUIET * LONGEST * LONGEST_SHRINKING);
    }
}
