//! The listeners of SDKs on this router, by terminator and by the id that the SDK gave.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weft_wire::Message;
use weft_wire::edge::{Bind, ErrorCode, StateClosed, StructuredError, header};

use super::refusals::{access_lost, closed_message};
use crate::seam::{AccessGrant, ApiSession, PeerData, TerminatorHost, TerminatorRequest};

/// A listener of an SDK.
#[derive(Debug)]
pub(crate) struct Hosted {
    /// Id and address of its terminator.
    pub(super) terminator: String,
    /// The listener's connection id.
    pub(super) conn_id: u32,
    /// The number of its SDK channel.
    pub(super) channel: u64,
    pub(super) bind: Bind,
    pub(super) session: Arc<ApiSession>,
    pub(super) grant: AccessGrant,
    /// Cancelled when the listener ends; dials that wait for the host then fail.
    pub(super) over: CancellationToken,
    /// The reason why this router ended the listener, set before the listener ends; never set if
    /// the SDK ended the listener.
    pub(super) why: OnceLock<Why>,
    /// True once the controller has confirmed the terminator.
    pub(super) established: AtomicBool,
    /// Cancelled when the answer to the bind is queued: dials may be sent to the SDK from then on.
    pub(super) answered: CancellationToken,
}

/// Why a router ended a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The SDK lost the right to host: connections that it has just accepted end, too.
    Revoked,
    /// A newer listener takes over the terminator.
    Replaced,
}

/// The listeners of SDKs on this router.
#[derive(Default)]
pub(super) struct Hosts {
    by_terminator: HashMap<String, Arc<Hosted>>,
    /// Terminator id by identity and listener id.
    by_listener: HashMap<(String, Bytes), String>,
    /// The number of listeners of each identity that has some.
    by_identity: HashMap<String, usize>,
}

/// The relation of a bind to the listeners of the router.
pub(super) enum Placement {
    /// No listener is related: the bind gets a terminator of its own.
    New(String),
    /// The same bind was sent again.
    Duplicate(Arc<Hosted>),
    /// A later bind has taken the place of this one.
    Stale,
    /// The bind takes over the terminator of an older listener.
    Takes(Arc<Hosted>),
}

impl Hosts {
    /// The listener of this terminator.
    pub(super) fn of(&self, terminator: &str) -> Option<Arc<Hosted>> {
        self.by_terminator.get(terminator).cloned()
    }

    /// Enters a listener, in the place of an older one with its terminator.
    pub(super) fn enter(&mut self, hosted: &Arc<Hosted>) {
        // The older listener is of the same identity.
        let older = self.by_terminator.insert(hosted.terminator.clone(), Arc::clone(hosted));
        if older.is_none() {
            *self.by_identity.entry(hosted.session.identity.clone()).or_default() += 1;
        }
        if let Some(key) = hosted.listener_key() {
            self.by_listener.insert(key, hosted.terminator.clone());
        }
    }

    /// Removes a listener; true if the terminator still belonged to it.
    pub(super) fn forget(&mut self, hosted: &Arc<Hosted>) -> bool {
        let known = self.by_terminator.get(&hosted.terminator);
        if !known.is_some_and(|known| Arc::ptr_eq(known, hosted)) {
            return false;
        }
        self.by_terminator.remove(&hosted.terminator);
        if let Some(count) = self.by_identity.get_mut(&hosted.session.identity) {
            *count -= 1;
            if *count == 0 {
                self.by_identity.remove(&hosted.session.identity);
            }
        }
        // A newer listener of the same id may have got a terminator of its own meanwhile.
        if let Some(key) = hosted.listener_key()
            && self.by_listener.get(&key) == Some(&hosted.terminator)
        {
            self.by_listener.remove(&key);
        }
        true
    }

    /// The number of listeners of an identity.
    pub(super) fn count_of(&self, identity: &str) -> usize {
        self.by_identity.get(identity).copied().unwrap_or_default()
    }

    /// The relation of a bind to the listeners that are known (docs/protocol/sdk.md 8.3).
    pub(super) fn place(&self, channel: u64, bind: &Bind, session: &ApiSession) -> Placement {
        let new = || Placement::New(Uuid::new_v4().to_string());
        let Some(listener) = &bind.listener_id else { return new() };
        let key = (session.identity.clone(), listener.clone());
        let older = self
            .by_listener
            .get(&key)
            .and_then(|terminator| self.by_terminator.get(terminator))
            .filter(|older| !older.over.is_cancelled());
        let Some(older) = older else { return new() };
        let same_channel = older.channel == channel;
        if same_channel && older.conn_id == bind.conn_id && older.bind.token == bind.token {
            return Placement::Duplicate(Arc::clone(older));
        }
        if same_channel && bind.conn_id < older.conn_id {
            return Placement::Stale;
        }
        Placement::Takes(Arc::clone(older))
    }
}

impl Hosted {
    /// True if the SDK has lost the right to host.
    pub(super) fn is_revoked(&self) -> bool {
        self.why.get() == Some(&Why::Revoked)
    }

    /// True if a newer listener takes over the terminator.
    pub(super) fn is_replaced(&self) -> bool {
        self.why.get() == Some(&Why::Replaced)
    }

    fn listener_key(&self) -> Option<(String, Bytes)> {
        Some((self.session.identity.clone(), self.bind.listener_id.clone()?))
    }

    pub(super) fn terminator_request(&self) -> TerminatorRequest {
        let key = self.bind.public_key.clone();
        let key = key.map(|key| (header::PUBLIC_KEY.cast_unsigned(), key));
        TerminatorRequest {
            id: self.terminator.clone(),
            host: TerminatorHost::Sdk {
                session: Arc::clone(&self.session),
                grant: self.grant.clone(),
            },
            instance: self.bind.instance.clone(),
            instance_secret: self.bind.instance_secret.clone().unwrap_or_default(),
            peer_data: key.into_iter().collect::<PeerData>(),
            cost: self.bind.cost,
            precedence: self.bind.precedence,
        }
    }
}

impl Why {
    /// The close that is sent to the SDK.
    pub(super) fn message(self, conn_id: u32) -> Message {
        match self {
            Self::Revoked => closed_message(conn_id, &access_lost()),
            Self::Replaced => StateClosed {
                error: Some(StructuredError {
                    message: "newer terminator found for listener id".to_owned(),
                    code: ErrorCode::INTERNAL,
                    ..StructuredError::default()
                }),
                ..StateClosed::new(conn_id, "found a newer terminator for listener id")
            }
            .to_message(),
        }
    }
}
