//! `/oidc/authorize`: the beginning of a login (docs/protocol/auth.md 15.4).
//!
//! A request with a bad client or redirect URI is answered directly, as nobody knows whom to tell. Any other error goes to
//! the redirect URI, with `state` and `iss` (RFC 9207).

use crate::client::{Client, Uris};
use crate::params::Params;
use crate::pkce::PkceChallenge;
use crate::problem::{OidcError, OidcErrorCode, invalid};
use crate::scopes::{MAX_SCOPE, Scopes};
use crate::uris::{MAX_URI, Uri};

/// Longest `state`, in bytes.
pub const MAX_STATE: usize = 4096;
/// Longest `nonce`, in bytes.
pub const MAX_NONCE: usize = 1024;
/// Most config types of a login.
pub const MAX_CONFIG_TYPES: usize = 64;
/// Longest name or id of a config type, in bytes.
pub const MAX_CONFIG_TYPE: usize = 256;
/// Longest word of a parameter that takes one of a few words, in bytes.
const MAX_WORD: usize = 256;

/// The primary factor that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrimaryFactor {
    /// Name and password.
    Password,
    /// The certificate of the connection.
    Cert,
    /// The token of an external signer.
    ExtJwt,
}

impl PrimaryFactor {
    /// The word in `amr`, and of the parameter `method`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Cert => "cert",
            Self::ExtJwt => "ext-jwt",
        }
    }

    /// The page on which the login begins.
    #[must_use]
    pub fn page(self) -> &'static str {
        match self {
            Self::Password => "username",
            Self::Cert => "cert",
            Self::ExtJwt => "ext-jwt",
        }
    }

    fn find(word: &str) -> Option<Self> {
        [Self::Password, Self::Cert, Self::ExtJwt].into_iter().find(|method| method.word() == word)
    }
}

/// What a client wants: the parameters that count after the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizeRequest {
    /// The issuer that the client asked.
    pub issuer: String,
    /// The client.
    pub client: Client,
    /// Where the login ends.
    pub redirect: Uri,
    /// Returned unchanged.
    pub state: Option<String>,
    /// A claim of the ID token, unchanged.
    pub nonce: Option<String>,
    /// At least one.
    pub scopes: Scopes,
    /// What the verifier of the exchange has to fit.
    pub challenge: PkceChallenge,
    /// The factor that the client asks for, if it is one that exists.
    pub method: Option<PrimaryFactor>,
    /// Config types by id or name, or `all`.
    pub config_types: Vec<String>,
}

/// Why a request is refused, and how that is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// An answer with the error itself.
    Direct(OidcError),
    /// A redirect.
    Redirect {
        /// The whole URL.
        to: String,
        /// The error in it.
        problem: OidcError,
    },
}

impl AuthorizeRequest {
    /// Reads and checks the parameters of a request.
    pub fn read(params: &Params<'_>, issuer: &str, uris: &Uris) -> Result<Self, Refusal> {
        let (client, redirect) = whom_to_tell(params, uris).map_err(Refusal::Direct)?;
        let state = params.one("state", MAX_STATE);
        let shown = state.as_ref().ok().and_then(|state| state.map(str::to_owned));
        let refuse = |problem: OidcError| Refusal::Redirect {
            to: with_error(&redirect, shown.as_deref(), issuer, &problem),
            problem,
        };
        state.map_err(refuse)?;
        let rest = Rest::read(params).map_err(refuse)?;
        Ok(Self {
            issuer: issuer.to_owned(),
            client,
            state: shown.clone(),
            nonce: rest.nonce,
            scopes: rest.scopes,
            challenge: rest.challenge,
            method: rest.method,
            config_types: rest.config_types,
            redirect,
        })
    }

    /// The path of the first page, for the header `Location`. C SDKs read `authRequestID=` from it.
    #[must_use]
    pub fn login_path(&self, has_certificate: bool, id: &str) -> String {
        let by_itself = if has_certificate { PrimaryFactor::Cert } else { PrimaryFactor::Password };
        format!("/oidc/login/{}?authRequestID={id}", self.method.unwrap_or(by_itself).page())
    }

    /// The URL that gives the client its code. The code comes last: C SDKs take everything behind `code=` for it.
    #[must_use]
    pub fn with_code(&self, code: &str) -> String {
        let state = self.state.as_deref().map(|state| ("state", state));
        let rest = [("iss", self.issuer.as_str()), ("code", code)];
        let parameters: Vec<_> = state.into_iter().chain(rest).collect();
        self.redirect.with(&parameters)
    }

    /// The URL that tells the client an error.
    #[must_use]
    pub fn with_error(&self, problem: &OidcError) -> String {
        with_error(&self.redirect, self.state.as_deref(), &self.issuer, problem)
    }

