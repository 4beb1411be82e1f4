//! `/oidc/end_session` (OpenID Connect RP-Initiated Logout): which session ends, who is asked, and where the browser goes.
//!
//! | `id_token_hint` | |
//! |---|---|
//! | an ID token of this network that has not expired | its session ends at once |
//! | one that has expired | a page asks first |
//! | none, or something else | nothing ends: no browser is logged in here, so there is nobody to log out |
//!
//! The browser goes to `post_logout_redirect_uri` if that is one of the clients', with `state`; else it sees a page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::authorize::MAX_STATE;
use crate::client::{self, Client, MAX_CLIENT, Uris};
use crate::params::Params;
use crate::problem::{OidcError, invalid};
use crate::secret::Hash;
use crate::token_request::MAX_TOKEN;
use crate::uris::MAX_URI;

/// A request.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LogoutRequest {
    /// `id_token_hint`.
    pub hint: Option<String>,
    /// Where the browser goes afterwards, if that is one of the clients' URIs.
    pub to: Option<String>,
    client: Option<Client>,
    /// What the page sent that asked.
    answer: Option<String>,
}

/// What the hint says, if its signature is this network's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdTokenHint {
    /// The session: `z_asid`.
    pub session: String,
    /// The client: `azp` or `client_id`.
    pub client: String,
    /// True if it has expired.
    pub has_expired: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// The session with this id ends.
    Session(String),
    /// A page asks whether the session with this id is to end.
    Ask(String),
    /// Nothing ends.
    Nothing,
}

impl LogoutRequest {
    /// Reads the parameters of a request.
    pub fn read(params: &Params<'_>, logouts: &Uris) -> Result<Self, OidcError> {
        let client = params.one("client_id", MAX_CLIENT)?;
        let client = client.map(|id| Client::find(id).ok_or_else(client::unknown)).transpose()?;
        let state = params.one("state", MAX_STATE)?.map(|state| ("state", state));
        let uri = params.one("post_logout_redirect_uri", MAX_URI)?;
        let to = uri.and_then(|uri| logouts.find(uri));
        Ok(Self {
            hint: params.one("id_token_hint", MAX_TOKEN)?.map(str::to_owned),
            to: to.map(|uri| uri.with(state.as_slice())),
            client,
            answer: params.one("confirm", 64)?.map(str::to_owned),
        })
    }

    /// What the request ends. `browser` is the secret of the cookie that it shows.
    pub fn end(
        &self,
        hint: Option<&IdTokenHint>,
        browser: Option<&str>,
    ) -> Result<LogoutOutcome, OidcError> {
        let Some(hint) = hint else { return Ok(LogoutOutcome::Nothing) };
        if self.client.is_some_and(|client| client.id() != hint.client) {
            return Err(invalid("the id_token_hint is of another client"));
        }
        let wanted = browser.map(|secret| confirmation(secret, &hint.session));
        let is_confirmed = match (&self.answer, wanted) {
            (Some(answer), Some(wanted)) => Hash::of(answer) == Hash::of(&wanted),
            _ => false,
        };
        let session = hint.session.clone();
        Ok(if is_confirmed || !hint.has_expired {
            LogoutOutcome::Session(session)
        } else {
            LogoutOutcome::Ask(session)
        })
    }
}

/// What the page that asks sends as `confirm`: only the browser that was asked knows it.
#[must_use]
pub fn confirmation(browser: &str, session: &str) -> String {
    URL_SAFE_NO_PAD.encode(Hash::of(&format!("end {session} {browser}")).bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::UriSources;

    fn read(query: &str) -> Result<LogoutRequest, OidcError> {
        let (uris, _) = Uris::of_logouts(&UriSources::default());
        LogoutRequest::read(&Params::read(query, "").unwrap(), &uris)
    }

    fn hint(has_expired: bool) -> IdTokenHint {
        IdTokenHint { session: "s".into(), client: "openziti".into(), has_expired }
    }

    #[test]
    fn a_valid_hint_ends_its_session_and_an_old_one_asks() {
        let request = read("id_token_hint=t&client_id=openziti").unwrap();
        assert_eq!(request.hint.as_deref(), Some("t"));
        assert_eq!(request.end(Some(&hint(false)), None), Ok(LogoutOutcome::Session("s".into())));
        assert_eq!(request.end(Some(&hint(true)), None), Ok(LogoutOutcome::Ask("s".into())));
        assert_eq!(request.end(None, None), Ok(LogoutOutcome::Nothing));
        let other = read("id_token_hint=t&client_id=native").unwrap();
        assert!(other.end(Some(&hint(false)), None).is_err());
        assert_eq!(read("client_id=x").map(drop).unwrap_err().code.word(), "invalid_client");
    }

    #[test]
    fn only_the_browser_that_was_asked_answers() {
        let answer = confirmation("secret", "s");
        let request = read(&format!("id_token_hint=t&confirm={answer}")).unwrap();
        assert_eq!(
            request.end(Some(&hint(true)), Some("secret")),
            Ok(LogoutOutcome::Session("s".into()))
        );
        for browser in [None, Some("other")] {
            assert_eq!(request.end(Some(&hint(true)), browser), Ok(LogoutOutcome::Ask("s".into())));
        }
        let other = read(&format!("confirm={}", confirmation("secret", "x"))).unwrap();
        assert_eq!(
            other.end(Some(&hint(true)), Some("secret")),
            Ok(LogoutOutcome::Ask("s".into()))
        );
    }

    #[test]
    fn the_browser_goes_to_known_uris_only() {
        let to =
            |uri: &str| read(&format!("post_logout_redirect_uri={uri}&state=a%26b")).unwrap().to;
        assert_eq!(
            to("http://localhost:8080/auth/logout").as_deref(),
            Some("http://localhost:8080/auth/logout?state=a%26b")
        );
        assert_eq!(
            to("openziti://auth/logout").as_deref(),
            Some("openziti://auth/logout?state=a%26b")
        );
        for uri in
            ["https://evil.example/", "http://localhost:8080/auth/callback", "/oidc/logged-out"]
        {
            assert_eq!(to(uri), None, "{uri}");
        }
    }
}
