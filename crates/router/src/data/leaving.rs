//! Circuits that the controller has ended, and that are taken down once they are done or quiet: one task and
//! one timer for all of them.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};
use tokio_util::{sync::CancellationToken, time::DelayQueue};

use crate::forwarder::Forwarder;

/// The shortest time without messages after which a circuit counts as quiet.
const LEAST: Duration = Duration::from_millis(10);
/// The first look at a circuit comes after one part in this many of the time after which it counts
/// as quiet, because the other side of a circuit mostly closes its end soon after the first side.
const FIRST_LOOK: u32 = 32;

/// A circuit that is to be taken down.
struct Leaving {
    circuit: Box<str>,
    since: Instant,
    /// The time from the last look to the next one.
    wait: Duration,
}

/// Takes down the circuits that are `given`: each once its ends on this router are gone and nothing waits for
/// a neighbour, or once the circuit has had no message for the time `quiet`.
pub(super) async fn take_down(
    forwarder: Arc<Forwarder>,
    quiet: Duration,
    mut given: UnboundedReceiver<Box<str>>,
    stop: CancellationToken,
) {
    let quiet = quiet.max(LEAST);
    let mut all = DelayQueue::new();
    loop {
        let leaving = tokio::select! {
            () = stop.cancelled() => return,
            circuit = given.recv() => {
                let Some(circuit) = circuit else { return };
                let wait = quiet / FIRST_LOOK;
                all.insert(Leaving { circuit, since: Instant::now(), wait }, wait);
                continue;
            }
            Some(due) = all.next() => due.into_inner(),
        };
        if forwarder.unroute_if_done(&leaving.circuit) {
            continue;
        }
        let left = quiet.saturating_sub(leaving.since.elapsed());
        let left = match left.is_zero() {
            true => forwarder.unroute_if_quiet(&leaving.circuit, quiet),
            false => Some(left),
        };
        let Some(left) = left else { continue };
        // No later than the circuit may be quiet.
        let wait = (2 * leaving.wait).min(left.max(LEAST));
        all.insert(Leaving { wait, ..leaving }, wait);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::forwarder::tests::in_transit;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_circuit_is_taken_down_once_its_time_is_over() {
        const QUIET: Duration = Duration::from_secs(5);
        let (forwarder, (leaving, left)) = (in_transit(), unbounded_channel());
        let (stop, begun) = (CancellationToken::new(), Instant::now());
        let task = take_down(Arc::clone(&forwarder), QUIET, left, stop.clone());
        leaving.send("circuit".into()).unwrap();
        let looking = async {
            while forwarder.counts().0 > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.cancel();
        };
        tokio::join!(task, looking);
        let took = begun.elapsed();
        assert!(took >= QUIET && took < QUIET + Duration::from_millis(100), "{took:?}");
    }
}
