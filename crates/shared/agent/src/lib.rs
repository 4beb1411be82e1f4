//! The agent of a running program: a local socket at which users of its machine ask and tell it things. It speaks the
//! protocol of `ziti agent` (docs/protocol/operations.md 7).
//!
//! ```text
//!  $TMPDIR/gops-agent.PID.sock, mode 0700        the user of the program, or root; nobody else
//!        |
//!  Served ── magic, op, parameters ──> AgentRequest ──> Application ──> text, then the connection closes
//!        `── op 0x15, hello, frames ─> Message ──> Application ──> Message, and so on
//! ```
//!
//! [`AgentRequest`] and [`messages`] are bytes and back, without I/O. [`serve`](Served::start) makes the socket and answers,
//! [`processes`] and [`ask`] are the other side. Everything that a client sends is limited before it costs anything
//! ([`limits`]).
//!
//! ```
//! use weft_agent::{Level, AgentRequest};
//!
//! let asked = AgentRequest::SetLevel(Level::Debug);
//! let bytes = asked.to_bytes();
//! assert_eq!(AgentRequest::parse(&bytes[..10])?, None, "more is to come");
//! assert_eq!(AgentRequest::parse(&bytes)?, Some((asked, bytes.len())));
//! # Ok::<(), weft_agent::RequestProblem>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod application;
#[cfg(unix)]
mod ask;
#[cfg(unix)]
mod channel;
mod info;
mod level;
pub mod limits;
pub mod messages;
mod place;
#[cfg(unix)]
mod processes;
mod request;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod socket;
#[cfg(unix)]
mod stream;
#[cfg(all(test, unix))]
mod tests;
mod threads;
mod varint;

pub use application::{AgentReply, Application};
#[cfg(unix)]
pub use ask::{AgentChannel, AskError, ask};
pub use info::{AppInfo, AppKind};
pub use level::Level;
pub use place::Place;
#[cfg(unix)]
pub use processes::{LocalProcess, processes, remove_stale};
pub use request::{AgentRequest, RequestProblem};
#[cfg(unix)]
pub use serve::Served;
#[cfg(unix)]
pub use socket::{PREFIX, SocketError, folder, socket_of};
pub use threads::threads;
