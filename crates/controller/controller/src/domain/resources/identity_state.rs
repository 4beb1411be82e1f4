//! Disabling and enabling identities (docs/protocol/management-api.md 7.1).

use weft_contract::resource::identity::DisableBody;
use weft_contract::{Api, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Reply, Result};
use weft_model::entity::{Authenticator, Identity, Revocation, RevocationType};
use weft_model::{Base, Id};

use super::identity::{Identities, disabled};
use crate::Controller;
use crate::domain::resource::require;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Management, "disableIdentity", &disable), (Api::Management, "enableIdentity", &enable)];

async fn disable(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: DisableBody = call.decode(Verb::Create)?;
    let minutes = body.duration_minutes.unwrap_or(0);
    let id = call.id(0).to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let identity = require::<Identities>(decision.view(), &id)?;
            decision.guard(identity)?;
            disable_in(decision, identity, minutes);
            Ok(())
        })
        .await?;
    Reply::empty()
}

/// Ends the lock of an identity's password, which wrong passwords in a row had caused.
fn unlock(decision: &mut Decision<'_>, identity: &Id) {
    let (tip, now) = (decision.tip(), decision.now());
    for authenticator in tip.referring::<Authenticator>(0, identity) {
        let mut authenticator = (**authenticator).clone();
        let locked = authenticator.updb.as_mut().filter(|updb| updb.locked_at.is_some());
        if let Some(updb) = locked {
            updb.unlock();
            authenticator.base.updated_at = now;
            decision.put(authenticator);
        }
    }
}

/// Disables an identity and revokes its tokens, in one change set. Its sessions end when the change
/// set is published.
pub(crate) fn disable_in(decision: &mut Decision<'_>, identity: &Identity, minutes: i64) {
    let now = decision.now();
    decision.put(disabled(identity, minutes, now));
    decision.put(revocation(decision, &identity.base.id));
}

/// A revocation of all tokens issued to an identity until now.
pub(crate) fn revocation(decision: &Decision<'_>, identity: &Id) -> Revocation {
    let now = decision.now();
    let old = decision.tip().get::<Revocation>(identity);
    let base = match old {
        Some(old) => Base { updated_at: now, ..old.base.clone() },
        None => Base::new(identity.clone(), now),
    };
    let mut revocation = Revocation {
        base,
        revocation_type: RevocationType::Identity,
        expires_at: now.plus(decision.longest_token()),
        issued_before: Some(decision.latest_issue()),
        ..Revocation::default()
    };
    if let Some(old) = old {
        extend(&mut revocation, old);
    }
    revocation
}

/// Makes a revocation cover what an earlier one of the same id covers. The earlier one may reach
/// further, because the clock was set back since.
pub(crate) fn extend(revocation: &mut Revocation, earlier: &Revocation) {
    revocation.expires_at = revocation.expires_at.max(earlier.expires_at);
    revocation.issued_before = revocation.issued_before.max(earlier.issued_before);
    if revocation.sessions.is_empty() {
        revocation.sessions = earlier.sessions.clone();
    }
}

async fn enable(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let id = call.id(0).to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut identity = (**require::<Identities>(decision.view(), &id)?).clone();
            decision.guard(&identity)?;
            identity.disabled_at = None;
            identity.disabled_until = None;
            identity.base.updated_at = decision.now();
            unlock(decision, &identity.base.id);
            decision.put(identity);
            Ok(())
        })
        .await?;
    Reply::empty()
}
