//! Logins of clients: which protocol they use, and which token of an identity provider.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weft_contract::resource::server::{OIDC_AUTH, Version};
use weft_contract::resource::session::{
    ApiSessionDetail, AuthenticateBody, SessionCertificateBody, SessionCertificateCreated,
};
use weft_contract::{Api, Empty};

use crate::call::{Caller, ExternalToken, row, to_value};
use crate::credentials::{About, Credentials};
use crate::error::{Error, Result, chain};
use crate::external_tokens::TokenRequest;
use crate::oidc::{self, Login, LoginProtocol, SessionKey};
use crate::second_factor::{self, Factors};

/// What logins of a client are made with, beside its credentials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Means {
    pub(crate) factors: Factors,
    pub(crate) protocol: LoginProtocol,
    /// The key of sessions without a certificate of their own.
    pub(crate) key: Arc<SessionKey>,
    /// True if routers have to be shown a certificate.
    pub(crate) is_for_routers: bool,
    /// What the controller said last about its logins.
    pub(crate) announced: Arc<Announced>,
}

/// How long it is believed which protocol a controller announces. It changes with the controller's file.
const ANNOUNCED_FOR: Duration = Duration::from_secs(3600);

/// Whether a controller tells clients to log in by OpenID Connect, and when it was asked. Forgotten when a login fails.
#[derive(Debug, Default)]
pub(crate) struct Announced(Mutex<Option<(bool, Instant)>>);

impl Announced {
    async fn of(&self, caller: &Caller, api: Api) -> Result<bool> {
        let known = *self.lock();
        if let Some((announced, at)) = known
            && at.elapsed() < ANNOUNCED_FOR
        {
            return Ok(announced);
        }
        let Some(announced) = announcement(caller, api).await? else { return Ok(false) };
        *self.lock() = Some((announced, Instant::now()));
        Ok(announced)
    }

    fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(bool, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Means {
    /// The means of logins for an opaque token.
    pub(crate) fn opaque() -> Self {
        Self { protocol: LoginProtocol::Opaque, ..Self::default() }
    }
}

/// A login that is under way. If it is given up after it has got a session and before it is complete, there is no session:
/// nobody would keep it from its end.
struct Unfinished<'a> {
    caller: &'a Caller,
    former: Option<String>,
    is_finished: bool,
}

impl<'a> Unfinished<'a> {
    fn new(caller: &'a Caller) -> Self {
        Self { caller, former: caller.session_key(), is_finished: false }
    }

    fn finished(mut self) {
        self.is_finished = true;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_finished && self.caller.session_key() != self.former {
            self.caller.set_session(None);
        }
    }
}

/// Logs in over either API and keeps the session; the former one is kept meanwhile. After a failure there is none.
pub(crate) async fn authenticate(
    caller: &Caller,
    api: Api,
    credentials: &Credentials,
    about: &About,
    means: &Means,
) -> Result<ApiSessionDetail> {
    let unfinished = Unfinished::new(caller);
    let done = Box::pin(log_in(caller, api, credentials, about, means)).await;
    unfinished.finished();
    if done.is_err() {
        caller.set_session(None);
        means.announced.forget();
    }
    done
}

async fn log_in(
    caller: &Caller,
    api: Api,
    credentials: &Credentials,
    about: &About,
    means: &Means,
) -> Result<ApiSessionDetail> {
    let is_signed = match means.protocol {
        LoginProtocol::OpenIdConnect => true,
        LoginProtocol::Opaque => false,
        LoginProtocol::Announced => means.announced.of(caller, api).await?,
    };
    let may_fall_back = means.protocol == LoginProtocol::Announced;
    let attempt = Attempt { caller, api, is_signed, may_fall_back, about, means };
    let tokens = match credentials {
        Credentials::ExternalToken(token) => return attempt.with(credentials, Some(token)).await,
        Credentials::ExternalTokens(tokens) => tokens,
        _ => return attempt.with(credentials, None).await,
    };
    let token = tokens.ask(caller, TokenRequest::default()).await?;
    let refused = |error| tokens.refused(error);
    match attempt.with(credentials, Some(&token)).await.map_err(refused) {
        Err(error) if error.is_unauthorized() => {
            match tokens
                .ask(caller, TokenRequest { is_repeated: true, ..TokenRequest::default() })
                .await
            {
                Ok(another) if another != token => {
                    attempt.with(credentials, Some(&another)).await.map_err(refused)
                }
                _ => Err(error),
            }
        }
        done => done,
    }
}

/// A login over one of the protocols.
struct Attempt<'a> {
    caller: &'a Caller,
    api: Api,
    /// True for OpenID Connect.
    is_signed: bool,
    /// Whether the other protocol is used where the address of the API does not serve the provider.
    may_fall_back: bool,
    about: &'a About,
    means: &'a Means,
}

