//! Names of HTTP headers and media types. No API uses cookies (docs/protocol/auth.md 1.2).

/// Request: token of a legacy session. Also in the answer to a successful login.
pub const SESSION: &str = "zt-session";
/// Request: `Bearer <jwt>`; may appear several times.
pub const AUTHORIZATION: &str = "authorization";
/// The most bearer values of one request that are read; further ones are ignored.
pub const MAX_BEARERS: usize = 3;
/// Request: a TOTP or recovery code, for removing MFA and reading recovery codes.
pub const MFA_CODE: &str = "mfa-validation-code";
/// Request: a service session token, on the list of a service's edge routers.
pub const SESSION_TOKEN: &str = "session-token";
/// Request: id of the signer that issued the token of a token enrollment.
pub const TOKEN_ISSUER: &str = "ziti-token-issuer-id";
/// Answer: a random id of the controller's process; clients read `/version` again when the id changes.
pub const INSTANCE: &str = "ziti-instance-id";
/// Answer: seconds until the session ends.
pub const EXPIRATION_SECONDS: &str = "expiration-seconds";
/// Answer: the time at which the session ends.
pub const EXPIRES_AT: &str = "expires-at";
/// Answer to a certificate login: an administrator asked that the certificate be extended.
pub const EXTEND_REQUESTED: &str = "ziti-authenticator-extend-requested";
/// Answer, 401: the credentials that are missing.
pub const WWW_AUTHENTICATE: &str = "www-authenticate";
/// Answer, 429 and 503: seconds after which the client may try again.
pub const RETRY_AFTER: &str = "retry-after";
/// Successful answer to a caller who has logged in: the revision of the model on which the answer is based, or a later one.
/// Request of such a caller: the least revision for the answer, as another controller has told it.
pub const REVISION: &str = "weft-revision";
/// Successful answer to a caller who has logged in, of a controller that does not hear at present what others change: `true`.
pub const CUT_OFF: &str = "weft-cut-off";
/// Answer to a list with the query parameter [`EXPLAIN`] set to `true`: the steps by which the list
/// was found.
pub const EXPLAINED: &str = "weft-explain";
/// The query parameter that asks for [`EXPLAINED`].
pub const EXPLAIN: &str = "explain";

/// Media type of nearly everything; exactly this, without a charset (docs/protocol/auth.md 1.2).
pub const JSON: &str = "application/json";
/// Media type of the CA certificates.
pub const PKCS7: &str = "application/pkcs7-mime";
/// Media type of a PEM request to enroll.
pub const PEM: &str = "application/x-pem-file";
/// Media type of plain text; another one for PEM requests to enroll.
pub const TEXT: &str = "text/plain";
/// Media type of an API description that was asked for in YAML.
pub const YAML: &str = "text/yaml";
/// Media type of an enrollment JWT of a CA.
pub const JWT: &str = "application/jwt";

/// Media type of a body without a stated media type (RFC 9110 8.3).
pub const BYTES: &str = "application/octet-stream";

/// Media type of a QR code.
pub const PNG: &str = "image/png";

/// Media types under which `POST /enroll` takes a bare PEM request (docs/protocol/auth.md 5.2).
pub const RAW_ENROLL_TYPES: &[&str] = &["application/pkcs7", PEM, TEXT];

/// Media types of all bodies that an enrollment accepts.
pub const ENROLL_TYPES: &[&str] = &[JSON, "application/pkcs7", PEM, TEXT];

/// Request bodies above this many bytes are answered 413 (docs/protocol/management-api.md 1).
pub const MAX_BODY: usize = 1_048_576;

/// The token in a value of [`AUTHORIZATION`].
#[must_use]
pub fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
