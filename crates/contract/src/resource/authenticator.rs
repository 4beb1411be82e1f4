//! Authenticators: what identities log in with
//! (docs/protocol/auth.md 7, 12; docs/protocol/management-api.md 7.7).

use crate::body::{Body, FieldType, body};
use crate::entity::{EntityRef, detail};
use crate::json::{Password, Tags, Username};
use crate::kind::{Column, Kind};
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

body! {
    /// What can be said of an authenticator.
    pub struct AuthenticatorBody {
        /// The certificate, PEM; for the method `cert`, when it is made.
        Optional "certPem" cert_pem: String,
        /// Whose it is; when it is made.
        Create "identityId" identity_id: String => "identities",
        /// `updb` or `cert`; when it is made.
        Create "method" method: String as FieldType::Choice(method::ALL),
        /// The password; for the method `updb`.
        Replace "password" password: Password,
        /// Labels.
        Optional "tags" tags: Tags,
        /// The login name; for the method `updb`.
        Replace "username" username: Username,
    }
}

body! {
    /// What a caller can say of an authenticator of his own.
    pub struct OwnAuthenticatorBody {
        /// The password as it is.
        Always "currentPassword" current_password: Password,
        /// The password as it shall be.
        Replace "password" password: Password,
        /// Labels.
        Optional "tags" tags: Tags,
        /// The login name as it shall be.
        Replace "username" username: Username,
    }
}

body! {
    /// Turns an authenticator back into an enrollment.
    pub struct ReEnrollBody {
        /// When the enrollment ends.
        Create "expiresAt" expires_at: Timestamp,
    }
}

body! {
    /// Asks the owner to have the certificate extended at the next login.
    pub struct RequestExtendBody {
        /// With a new key.
        Optional "rollKeys" roll_keys: bool,
    }
}

body! {
    /// Asks for a new certificate in place of the current one.
    pub struct ExtendBody {
        /// A certificate signing request, PEM.
        Create "clientCertCsr" client_cert_csr: String,
    }
}

body! {
    /// Says that the new certificate has arrived.
    pub struct ExtendVerifyBody {
        /// The new certificate, PEM.
        Create "clientCert" client_cert: String,
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

detail! {
    /// An authenticator. What does not fit its method is left out.
    pub struct AuthenticatorDetail with Base {
        /// The certificate and its chain, PEM.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub cert_pem: String,
        /// When an extension was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub extend_requested_at: Option<Timestamp>,
        /// SHA-1 of the certificate, hex.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub fingerprint: String,
        /// Whose it is.
        pub identity: EntityRef,
        /// Its id.
        pub identity_id: String,
        /// An extension was asked for.
        pub is_extend_requested: bool,
        /// The network issued the certificate.
        pub is_issued_by_network: bool,
        /// With a new key.
        pub is_key_roll_requested: bool,
        /// The chain at the last login led to a root.
        pub last_auth_resolved_to_root: bool,
        /// The last extension had a new key.
        pub last_extend_rolled_keys: bool,
        /// `updb` or `cert`.
        pub method: String,
        /// The login name.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub username: String,
    }
}
