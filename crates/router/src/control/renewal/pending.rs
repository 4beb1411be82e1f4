//! The renewal under way: the names that are asked for, the task that waits for certificates, and
//! certificates of which only controllers know whether they count.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_client::enroll::CertificateNames;
use weft_identity::{Certificate, KeyedChain, LiveIdentity, to_pem};
use weft_wire::edge_ctrl::EnrollmentCertsResponse;
use weft_wire::{Message, ProtoBody};

use crate::controllers::Controller;

/// The renewal under way.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    pub(super) names: Option<CertificateNames>,
    pub(super) waiting: Mutex<Option<oneshot::Sender<EnrollmentCertsResponse>>>,
    /// The chains that are not in use, after a renewal whose confirmation got no answer: controllers
    /// accept either these or the present ones.
    others: Mutex<Option<Chains>>,
    /// Confirmed chains that are in use and not in their files.
    unsaved: Mutex<Option<Chains>>,
}

/// A client and a server chain, as PEM.
#[derive(Debug)]
struct Chains {
    client: Option<String>,
    server: Option<String>,
}

impl Renewal {
    /// Renews with these names; without names there is no renewal.
    pub(crate) fn new(names: Option<CertificateNames>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Takes certificates that a controller sent.
    pub(crate) fn deliver(&self, from: &Arc<Controller>, message: Message) {
        let waiting = self.waiting.lock().take();
        match (waiting, EnrollmentCertsResponse::from_message(&message)) {
            // The task that waited may have given up.
            (Some(waiting), Ok(certs)) => drop(waiting.send(certs)),
            (None, _) => {
                tracing::debug!(
                    controller = %from.id,
                    "certificates came that the router did not ask for"
                )
            }
            (_, Err(problem)) => from.not_understood(&message, &problem),
        }
    }

    /// Keeps certificates that a controller may have confirmed.
    pub(super) fn keep(&self, certs: &EnrollmentCertsResponse) {
        *self.others.lock() = Some(Chains::new(certs));
    }

    /// Notes confirmed certificates whose files could not be replaced.
    pub(super) fn save_later(&self, certs: &EnrollmentCertsResponse) {
        *self.unsaved.lock() = Some(Chains::new(certs));
    }

    /// True if certificates wait to be saved.
    pub(super) fn is_unsaved(&self) -> bool {
        self.unsaved.lock().is_some()
    }

    /// Saves the certificates that wait for it, unless others are in use by now, e.g. after an enrollment.
    pub(super) fn save(&self, identity: &LiveIdentity) -> Result<(), weft_identity::Error> {
        let mut unsaved = self.unsaved.lock();
        if let Some(chains) = unsaved.as_ref().filter(|chains| chains.are_used(identity)) {
            identity.save_certificates(chains.client.as_deref(), chains.server.as_deref())?;
        }
        *unsaved = None;
        Ok(())
    }

    /// A controller refuses the router. If its certificate may be the reason, the next attempt shows the
    /// other one; the present one is kept for the attempt after that, because controllers refuse for
    /// other reasons, too.
    pub(crate) fn refused(&self, identity: &LiveIdentity) {
        let mut others = self.others.lock();
        let Some(other) = others.take() else { return };
        let present = Chains::of(identity);
        match identity.save_certificates(other.client.as_deref(), other.server.as_deref()) {
            Ok(()) => {
                tracing::warn!(
                    "a controller refuses the router, and the answer to the last renewal of its \
                     certificates is missing: the other certificates are used from now on"
                );
                *others = Some(present);
            }
            Err(problem) => {
                tracing::warn!(%problem, "the other certificates cannot be used");
                *others = Some(other);
            }
        }
    }

    /// A controller accepts the router: the present certificates count.
    pub(crate) fn accepted(&self) {
        *self.others.lock() = None;
    }
}

impl Chains {
    fn new(certs: &EnrollmentCertsResponse) -> Self {
        Self {
            client: Some(certs.client_cert_pem.clone()),
            server: Some(certs.server_cert_pem.clone()),
        }
    }

    /// True if the client certificate is in use.
    fn are_used(&self, identity: &LiveIdentity) -> bool {
        let own = self.client.as_ref().and_then(|pem| Certificate::from_pem(pem.as_bytes()).ok());
        let used = identity.current();
        let used = used.client().map(KeyedChain::leaf);
        own.as_ref().and_then(|chain| chain.first()) == used
    }

    /// The chains that are in use.
    fn of(identity: &LiveIdentity) -> Self {
        let identity = identity.current();
        let pem = |chain: &KeyedChain| to_pem(chain.chain());
        Self { client: identity.client().map(pem), server: identity.servers().first().map(pem) }
    }
}
