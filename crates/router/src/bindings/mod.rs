//! The ends of circuits on this router: SDK channels and application sockets.
//!
//! | binding | dials | listens |
//! |---|---|---|
//! | [`edge`] | hosting SDKs | SDKs, over TLS and over WebSockets |
//! | [`transport`] | `tcp:`, `tls:` and `udp:` addresses, also as `edge_transport` | - |
//! | [`ingress`] | - | `transport`, `proxy` and their forms for datagrams, also of sockets in the file system ([`talk`]) |
//! | [`tunnel`] | addresses from a service's `host.v1` config | ports and addresses that services' configs name |

pub(crate) mod edge;
pub(crate) mod ingress;
pub(crate) mod keys;
pub(crate) mod socket;
pub(crate) mod talk;
pub(crate) mod transport;
pub(crate) mod tunnel;
