//! Sets up the second factor of an identity, also of one that may do nothing else before
//! (docs/protocol/auth.md 11).

use weft_contract::resource::mfa::{CodeBody, MfaDetail};
use weft_contract::resource::session::{ApiSessionDetail, AuthenticateBody, method};
use weft_contract::{Api, Created, Empty};
use weft_identity::{IdentityFile, LiveIdentity};

use crate::call::{Caller, row, to_value};
use crate::error::{Error, Result};
use crate::http::Tls;

const API: Api = Api::Client;

/// A second factor (TOTP) that an identity sets up: its `otpauth:` URL goes into an authenticator app, and a first
/// code of the app completes it. One that was begun and not completed goes on.
#[derive(Debug)]
pub struct NewFactor {
    caller: Caller,
    factor: MfaDetail,
}

impl NewFactor {
    /// Begins to set up a second factor of an identity, at the first controller that its file names.
    ///
    /// # Errors
    /// When the identity's key or certificates cannot be used, or the controller refuses.
    pub async fn begin(file: &IdentityFile) -> Result<Self> {
        let first = file.controllers().next().unwrap_or_default();
        let tls = Tls::Identity(LiveIdentity::load(file.section())?);
        let caller = Caller::new(first.parse()?, API, &tls)?;
        let body = to_value(&AuthenticateBody::default())?;
        let query = [("method", method::CERT)];
        let session: ApiSessionDetail =
            caller.call_without_session(row(API, "authenticate")?, &query, Some(&body)).await?;
        caller.set_session(Some(session.token));
        let begun = Self::begun(&caller).await;
        match begun {
            Ok(factor) => Ok(Self { caller, factor }),
            Err(error) => {
                end(&caller).await;
                Err(error)
            }
        }
    }

    async fn begun(caller: &Caller) -> Result<MfaDetail> {
        let detail = row(API, "detailMfa")?;
        match caller.call(detail, &[], &[], None).await {
            Err(error) if error.is_not_found() => {}
            known => return known,
        }
        let _: Created = caller.call(row(API, "enrollMfa")?, &[], &[], None).await?;
        caller.call(detail, &[], &[], None).await
    }

    /// The `otpauth:` URL for the authenticator app; `None` if the identity has a complete second factor already.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.factor.provisioning_url.as_deref().filter(|_| !self.factor.is_verified)
    }

    /// Codes for a time without the authenticator app, each of which is good once.
    #[must_use]
    pub fn recovery_codes(&self) -> &[String] {
        self.factor.recovery_codes.as_deref().unwrap_or_default()
    }

    /// Completes the second factor with a code of the app: from now on every login of the identity needs one. False
    /// if the code is wrong.
    ///
    /// # Errors
    /// When the controller cannot be reached, or refuses for another reason.
    pub async fn complete(&self, code: &str) -> Result<bool> {
        let body = to_value(&CodeBody { code: Some(code.trim().to_owned()) })?;
        let done: Result<Empty> =
            self.caller.call(row(API, "verifyMfa")?, &[], &[], Some(&body)).await;
        match done {
            Ok(_) => Ok(true),
            Err(Error::Api(refusal)) if refusal.code() == "MFA_INVALID_TOKEN" => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends the session that the second factor was set up in.
    pub async fn end(self) {
        end(&self.caller).await;
    }
}

async fn end(caller: &Caller) {
    let ended = match row(API, "deleteCurrentAPISession") {
        Ok(row) => caller.call::<Empty>(row, &[], &[], None).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the session of a new second factor could not be ended");
    }
}
