//! The tokens of a login by OpenID Connect, as a file keeps them, with the key without which they are worth nothing.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use weft_contract::Timestamp;
use weft_identity::token::peek;
use weft_identity::{Certificate, Identity, KeyedChain, LiveIdentity, PrivateKey, TrustBundle};

use crate::error::Result;
use crate::http::Tls;
use crate::oidc::{SessionKey, Tokens};

/// Tokens are refreshed this long before the access token ends, at most: not before the last quarter of its life.
const BEFORE_END: Duration = Duration::from_secs(60);

/// The tokens of a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedTokens {
    /// The access token, which the file has as the token of the login.
    #[serde(skip)]
    access: String,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh: Option<String>,
    /// When the access token ends, by the clock of this machine.
    ends_at: Timestamp,
    /// The whole life of the access token in seconds; 0 if the file is of a release that did not keep it.
    #[serde(default)]
    life: u64,
    /// The key, PEM; empty if no certificate was made for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
    /// The certificate of the session for it, PEM; empty if the controller issued none, because the login showed one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    certificate: String,
}

impl fmt::Debug for SavedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedTokens").field("ends_at", &self.ends_at).finish_non_exhaustive()
    }
}

impl SavedTokens {
    pub(crate) fn new(
        tokens: &Tokens,
        key: &SessionKey,
        certificate: Option<&str>,
    ) -> Result<Self> {
        let key = match certificate {
            Some(certificate) => {
                // The key is the one of the certificate.
                key.with(certificate)?;
                key.key()?.to_pem()
            }
            None => String::new(),
        };
        Ok(Self {
            access: tokens.access().to_owned(),
            refresh: tokens.refresh().map(str::to_owned),
            ends_at: end_of(tokens),
            life: tokens.life().as_secs(),
            key,
            certificate: certificate.unwrap_or_default().to_owned(),
        })
    }

    /// These tokens, with the ones that a refresh gave.
    pub(crate) fn followed_by(&self, tokens: &Tokens) -> Self {
        Self {
            access: tokens.access().to_owned(),
            refresh: tokens.refresh().map(str::to_owned).or_else(|| self.refresh.clone()),
            ends_at: end_of(tokens),
            life: tokens.life().as_secs(),
            ..self.clone()
        }
    }

    /// The access token.
    #[must_use]
    pub fn access(&self) -> &str {
        &self.access
    }

    pub(crate) fn refresh(&self) -> Option<&str> {
        self.refresh.as_deref()
    }

    /// When the session ends unless its tokens are refreshed before, if the refresh token tells.
    #[must_use]
    pub fn session_end(&self) -> Option<Timestamp> {
        #[derive(Deserialize)]
        struct Claims {
            exp: i64,
        }
        let (_, claims): (_, Claims) = peek(self.refresh()?).ok()?;
        Some(Timestamp::from_millis(claims.exp.checked_mul(1000)?))
    }

    /// Whether the access token has ended, or ends within a minute and the last quarter of its life.
    #[must_use]
    pub fn end_soon(&self) -> bool {
        let before = match self.life {
            0 => BEFORE_END,
            life => BEFORE_END.min(Duration::from_secs(life) / 4),
        };
        self.ends_at <= at(SystemTime::now() + before)
    }

    /// Whether the access token has ended.
    #[must_use]
    pub fn have_ended(&self) -> bool {
        self.ends_at <= at(SystemTime::now())
    }

    /// TLS with the certificate of the session.
    pub(crate) fn tls(&self, trust: TrustBundle) -> Result<Tls> {
        if self.certificate.is_empty() {
            return Ok(Tls::Anonymous(trust));
        }
        let chain = Certificate::from_pem(self.certificate.as_bytes())?;
        let chain = KeyedChain::new(chain, PrivateKey::from_pem(self.key.as_bytes())?)?;
        Ok(Tls::Identity(LiveIdentity::fixed(Identity::new(Some(chain), Vec::new(), trust))))
    }
}

/// When an access token ends, by the clock of this machine.
fn end_of(tokens: &Tokens) -> Timestamp {
    at(SystemTime::now() + tokens.end().saturating_duration_since(tokio::time::Instant::now()))
}

fn at(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(life: u64, left: u64) -> SavedTokens {
        SavedTokens {
            access: String::new(),
            refresh: None,
            ends_at: at(SystemTime::now() + Duration::from_secs(left)),
            life,
            key: String::new(),
            certificate: String::new(),
        }
    }

    #[test]
    fn tokens_are_refreshed_in_the_last_quarter_of_a_short_life() {
        for (life, left, is_soon) in [
            (60, 50, false),
            (60, 10, true),
            (1800, 100, false),
            (1800, 30, true),
            // Of a file without the life.
            (0, 100, false),
            (0, 50, true),
        ] {
            let tokens = tokens(life, left);
            assert_eq!(tokens.end_soon(), is_soon, "{life} {left}");
            assert!(!tokens.have_ended(), "{life} {left}");
        }
        let ended = tokens(60, 0);
        assert!(ended.end_soon() && ended.have_ended());
    }

    #[test]
    fn a_file_without_the_life_is_read() {
        let mut file = serde_json::to_value(tokens(60, 10)).unwrap();
        file.as_object_mut().unwrap().remove("life").unwrap();
        assert_eq!(serde_json::from_value::<SavedTokens>(file).unwrap().life, 0);
    }
}
