//! Frames over TLS: dial, accept, hello, request and reply, grouped connections, heartbeats.
//!
//! A *channel* carries messages between two programs over one TLS connection or several. Each
//! connection ("underlay") is one task that owns its socket and its TLS state. In turn it reads a
//! bounded amount and writes a bounded amount:
//!
//! ```text
//!            socket -> TLS -> frames -> replies to waiters, the rest to the Handler
//! Handler::on_turn_end
//!            socket <- TLS <- Batch <- control lanes first, then the Outbox of the user
//! ```
//!
//! The writer *pulls*: only the present batch is between a message and the socket, so that the
//! owner of an [`Outbox`] can schedule messages fairly. Ordinary users need none: they send through
//! [`ChannelHandle`], whose lanes are bounded in messages and bytes, and receive in their
//! [`Handler`].
//!
//! Everything that a peer can cause is limited before it costs anything: pending handshakes in all and
//! per source, time for TLS and hello, size of hello and frames, open connections, waiting replies. TLS
//! is carried by a TCP socket or, for programs in browsers, by the messages of a WebSocket. Links may be
//! carried by datagrams of DTLS instead; then a message may be lost.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use weft_channel::{
//!     Behaviour, ChannelHandle, DialOptions, Handler, ConnectionParts, Reading, UnderlayInfo, UnderlayWaker, dial,
//! };
//! use weft_wire::Message;
//!
//! struct Printer;
//!
//! impl Handler for Printer {
//!     fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
//!         println!("message of type {}", message.content_type);
//!         Reading::Continue
//!     }
//! }
//!
//! struct Printing;
//!
//! impl Behaviour for Printing {
//!     fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
//!         ConnectionParts { handler: Box::new(Printer), outbox: None }
//!     }
//! }
//!
//! # async fn example(options: DialOptions, request: Message) -> Result<(), Box<dyn std::error::Error>> {
//! let channel = dial(options).await?.start(Arc::new(Printing));
//! let reply = channel.request(request, Duration::from_secs(5)).await?;
//! println!("reply of {} bytes", reply.body.len());
//! # Ok(())
//! # }
//! ```

mod accept;
mod batch;
mod carrier;
pub mod clock;
mod connect;
mod connection;
mod datagram;
mod door;
mod error;
mod established;
mod first_words;
mod frame_memory;
mod group;
mod handle;
mod handler;
mod handshake;
mod heartbeat;
mod inbox;
mod lane_outbox;
mod lanes;
mod line;
mod listener;
mod lookup;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
mod options;
mod peer;
mod pump;
mod redial;
mod registry;
mod shared;
mod socket;
mod sync;
mod tap;
mod threads;
mod tls;
mod trace;
mod transport;
mod underlay;
mod waiters;
mod wake;
mod websocket;

pub use accept::{AcceptOptions, Admission, ChannelAcceptor, HelloGate, PeerHello, Refusal};
pub use batch::{BATCH_BYTES, BATCH_FRAMES, Batch, Outbox};
pub use connect::{DialOptions, ServerScreen, dial, reach};
pub use datagram::{
    DatagramDial, DatagramListen, DatagramOptions, DatagramRegistration, MAX_MESSAGE,
    listen_datagrams,
};
pub use door::PendingSlot;
pub use error::{CloseReason, DialError, RequestError, SendError};
pub use established::Established;
pub use frame_memory::FrameMemory;
pub use group::{GroupPolicy, RedialPolicy, TypePolicy};
pub use handle::{ChannelHandle, Room};
pub use handler::{Behaviour, ConnectionParts, Handler, Reading};
pub use heartbeat::{HeartbeatOptions, Liveness};
pub use inbox::{Inbox, InboxLimits, inbox};
pub use lanes::Lane;
pub use listener::{
    Accepted, ConnectionHandler, ConnectionSlot, ListenerLimits, Listeners, ProtocolHandler,
    RegisterError, Registration, SharedListener, TlsSource,
};
pub use lookup::{Asker, HostLookup, resolve, resolve_by, resolve_for};
pub use options::{ChannelOptions, LaneLimits};
pub use peer::{PeerInfo, UnderlayInfo};
pub use socket::{PEER_TIMEOUT, connect, mark, mark_connections, prepare};
pub use tap::Tap;
pub use threads::Threads;
pub use trace::{TraceFile, TraceTap};
pub use wake::UnderlayWaker;
pub use websocket::{WebSocketAcceptor, WebSocketOptions};
pub use weft_proxy::HttpProxy;

#[cfg(test)]
mod tests;
