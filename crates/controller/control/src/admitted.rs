//! Decides whether a router may be connected, and with which certificate.

use std::sync::Arc;

use weft_model::entity::Router;
use weft_model::{Id, Snapshot};

/// The router with this id, if it may connect with a certificate that `is_shown` recognises by its
/// fingerprint: the current one, or an issued one that it has not confirmed yet.
pub(crate) fn admitted<'s>(
    snapshot: &'s Snapshot,
    id: &str,
    is_shown: impl Fn(&str) -> bool,
) -> Result<&'s Arc<Router>, String> {
    let router = snapshot.get::<Router>(&Id::new(id));
    let router = router.ok_or_else(|| format!("unknown/unenrolled router, routerId: {id}"))?;
    let Some(current) = router.fingerprint.as_deref() else {
        return Err(format!("router enrollment incomplete, routerId: {id}"));
    };
    if !is_shown(current) && !router.unverified_fingerprint.as_deref().is_some_and(is_shown) {
        return Err(format!("incorrect fingerprint/unenrolled router, routerId: {id}"));
    }
    if router.disabled {
        return Err(format!("router is disabled, routerId: {id}"));
    }
    Ok(router)
}
