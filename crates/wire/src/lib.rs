//! Bytes to messages: channel frames, hello, control, edge, SDK, link and payload messages.
//!
//! This crate knows what the wires look like and nothing else: no I/O, no clocks, no async. Bytes
//! enter through [`frame::Decoder`], which yields [`Message`]s with their headers still in wire
//! form; the modules for each wire give a message its meaning:
//!
//! | module | wire |
//! |---|---|
//! | [`hello`] | first exchange of every connection |
//! | [`ctrl`] | controller and router, fabric part |
//! | [`edge_ctrl`] | controller and edge router, edge part with the router data model |
//! | [`edge`] | SDK and edge router |
//! | [`link`] | router and router, hello of a link |
//! | [`payload`] | circuit data on links and SDK connections |
//! | [`metrics`] | what a router measures |
//!
//! Everything here is total over outside bytes: any input yields a value or an error, never a panic,
//! and lengths are checked before memory is spent on them.

mod address;
mod capability;
pub mod ctrl;
pub mod edge;
pub mod edge_ctrl;
mod error;
pub mod frame;
mod headers;
pub mod hello;
pub mod link;
mod message;
pub mod metrics;
mod outcome;
pub mod payload;
mod precedence;
mod proto;
pub mod trace;
mod trace_context;
mod version;

pub use address::{Address, AddressError, Scheme};
pub use capability::{Capabilities, controller_capability, router_capability};
pub use error::{FrameError, WireError};
pub use frame::FrameLimits;
pub use headers::{Headers, Iter as HeadersIter, MAX_ENTRIES, MAX_VALUE, PeerData, StringMap};
pub use message::{Message, content_type};
pub use outcome::{BUSY_HEADER, BUSY_TEXT, Outcome};
pub use proto::{DEFAULT_MAX_BODY, ProtoBody};
pub use trace_context::{TRACE_PARENT, TraceContext};
pub use version::{Version, VersionInfo};
