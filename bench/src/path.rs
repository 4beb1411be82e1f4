//! The paths that are measured: each carries the same work to the same kind of server.

pub(crate) mod chain;
pub(crate) mod haproxy;
pub(crate) mod makes;
mod messages;
pub(crate) mod tcp;
pub(crate) mod tls;
pub(crate) mod weft;
pub(crate) mod wire;
