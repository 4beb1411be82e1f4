//! The ends of circuits on this router: SDK channels and application sockets.
//!
//! | binding | dials | listens |
//! |---|---|---|
//! | [`edge`] | hosting SDKs | SDKs, over TLS and over WebSockets |
//! | [`transport`] | `tcp:`, `tls:` and `udp:` addresses, also as `edge_transport` | - |
//! | [`ingress`] | - | `transport`, `proxy` and their forms for datagrams ([`talk`]) |
//! | [`tunnel`] | addresses in `host.v1` configs | ports and addresses that services' configs name |

pub(crate) mod edge;
pub(crate) mod ends;
pub(crate) mod ingress;
pub(crate) mod keys;
pub(crate) mod socket;
pub(crate) mod talk;
pub(crate) mod transport;
pub(crate) mod tunnel;
