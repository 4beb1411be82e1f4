//! The questions of bindings to access: the identity of a peer, and its rights.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use weft_wire::ctrl::TerminatorPrecedence;

use super::refusal::{ControllerId, Refusal};

/// A use of a service: the purpose of a circuit, or the permission of a service session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// To reach the service.
    Dial,
    /// To host the service.
    Bind,
}

/// An authenticated API session of an SDK connection.
///
/// Equal sessions share one value: several connections of one API session hold the same `Arc`.
#[derive(Debug)]
pub struct ApiSession {
    /// Id of the API session.
    pub id: String,
    /// The token the SDK presented: opaque, or an access token.
    pub token: String,
    /// Id of the identity.
    pub identity: String,
    /// Name of the identity, if the data model has it.
    pub identity_name: Option<String>,
    /// True for an opaque session, which is valid with the controller that announced it.
    pub legacy: bool,
    /// The controller that announced an opaque session.
    pub controller: Option<ControllerId>,
    /// SHA-1 fingerprints, lowercase hex, of the certificates the SDK presented, leaf first.
    pub fingerprints: Vec<String>,
    /// Tells the access half when nobody holds the session any more.
    pub release: Release,
}

/// Calls a function when it is dropped; the default calls none.
#[derive(Default)]
pub struct Release(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Release {
    /// Calls `tell` when the value is dropped, on the thread that drops it. `tell` must not wait.
    pub fn new(tell: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Release")
    }
}

/// A service session, or a service that the client named itself, which [`Access`] has allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessGrant {
    /// Id of the service.
    pub service: String,
    /// Id of the service session; empty without one.
    pub service_session: String,
    /// The token as the SDK sent it.
    pub token: String,
    /// The use that was allowed.
    pub purpose: Use,
}

/// A change that affects connected SDKs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessEvent {
    /// The API session ended: its connections are to be closed.
    SessionEnded {
        /// Id of the API session.
        session: String,
    },
    /// Service sessions ended: circuits and terminators made with them are to be closed.
    ServiceSessionsEnded {
        /// Id of the API session that they belong to.
        session: String,
        /// Ids of the service sessions.
        service_sessions: BTreeSet<String>,
    },
    /// A controller has sent all its opaque sessions, as it does after a connect. Ended service
    /// sessions are not in that list, so that the controller is to be asked about those in use.
    SessionsTold {
        /// The controller.
        controller: ControllerId,
    },
    /// An identity was deleted or disabled: its connections are to be closed.
    IdentityGone {
        /// Id of the identity.
        identity: String,
    },
    /// An identity lost a use of a service: its circuits and terminators are to be judged again, and
    /// closed if they are not allowed any more.
    Lost {
        /// Id of the identity.
        identity: String,
        /// Id of the service.
        service: String,
        /// The use that was lost.
        purpose: Use,
    },
}

/// A service that the router's own tunneler may use, with its configs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TunnelService {
    /// Id of the service.
    pub id: String,
    /// Name of the service.
    pub name: String,
    /// True if dialers have to send a key.
    pub encryption_required: bool,
    /// True if both ends must prove who they are.
    pub authenticated_ends: bool,
    /// The data of each config (JSON text), by the name of its type.
    pub configs: BTreeMap<String, String>,
    /// True if the tunneler may dial the service.
    pub can_dial: bool,
    /// True if the tunneler may host the service.
    pub can_bind: bool,
    /// The identity of the tunneler: the router's own.
    pub identity: Arc<weft_tunnel::Identity>,
    /// The cost and precedence that the identity sets.
    pub hosting: Hosting,
}

/// Cost and precedence that an identity sets for services that it hosts
/// (docs/protocol/tunnel.md 9.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosting {
    /// The cost of services without one of their own.
    pub default_cost: u16,
    /// The precedence of services without one of their own.
    pub default_precedence: TerminatorPrecedence,
    /// The cost for this service, which comes first.
    pub cost: Option<u16>,
    /// The precedence for this service, which comes first.
    pub precedence: Option<TerminatorPrecedence>,
}

/// The identities of peers, and their rights.
pub trait Access: Send + Sync + 'static {
    /// Judges the token and the certificates (DER, leaf first) of an SDK connection. Waits some
    /// seconds for a session that was not announced yet.
    fn authenticate(
        &self,
        token: Bytes,
        certificates: Vec<Bytes>,
    ) -> BoxFuture<'static, Result<Arc<ApiSession>, Refusal>>;

    /// Whether an accepted session is still valid: it has not ended, and its identity still exists.
    /// For callers that may have missed an event.
    fn stands(&self, session: &ApiSession) -> bool;

    /// Judges a service token of a connect or a bind.
    fn judge(
        &self,
        session: &ApiSession,
        token: &[u8],
        purpose: Use,
    ) -> Result<AccessGrant, Refusal>;

    /// Replaces the token of a bearer session (update of a token by the SDK).
    fn renew(&self, session: &ApiSession, token: Bytes) -> Result<Arc<ApiSession>, Refusal>;

    /// Events from now on. The stream of a reader that falls behind ends, and the reader has to begin
    /// again.
    fn events(&self) -> BoxStream<'static, AccessEvent>;

    /// The services that the router's own identity may use: now, and again after every change. An
    /// unchanged service stays the same `Arc`.
    fn tunnel_services(&self) -> BoxStream<'static, Arc<Vec<Arc<TunnelService>>>>;

    /// True if the chain (DER, leaf first) of an SDK may complete a TLS handshake.
    fn admits(&self, chain: &[Bytes]) -> bool;
}
