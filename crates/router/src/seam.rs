//! The interface between the two halves of the router.
//!
//! The *data half* (forwarder, bindings) moves payloads and knows no controller; the *control
//! half* (control channels, access) talks to controllers and moves no payload. They meet only
//! here:
//!
//! * bindings ask [`Control`] for circuits and terminators, and tell it when a circuit ended;
//! * bindings ask [`Access`] for the identity of a peer and its rights, and are told when these
//!   change;
//! * control asks [`Data`] to route, to unroute and to vouch for terminators.
//!
//! Each trait is small enough to fake in a test of the other half.

mod access;
mod control;
mod data;
mod link;
mod refusal;

pub use access::{
    Access, AccessEvent, AccessGrant, ApiSession, Hosting, Release, TunnelService, Use,
};
pub use control::{
    BindingCircuitRequest, CircuitRequest, Control, EndRequest, NewCircuit, TerminatorHost,
    TerminatorRequest, TerminatorUpdate, TunnelCircuitRequest,
};
pub use data::{
    BegunRoute, Data, Dropped, Egress, Forward, ForwardKind, Measured, RouteCommand, RouteTicket,
};
pub use link::{
    LinkConnection, LinkControl, LinkLatency, LinkListener, LinkReport, PeerReport, PeerState,
    Unverified,
};
pub use refusal::{ControllerId, NotObeyed, Refusal};
pub use weft_wire::PeerData;
pub use weft_wire::ctrl::{RouteError, RouteErrorCode, TerminatorPrecedence};
pub use weft_wire::edge::RetryHint;
