//! The messages that a connection writes next: flows with waiting messages, served in turn.

use std::sync::Arc;
use std::time::Instant;

use weft_circuit::{Flow, HopFlow};
use weft_wire::Message;
use weft_xgress::{Class, FlowSource, Tally};

use super::local::EndFlow;
use super::sdk_queue::{self, SdkFlow};
use super::{circuit, local};

/// The connections to one neighbour.
pub(crate) type Outlet = weft_circuit::Outlet<FlowRef>;
/// The side of an outlet that serves one of its connections.
pub(crate) type DataOutbox = weft_circuit::DataOutbox<FlowRef>;
/// The messages of a circuit that wait for one neighbouring router.
pub(crate) type HopQueue = weft_circuit::HopQueue<FlowRef>;
/// A circuit.
pub(crate) type Circuit = circuit::Circuit<FlowRef>;
/// The messages of a circuit that wait for an SDK with flow control of its own.
pub(crate) type SdkQueue = sdk_queue::SdkQueue<FlowRef>;
/// An end of a circuit on this router.
pub(crate) type LocalEnd = local::LocalEnd<FlowRef>;
/// The application's side of an end.
pub(crate) type App = local::App<FlowRef>;
/// The next place of a payload.
pub(crate) type Next = local::Next<FlowRef>;
/// The next place for payloads of one source, looked up once for every change of the circuit's entries.
pub(crate) type SharedNext = local::SharedNext<FlowRef>;
/// As [`SharedNext`], for a source that one task alone reads.
pub(crate) type CachedNext = local::CachedNext<FlowRef>;
/// The clock of the ends on this router.
pub(crate) type Timers = weft_circuit::Timers<LocalEnd>;

/// One direction of a circuit that ends at, or passes through, a connection.
#[derive(Debug, Clone)]
pub(crate) enum FlowRef {
    /// Payloads and acks for an SDK with flow control of its own.
    Sdk(Arc<SdkQueue>),
    /// Payloads and acks that an end on this router sends to an SDK with flow control of its own or
    /// to another router, with the number of the end's listing.
    Fabric(Arc<LocalEnd>, u32),
    /// Data that an end on this router delivers to an SDK without flow control of its own.
    App(Arc<LocalEnd>),
    /// Messages that pass on to another router, with the number of the hop's listing.
    Hop(Arc<HopQueue>, u32),
}

impl FlowSource for FlowRef {
    type Frame = Message;

    fn pull(&self, class: Class, now: Instant) -> Option<(Message, u64)> {
        match self {
            Self::Sdk(queue) => queue.pull(class),
            Self::Fabric(end, listing) => end.pull_fabric(class, *listing, now),
            Self::App(end) => end.pull_app(),
            Self::Hop(hop, listing) => hop.pull(*listing, class),
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Self::Sdk(queue) => queue.tally(),
            Self::Fabric(end, _) => end.fabric_tally(),
            Self::App(end) => end.app_tally(),
            Self::Hop(hop, _) => hop.tally(),
        }
    }

    fn is_near(&self) -> bool {
        match self {
            Self::Fabric(end, _) => end.is_near(),
            Self::Sdk(_) | Self::App(_) | Self::Hop(..) => false,
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

impl SdkFlow for FlowRef {
    fn of_sdk(queue: Arc<SdkQueue>) -> Self {
        Self::Sdk(queue)
    }
}

impl EndFlow for FlowRef {
    fn of_fabric(end: Arc<LocalEnd>, listing: u32) -> Self {
        Self::Fabric(end, listing)
    }

    fn of_app(end: Arc<LocalEnd>) -> Self {
        Self::App(end)
    }
}

impl HopFlow for FlowRef {
    fn of_hop(hop: Arc<HopQueue>, listing: u32) -> Self {
        Self::Hop(hop, listing)
    }
}
