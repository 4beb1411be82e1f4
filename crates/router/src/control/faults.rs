//! Reports of circuits that ended on this router and of links that came and went, kept until
//! controllers have them.
//!
//! ```text
//!  an end is gone -> queue of its controller -> one task per connection -> controller
//! ```
//!
//! The queue outlives connections: reports wait for a controller that is away. The task first sends
//! the report of carried circuits, so that a controller never adopts a circuit after the report that
//! it has ended.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::{ChannelHandle, SendError};
use weft_wire::Message;

use crate::{controllers::Controller, seam::ControllerId};

/// Most reports kept for one controller. It learns of the others from the next report of carried
/// circuits, or when the circuits are found idle.
const MAX_FAULTS: usize = 65_536;

/// The reports that wait for each controller.
#[derive(Debug, Default)]
pub(super) struct Faults {
    queues: Mutex<HashMap<ControllerId, Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<VecDeque<Message>>,
    more: Notify,
}

impl Faults {
    /// Queues a report for a controller.
    pub(super) fn push(&self, owner: &ControllerId, news: Message) {
        let queue = self.queue(owner);
        {
            let mut waiting = queue.waiting.lock();
            if waiting.len() >= MAX_FAULTS {
                tracing::debug!(controller = %owner, "fault not kept: too many");
                return;
            }
            waiting.push_back(news);
        }
        queue.more.notify_one();
    }

    /// Sends `report` to a controller, and then the queue as it fills, until the channel closes.
    pub(super) async fn tell(&self, controller: &Controller, report: Vec<Message>) {
        let (queue, channel) = (self.queue(&controller.id), &controller.channel);
        for part in report {
            if !send(channel, part).await {
                return;
            }
        }
        loop {
            let next = queue.waiting.lock().pop_front();
            let Some(news) = next else {
                tokio::select! {
                    () = queue.more.notified() => continue,
                    _ = channel.closed() => return,
                }
            };
            if !send(channel, news.clone()).await {
                queue.waiting.lock().push_front(news);
                // The task of the next connection may have checked the queue already.
                queue.more.notify_one();
                return;
            }
        }
    }

    fn queue(&self, owner: &ControllerId) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(owner) {
            return Arc::clone(queue);
        }
        Arc::clone(queues.entry(owner.clone()).or_default())
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
