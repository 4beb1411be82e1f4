//! The caller of an operation: the result of looking up a session, on which the gate decides.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use weft_contract::{Action, Api, Method, Permission, Subject};
use weft_identity::Certificate;
use weft_model::Id;

use crate::failure::{Challenge, Failure, Result};
use crate::wait::Wait;

/// The caller of an operation.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The identity or program that calls.
    pub who: Who,
    /// The source of the request.
    pub origin: Origin,
}

/// The identity or program that calls.
#[derive(Debug, Clone)]
pub enum Who {
    /// A caller that is not known, and the challenge to send, if one helps.
    Nobody(Option<Challenge>),
    /// The controller itself or the operator at its socket.
    System,
    /// An identity with a session.
    Identity(Arc<Login>),
}

/// An identity that has logged in.
#[derive(Debug, Clone)]
pub struct Login {
    /// Id of the identity.
    pub identity: String,
    /// Name of the identity.
    pub name: String,
    /// Whether the identity is an administrator.
    pub is_admin: bool,
    /// The permissions that the identity was granted.
    pub permissions: Vec<Permission>,
    /// Whether the login has shown every factor that the identity needs.
    pub complete: bool,
    /// The session of the request.
    pub session: SessionRef,
}

/// The session of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// Id of the API session.
    pub id: String,
    /// The token that was sent.
    pub token: String,
    /// True for an opaque token of this controller, false for a signed one.
    pub legacy: bool,
}

/// The source of a request.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The peer's address.
    pub remote: Option<SocketAddr>,
    /// The certificates of the TLS connection, leaf first. Only the leaf proves the peer.
    pub certificates: Vec<Certificate>,
    /// The time at which the TLS connection was made; none for a program in this process.
    pub connected: Option<Instant>,
    /// The trace id that the peer sent.
    pub trace_id: Option<String>,
    /// The means of the request, for the log of changes.
    pub via: Via,
    /// The wait of the client for the answer.
    pub wait: Wait,
    /// The tokens of external signers that came with the session.
    pub tokens: CallerTokens,
    /// The wrong proofs of the request that were counted against its source.
    pub counted: CountedProofs,
}

impl Origin {
    /// The peer's address without its port.
    pub fn ip(&self) -> Option<IpAddr> {
        self.remote.map(|remote| remote.ip())
    }
}

/// Tokens of external signers that came with a request. Their text reaches no log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CallerTokens(Arc<[String]>);

impl CallerTokens {
    /// The tokens, in the order of their headers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl FromIterator<String> for CallerTokens {
    fn from_iter<I: IntoIterator<Item = String>>(tokens: I) -> Self {
        Self(tokens.into_iter().collect())
    }
}

impl std::fmt::Debug for CallerTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CallerTokens({})", self.0.len())
    }
}

/// Most wrong proofs of a request that are told apart. A request has fewer tokens.
const TOLD_APART: usize = 8;

/// The wrong proofs of a request that were counted against its source. Copies of a caller share them: a proof counts
/// once in a request, however often it is judged, and whatever for.
#[derive(Debug, Clone, Default)]
pub struct CountedProofs(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    keyed: RandomState,
    hashes: Vec<u64>,
}

impl CountedProofs {
    /// Counts a wrong proof. False if it was counted before.
    pub fn count(&self, proof: &str) -> bool {
        let mut counted = self.0.lock();
        let hash = counted.keyed.hash_one(proof);
        let is_new = !counted.hashes.contains(&hash);
        if is_new && counted.hashes.len() < TOLD_APART {
            counted.hashes.push(hash);
        }
        is_new
    }
}

/// The means of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Via {
    /// Unknown.
    #[default]
    Unsaid,
    /// An operation of an API.
    Rest {
        /// The API.
        api: Api,
        /// The operation.
        operation: &'static str,
        /// The HTTP method of the operation.
        method: Method,
    },
    /// A message of a router.
    Router {
        /// The router.
        id: Id,
        /// The name of the message.
        message: &'static str,
    },
    /// The controller itself, for this reason.
    Own(&'static str),
}

impl Caller {
    /// A caller without a session.
    pub fn nobody(origin: Origin) -> Self {
        Self { who: Who::Nobody(Some(Challenge::Missing)), origin }
    }

    /// The controller itself.
    pub fn system() -> Self {
        Self { who: Who::System, origin: Origin::default() }
    }

    /// The controller itself, with a reason for the log of changes.
    pub fn own(reason: &'static str) -> Self {
        Self { who: Who::System, origin: Origin { via: Via::Own(reason), ..Origin::default() } }
    }

    /// A router that sent a message.
    pub fn router(id: &Id, message: &'static str) -> Self {
        let via = Via::Router { id: id.clone(), message };
        Self { who: Who::System, origin: Origin { via, ..Origin::default() } }
    }

    /// The login, if there is one.
    pub fn login(&self) -> Option<&Login> {
        match &self.who {
            Who::Identity(login) => Some(login),
            _ => None,
        }
    }

    /// Id of the identity, if there is one.
    pub fn identity(&self) -> Option<&str> {
        self.login().map(|login| login.identity.as_str())
    }

    /// Whether the caller may run every operation: an administrator with every factor, or the controller.
    pub fn is_admin(&self) -> bool {
        match &self.who {
            Who::Nobody(_) => false,
            Who::System => true,
            Who::Identity(login) => login.complete && login.is_admin,
        }
    }

    /// Whether the caller is an administrator or holds a permission that allows the action.
    pub fn may(&self, subject: Subject, action: Action) -> bool {
        let granted = |login: &Login| {
            login.complete && login.permissions.iter().any(|own| own.allows(subject, action))
        };
        self.is_admin() || self.login().is_some_and(granted)
    }

    /// Whether the caller is an administrator or holds a permission for this subject. The permission
    /// to read everything does not count.
    pub fn is_granted(&self, subject: Subject, action: Action) -> bool {
        let granted = |login: &Login| {
            let mut named =
                login.permissions.iter().filter(|own| **own != Permission::AdminReadOnly);
            login.complete && named.any(|own| own.allows(subject, action))
        };
        self.is_admin() || self.login().is_some_and(granted)
    }

    /// Whether the caller may read every kind of entity.
    pub fn reads_all(&self) -> bool {
        let granted = |login: &Login| {
            login.complete && login.permissions.contains(&Permission::AdminReadOnly)
        };
        self.is_admin() || self.login().is_some_and(granted)
    }

    /// Whether the caller may create, change or delete entities of at least one kind.
    pub fn may_change_networks(&self) -> bool {
        let changes = |own: &Permission| match *own {
            Permission::AdminReadOnly => false,
            Permission::All(subject) => subject.actions().contains(&Action::Create),
            Permission::One(subject, action) => {
                action != Action::Read && subject.actions().contains(&Action::Create)
            }
        };
        let granted = |login: &Login| login.complete && login.permissions.iter().any(changes);
        self.is_admin() || self.login().is_some_and(granted)
    }

    /// Begins a change. Fails if the client was told that its time is over and nothing was changed.
    pub fn begin(&self) -> Result<()> {
        if self.origin.wait.go_on() { Ok(()) } else { Err(Failure::timed_out()) }
    }

    /// The leaf certificate of the caller's connection.
    pub fn leaf(&self) -> Option<&Certificate> {
        self.origin.certificates.first()
    }

    /// The caller's name in the log of changes: the id of the identity, `controller` or `nobody`.
    pub fn author(&self) -> &str {
        match &self.who {
            Who::Nobody(_) => "nobody",
            Who::System => "controller",
            Who::Identity(login) => &login.identity,
        }
    }
}
