//! External JWT signers: other issuers whose tokens are accepted
//! (docs/protocol/auth.md 13; docs/protocol/management-api.md 7.7). Clients see a part of them
//! before they log in.

use crate::body::Body;
use crate::entity::{detail, words};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, create, delete, detail as get, list, patch, replace};
use crate::permission::{Action, Subject};
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "external-jwt-signers";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::ExternalJwtSigner, action)
}

const ALL: &str = "/external-jwt-signers";
const ONE: &str = "/external-jwt-signers/{id}";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listExternalJwtSigners", ALL, access(Action::Read), "externalJwtSignerDetail"),
    create::<SignerBody>("createExternalJwtSigner", ALL, access(Action::Create)),
    get("detailExternalJwtSigner", ONE, access(Action::Read), "externalJwtSignerDetail"),
    replace::<SignerBody>("updateExternalJwtSigner", ONE, access(Action::Update)),
    patch::<SignerBody>("patchExternalJwtSigner", ONE, access(Action::Update)),
    delete("deleteExternalJwtSigner", ONE, access(Action::Delete)),
];

/// Operations of the client API.
pub const CLIENT: &[Operation] =
    &[list("listExternalJwtSigners", ALL, Access::Public, "clientExternalJwtSignerDetail")];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "external-jwt-signer",
    plural: COLLECTION,
    aliases: &["ext-jwt-signer", "ext-jwt-signers", "signer", "signers"],
    about: "another issuer of tokens that identities may log in with",
    operations: MANAGEMENT,
    fields: SignerBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ISSUER", pointer: "/issuer" },
        Column { title: "AUDIENCE", pointer: "/audience" },
        Column { title: "ENABLED", pointer: "/enabled" },
    ],
};

words! {
    /// Which of a provider's tokens clients send.
    pub enum TargetToken {
        /// The access token.
        Access = "ACCESS",
        /// The id token.
        Id = "ID",
    }
}

members! {
    /// The members of an external JWT signer that callers set.
    body SignerBody;
    /// An external JWT signer.
    detail SignerDetail with Base;

    /// The audience of its tokens.
    Both audience: String, shown as Option<String>;
    /// The certificate of its key, PEM; or else `jwksEndpoint`.
    Optional cert_pem: String, shown "The certificate of its key, PEM." as Option<String>;
    /// JSON pointer of the claim that names the identity [default: /sub].
    Optional claims_property: String,
        shown "JSON pointer of the claim that names the identity." as Option<String>;
    /// The client id that clients use at the provider.
    Optional client_id: String, shown as Option<String>;
    /// Common name of the certificate.
    Shown common_name: String;
    /// Whether its tokens are accepted.
    Both enabled: bool, shown;
    /// JSON pointer of the claim with the role attributes of an identity that enrolls.
    Optional enroll_attribute_claims_selector: String, shown;
    /// The authentication policy of an identity that enrolls [default: default].
    Optional enroll_auth_policy_id: String => "auth-policies",
        shown "The authentication policy of an identity that enrolls.";
    /// JSON pointer of the claim with the name of an identity that enrolls [default: /sub].
    Optional enroll_name_claims_selector: String,
        shown "JSON pointer of the claim with the name of an identity that enrolls.";
    /// Whether its tokens may enroll an identity that gets a certificate.
    Optional enroll_to_cert_enabled: bool, shown;
    /// Whether its tokens may enroll an identity that logs in with them.
    Optional enroll_to_token_enabled: bool, shown;
    /// Where clients log in to the provider.
    Optional external_auth_url: String, shown as Option<String>;
    /// SHA-1 of the certificate, hex.
    Shown fingerprint: Option<String>;
    /// The issuer of its tokens; unique among signers.
    Both issuer: String, shown "The issuer of its tokens.";
    /// Where its keys are fetched; or else `certPem`.
    Optional jwks_endpoint: String, shown "Where its keys are fetched." as Option<String>;
    /// The id of its key, with a certificate.
    Optional kid: String, shown "The id of its key." as Option<String>;
    /// The name; unique among signers.
    Both name: String, shown "The name.";
    /// End of the certificate's validity.
    Shown not_after: Option<Timestamp>;
    /// Beginning of the certificate's validity.
    Shown not_before: Option<Timestamp>;
    /// Scopes that clients ask the provider for.
    Optional scopes: Vec<String>, shown;
    /// Labels.
    Optional tags: Tags;
    /// Which of the provider's tokens clients send [default: ACCESS].
    Optional target_token: TargetToken, shown "Which of the provider's tokens clients send.";
    /// Whether the claim is an external id of the identity rather than its id.
    Optional use_external_id: bool, shown "Whether the claim is an external id of the identity.";
}

detail! {
    /// Where a client can get a JWT to log in with.
    // docs/protocol/auth.md 13.5
    pub struct ClientSignerDetail with Base {
        /// Audience to ask for.
        pub audience: Option<String>,
        /// Client id.
        pub client_id: Option<String>,
        /// A certificate can be had for such a JWT.
        pub enroll_to_cert_enabled: bool,
        /// An identity can be had for such a JWT.
        pub enroll_to_token_enabled: bool,
        /// Where to log in.
        pub external_auth_url: Option<String>,
        /// The name.
        pub name: String,
        /// Scopes to ask for.
        pub scopes: Vec<String>,
        /// Which of the provider's tokens to send.
        pub target_token: TargetToken,
    }
}
