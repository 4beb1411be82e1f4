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
use weft_identity::Certificate;
use weft_kernel::clock::system_time;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure};
use weft_model::entity::Router;
use weft_model::{Id, Timestamp};

use crate::enroll::issue::check_enabled;
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

    /// Whether the certificate serves as well as another one issued now.
    fn is_as_good_as(&self, other: &Self, now: Timestamp) -> bool {
        let age = system_time(now).duration_since(self.leaf.not_before());
        let public = |it: &Self| it.leaf.public_key().ok().cloned();
        let authority = |it: &Self| it.leaf.issuer_der().to_vec();
        age.is_ok_and(|age| age < SAME_ANSWER)
            && public(self).is_some_and(|own| Some(own) == public(other))
            && authority(self) == authority(other)
            && self.leaf.subject_der() == other.leaf.subject_der()
            && self.leaf.sans() == other.leaf.sans()
    }
}

/// Keeps a new certificate of a router beside the one that the router showed. Returns the
/// certificate to send: the new one, or an earlier one that the router has not used. None if the
/// shown certificate counts no more.
pub async fn exchange(
    auth: &Auth,
    caller: &Caller,
    id: &Id,
    shown: &str,
    new: Issued,
) -> Result<Option<Issued>, Failure> {
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
    let waiting = Issued::waiting(&router);
    if let Some(waiting) = waiting.filter(|it| it.is_as_good_as(new, decision.now())) {
        return Some(waiting);
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
