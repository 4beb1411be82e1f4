//! Sets up the second factor of an identity, also of one that may do nothing else before
//! (docs/protocol/auth.md 11).

use weft_contract::resource::mfa::{CodeBody, MfaDetail};
use weft_contract::resource::session::{ApiSessionDetail, AuthenticateBody, method};
use weft_contract::{Api, Created, Empty};
use weft_identity::{IdentityFile, LiveIdentity};

use crate::address::ControllerAddress;
use crate::call::{Caller, row, to_value};
use crate::error::{Error, Result, chain};
use crate::http::Tls;
use crate::login::SavedLogin;

const API: Api = Api::Client;

/// A second factor (TOTP) that an identity sets up: its `otpauth:` URL goes into an authenticator app, and a first
/// code of the app completes it. One that was begun and not completed goes on.
#[derive(Debug)]
pub struct NewFactor {
    caller: Caller,
    factor: MfaDetail,
    /// True if the session is a saved login, which stays.
    is_saved: bool,
}

impl NewFactor {
    /// Begins to set up a second factor of an identity, at the first controller of its file that takes it. If
    /// all fail, the error is a refusal, if there was one.
    ///
    /// # Errors
    /// When the identity's key or certificates cannot be used, or no controller accepts the identity.
    ///
    /// # Cancel safety
    /// A call that is given up may leave a session at the controller, which ends by itself, and a factor that counts for
    /// nothing.
    pub async fn begin(file: &IdentityFile) -> Result<Self> {
        let tls = Tls::Identity(LiveIdentity::load(file.section())?);
        let controllers: Vec<ControllerAddress> =
            file.controllers().map(str::parse).collect::<Result<_>>()?;
        let mut failed: Option<Error> = None;
        for address in controllers {
            match Self::begin_at(address, &tls).await {
                Ok(begun) => return Ok(begun),
                Err(error) if failed.as_ref().is_none_or(Error::is_temporary) => {
                    failed = Some(error);
                }
                Err(error) => {
                    tracing::debug!(
                        error = chain(&error),
                        "a further controller set no second factor up"
                    );
                }
            }
        }
        Err(failed.unwrap_or_else(|| Error::Request("the identity names no controller".to_owned())))
    }

    async fn begin_at(address: ControllerAddress, tls: &Tls) -> Result<Self> {
        let caller = Caller::new(address, API, tls)?;
        let body = to_value(&AuthenticateBody::default())?;
        let query = [("method", method::CERT)];
        let session: ApiSessionDetail =
            caller.call_without_session(row(API, "authenticate")?, &query, Some(&body)).await?;
        caller.set_session(Some(session.token));
        let begun = Self::begun(&caller).await;
        match begun {
            Ok(factor) => Ok(Self { caller, factor, is_saved: false }),
            Err(error) => {
                end(&caller).await;
                Err(error)
            }
        }
    }

    /// Begins to set up a second factor of the identity of a saved login, whose session stays.
    ///
    /// # Errors
    /// When the saved login cannot be used, has ended, or the controller refuses.
    ///
    /// # Cancel safety
    /// A call that is given up may leave a factor that counts for nothing.
    pub async fn of_login(login: &SavedLogin) -> Result<Self> {
        let caller = Caller::new(login.address()?, API, &login.tls()?)?;
        caller.set_session(Some(login.token.clone()));
        let factor = Self::begun(&caller).await?;
        Ok(Self { caller, factor, is_saved: true })
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
    ///
    /// # Cancel safety
    /// Not cancel safe: a call that is given up may have completed the factor.
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

    /// Ends the session that the second factor was set up in, unless it is a saved login.
    ///
    /// # Cancel safety
    /// If it is given up, the session ends by itself.
    pub async fn end(self) {
        if !self.is_saved {
            end(&self.caller).await;
        }
    }
}

async fn end(caller: &Caller) {
    let ended = match row(API, "deleteCurrentAPISession") {
        Ok(row) => caller.call::<Empty>(row, &[], &[], None).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::debug!(
            error = chain(&error),
            "the session of a new second factor could not be ended"
        );
    }
}
