//! `/oidc/oauth/token`: the request of a client, what may be exchanged for what, and the answer
//! (docs/protocol/auth.md 15.5).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::Serialize;
use weft_model::Timestamp;
use weft_model::token::TokenKind;

use crate::client::{self, Client};
use crate::params::{MAX_BYTES, Params};
use crate::pkce::MAX_VERIFIER;
use crate::problem::{OidcError, OidcErrorCode, invalid};
use crate::refresh::Proof;
use crate::scopes::{MAX_SCOPE, Scopes};
use crate::secret::SECRET_LENGTH;
use crate::uris::MAX_URI;

/// Longest token, in bytes.
pub const MAX_TOKEN: usize = 16 << 10;
/// Longest certificate request, in bytes.
pub const MAX_CSR: usize = 16 << 10;
/// Longest word of a parameter that takes one of a few words, in bytes.
const MAX_WORD: usize = 256;
/// Longest header `Authorization` with a client, in bytes.
const MAX_BASIC: usize = 1024;

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A type of token in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenType {
    /// An access token.
    Access,
    /// A refresh token.
    Refresh,
    /// An ID token.
    Id,
}

impl TokenType {
    /// Its URN.
    #[must_use]
    pub fn urn(self) -> &'static str {
        match self {
            Self::Access => "urn:ietf:params:oauth:token-type:access_token",
            Self::Refresh => "urn:ietf:params:oauth:token-type:refresh_token",
            Self::Id => "urn:ietf:params:oauth:token-type:id_token",
        }
    }

    fn read(urn: &str) -> Result<Self, OidcError> {
        let found = [Self::Access, Self::Refresh, Self::Id].into_iter().find(|it| it.urn() == urn);
        found.ok_or_else(|| {
            invalid("the types of tokens are access_token, refresh_token and id_token")
        })
    }
}

/// What a client wants tokens for.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenGrant {
    /// A code.
    Code {
        /// The code.
        code: String,
        /// The verifier of PKCE.
        verifier: String,
        /// The same as at the beginning of the login.
        redirect: String,
    },
    /// A refresh token.
    Refresh {
        /// The token.
        token: String,
        /// Fewer scopes than before, if named.
        scopes: Option<Scopes>,
    },
    /// Another token.
    Exchange {
        /// The token.
        subject: String,
        /// What the client says that it is.
        subject_type: TokenType,
        /// What the client wants.
        requested: Option<TokenType>,
        /// Fewer scopes than before, if named.
        scopes: Option<Scopes>,
    },
    /// A device code.
    Device {
        /// The code.
        code: String,
    },
}

/// Without the secrets.
impl fmt::Debug for TokenGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code { .. } => "Code(..)",
            Self::Refresh { .. } => "Refresh(..)",
            Self::Exchange { .. } => "Exchange(..)",
            Self::Device { .. } => "Device(..)",
        })
    }
}

/// A request for tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The client.
    pub client: Client,
    /// What it shows.
    pub grant: TokenGrant,
    /// The request for a session certificate, PEM.
    pub csr: Option<String>,
}

impl TokenRequest {
    /// Reads a request: its media type, its body and its header `Authorization`.
    pub fn read(
        content_type: Option<&str>,
        body: &[u8],
        authorization: Option<&str>,
    ) -> Result<Self, OidcError> {
        let form = form(content_type, body)?;
        let params = Params::read("", form)?;
        let kind = params.required("grant_type", MAX_WORD)?;
        if !crate::issuer::GRANT_TYPES.contains(&kind) {
            return Err(OidcError::new(
                OidcErrorCode::UnsupportedGrantType,
                "there is no such grant_type",
            ));
        }
        let client = client(&params, authorization)?;
        let text = |name, most| params.required(name, most).map(str::to_owned);
        let scopes = params.one("scope", MAX_SCOPE)?.map(Scopes::parse);
        let grant = match kind {
            EXCHANGE => exchange_of(&params, scopes)?,
            DEVICE => TokenGrant::Device { code: text("device_code", SECRET_LENGTH)? },
            "refresh_token" => {
                TokenGrant::Refresh { token: text("refresh_token", MAX_TOKEN)?, scopes }
            }
            _ => TokenGrant::Code {
                code: text("code", SECRET_LENGTH)?,
                verifier: text("code_verifier", MAX_VERIFIER)?,
                redirect: text("redirect_uri", MAX_URI)?,
            },
        };
        Ok(Self { client, grant, csr: params.one("csr_pem", MAX_CSR)?.map(str::to_owned) })
    }
}

