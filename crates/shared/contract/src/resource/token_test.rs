//! Why a token of an external signer is good for logging in, or is not: weft's own operation.

use crate::body::body;
use crate::entity::detail;
use crate::operation::{Access, Operation, Response, action};
use crate::permission::{Action, Subject};

/// The operation. The identity in the answer is named to callers that may read identities.
pub const OPERATIONS: &[Operation] = &[action(
    "testExternalToken",
    "/external-tokens/test",
    Access::Permission(Subject::ExternalJwtSigner, Action::Read),
)
.takes::<TokenTestBody>()
.answers(Response::Detail("tokenTest"))
.statuses(&[200, 400, 401, 429, 503])];

body! {
    /// A token to test. It is not used, and not kept.
    pub struct TokenTestBody {
        /// The token.
        Create token: String,
    }
}

detail! {
    /// What is right and what is wrong with a token.
    pub struct TokenTest {
        /// The checks that were made, in order. A check that needs the result of a failed one is left out.
        pub checks: Vec<TokenCheck>,
        /// The id of the identity that the token names; empty if it names none, or if the caller may not read
        /// identities.
        pub identity_id: String,
        /// The name of that identity.
        pub identity_name: String,
        /// Whether the token logs the identity in now.
        pub is_good: bool,
        /// The id of the signer of the token; empty if there is none.
        pub signer_id: String,
        /// The name of the signer.
        pub signer_name: String,
    }
}

detail! {
    /// One check of a token.
    pub struct TokenCheck {
        /// The subject of the check: `form`, `type`, `issuer`, `key`, `signature`, `times`, `audience`, `claim`,
        /// `identity` or `policy`.
        pub name: String,
        /// Whether the token passed.
        pub is_good: bool,
        /// What was found, or what is wrong and what would help.
        pub text: String,
    }
}
