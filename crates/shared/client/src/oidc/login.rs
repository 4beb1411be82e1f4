//! A login by OpenID Connect as programs make it (docs/protocol/auth.md 15.4): the first factor and those that the answer
//! asks for are sent as JSON, and the code that they give is exchanged for tokens.

use futures::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;
use weft_contract::resource::session::AuthQuery;
use weft_contract::{Load, Method, headers};

use super::pkce::Secrets;
use super::requests::{self, TokenAnswer};
use super::{CLIENT, SCOPE, SessionKey, Tokens};
use crate::address::ControllerAddress;
use crate::call::{Caller, ExternalToken, to_value};
use crate::credentials::{About, Credentials};
use crate::error::{Error, FactorProblem, Result};
use crate::http::{Http, HttpResponse, MAX_WAIT, Outgoing, SHORT_WAIT};
use crate::second_factor::{CodePurpose, Factors, Offered, is_for_token};
use crate::second_tokens::SecondToken;

/// Where the login ends. Nobody listens there: the code is read from the redirect.
const REDIRECT: &str = "http://localhost:20314/auth/callback";
/// Most factors that are given for one login.
const MAX_FACTORS: usize = 4;

/// What a login is made with.
pub(crate) struct Login<'a> {
    pub(crate) http: &'a Http,
    pub(crate) caller: &'a Caller,
    pub(crate) about: &'a About,
    pub(crate) factors: &'a Factors,
    /// The key of sessions without a certificate of their own.
    pub(crate) key: &'a SessionKey,
    /// The name of the identity, for the question for a code, if it is known.
    pub(crate) name: Option<String>,
}

/// The first step of a login, which is sent again with a token of an external signer beside it, as second factor.
struct FirstStep<'a> {
    path: String,
    body: Value,
    token: Option<&'a ExternalToken>,
}

/// The answer to a step that does not finish a login.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Missing {
    #[serde(default)]
    auth_queries: Vec<AuthQuery>,
    /// The name of the identity; controllers of OpenZiti do not tell it.
    identity_name: Option<String>,
}

impl Login<'_> {
    fn address(&self) -> &ControllerAddress {
        self.caller.address()
    }

    async fn get(&self, url: Url) -> Result<HttpResponse> {
        let mut request = Outgoing::get(url);
        request.headers.push(("accept", headers::JSON.to_owned()));
        self.http.send(&request).await
    }

    async fn post(
        &self,
        path: &str,
        body: &Value,
        tokens: &[Option<&ExternalToken>],
    ) -> Result<HttpResponse> {
        let bearers = tokens.iter().flatten();
        let bearers = bearers.map(|token| (headers::AUTHORIZATION, token.bearer()));
        let accept = ("accept", headers::JSON.to_owned());
        let request = Outgoing {
            method: Method::Post,
            url: self.address().join(path)?,
            headers: bearers.chain([accept]).collect(),
            body: Some((headers::JSON, body.to_string().into_bytes())),
            load: Load::Usual,
            patience: if path.ends_with("/password") { SHORT_WAIT } else { MAX_WAIT },
        };
        self.http.send(&request).await
    }

    /// Begins a login; its id.
    async fn begin(&self, method: &str, secrets: &Secrets) -> Result<String> {
        let mut url = self.address().join("/oidc/authorize")?;
        url.query_pairs_mut().extend_pairs([
            ("client_id", CLIENT),
            ("response_type", "code"),
            ("scope", SCOPE),
            ("redirect_uri", REDIRECT),
            ("state", &secrets.state),
            ("code_challenge", &secrets.challenge()),
            ("code_challenge_method", "S256"),
            ("method", method),
        ]);
        let answer = self.get(url).await?;
        let to = self.redirect(answer)?;
        parameter(&to, "authRequestID").ok_or_else(|| odd(&to, "the login got no id"))
    }

    /// Where an answer redirects to.
    fn redirect(&self, answer: HttpResponse) -> Result<Url> {
        if !(300..400).contains(&answer.status) {
            let answer = requests::accepted(answer)?;
            return Err(answer.odd("a redirect was expected"));
        }
        let to = answer.headers.get("location").and_then(|to| to.to_str().ok());
        let to = to.ok_or_else(|| answer.odd("it redirects to nowhere"))?;
        let base = self.address().join("/")?;
        let to = base.join(to).map_err(|error| answer.odd(&error.to_string()))?;
        match parameter(&to, "error") {
            Some(error) => {
                let description = parameter(&to, "error_description").unwrap_or_default();
                Err(requests::refused(answer.status, &error, &description))
            }
            None => Ok(to),
        }
    }

    /// Gives factors until none is missing; the callback.
    async fn give(&self, id: &str, first: &FirstStep<'_>) -> Result<Url> {
        let mut second = SecondToken::new(self.caller, &self.factors.tokens);
        let mut answer = self.post(&first.path, &first.body, &[first.token]).await?;
        for _ in 0..MAX_FACTORS {
            if !(200..300).contains(&answer.status) {
                return self.redirect(answer);
            }
            let missing: Missing = serde_json::from_slice(&answer.body)
                .map_err(|error| answer.odd(&error.to_string()))?;
            // The token first: controllers of OpenZiti forget that it is missing once a code was given (docs/protocol/auth.md 15.8).
            let token = missing.auth_queries.iter().find(|query| is_for_token(query));
            let Some(query) = token.or(missing.auth_queries.first()) else {
                return Err(answer.odd("it names no factor that is missing"));
            };
            answer = match query.type_id.as_str() {
                "MFA" | "TOTP" if query.is_totp_enrolled != Some(true) => {
                    return Err(Error::SecondFactor(FactorProblem::NotSetUp));
                }
                "MFA" | "TOTP" => {
                    let name = missing.identity_name.or_else(|| self.name.clone());
                    self.give_code(id, name).await?
                }
                _ if is_for_token(query) => self.give_token(first, query, &mut second).await?,
                other => {
                    return Err(Error::SecondFactor(FactorProblem::Unsupported(other.to_owned())));
                }
            };
        }
        Err(answer.odd("it asks for more and more factors"))
    }

    /// Sends the first step again with a token beside it, until the controller does not refuse that.
    async fn give_token(
        &self,
        first: &FirstStep<'_>,
        query: &AuthQuery,
        second: &mut SecondToken<'_>,
    ) -> Result<HttpResponse> {
        loop {
            let token = second.answer(query).await?;
            let answer = self.post(&first.path, &first.body, &[first.token, Some(&token)]).await?;
            if answer.status != 401 {
                // Controllers of OpenZiti want to see it with each request of the session.
                self.caller.set_second_token(Some(token));
                return Ok(answer);
            }
        }
    }

    async fn give_code(&self, id: &str, name: Option<String>) -> Result<HttpResponse> {
        let codes =
            self.factors.codes.as_ref().ok_or(Error::SecondFactor(FactorProblem::NoCode))?;
        let give = |code: String| {
            async move {
                let body = json!({"id": id, "code": code});
                let answer = self.post("/oidc/login/totp", &body, &[]).await?;
                if answer.status != 400 {
                    return Ok(Offered::Taken(answer));
                }
                match answer.accept() {
                    Err(error) if is_wrong_code(&error) => Ok(Offered::Refused),
                    Err(error) => Err(error),
                    Ok(answer) => Ok(Offered::Taken(answer)),
                }
            }
            .boxed()
        };
        codes.offer(name, CodePurpose::Login, give).await
    }

    /// The code of a finished login.
    async fn code(&self, callback: Url, secrets: &Secrets) -> Result<String> {
        let own = self.address().join("/")?;
        if callback.origin() != own.origin() {
            return Err(odd(&callback, "the login goes on at another place"));
        }
        let to = self.redirect(self.get(callback).await?)?;
        code_of(&to, secrets, self.address())
    }
}

