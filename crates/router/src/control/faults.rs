//! Reports of circuits that ended on this router and of links that came and went, kept until
//! controllers have them.
//!
//! ```text
//!  an end is gone -> queue of its controller -> one task per connection -> controller
//! ```
//!
//! The queue outlives connections: reports wait for a controller that is away, as long as the
//! controller belongs to the network. The task first sends
//! the report of carried circuits, so that a controller never adopts a circuit after the report that
//! it has ended.
//!
//! The first report of an end leaves at once. Reports of the ends within the next [`GATHER`] leave
//! together: at thousands of circuits per second, a write for each would cost router and controller
//! more than the reports themselves. A report of a link never waits.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::{ChannelHandle, SendError};
use weft_wire::Message;

use crate::{controllers::Controller, seam::ControllerId};

/// Most reports kept for one controller. The controller learns of further ended circuits from the next
/// report of carried circuits, or when the circuits are found idle.
const MAX_FAULTS: usize = 65_536;
/// The time for which ends of circuits are gathered after a batch of reports.
const GATHER: Duration = Duration::from_millis(10);

/// The reports that wait for each controller.
#[derive(Debug, Default)]
pub(super) struct Faults {
    queues: Mutex<HashMap<ControllerId, Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<VecDeque<Message>>,
    /// There are reports that may wait for others.
    more: Notify,
    /// There is a report that must not wait.
    urgent: Notify,
}

impl Faults {
    /// Queues the report of an end for a controller.
    pub(super) fn push(&self, owner: &ControllerId, news: Message) {
        let queue = self.queue(owner);
        if queue.put(owner, news) {
            queue.more.notify_one();
        }
    }

    /// Queues a report that leaves at once, with all reports before it.
    pub(super) fn push_urgent(&self, owner: &ControllerId, news: Message) {
        let queue = self.queue(owner);
        if queue.put(owner, news) {
            queue.urgent.notify_one();
        }
    }

    /// Sends `report` to a controller, in order, and then the queue as it fills, until the channel closes.
    pub(super) async fn tell(&self, controller: &Controller, report: Vec<Message>) {
        let (queue, channel) = (self.queue(&controller.id), &controller.channel);
        for part in report {
            if !send(channel, part).await {
                return;
            }
        }
        while queue.send_all(channel).await {
            tokio::select! {
                () = queue.due() => {}
                _ = channel.closed() => return,
            }
        }
    }

    /// Drops the reports for controllers that `stays` does not name. Reports for a connected controller
    /// are kept in any case.
    pub(super) fn retain(&self, stays: impl Fn(&ControllerId) -> bool) {
        // The task of a connection shares its queue.
        self.queues.lock().retain(|owner, queue| Arc::strong_count(queue) > 1 || stays(owner));
    }

    fn queue(&self, owner: &ControllerId) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(owner) {
            return Arc::clone(queue);
        }
        Arc::clone(queues.entry(owner.clone()).or_default())
    }
}

impl Queue {
    /// Queues a report if there is room; false if it is not kept.
    fn put(&self, owner: &ControllerId, news: Message) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_FAULTS {
            tracing::debug!(controller = %owner, "fault not kept: too many");
            return false;
        }
        waiting.push_back(news);
        true
    }

    /// Waits until the next batch is to leave: at once for an urgent report, else once there is a
    /// report and [`GATHER`] has passed since the last batch.
    async fn due(&self) {
        tokio::select! {
            () = tokio::time::sleep(GATHER) => {}
            () = self.urgent.notified() => return,
        }
        tokio::select! {
            () = self.more.notified() => {}
            () = self.urgent.notified() => {}
        }
    }

    /// Sends the reports that wait; false if the channel has closed.
    async fn send_all(&self, channel: &ChannelHandle) -> bool {
        loop {
            let next = self.waiting.lock().pop_front();
            let Some(news) = next else { return true };
            if !send(channel, news.clone()).await {
                self.waiting.lock().push_front(news);
                // The task of the next connection may have checked the queue already.
                self.urgent.notify_one();
                return false;
            }
        }
    }
}

/// Sends a message, waiting for room as long as needed; false if the channel has closed.
async fn send(channel: &ChannelHandle, message: Message) -> bool {
    loop {
        match channel.send(message.clone()).await {
            Ok(()) => return true,
            Err(SendError::Timeout) => {}
            Err(problem @ SendError::TooLarge { .. }) => {
                tracing::warn!(
                    %channel, %problem,
                    "reports about circuits could not be sent to the controller"
                );
                return true;
            }
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// How long the next batch waits when `reports` come at once, `later` after the batch before.
    async fn waits(later: Duration, reports: impl FnOnce(&Faults)) -> Duration {
        let faults = Faults::default();
        let queue = faults.queue(&"one".into());
        let coming = async {
            tokio::time::sleep(later).await;
            let came = Instant::now();
            reports(&faults);
            came
        };
        let due = async {
            queue.due().await;
            Instant::now()
        };
        let (came, left) = tokio::join!(coming, due);
        left - came
    }

    fn end(faults: &Faults) {
        faults.push(&"one".into(), Message::new(1004, "end"));
    }

    #[tokio::test(start_paused = true)]
    async fn ends_are_gathered_after_a_batch() {
        assert_eq!(waits(Duration::ZERO, end).await, GATHER);
        assert_eq!(
            waits(GATHER / 2, |faults| (0..100).for_each(|_| end(faults))).await,
            GATHER / 2
        );
        assert_eq!(waits(GATHER * 3, end).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_takes_the_ends_before_it_along_at_once() {
        let both = |faults: &Faults| {
            end(faults);
            faults.push_urgent(&"one".into(), Message::new(1004, "link"));
        };
        assert_eq!(waits(Duration::ZERO, both).await, Duration::ZERO);
    }

    #[test]
    fn a_controller_that_stays_away_fills_no_memory() {
        let faults = Faults::default();
        (0..MAX_FAULTS + 10).for_each(|_| end(&faults));
        assert_eq!(faults.queue(&"one".into()).waiting.lock().len(), MAX_FAULTS);
    }

    #[test]
    fn a_removed_controller_leaves_no_reports_behind() {
        let faults = Faults::default();
        for owner in ["stays", "removed", "connected"] {
            faults.push(&owner.into(), Message::new(1004, "end"));
        }
        let connected = faults.queue(&"connected".into());
        faults.retain(|owner| **owner == *"stays");
        let mut left: Vec<_> = faults.queues.lock().keys().map(ToString::to_string).collect();
        left.sort();
        assert_eq!(left, ["connected", "stays"]);
        drop(connected);
        faults.retain(|owner| **owner == *"stays");
        assert_eq!(faults.queues.lock().len(), 1);
    }
}
