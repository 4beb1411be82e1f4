//! Requests for tokens, and their refusals (docs/protocol/auth.md 15.5).

use serde::Deserialize;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::Serializer;
use weft_contract::{Load, Method};

use super::{CLIENT, Tokens};
use crate::address::ControllerAddress;
use crate::error::{Error, ProviderError, Result};
use crate::http::{Http, HttpResponse, MAX_WAIT, Outgoing};

/// Media type of a form.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";
/// The name by which a provider shows this program to people.
const USER_AGENT: &str = concat!("weft/", env!("CARGO_PKG_VERSION"));
/// Longest text of a refusal that is kept, in characters.
const MAX_TEXT: usize = 300;

/// The answer to a request for tokens.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) access_token: String,
    #[serde(default)]
    pub(crate) refresh_token: Option<String>,
    /// Life of the access token in seconds.
    #[serde(default)]
    pub(crate) expires_in: Option<u64>,
    /// The chain of the session's certificate, PEM.
    #[serde(default)]
    pub(crate) session_cert: Option<String>,
}

/// A refusal in the words of OAuth.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// Asks for tokens with a form.
pub(crate) async fn tokens(
    http: &Http,
    address: &ControllerAddress,
    form: &[(&str, &str)],
) -> Result<TokenAnswer> {
    let answer = posted(http, address.join("/oidc/oauth/token")?, form).await?;
    let answer = accepted(answer)?;
    serde_json::from_slice(&answer.body).map_err(|error| answer.odd(&error.to_string()))
}

/// The next tokens of a session.
pub(crate) async fn refreshed(
    http: &Http,
    address: &ControllerAddress,
    former: &Tokens,
) -> Result<Tokens> {
    let Some(refresh) = former.refresh() else {
        return Err(Error::Request("the session has no refresh token".to_owned()));
    };
    let form = [("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", refresh)];
    let asked = Instant::now();
    Tokens::of(&tokens(http, address, &form).await?, asked, Some(former))
}

/// Ends the session of a refresh token.
pub(crate) async fn revoke(http: &Http, address: &ControllerAddress, refresh: &str) -> Result<()> {
    let form = [("client_id", CLIENT), ("token", refresh), ("token_type_hint", "refresh_token")];
    accepted(posted(http, address.join("/oidc/revoke")?, &form).await?).map(drop)
}

/// Sends a form.
pub(crate) async fn posted(http: &Http, url: Url, form: &[(&str, &str)]) -> Result<HttpResponse> {
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let request = Outgoing {
        method: Method::Post,
        url,
        headers: vec![
            ("accept", "application/json".to_owned()),
            ("user-agent", USER_AGENT.to_owned()),
        ],
        body: Some((FORM, body.into_bytes())),
        load: Load::Usual,
        patience: MAX_WAIT,
    };
    http.send(&request).await
}

/// The answer if it is a success, otherwise the refusal.
pub(crate) fn accepted(answer: HttpResponse) -> Result<HttpResponse> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    match serde_json::from_slice::<Refusal>(&answer.body) {
        Ok(refusal) => {
            let description = refusal.error_description.unwrap_or_default();
            Err(refused(answer.status, &refusal.error, &description))
        }
        Err(_) => answer.accept(),
    }
}

/// A refusal as an error.
pub(crate) fn refused(status: u16, error: &str, description: &str) -> Error {
    let short = |text: &str| -> String { text.chars().take(MAX_TEXT).collect() };
    let description = Some(short(description)).filter(|text: &String| !text.is_empty());
    let error = short(error);
    Error::Provider(Box::new(ProviderError { status, error, description }))
}