    /// About how many bytes the request takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = [&self.state, &self.nonce].into_iter().flatten().map(String::len);
        let types = self.config_types.iter().map(|text| text.len() + size_of::<String>());
        self.issuer.len() + 2 * self.redirect.as_str().len() + texts.chain(types).sum::<usize>()
    }
}

fn with_error(redirect: &Uri, state: Option<&str>, issuer: &str, problem: &OidcError) -> String {
    let description = problem.shown();
    let mut parameters =
        vec![("error", problem.code.word()), ("error_description", description.as_str())];
    parameters.extend(state.map(|state| ("state", state)));
    parameters.push(("iss", issuer));
    redirect.with(&parameters)
}

/// The client and its redirect URI.
fn whom_to_tell(params: &Params<'_>, uris: &Uris) -> Result<(Client, Uri), OidcError> {
    let client = Client::of(params)?;
    let redirect = params.required("redirect_uri", MAX_URI)?;
    let unknown = || {
        invalid(
            "the redirect_uri is none of the client: add it to redirectURIs of the API edge-oidc in the controller's file",
        )
    };
    Ok((client, uris.find(redirect).ok_or_else(unknown)?))
}

/// The parameters whose errors go to the redirect URI.
struct Rest {
    nonce: Option<String>,
    scopes: Scopes,
    challenge: PkceChallenge,
    method: Option<PrimaryFactor>,
    config_types: Vec<String>,
}

impl Rest {
    fn read(params: &Params<'_>) -> Result<Self, OidcError> {
        for (name, code) in [
            ("request", OidcErrorCode::RequestNotSupported),
            ("request_uri", OidcErrorCode::RequestUriNotSupported),
            ("registration", OidcErrorCode::RegistrationNotSupported),
        ] {
            if params.has(name) {
                return Err(OidcError::new(code, format!("the parameter {name} is not supported")));
            }
        }
        if params.required("response_type", MAX_WORD)? != "code" {
            let text = "the only response_type is code";
            return Err(OidcError::new(OidcErrorCode::UnsupportedResponseType, text));
        }
        if params.one("response_mode", MAX_WORD)?.is_some_and(|mode| mode != "query") {
            return Err(invalid("the only response_mode is query"));
        }
        let scopes = Scopes::parse(params.required("scope", MAX_SCOPE)?);
        if scopes.is_empty() {
            return Err(invalid("the scope has neither openid nor offline_access"));
        }
        // Without a method RFC 7636 means `plain`, which shows the verifier to whoever reads this request.
        if params.required("code_challenge_method", MAX_WORD)? != "S256" {
            return Err(invalid("the only code_challenge_method is S256"));
        }
        let challenge = PkceChallenge::parse(params.required("code_challenge", MAX_WORD)?);
        let challenge =
            challenge.ok_or_else(|| invalid("the code_challenge is not 32 bytes in base64url"))?;
        prompt(params.one("prompt", MAX_WORD)?.unwrap_or_default())?;
        Ok(Self {
            nonce: params.one("nonce", MAX_NONCE)?.map(str::to_owned),
            scopes,
            challenge,
            method: params.one("method", MAX_WORD)?.and_then(PrimaryFactor::find),
            config_types: params.many("configTypes", MAX_CONFIG_TYPES, MAX_CONFIG_TYPE)?,
        })
    }
}

