//! Joins an end of a circuit with a socket: data and half-close in both directions, and end-to-end encryption
//! if the dialer sent a key.
//!
//! There is one task per socket or conversation. The task reads the socket only while the end has room, so
//! that a slow peer slows the application down and takes no memory. Each read becomes one payload; with
//! encryption, one message.

mod crypto;
mod datagrams;
mod proving;
mod scratch;
mod stream;

pub(crate) use crypto::{Crypto, Seals};
pub(crate) use datagrams::{Datagrams, UDP_IDLE, Waiting, carry_client, carry_datagrams};
pub(crate) use proving::{Proof, Side};
pub(crate) use scratch::MAX_DATAGRAM;
pub(crate) use stream::{Stream, carry};