/// Logs in: the tokens, and the certificate that was issued with them.
pub(crate) async fn log_in(
    login: &Login<'_>,
    credentials: &Credentials,
    token: Option<&ExternalToken>,
) -> Result<(Tokens, Option<String>)> {
    let key = login.key;
    let secrets = Secrets::new();
    let method = credentials.method();
    let id = login.begin(method, &secrets).await?;
    let mut body = json!({
        "id": id,
        "configTypes": login.about.config_types,
        "sdkInfo": to_value(&login.about.sdk)?,
        "envInfo": to_value(&login.about.env)?,
    });
    if let Some(end_key) = &login.about.end_key {
        body["endKey"] = end_key.as_str().into();
    }
    match credentials {
        Credentials::Password { username, password } => {
            body["username"] = to_value(username)?;
            body["password"] = password.expose().into();
            body["csrPem"] = key.request()?.into();
        }
        // The tokens name the certificate of the login.
        Credentials::Certificate => {}
        Credentials::ExternalToken(_) | Credentials::ExternalTokens(_) => {
            body["csrPem"] = key.request()?.into();
        }
    }
    let first = FirstStep { path: format!("/oidc/login/{method}"), body, token };
    let callback = login.give(&id, &first).await?;
    let code = login.code(callback, &secrets).await?;
    let asked = Instant::now();
    let answer = redeem(login.http, login.address(), (&code, REDIRECT), &secrets, None).await?;
    Ok((Tokens::of(&answer, asked, None)?, answer.session_cert))
}

/// Exchanges a code for tokens. `request` is one for a session certificate, PEM.
pub(crate) async fn redeem(
    http: &Http,
    address: &ControllerAddress,
    (code, redirect): (&str, &str),
    secrets: &Secrets,
    request: Option<&str>,
) -> Result<TokenAnswer> {
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("client_id", CLIENT),
        ("code", code),
        ("code_verifier", secrets.verifier.as_str()),
        ("redirect_uri", redirect),
    ];
    form.extend(request.map(|request| ("csr_pem", request)));
    requests::tokens(http, address, &form).await
}

/// The code in the redirect at the end of a login. It must name this login, and, if it names one, this provider (RFC 9207).
pub(crate) fn code_of(to: &Url, secrets: &Secrets, address: &ControllerAddress) -> Result<String> {
    if parameter(to, "state").as_deref() != Some(secrets.state.as_str()) {
        return Err(odd(to, "the answer belongs to another login"));
    }
    let own = address.join("/oidc")?;
    if let Some(issuer) = parameter(to, "iss")
        && Url::parse(&issuer).ok().as_ref() != Some(&own)
    {
        return Err(odd(to, "the answer comes from another provider"));
    }
    if let Some(error) = parameter(to, "error") {
        let description = parameter(to, "error_description").unwrap_or_default();
        return Err(requests::refused(302, &error, &description));
    }
    parameter(to, "code").ok_or_else(|| odd(to, "the answer has no code"))
}

/// A parameter in the query of a URL.
fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Controllers differ in the code of this refusal (docs/protocol/auth.md 15.8).
fn is_wrong_code(error: &Error) -> bool {
    let code = error.api().map(|refusal| refusal.code().replace(' ', "_"));
    matches!(code.as_deref(), Some("INVALID_TOTP_CODE" | "MFA_INVALID_TOKEN"))
}

fn odd(url: &Url, reason: &str) -> Error {
    let mut url = url.clone();
    url.set_query(None);
    Error::Answer { url: url.to_string(), status: 302, reason: reason.to_owned() }
}
