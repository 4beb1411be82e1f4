//! What stands at the ends of circuits: SDK connections, application sockets.
//!
//! | binding | dials | listens |
//! |---|---|---|
//! | [`edge`] | hosting SDKs | SDKs |
//! | [`transport`] | `tcp:` and `udp:` addresses | - |
//! | [`tunnel`] | addresses from a service's `host.v1` config | - |

pub(crate) mod edge;
pub(crate) mod socket;
pub(crate) mod transport;
pub(crate) mod tunnel;
