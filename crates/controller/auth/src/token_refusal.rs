//! Why a token of an external signer is refused.

use weft_identity::token::TokenError;

use crate::key_sets::NoKey;

/// Why a token was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// The token was good, and has expired.
    #[error("expired")]
    Expired,
    /// The keys of the signer cannot be had now. Only administrators learn why.
    #[error("{0}")]
    Keys(String),
    /// Too many tokens wait for keys.
    #[error("{0}")]
    Busy(String),
    /// The signature is wrong: somebody may be trying.
    #[error("{0}")]
    Forged(String),
    /// The text is no token, or one of no signer that is asked for.
    #[error("{0}")]
    Unrelated(String),
    /// Another reason.
    #[error("{0}")]
    Because(String),
}

impl TokenRefused {
    /// The reason in words for anybody.
    pub(crate) fn public(&self) -> String {
        match self {
            Self::Keys(_) => "the keys of the token's signer cannot be had now".to_owned(),
            other => other.to_string(),
        }
    }
}

impl From<&str> for TokenRefused {
    fn from(reason: &str) -> Self {
        Self::Because(reason.to_owned())
    }
}

impl From<weft_identity::Error> for TokenRefused {
    fn from(error: weft_identity::Error) -> Self {
        Self::Because(error.to_string())
    }
}

impl From<TokenError> for TokenRefused {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Expired => Self::Expired,
            TokenError::Signature => Self::Forged(error.to_string()),
            other => Self::Because(other.to_string()),
        }
    }
}

impl From<NoKey> for TokenRefused {
    fn from(error: NoKey) -> Self {
        match error {
            NoKey::Unknown(_) => Self::Because(error.to_string()),
            NoKey::Provider { .. } => Self::Keys(error.to_string()),
            NoKey::Busy => Self::Busy(error.to_string()),
        }
    }
}