impl Attempt<'_> {
    async fn with(
        &self,
        credentials: &Credentials,
        token: Option<&ExternalToken>,
    ) -> Result<ApiSessionDetail> {
        match self.is_signed {
            true => match self.by_tokens(credentials, token).await {
                Err(error) if self.may_fall_back && error.is_not_found() => {
                    tracing::debug!(%error, "the controller announces OpenID Connect and serves it elsewhere");
                    self.by_opaque_token(credentials, token).await
                }
                done => done,
            },
            false => self.by_opaque_token(credentials, token).await,
        }
    }

    /// Logs in by OpenID Connect.
    async fn by_tokens(
        &self,
        credentials: &Credentials,
        token: Option<&ExternalToken>,
    ) -> Result<ApiSessionDetail> {
        let Self { caller, api, about, means, .. } = *self;
        let name = match credentials {
            Credentials::Password { username, .. } => Some(username.as_str().to_owned()),
            _ => caller.certificate_name(),
        };
        let http = caller.http();
        let (factors, key) = (&means.factors, &*means.key);
        let login = Login { http: &http, caller, about, factors, key, name };
        let (tokens, certificate) = oidc::log_in(&login, credentials, token).await?;
        if let Some(certificate) = certificate {
            caller.present(means.key.with(&certificate)?)?;
        }
        caller.set_tokens(tokens);
        caller.call(row(api, "getCurrentAPISession")?, &[], &[], None).await
    }

    /// Logs in for an opaque token.
    async fn by_opaque_token(
        &self,
        credentials: &Credentials,
        token: Option<&ExternalToken>,
    ) -> Result<ApiSessionDetail> {
        let Self { caller, api, about, means, .. } = *self;
        let mut body = AuthenticateBody {
            config_types: Some(about.config_types.clone()),
            end_key: about.end_key.clone(),
            env_info: Some(about.env.clone()),
            sdk_info: Some(about.sdk.clone()),
            ..AuthenticateBody::default()
        };
        if let Credentials::Password { username, password } = credentials {
            body.username = Some(username.clone());
            body.password = Some(password.clone());
        }
        if let Some(token) = token {
            caller.set_external_token(Some(token.clone()));
        }
        let query = [("method", credentials.method())];
        let (authenticate, body) = (row(api, "authenticate")?, to_value(&body)?);
        let session = caller.call_without_session(authenticate, &query, Some(&body)).await?;
        let session = second_factor::complete(caller, api, session, &means.factors).await?;
        let has_own = matches!(credentials, Credentials::Certificate);
        let certificate = match means.is_for_routers && !has_own {
            true => Some(certificate_of(caller, api, &session.token, means).await),
            false => None,
        };
        if let Some(Err(error)) = certificate {
            let ended: Result<Empty> =
                caller.call_with(&session.token, row(api, "deleteCurrentAPISession")?, None).await;
            if let Err(problem) = ended {
                tracing::debug!(
                    problem = chain(&problem),
                    "a session without its certificate could not be ended"
                );
            }
            return Err(error);
        }
        caller.set_session(Some(session.token.clone()));
        Ok(session)
    }
}

/// Whether the controller tells clients to log in by OpenID Connect; `None` if it does not say.
async fn announcement(caller: &Caller, api: Api) -> Result<Option<bool>> {
    let asked: Result<Version> =
        caller.call_without_session(row(api, "listVersion")?, &[], None).await;
    match asked {
        Ok(version) => Ok(Some(version.capabilities.iter().any(|one| one == OIDC_AUTH))),
        Err(error) if error.is_temporary() => Err(error),
        Err(error) => {
            tracing::debug!(error = chain(&error), "the controller does not say what it can do");
            Ok(None)
        }
    }
}

/// Gets a certificate for the session of an opaque token, and shows it from now on. It lasts for twelve hours.
pub(crate) async fn certificate_of(
    caller: &Caller,
    api: Api,
    token: &str,
    means: &Means,
) -> Result<()> {
    let body = SessionCertificateBody { csr: Some(means.key.request()?) };
    let row = row(api, "createCurrentApiSessionCertificate")?;
    let issued: SessionCertificateCreated =
        caller.call_with(token, row, Some(&to_value(&body)?)).await?;
    caller.present(means.key.with(&issued.certificate)?)
}

/// Refreshes the tokens of the caller's session. If they cannot be refreshed any more, because the session has ended or is
/// about to, the caller logs in again.
pub(crate) async fn refresh(
    caller: &Caller,
    api: Api,
    credentials: &Credentials,
    about: &About,
    means: &Means,
) -> Result<()> {
    let Some(former) = caller.tokens() else {
        return authenticate(caller, api, credentials, about, means).await.map(drop);
    };
    let is_over = former.are_last();
    let refused = match is_over {
        true => None,
        false => match oidc::refreshed(&caller.http(), caller.address(), &former).await {
            Ok(tokens) => {
                caller.set_tokens(tokens);
                return Ok(());
            }
            Err(error) if error.is_temporary() => return Err(error),
            Err(error) => Some(error),
        },
    };
    if let Some(error) = &refused {
        tracing::debug!(
            error = chain(&error),
            "the tokens of the session cannot be refreshed; logging in again"
        );
    }
    match authenticate(caller, api, credentials, about, means).await {
        // The session goes on as long as its last token.
        Err(error) if is_over && Instant::now() < former.end() => {
            caller.set_tokens(former.postponed());
            Err(error)
        }
        done => done.map(drop),
    }
}

impl Error {
    /// Whether a code of the second factor, or somebody at the identity provider, is waited for.
    pub(crate) fn is_of_person(&self) -> bool {
        matches!(self, Self::SecondFactor(_) | Self::NoToken { .. })
    }
}

#[cfg(test)]
mod tests {
    use weft_identity::TrustBundle;

    use super::*;
    use crate::http::Tls;

    #[test]
    fn a_login_that_is_given_up_leaves_no_session_that_nobody_keeps() {
        let tls = Tls::Anonymous(TrustBundle::new([]));
        let caller = Caller::new("localhost:1".parse().unwrap(), Api::Client, &tls).unwrap();
        caller.set_session(Some("former".to_owned()));
        drop(Unfinished::new(&caller));
        assert_eq!(caller.session().as_deref(), Some("former"), "it is still in use");
        let finished = Unfinished::new(&caller);
        caller.set_session(Some("next".to_owned()));
        finished.finished();
        assert_eq!(caller.session().as_deref(), Some("next"));
        let given_up = Unfinished::new(&caller);
        caller.set_session(Some("half".to_owned()));
        drop(given_up);
        assert_eq!(caller.session(), None);
    }
}
