//! Logins of a person at the identity provider of their company, with a code that a program shows: the program reads the
//! provider's description, and needs an endpoint for devices in it.
//!
//! A refresh token of the provider is kept in memory, and asked for the next token before the person is asked again. It goes
//! only to the endpoint that gave it: the controller, which names the provider at each login, may name another one.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::Deserialize;
use url::Url;
use weft_contract::resource::external_jwt_signer::{ClientSignerDetail, TargetToken};
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, provider};
use weft_proxy::Proxies;

use crate::call::ExternalToken;
use crate::device_codes::{DevicePrompt, begin};
use crate::error::{Error, Result, chain};
use crate::external_tokens::{NoToken, TokenRequest, checked};
use crate::http::{Http, HttpResponse, Outgoing};
use crate::oidc::requests::{accepted, posted};

/// The path of a provider's description, behind its address (OpenID Connect Discovery 4).
const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// The scope without which a provider gives no ID token.
const OPENID: &str = "openid";

type Show = dyn Fn(DevicePrompt) -> std::result::Result<(), String> + Send + Sync;

/// How a person logs in at the provider of a signer.
pub struct ProviderLogin {
    /// The signer, by name or id; none: the one that is asked for, or else the only one that names an address for logins.
    signer: Option<String>,
    show: Box<Show>,
    kept: Mutex<Option<Kept>>,
    /// True if the person has logged in for the token that was given last.
    is_fresh: AtomicBool,
}

/// A refresh token of a provider, and where it came from.
struct Kept {
    tokens: Url,
    client: String,
    refresh: String,
}

impl Kept {
    fn is_of(&self, provider: &Provider) -> bool {
        self.tokens == provider.tokens && self.client == provider.client
    }
}

impl fmt::Debug for ProviderLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLogin").field("signer", &self.signer).finish_non_exhaustive()
    }
}

/// What of a provider's description is needed.
#[derive(Deserialize)]
struct Description {
    issuer: Option<String>,
    token_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
}

/// Tokens of the provider.
#[derive(Deserialize)]
struct Given {
    access_token: Option<String>,
    id_token: Option<String>,
    refresh_token: Option<String>,
}

impl ProviderLogin {
    /// A login whose address and code this function shows. An error, such as that there is nobody to show them to, is the
    /// reason why there is no token.
    pub fn new(
        show: impl Fn(DevicePrompt) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            signer: None,
            show: Box::new(show),
            kept: Mutex::default(),
            is_fresh: AtomicBool::new(false),
        }
    }

    /// Uses the provider of this signer, by its name or id.
    #[must_use]
    pub fn at_signer(mut self, signer: Option<String>) -> Self {
        self.signer = signer;
        self
    }

    /// A token of the provider of one of these signers.
    pub(crate) async fn token(
        self: Arc<Self>,
        signers: Vec<ClientSignerDetail>,
        request: TokenRequest,
    ) -> Result<ExternalToken, NoToken> {
        let wanted = self.signer.as_deref().or(request.signer.as_deref());
        let signer = chosen(&signers, wanted).map_err(NoToken::at_all)?;
        let not_yet = |error: Error| {
            let reason = format!("{}: {}", signer.name, chain(&error));
            NoToken { reason, may_pass: error.is_temporary() }
        };
        let provider = Provider::find(signer).await.map_err(not_yet)?;
        if !request.is_repeated
            && let Some(token) = self.renewed(&provider).await
        {
            self.set_fresh(false);
            return Ok(token);
        }
        let Some(devices) = &provider.devices else {
            return Err(NoToken::at_all(format!(
                "{}: the provider has no endpoint for devices (`device_authorization_endpoint`): give a token of it in a file",
                signer.name
            )));
        };
        let form = [("client_id", provider.client.as_str()), ("scope", provider.scope.as_str())];
        let waiting = begin(&provider.http, devices.clone(), &form).await.map_err(not_yet)?;
        (self.show)(waiting.prompt.clone()).map_err(NoToken::at_all)?;
        let more = [("client_id", provider.client.as_str())];
        let answer = waiting.tokens(&provider.http, &provider.tokens, &more).await;
        // A code that has ended, or that the person has refused, is asked for anew.
        let answer = answer
            .map_err(|error| NoToken::for_now(format!("{}: {}", signer.name, chain(&error))))?;
        let token = self.take(&provider, &answer)?;
        self.set_fresh(true);
        Ok(token)
    }

    /// Whether the person has logged in for the token that was given last, which was not made of an earlier login.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fresh(&self, is_fresh: bool) {
        self.is_fresh.store(is_fresh, Ordering::Relaxed);
    }

    /// The token that the provider gives for its refresh token, if it does.
    async fn renewed(&self, provider: &Provider) -> Option<ExternalToken> {
        let former = self.kept().take_if(|kept| kept.is_of(provider))?;
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", provider.client.as_str()),
            ("refresh_token", former.refresh.as_str()),
        ];
        let answer =
            posted(&provider.http, provider.tokens.clone(), &form).await.and_then(accepted);
        match answer {
            Ok(answer) => {
                let taken = self.take(provider, &answer).ok();
                let mut kept = self.kept();
                if taken.is_some() && kept.is_none() {
                    *kept = Some(former);
                }
                drop(kept);
                taken
            }
            Err(problem) => {
                if problem.is_temporary() {
                    *self.kept() = Some(former);
                }
                tracing::debug!(
                    problem = chain(&problem),
                    "the provider gives no token for its refresh token"
                );
                None
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token of an answer that the signer wants.
    fn take(&self, provider: &Provider, answer: &HttpResponse) -> Result<ExternalToken, NoToken> {
        let given: Given = serde_json::from_slice(&answer.body).map_err(NoToken::for_now)?;
        if let Some(refresh) = given.refresh_token {
            let (tokens, client) = (provider.tokens.clone(), provider.client.clone());
            *self.kept() = Some(Kept { tokens, client, refresh });
        }
        let (token, name) = match provider.wanted {
            TargetToken::Id => (given.id_token, "ID token"),
            _ => (given.access_token, "access token"),
        };
        let lacks = || NoToken::at_all(format!("the provider gives no {name}"));
        checked(token.ok_or_else(lacks)?)
    }
}

/// The signer whose provider a person logs in at.
fn chosen<'s>(
    signers: &'s [ClientSignerDetail],
    wanted: Option<&str>,
) -> Result<&'s ClientSignerDetail, String> {
    let names = || signers.iter().map(|signer| signer.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = wanted {
        let found = signers.iter().find(|signer| signer.name == wanted || signer.base.id == wanted);
        return found.ok_or_else(|| match signers.is_empty() {
            true => format!("the controller has no signer `{wanted}`, nor any other"),
            false => format!("the controller has no signer `{wanted}`; it has: {}", names()),
        });
    }
    let mut usable = signers
        .iter()
        .filter(|signer| signer.external_auth_url.as_deref().is_some_and(|url| !url.is_empty()));
    match (usable.next(), usable.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => {
            Err("the controller has no signer that names an address for logins".to_owned())
        }
        (Some(_), Some(_)) => Err(format!("name one of the controller's signers: {}", names())),
    }
}

