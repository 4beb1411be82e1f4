//! Trust in a controller at the first login.

use weft_client::{ControllerAddress, Logins, trust};
use weft_identity::TrustBundle;

use super::stranger;
use crate::ask;
use crate::failure::{Failure, Result};

/// The bundle that the controller hands out. It is trusted if an earlier login to the controller
/// saved the same, or if the user agrees.
pub(super) async fn bundle(
    address: &ControllerAddress,
    logins: &Logins,
    yes: bool,
) -> Result<TrustBundle> {
    if let Some(bundle) = known(address, logins).await {
        return Ok(bundle);
    }
    let met = trust::meet(address).await?;
    if yes {
        return Ok(met.bundle);
    }
    crate::output::note(format_args!(
        "{address} is not known here. Its certificate has the SHA-1 fingerprint {}",
        met.leaf.fingerprint()
    ));
    let cannot = "there is no terminal for the question whether to trust it: name its authorities with --ca FILE, \
                  or trust it with --yes";
    if ask::confirm("Trust it from now on?", cannot).await? {
        return Ok(met.bundle);
    }
    Err(Failure::new("not trusted; nothing was saved"))
}

/// The bundle of an earlier login to the same controller, if it is still valid for it.
async fn known(address: &ControllerAddress, logins: &Logins) -> Option<TrustBundle> {
    for name in logins.names().ok()? {
        let Ok(Some((_, login))) = logins.load(Some(&name)) else { continue };
        if login.controller != address.to_string() {
            continue;
        }
        let Ok(bundle) = login.bundle() else { continue };
        let Ok(client) = stranger(address, &bundle) else { continue };
        if client.version().await.is_ok() {
            return Some(bundle);
        }
    }
    None
}
