//! Exchanges the certificate that a router shows for a new one, over HTTP and over its control
//! channel, whether or not the router confirms it.
//!
//! ```text
//! current: old                        the old one is shown
//! current: old, waiting: new          a new one was issued; either is accepted
//! current: new                        the new one was shown, or is for another key; the old one
//!                                     is refused
//! ```
//!
//! The answer may never reach the router, so a certificate that the router can still show is
//! accepted until it has shown a newer one. Another key is asked for because the old one may be
//! known to somebody else, so that a certificate for another key replaces the old one at once; if
//! the router confirms new certificates, at its confirmation. When the answer is lost then, the
//! router asks again for the same key, with the old certificate, and gets the new one: it is of no
//! use to anybody without that key.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_identity::{Certificate, Leaf, PublicKey};
use weft_kernel::clock::system_time;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Result};
use weft_model::entity::Router;
use weft_model::{Id, Snapshot, Timestamp};

use crate::enroll::issue::{check_enabled, issue};
use crate::handle::Auth;

/// Within this time a repeated request gets the same answer. The router may have received the
/// answer to its first request already, or may still receive it.
const SAME_ANSWER: Duration = Duration::from_secs(3600);

/// A certificate for a router, with its chain.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate.
    pub leaf: Certificate,
    /// The certificate and its chain, in PEM.
    pub pem: String,
}

impl Issued {
    /// The issued certificate that the router has not shown yet.
    fn waiting(router: &Router) -> Option<Self> {
        Self::stored(router.unverified_fingerprint.as_deref(), &router.unverified_cert_pem)
    }

    /// The current certificate of the router; none if only its fingerprint is known.
    fn current(router: &Router) -> Option<Self> {
        Self::stored(router.fingerprint.as_deref(), &router.cert_pem)
    }

    fn stored(fingerprint: Option<&str>, pem: &str) -> Option<Self> {
        let leaf = Certificate::from_pem(pem.as_bytes()).ok()?.into_iter().next()?;
        (fingerprint == Some(leaf.fingerprint())).then(|| Self { leaf, pem: pem.to_owned() })
    }

    fn is_for(&self, key: &PublicKey) -> bool {
        self.leaf.public_key().is_ok_and(|own| *own == *key)
    }

    /// Whether the certificate serves as well as one that is issued now for this leaf.
    fn is_as_good_as(&self, wanted: &Leaf, authority: &Certificate, now: Timestamp) -> bool {
        let age = system_time(now).duration_since(self.leaf.not_before());
        age.is_ok_and(|age| age < SAME_ANSWER)
            && self.is_for(&wanted.public)
            && self.leaf.issuer_der() == authority.subject_der()
            && self.leaf.subject_der() == wanted.subject
            && self.leaf.sans() == wanted.sans
    }
}

/// A request of a router for a certificate in exchange for the one that it shows.
#[derive(Debug)]
pub struct CertificateExchange<'a> {
    /// The router.
    pub id: &'a Id,
    /// The fingerprint of the certificate that it shows.
    pub shown: &'a str,
    /// The certificate that it asks for. The request has proved that the router has the key.
    pub wanted: Leaf,
    /// Whether the router will confirm that the new certificate has arrived.
    pub is_confirmed: bool,
}

/// Whether a router may get another certificate in place of the one that it has; asked before anything is signed.
///
/// # Errors
/// While the network may go back, and the certificate that it has lasts until then or is not known.
pub fn check_way_back(auth: &Auth, id: &Id) -> Result<()> {
    let snapshot = auth.kernel().snapshot();
    let current = snapshot.get::<Router>(id).and_then(|router| Issued::current(router));
    let current = current.as_ref().map(|current| &current.leaf);
    auth.check_way_back(current, ErrorCode::CanNotUpdateRouter)
}

