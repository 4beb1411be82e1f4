//! The second factor of the caller: one-time codes
//! (docs/protocol/auth.md 11; docs/protocol/management-api.md 7.9).

use crate::body::body;
use crate::entity::detail;
use crate::headers;
use crate::operation::{Access, Operation, Request, Response, action, delete, detail as get};
use crate::timestamp::Timestamp;

/// The path of the caller's second factor, below the base path.
pub const PATH: &str = "current-identity/mfa";

const MFA: &str = "/current-identity/mfa";
const CODES: &str = "/current-identity/mfa/recovery-codes";
const STATUSES: &[u16] = &[200, 401, 404];

/// Operations that both APIs serve.
pub const SHARED: &[Operation] = &[
    action("authenticateMfa", "/authenticate/mfa", Access::Partial)
        .takes::<CodeBody>()
        .statuses(&[200, 401, 429]),
    action("createTotpToken", "/current-api-session/totp-token", Access::Authenticated)
        .takes::<CodeBody>()
        .answers(Response::Detail("totpToken"))
        .statuses(STATUSES),
    get("detailMfa", MFA, Access::Partial, "detailMfa").statuses(STATUSES),
    action("enrollMfa", MFA, Access::Partial).answers(Response::Created).statuses(&[201, 401, 409]),
    delete("deleteMfa", MFA, Access::Authenticated).statuses(STATUSES),
    get("detailMfaQrCode", "/current-identity/mfa/qr-code", Access::Partial, "string")
        .answers(Response::Raw(headers::PNG))
        .statuses(&[200, 404]),
    get("detailMfaRecoveryCodes", CODES, Access::Authenticated, "detailMfaRecoveryCodes")
        .request(Request::OptionalJson(<CodeBody as crate::body::Body>::FIELDS))
        .statuses(STATUSES),
    action("createMfaRecoveryCodes", CODES, Access::Authenticated)
        .takes::<CodeBody>()
        .statuses(STATUSES),
    action("verifyMfa", "/current-identity/mfa/verify", Access::Partial)
        .takes::<CodeBody>()
        .statuses(STATUSES),
];

body! {
    /// A one-time code.
    pub struct CodeBody {
        /// A code of the authenticator app. Some operations also take a recovery code.
        Create code: String,
    }
}

detail! {
    /// The second factor of the caller.
    pub struct MfaDetail with Base {
        /// Whether the factor is verified: the caller has given a first code.
        pub is_verified: bool,
        /// The `otpauth:` URL for the authenticator app. Only a factor that is not verified has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub provisioning_url: Option<String>,
        /// Codes for a time without the authenticator app, each of which is good once. Only a
        /// factor that is not verified has them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recovery_codes: Option<Vec<String>>,
    }
}

detail! {
    /// The recovery codes of the caller.
    pub struct RecoveryCodes with Base {
        /// Codes for a time without the authenticator app, each of which is good once.
        pub recovery_codes: Vec<String>,
    }
}

detail! {
    /// A signed token that proves to routers that the caller has given a code.
    // docs/protocol/auth.md 11.5
    pub struct TotpToken {
        /// The time at which the caller gave the code.
        pub issued_at: Timestamp,
        /// The token, a JWT.
        pub token: String,
    }
}
