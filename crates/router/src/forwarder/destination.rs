//! Destinations of the messages of circuits: ends on this router, SDKs, links.

use std::sync::Arc;

use super::flow::{Circuit, LocalEnd, Outlet, SdkQueue};

/// A destination of payloads.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    /// An end on this router.
    Local(Arc<LocalEnd>),
    /// An end at an SDK.
    Sdk(Arc<SdkQueue>),
    /// A link to another router.
    Link(Arc<Link>),
}

impl Destination {
    /// The circuit of an end; `None` for a link.
    pub(super) fn circuit(&self) -> Option<&Arc<Circuit>> {
        match self {
            Self::Local(end) => Some(end.circuit()),
            Self::Sdk(end) => Some(end.circuit()),
            Self::Link(_) => None,
        }
    }

    /// Tells an end that its route was taken down.
    pub(super) fn unrouted(&self) {
        match self {
            Self::Local(end) => end.unrouted(),
            Self::Sdk(end) => end.unrouted(),
            Self::Link(_) => {}
        }
    }

    /// True if nothing can pass through this destination any more.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Local(end) => end.is_closed(),
            Self::Sdk(end) => end.is_closed(),
            Self::Link(link) => link.outlet.is_closed(),
        }
    }

    /// Ends a destination that was dialed for a route which was not completed, or is undone.
    pub(super) fn withdrawn(&self) {
        match self {
            Self::Local(end) => end.unrouted(),
            Self::Sdk(end) => end.withdrawn(),
            Self::Link(_) => {}
        }
    }
}

/// A link, as circuits see it.
#[derive(Debug)]
pub(crate) struct Link {
    /// The id of the link, which is also its address.
    pub(crate) id: Arc<str>,
    /// The router at the other end.
    pub(crate) peer: Arc<str>,
    /// The number of the dial that opened it.
    pub(crate) iteration: u32,
    /// The connections of the link.
    pub(crate) outlet: Arc<Outlet>,
}