/// Issues a certificate for a router, in turn with other callers, and keeps it beside the one that
/// the router showed, or in its place. Returns the certificate to send: the new one, or an earlier
/// one that the router has not used; then nothing is signed. None if the shown certificate counts no
/// more. `rely` hears of a new certificate before it counts, so that the router's connection is not
/// ended by the change. The renewal is [in work](crate::renewals::InWork), so that no other one of
/// the router comes between.
pub async fn exchange(
    auth: &Auth,
    caller: &Caller,
    request: CertificateExchange<'_>,
    rely: impl FnOnce(&str),
) -> Result<Option<Issued>> {
    let CertificateExchange { id, shown, wanted, is_confirmed } = request;
    let (snapshot, keys) = (auth.kernel().snapshot(), auth.keys());
    let Some(router) = snapshot.get::<Router>(id) else { return Ok(None) };
    check_enabled(router)?;
    let mut present = (**router).clone();
    use_waiting(&mut present, shown);
    if present.fingerprint.as_deref() != Some(shown) {
        return Ok(Issued::current(&present).filter(|current| current.is_for(&wanted.public)));
    }
    let authority = keys.authority.certificate();
    let may_wait = is_confirmed || !waits_for_another_key(&present);
    let waiting = Issued::waiting(&present).filter(|_| may_wait);
    if let Some(waiting) =
        waiting.filter(|it| it.is_as_good_as(&wanted, authority, auth.kernel().now()))
    {
        return Ok(Some(waiting));
    }
    let (leaf, pem) = issue(auth, caller, wanted).await?;
    let new = Issued { leaf, pem };
    rely(new.leaf.fingerprint());
    let given = Arc::new(Mutex::new(None));
    let (id, shown, result) = (id.clone(), shown.to_owned(), Arc::clone(&given));
    let decided = auth.kernel().decide(caller, move |decision| {
        if let Some(router) = decision.tip().get::<Router>(&id) {
            check_enabled(router)?;
        }
        *result.lock() = note(decision, &id, &shown, &new, is_confirmed);
        Ok(())
    });
    decided.await?;
    Ok(given.lock().take())
}

fn note(
    decision: &mut Decision<'_>,
    id: &Id,
    shown: &str,
    new: &Issued,
    is_confirmed: bool,
) -> Option<Issued> {
    let mut router = (**decision.tip().get::<Router>(id)?).clone();
    use_waiting(&mut router, shown);
    if router.fingerprint.as_deref() != Some(shown) {
        return None;
    }
    router.unverified_fingerprint = Some(new.leaf.fingerprint().into());
    router.unverified_cert_pem.clone_from(&new.pem);
    if !is_confirmed && waits_for_another_key(&router) {
        use_waiting(&mut router, new.leaf.fingerprint());
    }
    router.base.updated_at = decision.now();
    decision.put(router);
    Some(new.clone())
}

/// Whether the issued certificate that the router has not shown yet is for another key than the
/// current one.
pub fn waits_for_another_key(router: &Router) -> bool {
    let is_of_current =
        |key: &PublicKey| Issued::current(router).is_some_and(|current| current.is_for(key));
    Issued::waiting(router)
        .is_some_and(|waiting| waiting.leaf.public_key().is_ok_and(|key| !is_of_current(key)))
}

/// The router that a request proves by its key, which is the one of the router's current
/// certificate; `replaced` is a former certificate of the router.
pub fn router_with_key(
    snapshot: &Snapshot,
    replaced: &Certificate,
    key: &PublicKey,
) -> Option<Arc<Router>> {
    let router = snapshot.get::<Router>(&Id::new(replaced.common_name()?))?;
    Issued::current(router).filter(|current| current.is_for(key)).map(|_| Arc::clone(router))
}

/// Replaces the old certificate by the waiting one, if the waiting one was shown.
pub fn use_waiting(router: &mut Router, shown: &str) -> bool {
    if router.unverified_fingerprint.as_deref() != Some(shown) {
        return false;
    }
    router.fingerprint = router.unverified_fingerprint.take();
    router.cert_pem = std::mem::take(&mut router.unverified_cert_pem);
    true
}
