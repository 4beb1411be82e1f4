//! Exchanges the certificate that a router shows for a new one, over HTTP and over its control
//! channel, whether or not the router confirms it.
//!
//! ```text
//! current: old                        the old one is shown
//! current: old, waiting: new          a new one was issued; either is accepted
//! current: new                        the new one was shown, and the old one is refused
//! ```
//!
//! The answer may never reach the router, so a certificate that the router can still show is
//! accepted until it has shown a newer one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_identity::{Certificate, Leaf};
use weft_kernel::clock::system_time;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure};
use weft_model::entity::Router;
use weft_model::{Id, Timestamp};

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
        router.unverified_fingerprint.as_ref()?;
        let pem = router.unverified_cert_pem.clone();
        let leaf = Certificate::from_pem(pem.as_bytes()).ok()?.into_iter().next()?;
        Some(Self { leaf, pem })
    }

    /// Whether the certificate serves as well as one that is issued now for this leaf.
    fn is_as_good_as(&self, wanted: &Leaf, authority: &Certificate, now: Timestamp) -> bool {
        let age = system_time(now).duration_since(self.leaf.not_before());
        age.is_ok_and(|age| age < SAME_ANSWER)
            && self.leaf.public_key().is_ok_and(|own| *own == wanted.public)
            && self.leaf.issuer_der() == authority.subject_der()
            && self.leaf.subject_der() == wanted.subject
            && self.leaf.sans() == wanted.sans
    }
}

/// Issues a certificate for a router, in turn with other callers, and keeps it beside the one that
/// the router showed. Returns the certificate to send: the new one, or an earlier one that the
/// router has not used; then nothing is signed. None if the shown certificate counts no more. The
/// renewal is [in work](crate::renewals::InWork), so that no other one of the router comes between.
pub async fn exchange(
    auth: &Auth,
    caller: &Caller,
    id: &Id,
    shown: &str,
    wanted: Leaf,
) -> Result<Option<Issued>, Failure> {
    let (snapshot, keys) = (auth.snapshot(), auth.keys());
    let Some(router) = snapshot.get::<Router>(id) else { return Ok(None) };
    check_enabled(router)?;
    let mut present = (**router).clone();
    use_waiting(&mut present, shown);
    if present.fingerprint.as_deref() != Some(shown) {
        return Ok(None);
    }
    let authority = keys.authority.certificate();
    let waiting = Issued::waiting(&present);
    if let Some(waiting) = waiting.filter(|it| it.is_as_good_as(&wanted, authority, auth.now())) {
        return Ok(Some(waiting));
    }
    let (leaf, pem) = issue(auth, caller, wanted).await?;
    let new = Issued { leaf, pem };
    let given = Arc::new(Mutex::new(None));
    let (id, shown, result) = (id.clone(), shown.to_owned(), Arc::clone(&given));
    let decided = auth.decide(caller, move |decision| {
        if let Some(router) = decision.tip().get::<Router>(&id) {
            check_enabled(router)?;
        }
        *result.lock() = note(decision, &id, &shown, &new);
        Ok(())
    });
    decided.await?;
    Ok(given.lock().take())
}

fn note(decision: &mut Decision<'_>, id: &Id, shown: &str, new: &Issued) -> Option<Issued> {
    let mut router = (**decision.tip().get::<Router>(id)?).clone();
    use_waiting(&mut router, shown);
    if router.fingerprint.as_deref() != Some(shown) {
        return None;
    }
    router.unverified_fingerprint = Some(new.leaf.fingerprint().into());
    router.unverified_cert_pem.clone_from(&new.pem);
    router.base.updated_at = decision.now();
    decision.put(router);
    Some(new.clone())
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
