//! Logins of people at the controller's provider, in a browser or with the code of a device, for tokens that are kept in a
//! file ([`SavedTokens`]).

use tokio::time::Instant;

use super::login::redeem;
use super::requests::{self, TokenAnswer};
use super::{CLIENT, SCOPE, SessionKey, Tokens, browser};
use crate::address::ControllerAddress;
use crate::device_codes::{self, DevicePrompt};
use crate::error::{Error, Result};
use crate::http::{Http, Tls};
use crate::saved_tokens::SavedTokens;

/// A login that a person makes in a browser of this machine.
pub struct BrowserLogin {
    waiting: browser::Waiting,
    target: LoginTarget,
}

/// A login that a person makes in any browser, with a code.
pub struct DeviceLogin {
    waiting: device_codes::Waiting,
    target: LoginTarget,
}

/// A controller, and the key that a login is for.
struct LoginTarget {
    http: Http,
    address: ControllerAddress,
    key: SessionKey,
}

impl LoginTarget {
    fn new(address: &ControllerAddress, tls: &Tls) -> Result<Self> {
        Ok(Self { http: Http::new(tls)?, address: address.clone(), key: SessionKey::default() })
    }

    fn saved(&self, answer: &TokenAnswer, asked: Instant) -> Result<SavedTokens> {
        SavedTokens::new(
            &Tokens::of(answer, asked, None)?,
            &self.key,
            answer.session_cert.as_deref(),
        )
    }
}

impl BrowserLogin {
    /// Begins a login at this controller. Its address goes to a browser of this machine.
    ///
    /// # Errors
    /// When no port can be opened for the browser.
    pub async fn begin(address: &ControllerAddress, tls: &Tls) -> Result<Self> {
        let waiting = browser::Waiting::begin(address).await?;
        Ok(Self { waiting, target: LoginTarget::new(address, tls)? })
    }

    /// The address to open.
    #[must_use]
    pub fn url(&self) -> &str {
        self.waiting.url()
    }

    /// Waits until the person has logged in.
    ///
    /// # Errors
    /// When the login is refused, or the controller cannot be reached.
    pub async fn finish(self) -> Result<SavedTokens> {
        let Self { waiting, target } = self;
        let brought = waiting.code(&target.address).await?;
        let (request, asked) = (target.key.request()?, Instant::now());
        let code = (brought.code.as_str(), brought.redirect.as_str());
        let request = Some(request.as_str());
        let answer = redeem(&target.http, &target.address, code, &brought.secrets, request).await?;
        target.saved(&answer, asked)
    }
}

impl DeviceLogin {
    /// Begins a login at this controller.
    ///
    /// # Errors
    /// When the controller cannot be reached, or has no provider.
    pub async fn begin(address: &ControllerAddress, tls: &Tls) -> Result<Self> {
        let target = LoginTarget::new(address, tls)?;
        let form = [("client_id", CLIENT), ("scope", SCOPE)];
        let url = address.join("/oidc/device_authorization")?;
        Ok(Self { waiting: device_codes::begin(&target.http, url, &form).await?, target })
    }

    /// What the person needs to know.
    #[must_use]
    pub fn prompt(&self) -> &DevicePrompt {
        &self.waiting.prompt
    }

    /// Waits until the person has logged in.
    ///
    /// # Errors
    /// When the person refuses, the code has ended, or the controller cannot be reached.
    pub async fn finish(self) -> Result<SavedTokens> {
        let Self { waiting, target } = self;
        let request = target.key.request()?;
        let more = [("client_id", CLIENT), ("csr_pem", request.as_str())];
        let url = target.address.join("/oidc/oauth/token")?;
        let answer = waiting.tokens(&target.http, &url, &more).await?;
        let read: TokenAnswer =
            serde_json::from_slice(&answer.body).map_err(|error| answer.odd(&error.to_string()))?;
        target.saved(&read, Instant::now())
    }
}

impl SavedTokens {
    /// The next tokens of the session.
    ///
    /// # Errors
    /// [`Error::Provider`] when the session has ended; others when the controller cannot be reached.
    pub async fn refreshed(&self, address: &ControllerAddress, tls: &Tls) -> Result<Self> {
        let refresh = self.refresh().ok_or_else(|| {
            Error::Request("the session has no refresh token: log in again".to_owned())
        })?;
        let form =
            [("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", refresh)];
        let (http, asked) = (Http::new(tls)?, Instant::now());
        let answer = requests::tokens(&http, address, &form).await?;
        Ok(self.followed_by(&Tokens::of(&answer, asked, None)?))
    }

    /// Ends the session at the controller.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub async fn end(&self, address: &ControllerAddress, tls: &Tls) -> Result<()> {
        match self.refresh() {
            Some(refresh) => requests::revoke(&Http::new(tls)?, address, refresh).await,
            None => Ok(()),
        }
    }
}
