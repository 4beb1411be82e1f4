//! Errors for SDKs: a number, a hint and a text (docs/protocol/sdk.md 6).

use serde::{Deserialize, Serialize};

use crate::edge::header;
use crate::headers::Headers;

/// The code of an error. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs)]
impl ErrorCode {
    pub const NONE: Self = Self(0);
    pub const INTERNAL: Self = Self(1);
    pub const INVALID_API_SESSION: Self = Self(2);
    pub const INVALID_SESSION: Self = Self(3);
    pub const WRONG_SESSION_TYPE: Self = Self(4);
    pub const INVALID_EDGE_ROUTER_FOR_SESSION: Self = Self(5);
    pub const INVALID_SERVICE: Self = Self(6);
    pub const TUNNELING_NOT_ENABLED: Self = Self(7);
    pub const INVALID_TERMINATOR: Self = Self(8);
    pub const INVALID_PRECEDENCE: Self = Self(9);
    pub const INVALID_COST: Self = Self(10);
    pub const ENCRYPTION_DATA_MISSING: Self = Self(11);
    pub const INVALID_API_SESSION_TYPE: Self = Self(12);
    pub const INVALID_INSTANCE_ID: Self = Self(13);
    pub const ACCESS_DENIED: Self = Self(14);
    pub const POSTURE_CHECK_FAILED: Self = Self(15);
}

/// The client's next step after an error. Unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RetryHint(pub u32);

impl RetryHint {
    /// The client decides.
    pub const DEFAULT: Self = Self(0);
    /// Try again later, because the other side is busy.
    pub const TOO_BUSY: Self = Self(1);
    /// Begin again with a new session.
    pub const START_OVER: Self = Self(2);
    /// Do not try again: the answer would be the same.
    pub const NOT_RETRIABLE: Self = Self(3);
}

/// An error as JSON. It never has a cause, because C SDKs fail on one that is an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StructuredError {
    /// The text for people.
    pub message: String,
    /// The code.
    pub code: ErrorCode,
    /// The advice to the client: whether and how to try again.
    pub retry_hint: RetryHint,
    /// Posture checks that failed, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing_posture_check_ids: Vec<String>,
}

impl StructuredError {
    /// Puts the error into headers 1014 and 1033.
    pub(super) fn put(&self, headers: &mut Headers) {
        headers.set_u32(header::ERROR_CODE, self.code.0);
        if let Ok(text) = serde_json::to_string(self) {
            headers.set_str(header::STRUCTURED_ERROR, &text);
        }
    }

    /// Reads the error from headers 1033 or, failing that, 1014; `None` if there is neither.
    pub(super) fn take(headers: &Headers) -> Option<Self> {
        let structured = headers.get_str(header::STRUCTURED_ERROR);
        structured.and_then(|text| serde_json::from_str(text).ok()).or_else(|| {
            let code = ErrorCode(headers.get_u32(header::ERROR_CODE)?);
            Some(Self { code, ..Self::default() })
        })
    }
}
