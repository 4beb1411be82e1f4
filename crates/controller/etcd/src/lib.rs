//! The log that several controllers share, in etcd.
//!
//! ```text
//!  Replica ──> EtcdLog: appends, fences, reads ──> requests, sealed ──> Channel: gRPC to one member ──> etcd
//!     ^                                                                                                  │
//!     └──────────────────────────── heads, from a watch of `head` <──────────────────────────────────────┘
//! ```
//!
//! [`EtcdLog`] is a [`SharedLog`](weft_store::SharedLog) for a [`Replica`](weft_store::Replica). Under the prefix of a
//! network etcd holds:
//!
//! | key | value |
//! |---|---|
//! | `head` | the head of the log; its mod revision is the version, and value and mod revision are the precondition of an append |
//! | `log/<revision>` | the change sets of one batch, by the revision of the last one |
//! | `part/<batch>/<n>` | parts of a batch that is larger than a request may be |
//! | `checkpoint` | which checkpoint counts, and its head |
//! | `checkpoint/<id>/<n>` | its parts |
//! | `alive/<run>` | a controller that is alive |
//! | `turn` | there while a controller that has lost often appends before all others |
//!
//! All values are sealed ([`SealingKeys`]). Everything that controllers need is in keys: a compaction of etcd's history takes nothing. After a new checkpoint
//! the log up to the one before is deleted, so that the log holds the change sets between the last two at least.
//!
//! ```no_run
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use weft_etcd::{EtcdLog, EtcdOptions, SealingKeys};
//! use weft_store::{Options, Replica, Store};
//!
//! let key: [u8; 32] = rand::random();
//! let log = EtcdLog::new(EtcdOptions {
//!     endpoints: vec!["127.0.0.1:2379".into()],
//!     tls: None,
//!     user: None,
//!     prefix: "/weft/".into(),
//!     sealing: Arc::new(SealingKeys::new([(1, key)])),
//! });
//! let store = Replica::open(Path::new("copy.db"), Options::default(), Arc::new(log)).await?;
//! println!("revision {}", store.head()?.revision);
//! # Ok(())
//! # }
//! ```

mod alive;
mod channel;
mod checkpoints;
mod grpc;
mod keys;
mod log;
mod requests;
mod seal;
mod turn;
mod turn_taking;
mod watch;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use log::EtcdLog;
pub use seal::{KeyFileError, SealingKeys};

/// How etcd is reached.
#[derive(Clone)]
pub struct EtcdOptions {
    /// Addresses of members, `host:port`. One of them is enough to find the log.
    pub endpoints: Vec<String>,
    /// TLS, with ALPN `h2`, and the client's certificate if etcd asks for one; none for connections in clear.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// User and password, if etcd asks for them.
    pub user: Option<(String, String)>,
    /// What the keys of the network begin with, such as `/weft/`.
    pub prefix: String,
    /// The keys that seal what is written.
    pub sealing: Arc<SealingKeys>,
}

impl std::fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EtcdOptions({} at {})", self.prefix, self.endpoints.join(", "))
    }
}
