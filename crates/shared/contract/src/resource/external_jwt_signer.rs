//! External JWT signers: other issuers whose tokens are accepted
//! (docs/protocol/auth.md 13; docs/protocol/management-api.md 7.7). Clients see a part of them
//! before they log in.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::Body;
use crate::collection;
use crate::entity::detail;
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, list};
use crate::paths::Api;
use crate::timestamp::Timestamp;
use crate::word::Word;

/// The collection in paths and references.
pub const COLLECTION: &str = "external-jwt-signers";

const ALL: &str = "/external-jwt-signers";
/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::EXTERNAL_JWT_SIGNERS.list("listExternalJwtSigners"),
    collection::EXTERNAL_JWT_SIGNERS.create::<SignerBody>("createExternalJwtSigner"),
    collection::EXTERNAL_JWT_SIGNERS.get("detailExternalJwtSigner"),
    collection::EXTERNAL_JWT_SIGNERS.replace::<SignerBody>("updateExternalJwtSigner"),
    collection::EXTERNAL_JWT_SIGNERS.patch::<SignerBody>("patchExternalJwtSigner"),
    collection::EXTERNAL_JWT_SIGNERS.delete("deleteExternalJwtSigner"),
];

/// Operations of the client API.
pub const CLIENT: &[Operation] =
    &[list("listExternalJwtSigners", ALL, Access::Public, "clientExternalJwtSignerDetail")];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "external-jwt-signer",
    plural: COLLECTION,
    aliases: &["ext-jwt-signer", "ext-jwt-signers", "signer", "signers"],
    about: "another issuer of tokens that identities may log in with",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: SignerBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ISSUER", pointer: "/issuer" },
        Column { title: "AUDIENCE", pointer: "/audience" },
        Column { title: "ENABLED", pointer: "/enabled" },
    ],
    ..Kind::PLAIN
};

/// The token of a provider that clients send to the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum TargetToken {
    /// The access token.
    #[default]
    Access,
    /// The id token.
    Id,
}

impl Word for TargetToken {}

members! {
    /// The members of an external JWT signer that callers set.
    body SignerBody;
    /// An external JWT signer: an issuer outside of the network, whose JWTs the network may accept.
    detail SignerDetail with Base;

    /// The audience that the JWTs of the signer must have.
    Both audience: String, shown as Option<String>;
    /// The certificate of the key that signs the JWTs, as PEM. A signer has either this or
    /// `jwksEndpoint`.
    Optional cert_pem: String,
        shown "The certificate of the key that signs the JWTs, as PEM; null with `jwksEndpoint`."
            as Option<String>;
    /// The JSON pointer of the claim that names the identity [default: /sub].
    Optional claims_property: String,
        shown "JSON pointer of the claim that names the identity." as Option<String>;
    /// The client id with which clients log in at the provider.
    Optional client_id: String, shown as Option<String>;
    /// The common name of the certificate.
    Shown common_name: String;
    /// Whether the JWTs of the signer are accepted.
    Both enabled: bool, shown;
    /// The JSON pointer of the claim with the role attributes of an identity that enrolls; without
    /// it the identity gets none.
    Optional enroll_attribute_claims_selector: String, shown;
    /// The auth policy that an identity gets when it enrolls [default: default].
    Optional enroll_auth_policy_id: String => "auth-policies",
        shown "The auth policy of an identity that enrolls.";
    /// The JSON pointer of the claim with the name of an identity that enrolls [default: /sub].
    Optional enroll_name_claims_selector: String,
        shown "JSON pointer of the claim with the name of an identity that enrolls.";
    /// Whether a JWT of the signer may enroll an identity that gets a certificate.
    Optional enroll_to_cert_enabled: bool, shown;
    /// Whether a JWT of the signer may enroll an identity that gets no certificate, and logs in
    /// with JWTs.
    Optional enroll_to_token_enabled: bool, shown;
    /// The URL at which clients log in at the provider.
    Optional external_auth_url: String, shown as Option<String>;
    /// The SHA-1 of the certificate, in hex; null if the signer has no certificate.
    Shown fingerprint: Option<String>;
    /// The issuer of the JWTs, which is their `iss`; unique among signers.
    Both issuer: String, shown "The issuer of the JWTs, which is their `iss`.";
    /// The URL of the signer's keys, a key set (JWKS). A signer has either this or `certPem`. With http
    /// instead of https it names the controller's own machine, or a host that the controller's file names.
    Optional jwks_endpoint: String,
        shown "The URL of the signer's keys; null with `certPem`."
            as Option<String>;
    /// The id of the key in `certPem`, which is the `kid` of the JWTs; by default the SHA-1 of the
    /// certificate.
    Optional kid: String,
        shown "The id of the key, which is the `kid` of the JWTs." as Option<String>;
    /// The name of the signer; unique among signers.
    Both name: String, shown "The name of the signer.";
    /// The time at which the validity of the certificate ends.
    Shown not_after: Option<Timestamp>;
    /// The time at which the validity of the certificate begins.
    Shown not_before: Option<Timestamp>;
    /// The scopes that clients ask the provider for; 100 at most.
    Optional scopes: Vec<String>,
        shown "The scopes that clients ask the provider for; null if there are none." as ListOrNull<String>;
    /// Labels of the signer.
    Optional tags: Tags;
    /// The token of the provider that clients send: the access token or the ID token [default:
    /// ACCESS].
    Optional target_token: TargetToken, shown "The token of the provider that clients send.";
    /// Whether the claim that names the identity holds its external id. Otherwise the claim holds
    /// its id.
    Optional use_external_id: bool,
        shown "Whether the claim holds the external id of the identity; otherwise it holds the id.";
}

detail! {
    /// An external JWT signer, as clients see it before they log in.
    // docs/protocol/auth.md 13.5
    pub struct ClientSignerDetail with Base {
        /// The audience that the JWT must have.
        pub audience: Option<String>,
        /// The client id with which clients log in at the provider.
        pub client_id: Option<String>,
        /// Whether a JWT of the signer may enroll an identity that gets a certificate.
        pub enroll_to_cert_enabled: bool,
        /// Whether a JWT of the signer may enroll an identity that gets no certificate, and logs in
        /// with JWTs.
        pub enroll_to_token_enabled: bool,
        /// The URL at which clients log in at the provider.
        pub external_auth_url: Option<String>,
        /// The name of the signer.
        pub name: String,
        /// The scopes that clients ask the provider for; null if there are none.
        pub scopes: ListOrNull<String>,
        /// The token of the provider that clients send.
        pub target_token: TargetToken,
    }
}
