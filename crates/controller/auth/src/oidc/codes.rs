//! One-time codes in a login, and the enrollment of a second factor in the middle of one (docs/protocol/auth.md 15.8).

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use weft_contract::ErrorCode;
use weft_kernel::{Caller, Failure, convert};
use weft_model::Id;
use weft_model::entity::Mfa;
use weft_oidc::login::{Login, LoginRefused, Missing, Owner};
use weft_oidc::login_form::LoginForm;

use super::{LoginFacts, OidcReply, OidcRequest};
use crate::handle::Auth;
use crate::mfa::Giver;

/// The error code of a wrong code, which has spaces in it.
pub(super) const WRONG_CODE: &str = "INVALID TOTP CODE";

type AnyLogin = Login<LoginFacts>;

/// The answer to a step, which is an error if the step was refused.
type Answered = Result<OidcReply, OidcReply>;

impl Auth {
    /// `POST /login/totp`: a one-time code, or a recovery code.
    pub(super) async fn totp_code(&self, request: &OidcRequest) -> Answered {
        let visitor = request.visitor();
        let (form, giver) = self.asked(request, |login| login.wants_totp(visitor).cloned())?;
        let identity = giver.identity.to_string();
        let caller = own(request);
        let checked = self.code_of_login(&caller, giver, form.code.unwrap_or_default()).await;
        checked.map_err(|failure| refused_code(&failure))?;
        let id = form.id.unwrap_or_default();
        self.stepped(&id, |login| login.totp(visitor, &identity))
    }

    /// `POST /login/totp/enroll`: begins a second factor.
    pub(super) async fn begin_totp(&self, request: &OidcRequest) -> Answered {
        let visitor = request.visitor();
        let (form, giver) = self.asked(request, |login| login.wants_totp(visitor).cloned())?;
        let (identity, id) = (giver.identity, form.id.unwrap_or_default());
        let begun = self.begin_mfa(&own(request), &identity).await;
        let begun = begun.map_err(|failure| OidcReply::failure(&failure))?;
        let step = |login: &mut AnyLogin| {
            login.enrollment_started(visitor, identity.as_str())?;
            if let Some(facts) = login.kept() {
                *facts.enrollment.lock() = Some(begun);
            }
            Ok(())
        };
        let stepped = self.unfinished().lock().step(&id, Instant::now(), step);
        stepped.map_err(OidcReply::refused)?;
        let gone = || Failure::not_found("MFA of identity", identity.as_str());
        let mfa = self.mfa_of(identity.as_str()).ok_or_else(|| OidcReply::failure(&gone()))?;
        Ok(self.enrollment(&mfa).of_login(&id))
    }

    /// `POST /login/totp/enroll/verify`: the first code of the second factor.
    pub(super) async fn verify_totp(&self, request: &OidcRequest) -> Answered {
        let visitor = request.visitor();
        let (form, giver) = self.asked(request, |login| login.enrolling(visitor).cloned())?;
        let identity = giver.identity.to_string();
        let id = form.id.clone().unwrap_or_default();
        if self.begun_by(&id).is_none() {
            return Err(OidcReply::refused(LoginRefused::NotEnrolling));
        }
        let caller = own(request);
        let checked = self.code_of_enrollment(&caller, giver, form.code.unwrap_or_default()).await;
        checked.map_err(|failure| refused_code(&failure))?;
        let stepped = self.stepped(&id, |login| login.enrolled(visitor, &identity))?;
        let page = request.wants_page().then(|| self.recovery_page(request, &id)).flatten();
        Ok(page.unwrap_or(stepped))
    }

    /// `DELETE /login/totp/enroll`: gives up the second factor that the login has begun.
    pub(super) async fn drop_totp(&self, request: &OidcRequest) -> Answered {
        let visitor = request.visitor();
        let (form, giver) = self.asked(request, |login| login.enrolling(visitor).cloned())?;
        let id = form.id.unwrap_or_default();
        if let Some(mfa) = self.begun_by(&id) {
            let dropped = self.drop_unverified_mfa(&own(request), (*mfa).clone()).await;
            dropped.map_err(|failure| OidcReply::failure(&failure))?;
        }
        let step =
            |login: &mut AnyLogin| login.enrollment_removed(visitor, giver.identity.as_str());
        let stepped = self.unfinished().lock().step(&id, Instant::now(), step);
        stepped.map_err(OidcReply::refused)?;
        Ok(OidcReply::json(200, "{}").of_login(&id))
    }

    /// The second factor that a login has begun, as long as it is not verified.
    pub(super) fn begun_by(&self, id: &str) -> Option<Arc<Mfa>> {
        let (identity, begun) = {
            let unfinished = self.unfinished().lock();
            let login = unfinished.get(id, Instant::now()).ok()?;
            let begun = login.kept()?.enrollment.lock().clone()?;
            (login.owner()?.identity.clone(), begun)
        };
        self.mfa_of(&identity).filter(|mfa| !mfa.is_verified && mfa.base.id == begun)
    }

    /// Reads a step, and finds the identity that a code of it is for.
    fn asked(
        &self,
        request: &OidcRequest,
        owner: impl FnOnce(&AnyLogin) -> Result<Owner, LoginRefused>,
    ) -> Result<(LoginForm, Giver), OidcReply> {
        // A `DELETE` has its parameters in the query, or a body of JSON.
        let form = match request.body.is_empty() {
            true => LoginForm::of_query(&request.query).map_err(|error| OidcReply::form(&error))?,
            false => self.form_of(request)?,
        };
        let id = form.id.clone().unwrap_or_default();
        let unfinished = self.unfinished().lock();
        let login = unfinished.get(&id, Instant::now()).map_err(OidcReply::refused)?;
        let owner = owner(login).map_err(OidcReply::refused)?;
        let giver = Giver {
            identity: Id::new(&owner.identity),
            session: login.kept().map(|facts| facts.giver.clone()).unwrap_or_default(),
            is_proven: false,
        };
        Ok((form, giver))
    }

    fn stepped(
        &self,
        id: &str,
        step: impl FnOnce(&mut AnyLogin) -> Result<Missing, LoginRefused>,
    ) -> Answered {
        let stepped = self.unfinished().lock().step(id, Instant::now(), step);
        let missing = stepped.map_err(OidcReply::refused)?;
        Ok(self.after_step(id, &missing))
    }

    /// The second factor that was begun.
    fn enrollment(&self, mfa: &Mfa) -> OidcReply {
        let shown = json!({
            "_links": null,
            "createdAt": convert::time(mfa.base.created_at),
            "id": mfa.base.id.to_string(),
            "isVerified": mfa.is_verified,
            "provisioningUrl": self.provisioning_url(mfa),
            "recoveryCodes": mfa.recovery_codes,
            "updatedAt": convert::time(mfa.base.updated_at),
        });
        OidcReply::json(201, shown.to_string())
    }
}

/// The source of a change that a login makes, before there is a session.
fn own(request: &OidcRequest) -> Caller {
    Caller { origin: request.caller.origin.clone(), ..Caller::own("login by OIDC") }
}

fn refused_code(failure: &Failure) -> OidcReply {
    match failure.code() {
        ErrorCode::MfaInvalidToken => {
            OidcReply::coded(400, WRONG_CODE, "the code is wrong, or was used before")
        }
        _ => OidcReply::failure(failure),
    }
}
