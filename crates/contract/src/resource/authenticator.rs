//! Authenticators, with which identities log in (docs/protocol/auth.md 7, 12;
//! docs/protocol/management-api.md 7.7).

use crate::body::{Body, FieldType, body};
use crate::entity::{EntityRef, detail};
use crate::json::{Password, Tags, Username};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, Operation, Response, action, create, delete, detail as get, list, patch, replace,
};
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "authenticators";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listAuthenticators", "/authenticators", Access::AdminOrReadOnly, "authenticatorDetail"),
    create::<AuthenticatorBody>("createAuthenticator", "/authenticators", Access::Admin),
    get(
        "detailAuthenticator",
        "/authenticators/{id}",
        Access::AdminOrReadOnly,
        "authenticatorDetail",
    ),
    replace::<AuthenticatorBody>("updateAuthenticator", "/authenticators/{id}", Access::Admin),
    patch::<AuthenticatorBody>("patchAuthenticator", "/authenticators/{id}", Access::Admin),
    delete("deleteAuthenticator", "/authenticators/{id}", Access::Admin),
    action("reEnrollAuthenticator", "/authenticators/{id}/re-enroll", Access::Admin)
        .takes::<ReEnrollBody>()
        .answers(Response::Created)
        .statuses(&[201, 401, 404, 429, 503]),
    action("requestExtendAuthenticator", "/authenticators/{id}/request-extend", Access::Admin)
        .takes::<RequestExtendBody>()
        .statuses(&[200, 401, 403, 404, 429, 503]),
];

const OWN: &str = "/current-identity/authenticators";
const ONE: &str = "/current-identity/authenticators/{id}";
const AUTH: Access = Access::Authenticated;

/// The caller's own authenticators, in both APIs.
pub const CURRENT: &[Operation] = &[
    list("listCurrentIdentityAuthenticators", OWN, AUTH, "authenticatorDetail")
        .statuses(&[200, 400, 401]),
    get("detailCurrentIdentityAuthenticator", ONE, AUTH, "authenticatorDetail")
        .statuses(&[200, 401, 404]),
    replace::<OwnAuthenticatorBody>("updateCurrentIdentityAuthenticator", ONE, AUTH)
        .statuses(&[200, 400, 401, 404]),
    patch::<OwnAuthenticatorBody>("patchCurrentIdentityAuthenticator", ONE, AUTH)
        .statuses(&[200, 400, 401, 404]),
    action(
        "extendCurrentIdentityAuthenticator",
        "/current-identity/authenticators/{id}/extend",
        AUTH,
    )
    .takes::<ExtendBody>()
    .answers(Response::Detail("identityExtendCerts"))
    .statuses(&[200, 401]),
    action(
        "extendVerifyCurrentIdentityAuthenticator",
        "/current-identity/authenticators/{id}/extend-verify",
        AUTH,
    )
    .takes::<ExtendVerifyBody>()
    .statuses(&[200, 401]),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "authenticator",
    plural: COLLECTION,
    aliases: &["auth", "auths"],
    about: "a certificate or password that an identity logs in with",
    operations: MANAGEMENT,
    fields: AuthenticatorBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "METHOD", pointer: "/method" },
        Column { title: "IDENTITY", pointer: "/identity/name" },
        Column { title: "USERNAME", pointer: "/username" },
        Column { title: "FINGERPRINT", pointer: "/fingerprint" },
    ],
};

/// Values of `method`.
pub mod method {
    /// Name and password.
    pub const UPDB: &str = "updb";
    /// Certificate.
    pub const CERT: &str = "cert";

    /// Both.
    pub const ALL: &[&str] = &[UPDB, CERT];
}

members! {
    /// The members of an authenticator that callers set.
    body AuthenticatorBody;
    /// An authenticator. Members of other methods are left out.
    detail AuthenticatorDetail with Base;

    /// The certificate, PEM; for the method `cert`, when it is made.
    Optional cert_pem: String;
    /// The certificate and its chain, PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown cert_pem: String;
    /// When an extension was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown extend_requested_at: Option<Timestamp>;
    /// SHA-1 of the certificate, hex.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown fingerprint: String;
    /// The identity that it belongs to.
    Shown identity: EntityRef;
    /// The identity that it belongs to; set when it is created.
    Create identity_id: String => "identities", shown "Its id.";
    /// An extension was asked for.
    Shown is_extend_requested: bool;
    /// The network issued the certificate.
    Shown is_issued_by_network: bool;
    /// With a new key.
    Shown is_key_roll_requested: bool;
    /// The chain at the last login led to a root.
    Shown last_auth_resolved_to_root: bool;
    /// The last extension had a new key.
    Shown last_extend_rolled_keys: bool;
    /// `updb` or `cert`; when it is made.
    Create method: String as FieldType::Choice(method::ALL), shown "`updb` or `cert`.";
    /// The password; for the method `updb`.
    Replace password: Password;
    /// Labels.
    Optional tags: Tags;
    /// The login name; for the method `updb`.
    Replace username: Username;
    /// The login name.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown username: String;
}

body! {
    /// The members of an own authenticator that its identity sets.
    pub struct OwnAuthenticatorBody {
        /// The password as it is.
        Always current_password: Password,
        /// The password as it shall be.
        Replace password: Password,
        /// Labels.
        Optional tags: Tags,
        /// The login name as it shall be.
        Replace username: Username,
    }
}

body! {
    /// Turns an authenticator back into an enrollment.
    pub struct ReEnrollBody {
        /// When the enrollment ends.
        Create expires_at: Timestamp,
    }
}

body! {
    /// Asks the owner to have the certificate extended at the next login.
    pub struct RequestExtendBody {
        /// With a new key.
        Optional roll_keys: bool,
    }
}

body! {
    /// Asks for a new certificate in place of the current one.
    pub struct ExtendBody {
        /// A certificate signing request, PEM.
        Create client_cert_csr: String,
    }
}

body! {
    /// Says that the new certificate has arrived.
    pub struct ExtendVerifyBody {
        /// The new certificate, PEM.
        Create client_cert: String,
    }
}

detail! {
    /// A new certificate.
    pub struct ExtendedCerts {
        /// The CA bundle, PEM.
        pub ca: String,
        /// The certificate and its chain, PEM.
        pub client_cert: String,
    }
}