/// A provider, and what a client asks of it.
struct Provider {
    http: Http,
    devices: Option<Url>,
    tokens: Url,
    client: String,
    scope: String,
    wanted: TargetToken,
}

impl Provider {
    /// Reads the description of a signer's provider.
    async fn find(signer: &ClientSignerDetail) -> Result<Self> {
        let wrong = |reason: &str| Error::Request(reason.to_owned());
        let lacks = |what: &str| wrong(&format!("the signer names no {what}"));
        let address = signer.external_auth_url.as_deref().ok_or_else(|| lacks("address"))?;
        let client = signer.client_id.clone().ok_or_else(|| lacks("client id"))?;
        let described = match address.ends_with(WELL_KNOWN) {
            true => address.to_owned(),
            false => format!("{}{WELL_KNOWN}", address.trim_end_matches('/')),
        };
        let described = judged(&described)?;
        let http = Http::of_system(described.scheme() == "http")?;
        let answer = http.send(&Outgoing::get(described)).await?.accept()?;
        let found: Description =
            serde_json::from_slice(&answer.body).map_err(|error| answer.odd(&error.to_string()))?;
        if !found.issuer.as_deref().is_some_and(|issuer| is_issuer_at(issuer, address)) {
            let named = found.issuer.unwrap_or_default();
            return Err(answer.odd(&format!("it is of the issuer `{named}`, not of `{address}`")));
        }
        let tokens =
            found.token_endpoint.ok_or_else(|| answer.odd("it has no `token_endpoint`"))?;
        let devices = found.device_authorization_endpoint.as_deref().map(judged).transpose()?;
        let mut scopes: Vec<&str> = signer.scopes.0.iter().map(String::as_str).collect();
        if !scopes.contains(&OPENID) {
            scopes.insert(0, OPENID);
        }
        Ok(Self {
            tokens: judged(&tokens)?,
            devices,
            client,
            scope: scopes.join(" "),
            wanted: signer.target_token,
            http,
        })
    }
}

/// Whether a description that was asked for at this address may be of this issuer (OpenID Connect Discovery 4.3). A slash at
/// the end makes no difference, as it makes none to where the description lies.
fn is_issuer_at(issuer: &str, address: &str) -> bool {
    let address = address.strip_suffix(WELL_KNOWN).unwrap_or(address);
    issuer.trim_end_matches('/') == address.trim_end_matches('/')
}