/// The body as the text of a form, if that is what it is.
pub(crate) fn form<'a>(content_type: Option<&str>, body: &'a [u8]) -> Result<&'a str, OidcError> {
    if !is_media_type(content_type, "application/x-www-form-urlencoded") {
        return Err(invalid("the body is not of the type application/x-www-form-urlencoded"));
    }
    if body.len() > MAX_BYTES {
        return Err(invalid("the request is too long"));
    }
    std::str::from_utf8(body).map_err(|_| invalid("the body is not UTF-8"))
}

/// True if a header `Content-Type` names a media type, with whatever parameters.
pub(crate) fn is_media_type(header: Option<&str>, wanted: &str) -> bool {
    let found = header.map(|header| header.split(';').next().unwrap_or_default().trim());
    found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
}

fn exchange_of(params: &Params<'_>, scopes: Option<Scopes>) -> Result<TokenGrant, OidcError> {
    for name in ["actor_token", "actor_token_type"] {
        if params.has(name) {
            return Err(invalid(format!("the parameter {name} is not supported")));
        }
    }
    let audiences = params.many("audience", 8, MAX_WORD)?;
    if audiences.iter().any(|audience| Client::find(audience).is_none()) {
        let text = "the audiences are openziti and native";
        return Err(OidcError::new(OidcErrorCode::InvalidTarget, text));
    }
    let subject_type = TokenType::read(params.required("subject_token_type", MAX_WORD)?)?;
    let requested = params.one("requested_token_type", MAX_WORD)?;
    Ok(TokenGrant::Exchange {
        subject: params.required("subject_token", MAX_TOKEN)?.to_owned(),
        subject_type,
        requested: requested.map(TokenType::read).transpose()?,
        scopes,
    })
}

/// The client of a request: by HTTP Basic, by `client_id`, or by both if they agree. Secrets are ignored, as public
/// clients have none; Go programs send an empty one.
pub fn client(params: &Params<'_>, authorization: Option<&str>) -> Result<Client, OidcError> {
    for name in ["client_assertion", "client_assertion_type"] {
        if params.has(name) {
            let text = "the clients are public: they authenticate by client_id only";
            return Err(OidcError::new(OidcErrorCode::InvalidClient, text));
        }
    }
    let basic = authorization.and_then(|header| {
        let (scheme, rest) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then_some(rest.trim())
    });
    let Some(basic) = basic else { return Client::of(params) };
    let found = basic_id(basic).and_then(|id| Client::find(&id)).ok_or_else(client::unknown)?;
    match params.one("client_id", client::MAX_CLIENT)? {
        Some(id) if id != found.id() => {
            Err(invalid("client_id is not the client of Authorization"))
        }
        _ => Ok(found),
    }
}

/// The id in the credentials of HTTP Basic, which are encoded as in a form (RFC 6749, 2.3.1). C SDKs write base64url.
fn basic_id(encoded: &str) -> Option<String> {
    if encoded.len() > MAX_BASIC {
        return None;
    }
    let encoded = encoded.trim_end_matches('=').replace('-', "+").replace('_', "/");
    let decoded = String::from_utf8(STANDARD_NO_PAD.decode(encoded).ok()?).ok()?;
    let (id, _) = decoded.split_once(':')?;
    let (id, _) = url::form_urlencoded::parse(id.as_bytes()).next()?;
    Some(id.into_owned())
}

