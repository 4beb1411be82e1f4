//! The router's own tunneler as an end of connections that prove themselves (docs/protocol/sdk.md 14.6).

use std::sync::Arc;

use bytes::Bytes;
use weft_e2e::ends::{Ends, Statement, Statements};

use crate::seam::{Control, EndRequest};

/// The purpose of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Purpose {
    /// Id of the service.
    pub(crate) service: String,
    /// True if the tunneler hosts it, false if it dials.
    pub(crate) hosts: bool,
    /// The instance that it hosts; empty for none.
    pub(crate) instance: String,
}

impl Purpose {
    /// The dials of a service.
    pub(crate) fn dials(service: &str) -> Self {
        Self { service: service.to_owned(), hosts: false, instance: String::new() }
    }

    /// An instance of a service that is hosted; empty for none.
    pub(crate) fn hosts(service: &str, instance: &str) -> Self {
        Self { service: service.to_owned(), hosts: true, instance: instance.to_owned() }
    }
}

/// The router's own tunneler as an end: its key, statements about it, and what it remembers of other ends.
pub(crate) struct TunnelEnds {
    own: Ends,
    statements: Statements<Purpose>,
    renewing: tokio::sync::Mutex<()>,
    control: Arc<dyn Control>,
}

impl TunnelEnds {
    /// An end with a new key; `None` without memory, and the tunneler proves nothing.
    pub(crate) fn new(control: &Arc<dyn Control>) -> Option<Arc<Self>> {
        let own = Ends::new().ok()?;
        let (statements, renewing) = Default::default();
        Some(Arc::new(Self { own, statements, renewing, control: Arc::clone(control) }))
    }

    /// The key, and what is remembered of other ends.
    pub(crate) fn own(&self) -> &Ends {
        &self.own
    }

    /// The public key, which controllers are told.
    pub(crate) fn key(&self) -> Bytes {
        Bytes::copy_from_slice(self.own.key())
    }

    /// The controller's statement; `None` if it gives none, or was not reached.
    pub(crate) async fn statement(&self, purpose: &Purpose) -> Option<Arc<Statement>> {
        let (known, patience) = self.statements.known(purpose);
        let Some(timeout) = patience else { return known };
        let Purpose { service, hosts, instance } = purpose.clone();
        let request = EndRequest { key: self.key(), service, hosts, instance, timeout };
        self.statements.answered(purpose, self.control.state_end(request).await)
    }

    /// The newest statement: the peer has shown a statement of a key that is not known, as those of a controller that has
    /// just begun are. All that wait are served by one question.
    pub(crate) async fn renewed(&self, purpose: &Purpose) -> Option<Arc<Statement>> {
        let _one_by_one = self.renewing.lock().await;
        self.statements.ask_now(purpose);
        self.statement(purpose).await
    }

    /// A proof has failed: the controller may have new keys, and is asked before one of the next connections.
    pub(crate) fn doubts(&self, purpose: &Purpose) {
        self.statements.ask_soon(purpose);
    }
}
