//! Authenticators, with which identities log in (docs/protocol/auth.md 7, 12;
//! docs/protocol/management-api.md 7.7).

use crate::body::{Body, FieldType, body};
use crate::collection;
use crate::entity::{EntityRef, detail};
use crate::json::{Password, Tags, Username};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, Response, action, detail as get, list, patch, replace};
use crate::paths::Api;
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "authenticators";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::AUTHENTICATORS.list("listAuthenticators"),
    collection::AUTHENTICATORS.create::<AuthenticatorBody>("createAuthenticator"),
    collection::AUTHENTICATORS.get("detailAuthenticator"),
    collection::AUTHENTICATORS.replace::<AuthenticatorBody>("updateAuthenticator"),
    collection::AUTHENTICATORS.patch::<AuthenticatorBody>("patchAuthenticator"),
    collection::AUTHENTICATORS.delete("deleteAuthenticator"),
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

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "authenticator",
    plural: COLLECTION,
    aliases: &["auth", "auths"],
    about: "a certificate or password that an identity logs in with",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: AuthenticatorBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "METHOD", pointer: "/method" },
        Column { title: "IDENTITY", pointer: "/identity/name" },
        Column { title: "USERNAME", pointer: "/username" },
        Column { title: "LOCKED", pointer: "/isLocked" },
        Column { title: "FINGERPRINT", pointer: "/fingerprint" },
    ],
    ..Kind::PLAIN
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
    /// An authenticator: the credential of an identity. Members of other methods are left out.
    detail AuthenticatorDetail with Base;

    /// The certificate, as PEM, for the method `cert`. Set when the authenticator is created.
    Optional cert_pem: String;
    /// The certificate and its chain, as PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown cert_pem: String;
    /// The time at which an administrator asked for a new certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown extend_requested_at: Option<Timestamp>;
    /// The SHA-1 of the certificate, in hex.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown fingerprint: String;
    /// The identity that the authenticator belongs to.
    Shown identity: EntityRef;
    /// The identity that the authenticator belongs to. Set when the authenticator is created.
    Create identity_id: String => "identities",
        shown "The id of the identity that the authenticator belongs to.";
    /// Whether an administrator has asked for a new certificate.
    Shown is_extend_requested: bool;
    /// Whether the network issued the certificate.
    Shown is_issued_by_network: bool;
    /// Whether the new certificate shall have a new key.
    Shown is_key_roll_requested: bool;
    /// Whether the password is locked, because of too many wrong ones in a row.
    Shown is_locked: bool;
    /// Whether the chain of the certificate led to a root at the last login.
    Shown last_auth_resolved_to_root: bool;
    /// Whether the last extension of the certificate brought a new key.
    Shown last_extend_rolled_keys: bool;
    /// The time since which the password is locked; left out if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown locked_at: Option<Timestamp>;
    /// The addresses from which the wrong passwords came that locked the password, the latest one last,
    /// at most 4; left out if it is not locked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown locked_by: Vec<String>;
    /// The time until which the password is locked; left out if it is not, or if it is locked until
    /// somebody enables the identity or sets another password.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown locked_until: Option<Timestamp>;
    /// The method: `updb` for a username and a password, or `cert` for a certificate. Set when the
    /// authenticator is created.
    Create method: String as FieldType::Choice(method::ALL), shown "The method: `updb` or `cert`.";
    /// The password, 5 to 100 characters, for the method `updb`.
    Replace password: Password;
    /// Labels of the authenticator.
    Optional tags: Tags;
    /// The username, 4 to 100 characters, for the method `updb`; unique in the network.
    Replace username: Username;
    /// The username.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown username: String;
}

body! {
    /// The members of an authenticator that its own identity sets.
    pub struct OwnAuthenticatorBody {
        /// The current password of the identity.
        Always current_password: Password,
        /// The new password, 5 to 100 characters.
        Replace password: Password,
        /// Labels of the authenticator.
        Optional tags: Tags,
        /// The new username, 4 to 100 characters.
        Replace username: Username,
    }
}

body! {
    /// Replaces an authenticator by an enrollment with which its identity gets a new one.
    pub struct ReEnrollBody {
        /// The time at which the enrollment expires; it must be in the future.
        Create expires_at: Timestamp,
    }
}

body! {
    /// Asks the owner of a certificate for its extension at the next login.
    pub struct RequestExtendBody {
        /// Whether the new certificate shall have a new key.
        Optional roll_keys: bool,
    }
}

body! {
    /// Asks for a new certificate in place of the current one.
    pub struct ExtendBody {
        /// The certificate signing request, as PEM.
        Create client_cert_csr: String,
    }
}

body! {
    /// Confirms that the new certificate has arrived.
    pub struct ExtendVerifyBody {
        /// The new certificate, as PEM.
        Create client_cert: String,
    }
}

detail! {
    /// A new certificate, and the authorities of the network.
    pub struct ExtendedCerts {
        /// The CA bundle of the network, as PEM.
        pub ca: String,
        /// The new certificate and its chain, as PEM.
        pub client_cert: String,
    }
}
