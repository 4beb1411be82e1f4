//! Bytes to messages: channel frames, hello, control, edge, SDK, link and payload messages.
//!
//! ```text
//!  bytes ──> frame::Decoder ──> Message: type, headers, body ──> module of a wire ──> typed message
//!  typed message ──> Message ──> frame::encode ──> bytes
//! ```
//!
//! This crate knows the wire formats and nothing else: no I/O, no clocks, no async. Bytes enter
//! through [`frame::Decoder`], which yields [`Message`]s with their headers still in wire form; the
//! modules for each wire parse these messages:
//!
//! | module | wire |
//! |---|---|
//! | [`hello`] | first exchange of every connection |
//! | [`ctrl`] | controller and router, fabric part |
//! | [`edge_ctrl`] | controller and edge router, edge part with the router data model |
//! | [`edge`] | SDK and edge router |
//! | [`link`] | router and router, hello of a link |
//! | [`payload`] | circuit data on links and SDK connections |
//! | [`metrics`] | router to controller, reports of measurements |
//! | [`etcd`] | controller and etcd |
//!
//! All functions are total over bytes from outside: any input yields a value or an error, never a
//! panic, and lengths are checked before memory is spent on them.
//!
//! ```
//! use weft_wire::frame::{Decoder, encode};
//! use weft_wire::{FrameLimits, Message, content_type};
//!
//! let bytes = encode(&Message::new(content_type::LATENCY, "ping"));
//! let mut decoder = Decoder::new(FrameLimits::MESSAGES);
//! let (mut first, mut rest) = bytes.split_at(7);
//! assert!(decoder.decode(&mut first)?.is_none(), "the frame is not complete");
//! let message = decoder.decode(&mut rest)?.unwrap();
//! assert_eq!(message.body_str()?, "ping");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod capability;
pub mod ctrl;
pub mod edge;
pub mod edge_ctrl;
mod error;
pub mod etcd;
pub mod fields;
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

pub use address::{Address, AddressError, Scheme, host_port};
pub use capability::{Capabilities, controller_capability, router_capability};
pub use error::{FrameError, WireError};
pub use frame::FrameLimits;
pub use headers::{Headers, Iter as HeadersIter, MAX_ENTRIES, MAX_VALUE, PeerData, StringMap};
pub use message::{Message, content_type};
pub use outcome::{BUSY_HEADER, BUSY_TEXT, Outcome};
pub use proto::{DEFAULT_MAX_BODY, ProtoBody};
pub use trace_context::{TRACE_PARENT, TraceContext};
pub use version::{Version, VersionInfo};