/// What a token is exchanged for: an access token for an access token; a refresh token for a refresh token, an access
/// token and an ID token; other tokens for nothing. `kind` is the claim `z_t` of the token whose signature was verified.
pub fn exchanged(
    kind: TokenKind,
    said: TokenType,
    requested: Option<TokenType>,
) -> Result<TokenType, OidcError> {
    use TokenType::{Access, Id, Refresh};
    match (kind, said, requested) {
        (TokenKind::Access, Access, None | Some(Access)) => Ok(Access),
        (TokenKind::Access, Access, Some(_)) => {
            Err(invalid("an access token is exchanged for an access token only"))
        }
        (TokenKind::Refresh, Refresh, None) => Ok(Refresh),
        (TokenKind::Refresh, Refresh, Some(requested @ (Refresh | Access | Id))) => Ok(requested),
        (TokenKind::Access | TokenKind::Refresh, ..) => {
            Err(invalid("the subject_token is not of the subject_token_type"))
        }
        (TokenKind::Service | TokenKind::Totp, ..) => {
            Err(invalid("the subject_token is exchanged for nothing"))
        }
    }
}

/// The scopes of new tokens: those of the session, or fewer if the client named some.
pub fn narrowed(granted: Scopes, asked: Option<Scopes>) -> Result<Scopes, OidcError> {
    let asked = asked.unwrap_or(granted);
    match asked.is_within(granted) && (granted.is_empty() || !asked.is_empty()) {
        true => Ok(asked),
        false => {
            Err(OidcError::new(OidcErrorCode::InvalidScope, "the scope is not one of the login's"))
        }
    }
}

/// What a client proves of the keys that a token names in `z_cfs`, by the fingerprint of the certificate of its
/// connection (SHA-1, hexadecimal).
pub fn proof(named: &[String], shown: Option<&str>) -> Result<Proof, OidcError> {
    if named.is_empty() {
        return Ok(Proof::NoKey);
    }
    match shown.is_some_and(|shown| named.iter().any(|one| one.eq_ignore_ascii_case(shown))) {
        true => Ok(Proof::Shown),
        false => Err(OidcError::new(
            OidcErrorCode::AccessDenied,
            "peer certificate fingerprint does not match token",
        )),
    }
}

/// When a token of this life ends that is issued now: not after its session. None: the session has ended.
#[must_use]
pub fn end(now: Timestamp, life: std::time::Duration, session: Timestamp) -> Option<Timestamp> {
    (now < session).then(|| now.plus(life).min(session))
}

/// The answer with tokens. Its headers are [`NO_STORE`].
#[derive(Debug, Clone, Default, Serialize)]
pub struct TokenAnswer {
    /// The access token; in an exchange the token of the type that was asked for.
    pub access_token: String,
    /// What it is, in an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued_token_type: Option<&'static str>,
    /// `Bearer`; `N_A` if it is no access token.
    pub token_type: &'static str,
    /// The refresh token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Seconds until the access token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// The ID token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token: Option<String>,
    /// The scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The chain of the session certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_cert: Option<String>,
}

/// Headers of every answer of the token endpoint.
pub const NO_STORE: [(&str, &str); 2] = [("cache-control", "no-store"), ("pragma", "no-cache")];

impl TokenAnswer {
    /// An answer with an access token.
    #[must_use]
    pub fn bearer(access_token: String, seconds: u64, scopes: Scopes) -> Self {
        Self {
            access_token,
            token_type: "Bearer",
            expires_in: Some(seconds),
            scope: Some(scopes.to_string()),
            ..Self::default()
        }
    }

    /// The answer to an exchange for an ID token.
    #[must_use]
    pub fn of_id_token(id_token: String, seconds: u64, scopes: Scopes) -> Self {
        let answer = Self::bearer(id_token, seconds, scopes).exchanged_for(TokenType::Id);
        Self { token_type: "N_A", ..answer }
    }

    /// The answer to an exchange for a token of this type. An exchange for a refresh token gives an access token, too.
    #[must_use]
    pub fn exchanged_for(self, kind: TokenType) -> Self {
        Self { issued_token_type: Some(kind.urn()), ..self }
    }

    /// The body, JSON.
    #[must_use]
    pub fn body(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FORM: Option<&str> = Some("application/x-www-form-urlencoded; charset=utf-8");

    fn read(form: &str, authorization: Option<&str>) -> Result<TokenRequest, OidcError> {
        TokenRequest::read(FORM, form.as_bytes(), authorization)
    }

    fn refused(form: &str) -> &'static str {
        read(form, None).unwrap_err().code.word()
    }

