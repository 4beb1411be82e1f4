//! API sessions: logging in, the current session and its certificates
//! (docs/protocol/auth.md 9, 12.3, 17.3).

use crate::body::body;
use crate::entity::{EntityRef, Links, detail};
use crate::json::{Password, Username};
use crate::kind::{Column, Kind};
use crate::operation::{
    Access, CREATE_STATUSES, Load, Method, Operation, Request, Response, create, delete,
    detail as get, list,
};
use crate::permission::{Action, Subject};
use crate::resource::identity::{EnvInfo, SdkInfo};
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
    list(
        "listAPISessions",
        "/api-sessions",
        Access::Permission(Subject::Ops, Action::Read),
        "apiSessionDetail",
    ),
    get(
        "detailAPISessions",
        "/api-sessions/{id}",
        Access::Permission(Subject::Ops, Action::Read),
        "apiSessionDetail",
    ),
    delete(
        "deleteAPISessions",
        "/api-sessions/{id}",
        Access::Permission(Subject::Ops, Action::Delete),
    )
    .statuses(&[200, 401, 403, 404, 429, 503]),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "api-session",
    plural: COLLECTION,
    aliases: &["logins"],
    about: "a login that is in use",
    operations: MANAGEMENT,
    fields: &[],
    links: &["sessions"],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "IDENTITY", pointer: "/identity/name" },
        Column { title: "ADDRESS", pointer: "/ipAddress" },
        Column { title: "SINCE", pointer: "/createdAt" },
        Column { title: "ACTIVE", pointer: "/lastActivityAt" },
    ],
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
    /// The description of a client at its login.
    pub struct AuthenticateBody {
        /// Config types, by id or name, whose configs the client wants with its services; or `all`.
        Optional config_types: Vec<String>,
        /// About the machine.
        Optional env_info: EnvInfo,
        /// The password, for the method `password`.
        Optional password: Password,
        /// About the program.
        Optional sdk_info: SdkInfo,
        /// The login name, for the method `password`.
        Optional username: Username,
    }
}

detail! {
    /// An API session: the answer to a login, and the current session.
    pub struct ApiSessionDetail with Base {
        /// The factors that the client still lacks.
        pub auth_queries: Vec<AuthQuery>,
        /// The authenticator that was used.
        pub authenticator_id: String,
        /// Last activity that is not stored yet.
        pub cached_last_activity_at: Timestamp,
        /// Ids of the config types asked for.
        pub config_types: Vec<String>,
        /// The identity of the session.
        pub identity: EntityRef,
        /// Its id.
        pub identity_id: String,
        /// The chain of the client certificate lacked an intermediate.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub improper_client_cert_chain: bool,
        /// Where the login came from, without port.
        pub ip_address: String,
        /// An administrator asked that the certificate be extended.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub is_cert_extend_requested: bool,
        /// The certificate was issued by the network and can be extended.
        pub is_cert_extendable: bool,
        /// With a new key.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub is_cert_key_roll_requested: bool,
        /// The TOTP factor is passed.
        pub is_mfa_complete: bool,
        /// The identity has a TOTP factor.
        pub is_mfa_required: bool,
        /// Last activity.
        pub last_activity_at: Timestamp,
        /// The token that the client sends from now on.
        pub token: String,
        /// Seconds until the session ends; on the caller's own session.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expiration_seconds: Option<i64>,
        /// When the session ends; on the caller's own session.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expires_at: Option<Timestamp>,
    }
}

detail! {
    /// A factor that the client still lacks.
    // docs/protocol/auth.md 9.5
    pub struct AuthQuery {
        /// Client id at the external provider.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub client_id: String,
        /// `numeric`, `alpha` or `alphaNumeric`.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub format: String,
        /// Method to answer with.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub http_method: String,
        /// Where to answer, or to log in.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub http_url: String,
        /// Id of the external signer.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub id: String,
        /// A verified TOTP enrollment exists.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub is_totp_enrolled: Option<bool>,
        /// Most characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_length: Option<i64>,
        /// Least characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub min_length: Option<i64>,
        /// `ziti` or `url`.
        pub provider: String,
        /// Scopes to ask the external provider for.
        pub scopes: Option<Vec<String>>,
        /// `MFA`, `TOTP` or `EXT-JWT`.
        pub type_id: String,
    }
}

body! {
    /// Asks for a certificate that proves the current session to routers.
    pub struct SessionCertificateBody {
        /// A certificate signing request, PEM.
        Create csr: String,
    }
}

detail! {
    /// The answer to a request for a session certificate.
    pub struct SessionCertificateCreated {
        /// `self`.
        #[serde(rename = "_links")]
        pub links: Links,
        /// Its id.
        pub id: String,
        /// The certificate and its chain, PEM.
        pub certificate: String,
        /// The CA bundle, PEM.
        pub cas: String,
    }
}

detail! {
    /// A certificate of the current session.
    pub struct SessionCertificateDetail with Base {
        /// The certificate and its chain, PEM.
        pub certificate: String,
        /// SHA-1 of the certificate, hex.
        pub fingerprint: String,
        /// Its subject.
        pub subject: String,
        /// Valid from.
        pub valid_from: Timestamp,
        /// Valid to.
        pub valid_to: Timestamp,
    }
}

detail! {
    /// When the services of the caller last changed; clients read them anew when it moves.
    pub struct ServiceUpdates {
        /// The time.
        pub last_change_at: Timestamp,
    }
}
