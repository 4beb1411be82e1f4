//! API sessions: logging in, the current session and its certificates
//! (docs/protocol/auth.md 9, 12.3, 17.3).

use crate::body::body;
use crate::collection;
use crate::entity::{EntityRef, Links, detail};
use crate::json::{Password, Username};
use crate::kind::{Column, Kind};
use crate::operation::{
    Access, CREATE_STATUSES, Load, Method, Operation, Request, Response, create, delete,
    detail as get, list,
};
use crate::paths::Api;
use crate::resource::client::{EnvInfo, SdkInfo};
use crate::timestamp::Timestamp;

/// Ways to log in: the values of the query parameter `method`.
pub mod method {
    /// By name and password.
    pub const PASSWORD: &str = "password";
    /// By the certificate of the TLS connection.
    pub const CERT: &str = "cert";
    /// By a JWT of an external signer.
    pub const EXT_JWT: &str = "ext-jwt";
}

/// Collection of API sessions, in links and references.
pub const COLLECTION: &str = "api-sessions";

/// Operations that both APIs serve.
pub const SHARED: &[Operation] = &[
    Operation {
        id: "authenticate",
        method: Method::Post,
        path: "/authenticate",
        access: Access::Public,
        query: &["method"],
        paged: false,
        request: Request::OptionalJson(<AuthenticateBody as crate::body::Body>::FIELDS),
        response: Response::Detail("currentApiSessionDetail"),
        statuses: &[200, 400, 401, 429],
        load: Load::Usual,
    },
    get("getCurrentAPISession", "/current-api-session", Access::Partial, "currentApiSessionDetail")
        .statuses(&[200, 401]),
    delete("deleteCurrentAPISession", "/current-api-session", Access::Partial)
        .statuses(&[200, 401]),
];

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::API_SESSIONS.list("listAPISessions"),
    collection::API_SESSIONS.get("detailAPISessions"),
    collection::API_SESSIONS.delete("deleteAPISessions").statuses(&[200, 401, 403, 404, 429, 503]),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "api-session",
    plural: COLLECTION,
    aliases: &["logins"],
    about: "a login that is in use",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: &[],
    links: &["sessions"],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "IDENTITY", pointer: "/identity/name" },
        Column { title: "ADDRESS", pointer: "/ipAddress" },
        Column { title: "FACTORS", pointer: "/login/factors" },
        Column { title: "SINCE", pointer: "/createdAt" },
        Column { title: "ACTIVE", pointer: "/lastActivityAt" },
        Column { title: "ENDS", pointer: "/login/endsAt" },
        Column { title: "ROUTERS", pointer: "/login/edgeRouters" },
    ],
    ..Kind::PLAIN
};

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[
    list(
        "listCurrentApiSessionCertificates",
        "/current-api-session/certificates",
        Access::Authenticated,
        "currentApiSessionCertificateDetail",
    ),
    create::<SessionCertificateBody>(
        "createCurrentApiSessionCertificate",
        "/current-api-session/certificates",
        Access::Authenticated,
    )
    .answers(Response::Detail("currentApiSessionCertificateCreateResponse"))
    .statuses(CREATE_STATUSES),
    get(
        "detailCurrentApiSessionCertificate",
        "/current-api-session/certificates/{id}",
        Access::Authenticated,
        "currentApiSessionCertificateDetail",
    ),
    delete(
        "deleteCurrentApiSessionCertificate",
        "/current-api-session/certificates/{id}",
        Access::Authenticated,
    )
    .statuses(&[200, 400, 401, 429, 503]),
    get(
        "listServiceUpdates",
        "/current-api-session/service-updates",
        Access::Authenticated,
        "currentApiSessionServiceUpdateList",
    )
    .statuses(&[200, 401, 429, 503]),
];

body! {
    /// The client and its machine, as a login describes them.
    pub struct AuthenticateBody {
        /// The config types, by id or name, whose configs the client wants with its services; `all`
        /// for every type.
        Optional config_types: Vec<String>,
        /// The public key that proves this client to the ends of its connections, for the life of the session: the
        /// uncompressed point of P-256 (65 bytes) in base64. Of weft.
        Optional end_key: String,
        /// The machine of the client.
        Optional env_info: EnvInfo,
        /// The password, for the method `password`.
        Optional password: Password,
        /// The program of the client.
        Optional sdk_info: SdkInfo,
        /// The username, for the method `password`.
        Optional username: Username,
    }
}