/// Every login asks, as no browser stays logged in here, so that `none` cannot be met.
fn prompt(text: &str) -> Result<(), OidcError> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    match words.contains(&"none") {
        false => Ok(()),
        true if words.len() > 1 => Err(invalid("the prompt has none and another word")),
        true => Err(OidcError::new(OidcErrorCode::LoginRequired, "a login always asks here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::UriSources;

    const ISSUER: &str = "https://ctrl.example:1280/oidc";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    const FINE: [(&str, &str); 8] = [
        ("client_id", "openziti"),
        ("redirect_uri", "http://localhost:8080/auth/callback"),
        ("response_type", "code"),
        ("scope", "openid offline_access profile"),
        ("state", "a &="),
        ("nonce", "n"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ];

    /// A request with one parameter changed (`=value`), removed (``) or added (`+value`).
    fn read(name: &str, change: &str) -> Result<AuthorizeRequest, Refusal> {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (key, value) in FINE {
            match change.chars().next() {
                _ if key != name => query.append_pair(key, value),
                Some('=') => query.append_pair(key, &change[1..]),
                Some(_) => query.append_pair(key, value),
                None => &mut query,
            };
        }
        if let Some(more) = change.strip_prefix('+') {
            query.append_pair(name, more);
        }
        let query = query.finish();
        let (uris, _) = Uris::of_logins(&UriSources::default());
        AuthorizeRequest::read(&Params::read(&query, "").unwrap(), ISSUER, &uris)
    }

    fn redirected(name: &str, change: &str) -> (&'static str, String) {
        match read(name, change) {
            Err(Refusal::Redirect { to, problem }) => (problem.code.word(), to),
            other => panic!("{name} {change}: {other:?}"),
        }
    }

    #[test]
    fn a_request_has_what_counts() {
        let request = read("", "").unwrap();
        assert_eq!(request.client, Client::OpenZiti);
        assert_eq!(request.scopes.to_string(), "openid offline_access");
        assert_eq!((request.state.as_deref(), request.nonce.as_deref()), (Some("a &="), Some("n")));
        assert_eq!(request.method, None);
        assert_eq!(request.login_path(false, "x"), "/oidc/login/username?authRequestID=x");
        assert_eq!(request.login_path(true, "x"), "/oidc/login/cert?authRequestID=x");
        let external = read("method", "+ext-jwt").unwrap();
        assert_eq!(external.login_path(true, "x"), "/oidc/login/ext-jwt?authRequestID=x");
        let by_password = read("method", "+password").unwrap();
        assert_eq!(by_password.login_path(true, "x"), "/oidc/login/username?authRequestID=x");
        assert_eq!(read("method", "+magic").unwrap().method, None);
        assert_eq!(read("configTypes", "+intercept.v1").unwrap().config_types, ["intercept.v1"]);
        for (name, change) in [
            ("prompt", "+login consent"),
            ("max_age", "+0"),
            ("other", "+1"),
            ("request", "+"),
            ("state", ""),
        ] {
            assert!(read(name, change).is_ok(), "{name}");
        }
    }

    #[test]
    fn bad_clients_and_redirects_are_told_directly() {
        for (name, change, code) in [
            ("client_id", "", "invalid_request"),
            ("client_id", "=other", "invalid_client"),
            ("client_id", "+native", "invalid_request"),
            ("redirect_uri", "", "invalid_request"),
            ("redirect_uri", "=https://evil.example/auth/callback", "invalid_request"),
            ("redirect_uri", "+https://evil.example/auth/callback", "invalid_request"),
            ("redirect_uri", "=http://localhost:8080/auth/callback#x", "invalid_request"),
            ("redirect_uri", "=http://x@localhost:8080/auth/callback", "invalid_request"),
        ] {
            match read(name, change) {
                Err(Refusal::Direct(problem)) => {
                    assert_eq!(problem.code.word(), code, "{name} {change}")
                }
                other => panic!("{name} {change}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_errors_go_to_the_client_with_state_and_issuer() {
        for (name, change, code) in [
            ("response_type", "", "invalid_request"),
            ("response_type", "=token", "unsupported_response_type"),
            ("response_type", "=code id_token", "unsupported_response_type"),
            ("response_type", "+code", "invalid_request"),
            ("response_mode", "+fragment", "invalid_request"),
            ("scope", "", "invalid_request"),
            ("scope", "=profile email", "invalid_request"),
            ("code_challenge", "", "invalid_request"),
            ("code_challenge", "=short", "invalid_request"),
            ("code_challenge_method", "", "invalid_request"),
            ("code_challenge_method", "=plain", "invalid_request"),
            ("code_challenge_method", "=s256", "invalid_request"),
            ("prompt", "+none", "login_required"),
            ("prompt", "+none login", "invalid_request"),
            ("request", "+x", "request_not_supported"),
            ("request_uri", "+https://a.example", "request_uri_not_supported"),
            ("registration", "+{}", "registration_not_supported"),
            ("nonce", "+again", "invalid_request"),
        ] {
            let (found, to) = redirected(name, change);
            assert_eq!(found, code, "{name} {change}");
            let head =
                format!("http://localhost:8080/auth/callback?error={code}&error_description=");
            assert!(to.starts_with(&head), "{to}");
            let tail = "&state=a+%26%3D&iss=https%3A%2F%2Fctrl.example%3A1280%2Foidc";
            assert!(to.ends_with(tail), "{to}");
        }
        let (_, to) = redirected("state", &format!("={}", "x".repeat(MAX_STATE + 1)));
        assert!(!to.contains("state=") && to.contains("&iss="));
    }

    #[test]
    fn the_client_gets_its_code_with_state_and_issuer() {
        assert_eq!(
            read("", "").unwrap().with_code("c"),
            "http://localhost:8080/auth/callback?state=a+%26%3D\
             &iss=https%3A%2F%2Fctrl.example%3A1280%2Foidc&code=c"
        );
        assert!(read("state", "").unwrap().with_code("c").contains("?iss="));
    }
}
