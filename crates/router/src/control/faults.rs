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
//! A controller that connects is sent all links at once. A report of a link from before that is dropped if it
//! does not hold any more ([`Holds`]): it would follow, and undo what the controller was just told.
//!
//! The first report of an end leaves at once. Reports of the ends within the next [`GATHER`] leave
//! together: at thousands of circuits per second, a write for each would cost router and controller
//! more than the reports themselves. A report of a link never waits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::{ChannelHandle, SendError};
use weft_wire::Message;

use crate::controllers::Controller;
use crate::seam::ControllerId;

/// Most reports kept for one controller. The controller learns of further ended circuits when they are found
/// idle: their ends are reported once more then.
const MAX_FAULTS: usize = 65_536;
/// The time for which ends of circuits are gathered after a batch of reports.
const GATHER: Duration = Duration::from_millis(10);

/// The reports that wait for each controller.
#[derive(Debug, Default)]
pub(super) struct Faults {
    queues: Mutex<HashMap<ControllerId, Arc<Queue>>>,
}

/// How long a report of a link is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// It names the dial that it is about, and takes nothing from a later one.
    Always,
    /// Until all links are reported.
    UntilAllAreTold,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// There are reports that may wait for others.
    more: Notify,
    /// There is a report that must not wait.
    urgent: Notify,
}

/// The reports for one controller.
#[derive(Debug, Default)]
struct Waiting {
    reports: VecDeque<Report>,
    /// How often all links were reported.
    tellings: u64,
}

/// A report that waits.
#[derive(Debug)]
struct Report {
    news: Message,
    /// For a report that holds until all links are reported: how often they were, when it was queued.
    before: Option<u64>,
}

impl Waiting {
    fn holds(&self, report: &Report) -> bool {
        report.before.is_none_or(|tellings| tellings == self.tellings)
    }
}

impl Faults {
    /// Queues the report of an end for a controller.
    pub(super) fn push(&self, owner: &ControllerId, news: Message) {
        let queue = self.queue(owner);
        if queue.put(owner, news, Holds::Always) {
            queue.more.notify_one();
        }
    }

    /// Queues the report of a link, which leaves at once, with all reports before it.
    pub(super) fn push_link(&self, owner: &ControllerId, news: Message, holds: Holds) {
        let queue = self.queue(owner);
        if queue.put(owner, news, holds) {
            queue.urgent.notify_one();
        }
    }

    /// A controller is about to be sent all links: drops the reports that hold only until then.
    pub(super) fn tells_all_links(&self, owner: &ControllerId) {
        let queue = self.queue(owner);
        let mut waiting = queue.waiting.lock();
        waiting.tellings += 1;
        waiting.reports.retain(|report| report.before.is_none());
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
    fn put(&self, owner: &ControllerId, news: Message, holds: Holds) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.reports.len() >= MAX_FAULTS {
            tracing::debug!(controller = %owner, "fault not kept: too many");
            return false;
        }
        let before = (holds == Holds::UntilAllAreTold).then_some(waiting.tellings);
        waiting.reports.push_back(Report { news, before });
        true
    }

    /// Puts a report back that was not sent, unless all links were reported meanwhile and it does not hold
    /// any more.
    fn put_back(&self, report: Report) {
        let mut waiting = self.waiting.lock();
        if waiting.holds(&report) {
            waiting.reports.push_front(report);
        }
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
            let next = self.waiting.lock().reports.pop_front();
            let Some(report) = next else { return true };
            if !send(channel, report.news.clone()).await {
                self.put_back(report);
                // The task of the next connection may have checked the queue already.
                self.urgent.notify_one();
                return false;
            }
        }
    }
}

/// Sends a message, waiting for room as long as needed; false if the channel has closed.
pub(super) async fn send(channel: &ChannelHandle, message: Message) -> bool {
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
            faults.push_link(&"one".into(), Message::new(1004, "link"), Holds::Always);
        };
        assert_eq!(waits(Duration::ZERO, both).await, Duration::ZERO);
    }

    #[test]
    fn a_controller_that_stays_away_fills_no_memory() {
        let faults = Faults::default();
        (0..MAX_FAULTS + 10).for_each(|_| end(&faults));
        assert_eq!(faults.queue(&"one".into()).waiting.lock().reports.len(), MAX_FAULTS);
    }

    #[test]
    fn what_was_said_of_links_before_all_are_told_is_dropped_unless_it_still_holds() {
        let faults = Faults::default();
        let link = |text: &str, holds| {
            faults.push_link(&"one".into(), Message::new(1004, text.to_owned()), holds);
        };
        link("sent when the channel broke", Holds::UntilAllAreTold);
        let queue = faults.queue(&"one".into());
        let unsent = queue.waiting.lock().reports.pop_front().unwrap();
        link("before", Holds::UntilAllAreTold);
        link("dial 3 broke", Holds::Always);
        end(&faults);
        faults.tells_all_links(&"one".into());
        link("after", Holds::UntilAllAreTold);
        // The task of the broken channel may notice late.
        queue.put_back(unsent);
        let waiting = queue.waiting.lock();
        let left: Vec<String> = waiting.reports.iter().map(|report| report.news.text()).collect();
        assert_eq!(left, ["dial 3 broke", "end", "after"]);
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
