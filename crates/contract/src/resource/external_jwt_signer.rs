//! External JWT signers: other issuers whose tokens are accepted
//! (docs/protocol/auth.md 13; docs/protocol/management-api.md 7.7). Clients see a part of them
//! before they log in.

use crate::body::{Body, body};
use crate::entity::{detail, words};
use crate::json::Tags;
use crate::kind::{Column, Kind};
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

body! {
    /// What can be said of an external JWT signer.
    pub struct SignerBody {
        /// The audience of its tokens.
        Both "audience" audience: String,
        /// The certificate of its key, PEM; or else `jwksEndpoint`.
        Optional "certPem" cert_pem: String,
        /// JSON pointer of the claim that names the identity [default: /sub].
        Optional "claimsProperty" claims_property: String,
        /// The client id that clients use at the provider.
        Optional "clientId" client_id: String,
        /// Whether its tokens are accepted.
        Both "enabled" enabled: bool,
        /// JSON pointer of the claim with the role attributes of an identity that enrolls.
        Optional "enrollAttributeClaimsSelector" enroll_attribute_claims_selector: String,
        /// The authentication policy of an identity that enrolls [default: default].
        Optional "enrollAuthPolicyId" enroll_auth_policy_id: String => "auth-policies",
        /// JSON pointer of the claim with the name of an identity that enrolls [default: /sub].
        Optional "enrollNameClaimsSelector" enroll_name_claims_selector: String,
        /// Whether its tokens may enroll an identity that gets a certificate.
        Optional "enrollToCertEnabled" enroll_to_cert_enabled: bool,
        /// Whether its tokens may enroll an identity that logs in with them.
        Optional "enrollToTokenEnabled" enroll_to_token_enabled: bool,
        /// Where clients log in to the provider.
        Optional "externalAuthUrl" external_auth_url: String,
        /// The issuer of its tokens; unique among signers.
        Both "issuer" issuer: String,
        /// Where its keys are fetched; or else `certPem`.
        Optional "jwksEndpoint" jwks_endpoint: String,
        /// The id of its key, with a certificate.
        Optional "kid" kid: String,
        /// The name; unique among signers.
        Both "name" name: String,
        /// Scopes that clients ask the provider for.
        Optional "scopes" scopes: Vec<String>,
        /// Labels.
        Optional "tags" tags: Tags,
        /// Which of the provider's tokens clients send [default: ACCESS].
        Optional "targetToken" target_token: TargetToken,
        /// Whether the claim is an external id of the identity rather than its id.
        Optional "useExternalId" use_external_id: bool,
    }
}

detail! {
    /// An external JWT signer.
    pub struct SignerDetail with Base {
        /// The audience of its tokens.
        pub audience: Option<String>,
        /// The certificate of its key, PEM.
        pub cert_pem: Option<String>,
        /// JSON pointer of the claim that names the identity.
        pub claims_property: Option<String>,
        /// The client id that clients use at the provider.
        pub client_id: Option<String>,
        /// Common name of the certificate.
        pub common_name: String,
        /// Whether its tokens are accepted.
        pub enabled: bool,
        /// JSON pointer of the claim with the role attributes of an identity that enrolls.
        pub enroll_attribute_claims_selector: String,
        /// The authentication policy of an identity that enrolls.
        pub enroll_auth_policy_id: String,
        /// JSON pointer of the claim with the name of an identity that enrolls.
        pub enroll_name_claims_selector: String,
        /// Whether its tokens may enroll an identity that gets a certificate.
        pub enroll_to_cert_enabled: bool,
        /// Whether its tokens may enroll an identity that logs in with them.
        pub enroll_to_token_enabled: bool,
        /// Where clients log in to the provider.
        pub external_auth_url: Option<String>,
        /// SHA-1 of the certificate, hex.
        pub fingerprint: Option<String>,
        /// The issuer of its tokens.
        pub issuer: String,
        /// Where its keys are fetched.
        pub jwks_endpoint: Option<String>,
        /// The id of its key.
        pub kid: Option<String>,
        /// The name.
        pub name: String,
        /// End of the certificate's validity.
        pub not_after: Option<Timestamp>,
        /// Beginning of the certificate's validity.
        pub not_before: Option<Timestamp>,
        /// Scopes that clients ask the provider for.
        pub scopes: Vec<String>,
        /// Which of the provider's tokens clients send.
        pub target_token: TargetToken,
        /// Whether the claim is an external id of the identity.
        pub use_external_id: bool,
    }
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