    #[test]
    fn each_grant_is_read() {
        let code = read(
            "grant_type=authorization_code&client_id=openziti&code=c&code_verifier=v&redirect_uri=app:/cb",
            None,
        );
        let (code_text, verifier, redirect) = ("c".into(), "v".into(), "app:/cb".into());
        let grant = TokenGrant::Code { code: code_text, verifier, redirect };
        assert_eq!(code, Ok(TokenRequest { client: Client::OpenZiti, grant, csr: None }));
        let refresh =
            "grant_type=refresh_token&client_id=openziti&refresh_token=t&scope=openid&csr_pem=p";
        let grant =
            TokenGrant::Refresh { token: "t".into(), scopes: Some(Scopes::parse("openid")) };
        let csr = Some("p".to_owned());
        assert_eq!(read(refresh, None), Ok(TokenRequest { client: Client::OpenZiti, grant, csr }));
        let device = format!("grant_type={DEVICE}&client_id=native&device_code=d");
        let grant = TokenGrant::Device { code: "d".into() };
        assert_eq!(
            read(&device, None),
            Ok(TokenRequest { client: Client::Native, grant, csr: None })
        );
    }

    #[test]
    fn the_go_sdk_exchanges_with_an_empty_password() {
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=t\
            &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Arefresh_token\
            &requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token&actor_token=&actor_token_type=\
            &audience=&resource=&scope=openid+offline_access";
        let request = read(form, Some("Basic bmF0aXZlOg==")).unwrap();
        assert_eq!(request.client, Client::Native);
        let wanted = TokenGrant::Exchange {
            subject: "t".into(),
            subject_type: TokenType::Refresh,
            requested: Some(TokenType::Id),
            scopes: Some(Scopes::parse("openid offline_access")),
        };
        assert_eq!(request.grant, wanted);
        assert_eq!(format!("{:?}", request.grant), "Exchange(..)");
    }

    #[test]
    fn clients_come_by_basic_or_by_id() {
        let form = "grant_type=refresh_token&refresh_token=t";
        let by = |id: &str, basic: &str| {
            let header = format!("Basic {}", STANDARD_NO_PAD.encode(basic));
            read(&format!("{form}{id}"), Some(&header)).map(|request| request.client)
        };
        assert_eq!(by("", "openziti:"), Ok(Client::OpenZiti));
        assert_eq!(by("", "openziti:ignored"), Ok(Client::OpenZiti));
        assert_eq!(by("&client_id=native", "native:"), Ok(Client::Native));
        assert_eq!(
            by("&client_id=openziti", "native:").unwrap_err().code,
            OidcErrorCode::InvalidRequest
        );
        for basic in ["other:", ":", "native", ""] {
            assert_eq!(
                by("&client_id=native", basic).unwrap_err().code,
                OidcErrorCode::InvalidClient,
                "{basic}"
            );
        }
        let padded = read(&format!("{form}&client_id=openziti"), Some("Basic b3BlbnppdGk6"));
        assert_eq!(padded.unwrap().client, Client::OpenZiti);
        let bearer = read(&format!("{form}&client_id=native&client_secret=x"), Some("Bearer t"));
        assert_eq!(bearer.unwrap().client, Client::Native);
        assert_eq!(read(form, Some("Basic %%")).unwrap_err().code, OidcErrorCode::InvalidClient);
    }

