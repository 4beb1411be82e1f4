//! The session and the first tokens of a finished login (docs/protocol/auth.md 15.5).

use std::time::Duration;

use weft_kernel::events::SessionChange;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{ApiSession, TokenLogin};
use weft_model::{Id, Timestamp};
use weft_oidc::authorize::PrimaryFactor;
use weft_oidc::login::Granted;
use weft_oidc::problem::{OidcError, OidcErrorCode};

use super::LoginFacts;
use crate::bearer::TokenSet;
use crate::current::session_certificate;
use crate::factors::{is_complete, second_factors};
use crate::handle::Auth;
use crate::login::new_session;
use crate::sessions::stands;

/// Life of the certificate of a session by OpenID Connect (docs/protocol/auth.md 2.4).
pub(super) const CERTIFICATE_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// How the session of a finished login is opened.
pub(super) struct Opening<'a> {
    pub(super) issuer: &'a str,
    /// A request for a session certificate, PEM. It takes the place of the one that the login sent.
    pub(super) csr: Option<String>,
    /// Whether the login was made in a browser for a device: the device has not the key of the browser's certificate.
    pub(super) is_device: bool,
}

/// Tokens, and the certificate that was issued with them.
pub(super) struct Given {
    pub(super) tokens: TokenSet,
    /// The chain, PEM.
    pub(super) certificate: Option<String>,
}

impl Auth {
    /// Opens the session of a finished login.
    pub(super) async fn open_granted(
        &self,
        granted: Granted<LoginFacts>,
        Opening { issuer, csr, is_device }: Opening<'_>,
    ) -> Result<Given, OidcError> {
        let failed = |failure: Failure| problem_of(&failure);
        let id = Id::new(&granted.session);
        let mut session = self.session_of_grant(&granted, issuer, &id).map_err(failed)?;
        if let Some(tokens) = session.tokens.as_mut().filter(|_| is_device) {
            tokens.login_fingerprint = String::new();
        }
        let (snapshot, now) = (self.kernel().snapshot(), self.kernel().now());
        // The credential may have changed, and factors may be asked for, since the login.
        if !stands(&snapshot, &session, now) {
            return Err(refused("the credential of the login is no longer good"));
        }
        if !is_complete(&snapshot, &session) {
            return Err(refused("the login lacks a factor that is asked for by now"));
        }
        let identity = session.identity_id.clone();
        let csr = csr.or(granted.kept.csr);
        let caller = granted.kept.caller;
        let certificate = match csr {
            Some(csr) => Some(self.certificate_of(&caller, (&id, &identity), &csr).await?),
            None => None,
        };
        let counted = self.count_second(&caller, &identity).await.map_err(failed)?;
        let opened = self.sessions().open_signed(session, |it| is_complete(&snapshot, it));
        let opened = opened.map_err(failed)?;
        // A change that came before the session was in the table did not end it; nor did a second use of its code.
        let snapshot = self.kernel().snapshot();
        let is_good =
            stands(&snapshot, &opened, self.kernel().now()) && is_complete(&snapshot, &opened);
        if !is_good || self.unfinished().is_stolen(&id) {
            self.sessions().end(std::slice::from_ref(&id));
            return Err(refused("the login is no longer good"));
        }
        if let Some(counted) = counted {
            counted.keep();
        }
        let (fingerprint, chain) = certificate.unzip();
        let issued = self.issue_tokens(&id, None, |login| {
            login.issued_fingerprint = fingerprint.unwrap_or_default();
            Ok::<_, Failure>(())
        });
        let tokens = issued.map_err(failed)?;
        self.sessions().begun().await;
        self.tell_session(&id, SessionChange::Created, chain.is_some());
        Ok(Given { tokens, certificate: chain })
    }

    /// Counts the last factor of a login that needed more than one, as the other protocol does.
    async fn count_second(
        &self,
        caller: &Caller,
        identity: &Id,
    ) -> Result<Option<crate::rates::Counted>> {
        if second_factors(&self.kernel().snapshot(), identity).is_nothing() {
            return Ok(None);
        }
        let from = caller.origin.remote.map(|remote| remote.ip());
        self.rates().login(identity, true, from, self.patience()).await.map(Some)
    }

    /// Signs a certificate for a session; its fingerprint and its chain.
    pub(super) async fn certificate_of(
        &self,
        caller: &Caller,
        names: (&Id, &Id),
        csr: &str,
    ) -> Result<(String, String), OidcError> {
        let made = session_certificate(self, caller, names, csr, CERTIFICATE_LIFE).await;
        let made = made.map_err(|failure| match failure.status() {
            400 => OidcError::new(OidcErrorCode::InvalidRequest, format!("invalid CSR: {failure}")),
            _ => problem_of(&failure),
        })?;
        Ok((made.fingerprint.to_string(), made.cert_pem))
    }

    fn session_of_grant(
        &self,
        granted: &Granted<LoginFacts>,
        issuer: &str,
        id: &Id,
    ) -> Result<ApiSession> {
        let LoginFacts { shown, body, caller, .. } = &granted.kept;
        let mut body = body.clone();
        if !granted.config_types.is_empty() {
            body.config_types.get_or_insert_default().extend(granted.config_types.iter().cloned());
        }
        let has_code = granted.amr.iter().any(|method| method == "totp");
        let durations = &self.kernel().settings().durations;
        let longest = match granted.method {
            PrimaryFactor::ExtJwt => Some(durations.external_session),
            PrimaryFactor::Password | PrimaryFactor::Cert => None,
        };
        let longest = [longest, durations.longest_session].into_iter().flatten().min();
        let tokens = TokenLogin {
            client: granted.client.id().to_owned(),
            issuer: issuer.to_owned(),
            methods: granted.amr.clone(),
            scopes: granted.scopes.names(),
            remote: caller.origin.remote.map(|remote| remote.to_string()).unwrap_or_default(),
            login_fingerprint: fingerprint_of(shown.leaf.as_ref()),
            login_at: granted.at,
            ends_at: self.kernel().now().plus(durations.access_token),
            last_end: longest.map(|longest| granted.at.plus(longest)),
            refresh_number: 1,
            refresh_id: self.kernel().ids().token().to_string(),
            nonce: granted.nonce.clone().unwrap_or_default(),
            ..TokenLogin::default()
        };
        Ok(ApiSession {
            is_mfa_complete: has_code,
            mfa_passed_at: has_code.then_some(granted.at).filter(|at| *at > Timestamp(0)),
            tokens: Some(Box::new(tokens)),
            ..new_session(self, caller, &body, shown, id.clone())?
        })
    }
}

fn fingerprint_of(leaf: Option<&weft_identity::Certificate>) -> String {
    leaf.map(|leaf| leaf.fingerprint().to_owned()).unwrap_or_default()
}

pub(super) fn refused(text: &str) -> OidcError {
    OidcError::new(OidcErrorCode::InvalidGrant, text)
}

/// A failure in the words of OAuth.
pub(super) fn problem_of(failure: &Failure) -> OidcError {
    let code = match failure.status() {
        429 | 503 => OidcErrorCode::TemporarilyUnavailable,
        500.. => OidcErrorCode::ServerError,
        401 => OidcErrorCode::InvalidGrant,
        _ => OidcErrorCode::InvalidRequest,
    };
    OidcError::new(code, failure.to_string())
}
