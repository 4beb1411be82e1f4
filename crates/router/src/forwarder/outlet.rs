//! The messages that a connection writes next: flows that have something, served in turn.

use std::{sync::Arc, time::Instant};

use weft_channel::{Batch, Outbox};
use weft_circuit::{Flow, HopFlow, now};
use weft_wire::Message;
use weft_xgress::{Class, Source, Tally};

use super::{circuit::Hop, local::LocalEnd, sdk::SdkCircuit};
use crate::bindings::edge::Nudge;

/// The connections to one neighbour.
pub(crate) type Outlet = weft_circuit::Outlet<FlowRef>;
/// The side of an outlet that serves one of its connections.
pub(crate) type DataOutbox = weft_circuit::DataOutbox<FlowRef>;

/// One direction of a circuit that ends at, or passes through, a connection.
#[derive(Debug, Clone)]
pub(crate) enum FlowRef {
    /// Payloads and acks for an SDK with flow control of its own.
    Sdk(Arc<SdkCircuit>),
    /// Payloads and acks that an end here sends to such an SDK or to another router, with the
    /// number of its listing.
    Fabric(Arc<LocalEnd>, u32),
    /// Data that an end here delivers to an SDK without flow control of its own.
    App(Arc<LocalEnd>),
    /// Messages that pass on to another router, with the number of the hop's listing.
    Hop(Arc<Hop>, u32),
}

impl Source for FlowRef {
    type Frame = Message;

    fn pull(&self, class: Class, now: Instant) -> Option<(Message, u64)> {
        match self {
            Self::Sdk(circuit) => circuit.pull(class),
            Self::Fabric(end, listing) => end.pull_fabric(class, *listing, now),
            Self::App(end) => end.pull_app(),
            Self::Hop(hop, listing) => hop.pull(*listing, class),
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Self::Sdk(circuit) => circuit.tally(),
            Self::Fabric(end, _) => end.fabric_tally(),
            Self::App(end) => end.app_tally(),
            Self::Hop(hop, _) => hop.tally(),
        }
    }
}

impl Flow for FlowRef {
    fn unlisted(&self, class: Class) {
        match self {
            Self::Fabric(end, listing) => end.unlisted(class, *listing),
            Self::Hop(hop, listing) => hop.unlisted(*listing, class),
            // These flows end with their connection.
            Self::Sdk(_) | Self::App(_) => {}
        }
    }
}

impl HopFlow for FlowRef {
    fn of_hop(hop: Arc<Hop>, listing: u32) -> Self {
        Self::Hop(hop, listing)
    }
}

/// Serves the connection to an SDK. A native SDK is sent no more than it has room for.
pub(crate) struct SdkOutbox {
    data: DataOutbox,
    nudge: Option<Arc<Nudge>>,
}

impl SdkOutbox {
    /// Serves `data`; `nudge` counts the messages written to an SDK that needs reminding.
    pub(crate) fn new(data: DataOutbox, nudge: Option<Arc<Nudge>>) -> Self {
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
        nudge.wrote(written, now);
        nudge.paced(paced, now);
    }
}

impl Outbox for SdkOutbox {
    fn notice(&mut self) {
        self.data.notice();
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