/// A URL that secrets may be sent to: https, or this machine.
fn judged(text: &str) -> Result<Url> {
    let wrong = |reason: &str| Error::Request(format!("`{text}` of the provider {reason}"));
    let url = Url::parse(text).map_err(|error| wrong(&format!("is no address: {error}")))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(wrong("is neither https nor of this machine")),
    }
}

impl Http {
    /// A client that trusts what this machine trusts. `is_plain` is for a provider on this machine without TLS.
    fn of_system(is_plain: bool) -> Result<Self> {
        let wrong = |error: &dyn std::error::Error| Error::Request(chain(error));
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| wrong(&error))?
            .with_no_client_auth();
        config.alpn_protocols = [ALPN_H2, ALPN_HTTP1].iter().map(|name| name.to_vec()).collect();
        let proxies = Arc::new(Proxies::of_process());
        Ok(match is_plain {
            true => Self::also_plain(config, proxies),
            false => Self::with_config(config, proxies),
        })
    }
}

#[cfg(test)]
mod tests {
    use weft_identity::TrustBundle;

    use super::*;
    use crate::http::Tls;

    fn signer(name: &str, url: Option<&str>) -> ClientSignerDetail {
        let text = serde_json::json!({
            "id": format!("id-{name}"), "name": name, "externalAuthUrl": url,
            "audience": null, "clientId": "c", "enrollToCertEnabled": false, "enrollToTokenEnabled": false,
            "scopes": null, "targetToken": "ACCESS", "createdAt": "2026-01-01T00:00:00.000Z",
            "updatedAt": "2026-01-01T00:00:00.000Z", "tags": {}, "_links": {},
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn the_signer_is_named_unless_there_is_only_one_to_log_in_at() {
        let one = [signer("ci", None), signer("staff", Some("https://idp.example"))];
        assert_eq!(chosen(&one, None).unwrap().name, "staff");
        assert_eq!(chosen(&one, Some("id-ci")).unwrap().name, "ci");
        assert!(chosen(&one, Some("x")).unwrap_err().contains("it has: ci, staff"));
        let two = [signer("a", Some("https://a.example")), signer("b", Some("https://b.example"))];
        assert!(chosen(&two, None).unwrap_err().contains("a, b"));
        assert!(chosen(&[], None).is_err() && chosen(&one[..1], None).is_err());
    }

    fn provider(tokens: &str, client: &str) -> Provider {
        Provider {
            http: Http::new(&Tls::Anonymous(TrustBundle::new([]))).unwrap(),
            devices: None,
            tokens: Url::parse(tokens).unwrap(),
            client: client.to_owned(),
            scope: OPENID.to_owned(),
            wanted: TargetToken::Access,
        }
    }

    #[tokio::test]
    async fn a_refresh_token_stays_with_the_provider_that_gave_it() {
        let home = "http://127.0.0.1:1/token";
        let login = ProviderLogin::new(|_| Ok(()));
        let kept = || login.kept().as_ref().map(|kept| kept.refresh.clone());
        let (tokens, client) = (Url::parse(home).unwrap(), "weft".to_owned());
        *login.kept() = Some(Kept { tokens, client, refresh: "secret".to_owned() });
        for (tokens, client) in [("http://127.0.0.1:1/other", "weft"), (home, "another")] {
            assert!(login.renewed(&provider(tokens, client)).await.is_none());
            assert_eq!(kept().as_deref(), Some("secret"), "it was not taken for {tokens} {client}");
        }
        assert!(login.kept().as_ref().is_some_and(|kept| kept.is_of(&provider(home, "weft"))));
    }

    #[test]
    fn a_description_is_of_the_issuer_that_was_asked() {
        let asked = "https://idp.example/realms/a";
        for (issuer, address) in [
            (asked, asked),
            ("https://idp.example/realms/a/", asked),
            (asked, "https://idp.example/realms/a/.well-known/openid-configuration"),
        ] {
            assert!(is_issuer_at(issuer, address), "{issuer} {address}");
        }
        for issuer in
            ["", "https://idp.example/realms/b", "https://idp.example", "https://evil.example"]
        {
            assert!(!is_issuer_at(issuer, asked), "{issuer}");
        }
    }

    #[test]
    fn secrets_go_to_https_or_this_machine_only() {
        for good in ["https://idp.example/token", "http://127.0.0.1:3000/token", "http://[::1]/t"] {
            judged(good).unwrap();
        }
        for wrong in
            ["http://idp.example/token", "ftp://localhost/t", "token", "http://127.example/"]
        {
            judged(wrong).unwrap_err();
        }
    }
}
