//! The messages that a connection of an SDK writes next.

use std::sync::Arc;
use std::time::Instant;

use weft_channel::{Batch, Outbox};
use weft_circuit::now;

use super::nudge::Nudge;
use crate::forwarder::DataOutbox;

/// Serves the connection to an SDK. A native SDK is sent no more than it has room for.
pub(super) struct SdkOutbox {
    data: DataOutbox,
    nudge: Option<Arc<Nudge>>,
}

impl SdkOutbox {
    /// Serves `data`; `nudge` counts the messages that are written to a native SDK.
    pub(super) fn new(data: DataOutbox, nudge: Option<Arc<Nudge>>) -> Self {
        Self { data, nudge }
    }

    fn fill_for(&mut self, nudge: &Nudge, batch: &mut Batch, now: Instant) {
        let room = nudge.room(now);
        let (mut written, mut paced) = (0, 0);
        while !batch.is_full()
            && paced < room
            && let Some(message) = self.data.pull(now)
        {
            written += 1;
            paced += u64::from(nudge.is_paced(&message.body));
            batch.push(message);
        }
        self.data.pulled(now);
        nudge.wrote(written, now);
        nudge.paced(paced, now);
    }
}

impl Outbox for SdkOutbox {
    fn notice(&mut self) {
        self.data.notice();
    }

    fn wake_at(&self) -> Option<Instant> {
        self.data.wake_at()
    }

    fn fill(&mut self, batch: &mut Batch) {
        match self.nudge.clone() {
            Some(nudge) if !self.data.is_empty() => self.fill_for(&nudge, batch, now()),
            Some(_) => {}
            None => self.data.fill(batch),
        }
    }

    // Messages that were taken and not written are lost with the connection: the ends of all its
    // circuits end with it.
}
