//! External JWT signers, as a client sees them before it logs in (protocol: auth 13.5).

use crate::entity::detail;
use crate::operation::{Access, Operation, list};

/// The collection in paths and references.
pub const COLLECTION: &str = "external-jwt-signers";

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[list(
    "listExternalJwtSigners",
    "/external-jwt-signers",
    Access::Public,
    "clientExternalJwtSignerDetail",
)];

detail! {
    /// Where a client can get a JWT to log in with.
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
        /// Which of the provider's tokens to send: `ACCESS` or `ID`.
        pub target_token: String,
    }
}