    #[test]
    fn bad_requests_are_told() {
        let code = "grant_type=authorization_code&client_id=openziti&code=c&code_verifier=v&redirect_uri=app:/cb";
        let exchange = format!(
            "grant_type={EXCHANGE}&client_id=native&subject_token=t&subject_token_type={}",
            TokenType::Access.urn()
        );
        for (form, word) in [
            (code.replace("grant_type=", "x="), "invalid_request"),
            (code.replace("authorization_code", "implicit"), "unsupported_grant_type"),
            (code.replace("authorization_code", "client_credentials"), "unsupported_grant_type"),
            (code.replace("authorization_code", "password"), "unsupported_grant_type"),
            (
                code.replace("authorization_code", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                "unsupported_grant_type",
            ),
            (code.replace("client_id=openziti", "x=1"), "invalid_request"),
            (code.replace("=openziti", "=x"), "invalid_client"),
            (code.replace("code_verifier=v", ""), "invalid_request"),
            (code.replace("redirect_uri", "x"), "invalid_request"),
            (code.replace("code=c", "code="), "invalid_request"),
            (format!("{code}&code=c"), "invalid_request"),
            (format!("{code}&client_assertion=x"), "invalid_client"),
            (format!("{code}&csr_pem={}", "x".repeat(MAX_CSR + 1)), "invalid_request"),
            (format!("{exchange}&audience=other"), "invalid_target"),
            (format!("{exchange}&actor_token=x"), "invalid_request"),
            (format!("{exchange}&requested_token_type=jwt"), "invalid_request"),
            (exchange.replace("access_token", "jwt"), "invalid_request"),
        ] {
            assert_eq!(refused(&form), word, "{form}");
        }
        assert!(read(&format!("{exchange}&audience=openziti&audience=native"), None).is_ok());
        for kind in [None, Some("application/json"), Some("")] {
            assert!(TokenRequest::read(kind, code.as_bytes(), None).is_err());
        }
        assert!(TokenRequest::read(FORM, &[0xff], None).is_err());
    }

    #[test]
    fn what_is_exchanged_for_what() {
        use TokenType::{Access, Id, Refresh};
        let requests = [None, Some(Access), Some(Refresh), Some(Id)];
        let kinds = [TokenKind::Access, TokenKind::Refresh, TokenKind::Service, TokenKind::Totp];
        let mut allowed = Vec::new();
        for kind in kinds {
            for said in [Access, Refresh, Id] {
                for requested in requests {
                    if let Ok(given) = exchanged(kind, said, requested) {
                        allowed.push((kind, said, requested, given));
                    }
                }
            }
        }
        let wanted = [
            (TokenKind::Access, Access, None, Access),
            (TokenKind::Access, Access, Some(Access), Access),
            (TokenKind::Refresh, Refresh, None, Refresh),
            (TokenKind::Refresh, Refresh, Some(Access), Access),
            (TokenKind::Refresh, Refresh, Some(Refresh), Refresh),
            (TokenKind::Refresh, Refresh, Some(Id), Id),
        ];
        assert_eq!(allowed, wanted);
    }

    #[test]
    fn scopes_keys_and_times_are_never_more_than_before() {
        let [both, openid, none] = ["openid offline_access", "openid", ""].map(Scopes::parse);
        assert_eq!(narrowed(both, None), Ok(both));
        assert_eq!(narrowed(both, Some(openid)), Ok(openid));
        assert!(narrowed(openid, Some(both)).is_err() && narrowed(both, Some(none)).is_err());
        let named = ["ab12".to_owned(), "cd34".to_owned()];
        assert_eq!(proof(&[], Some("ab12")), Ok(Proof::NoKey));
        assert_eq!(proof(&named, Some("CD34")), Ok(Proof::Shown));
        for shown in [None, Some(""), Some("ab")] {
            assert_eq!(proof(&named, shown).unwrap_err().code, OidcErrorCode::AccessDenied);
        }
        let (now, hour) = (Timestamp::from_secs(100), Duration::from_secs(3600));
        assert_eq!(end(now, hour, Timestamp::from_secs(200)), Some(Timestamp::from_secs(200)));
        assert_eq!(end(now, hour, Timestamp::from_secs(9999)), Some(Timestamp::from_secs(3700)));
        assert_eq!(end(now, hour, now), None);
    }

    #[test]
    fn answers_are_exact() {
        let scopes = Scopes::parse("openid");
        let answer = TokenAnswer::bearer("a".into(), 1800, scopes);
        let more = TokenAnswer {
            refresh_token: Some("r".into()),
            id_token: Some("i".into()),
            ..answer.clone()
        };
        assert_eq!(
            more.body(),
            r#"{"access_token":"a","token_type":"Bearer","refresh_token":"r","expires_in":1800,"id_token":"i","scope":"openid"}"#
        );
        assert_eq!(
            TokenAnswer::of_id_token("i".into(), 60, scopes).body(),
            r#"{"access_token":"i","issued_token_type":"urn:ietf:params:oauth:token-type:id_token","token_type":"N_A","expires_in":60,"scope":"openid"}"#
        );
    }
}