detail! {
    /// An API session: a login that has not ended.
    pub struct ApiSessionDetail with Base {
        /// The factors that the session still lacks.
        pub auth_queries: Vec<AuthQuery>,
        /// The id of the authenticator that the client logged in with.
        pub authenticator_id: String,
        /// The time of the last activity, which the database may not have yet.
        pub cached_last_activity_at: Timestamp,
        /// The ids of the config types whose configs the client asked for.
        pub config_types: Vec<String>,
        /// The identity that logged in.
        pub identity: EntityRef,
        /// The id of the identity that logged in.
        pub identity_id: String,
        /// Whether the client sent its certificate without an intermediate that the chain needs.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub improper_client_cert_chain: bool,
        /// The IP address that the login came from.
        pub ip_address: String,
        /// Whether an administrator has asked for a new certificate of the client.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub is_cert_extend_requested: bool,
        /// Whether the client can get a new certificate from the network.
        pub is_cert_extendable: bool,
        /// Whether the new certificate shall have a new key.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub is_cert_key_roll_requested: bool,
        /// Whether the client has given a right TOTP code.
        pub is_mfa_complete: bool,
        /// Whether the identity has a TOTP factor.
        pub is_mfa_required: bool,
        /// The time of the last activity.
        pub last_activity_at: Timestamp,
        /// The token with which the client sends its requests.
        pub token: String,
        /// The time until the session ends without activity, in seconds. Only the caller's own
        /// session has the member.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expiration_seconds: Option<i64>,
        /// The time at which the session ends without activity. Only the caller's own session has
        /// the member.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expires_at: Option<Timestamp>,
        /// How the client logged in, and what it is connected to. Only sessions that are read with the
        /// management API have the member. Of weft.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub login: Option<LoginDetail>,
    }
}

detail! {
    /// How the client of a session logged in, and what it is connected to. Of weft.
    pub struct LoginDetail {
        /// The program and its release, as the client describes them; empty for a caller that may not read identities.
        pub application: String,
        /// The routers that the identity of the session is connected to, in this or another session; none for a
        /// caller that may not read routers.
        pub edge_routers: Vec<EntityRef>,
        /// The time at which the session ends unless the client uses or refreshes it.
        pub ends_at: Timestamp,
        /// The factors that were given: `password`, `cert`, `ext-jwt`, `totp`, or `token of` and the name of a signer: its id, if
        /// the signer is gone or the caller may not read signers.
        pub factors: Vec<String>,
        /// Whether the client named the key that proves it to the ends of its connections.
        pub has_end_key: bool,
        /// Whether the session has signed tokens, by OpenID Connect; otherwise it has an opaque one.
        pub has_signed_tokens: bool,
        /// The time at which the session ends even if the client uses it; null if it has no such end.
        pub last_end: Option<Timestamp>,
        /// The SDK and its release, as the client describes them; empty for a caller that may not read identities.
        pub sdk: String,
    }
}

detail! {
    /// A factor that a session still lacks.
    // docs/protocol/auth.md 9.5
    pub struct AuthQuery {
        /// The client id with which the client logs in at the external provider.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub client_id: String,
        /// The characters of the answer: `numeric`, `alpha` or `alphaNumeric`.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub format: String,
        /// The HTTP method of the answer.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub http_method: String,
        /// The URL for the answer, or for the login at the external provider.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub http_url: String,
        /// The id of the external signer.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub id: String,
        /// Whether the identity has a verified TOTP factor.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub is_totp_enrolled: Option<bool>,
        /// The largest number of characters of the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_length: Option<i64>,
        /// The least number of characters of the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub min_length: Option<i64>,
        /// The place that takes the answer: `ziti` for the controller, `url` for an external
        /// provider.
        pub provider: String,
        /// The scopes that the client asks the external provider for.
        pub scopes: Option<Vec<String>>,
        /// The kind of the factor: `MFA`, `TOTP` or `EXT-JWT`.
        pub type_id: String,
    }
}

body! {
    /// Asks for a certificate with which the client of the current session connects to routers.
    pub struct SessionCertificateBody {
        /// The certificate signing request, as PEM.
        Create csr: String,
    }
}

detail! {
    /// A new certificate of the current session.
    pub struct SessionCertificateCreated {
        /// The link `self` to the certificate.
        #[serde(rename = "_links")]
        pub links: Links,
        /// The id of the certificate.
        pub id: String,
        /// The certificate and its chain, as PEM.
        pub certificate: String,
        /// The CA bundle of the network, as PEM.
        pub cas: String,
    }
}

detail! {
    /// A certificate of the current session.
    pub struct SessionCertificateDetail with Base {
        /// The certificate and its chain, as PEM.
        pub certificate: String,
        /// The SHA-1 of the certificate, in hex.
        pub fingerprint: String,
        /// The subject of the certificate.
        pub subject: String,
        /// The time at which the validity of the certificate begins.
        pub valid_from: Timestamp,
        /// The time at which the validity of the certificate ends.
        pub valid_to: Timestamp,
    }
}

detail! {
    /// The time at which the services of the caller last changed. A client reads its services again
    /// when the time is another one.
    pub struct ServiceUpdates {
        /// The time of the last change.
        pub last_change_at: Timestamp,
    }
}
