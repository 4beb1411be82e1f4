//! What the machine is told, and what it has the driver do.

use std::time::Duration;

use super::target::{Dial, Dialer};
use crate::seam::{ControllerId, PeerReport};

/// An input of the machine.
#[derive(Debug)]
pub(in crate::link) enum Input<L> {
    /// A controller reports on other routers.
    News { from: ControllerId, news: Vec<PeerReport> },
    /// The dialers have changed.
    Dialers(Vec<Dialer>),
    /// A link was opened. `is_free` is false if the forwarder uses its id for something else.
    Opened { link: L, is_free: bool },
    /// A dial has ended without a link.
    DialFailed(Dial),
    /// The channel of the link with this number has closed.
    Closed(u64),
    /// A controller reports that a link broke.
    Fault { id: String, iteration: u32 },
    /// A controller confirms a router with this leaf certificate.
    Confirmed { router: String, leaf: String },
    /// A controller refuses a router with this leaf certificate.
    Refused { router: String, leaf: String, reason: String },
    /// The router is shutting down.
    ShutDown,
    /// The time of [`Machine::next_wake`] has come.
    Tick,
}

/// What the driver is to do, in this order.
#[derive(Debug)]
pub(in crate::link) enum Output<L> {
    /// Dial a link. The answer is [`Input::Opened`] or [`Input::DialFailed`].
    Dial(Dial),
    /// Close a link that was not taken.
    Reject(L, Reason),
    /// Publish a link to the forwarder and start its channels.
    Open(L),
    /// Report a link, and follow its connections.
    Up(L),
    /// Report that another link took the place of this one.
    Duplicate(L),
    /// Close the channels of a link. The answer is [`Input::Closed`].
    Close(L, Reason),
    /// Take a link out of the forwarder's table.
    Withdraw(L),
    /// Report the end of a link.
    Fault(L),
    /// Ask a controller about the routers that wait for its confirmation.
    AskControllers,
}

/// Why a link is refused or closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::link) enum Reason {
    #[error("the router is shutting down")]
    ShuttingDown,
    #[error("the peer has as many links as it may")]
    PeerFull,
    /// This router dialed the link and does not want it any more.
    #[error("{0}")]
    NotWanted(&'static str),
    #[error("a controller refuses the certificate of its router: {0}")]
    RouterRefused(String),
    /// The id belongs to an end of a circuit, or to a link of another router.
    #[error("its id is in use")]
    IdInUse,
    /// This link is kept for a while, for a peer that decides otherwise.
    #[error("an open link with the same key stays")]
    OtherKept { keep_for: Duration },
    #[error("another link took its place")]
    Superseded,
    #[error("the link was dialed anew")]
    Renewed,
    #[error("the peer was removed, or has other listeners")]
    PeerChanged,
    #[error("a controller reports that the link broke")]
    Fault,
    #[error("a controller names other keys of its router than before: {0}")]
    OtherKeys(String),
}

/// A source of random numbers.
pub(in crate::link) trait Random: Send {
    /// A number between 0 and 1.
    fn fraction(&mut self) -> f64;
    /// The id of a new link.
    fn link_id(&mut self) -> String;
}
