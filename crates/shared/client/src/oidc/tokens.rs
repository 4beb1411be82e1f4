//! The tokens of a session, and when they are refreshed.
//!
//! Their lives are counted from the answer that they came with, by a clock that nobody sets: the clocks of this machine
//! and of the controller may differ.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use weft_identity::token::peek;

use super::requests::TokenAnswer;
use crate::error::{Error, Result};

/// The part of an access token's life after which it is refreshed, at least and at most: clients that logged in together
/// do not refresh together.
const DUE: (f64, f64) = (0.5, 0.75);
/// The shortest life that is believed; an access token that is to be refreshed all the time helps nobody.
const SHORTEST: Duration = Duration::from_secs(2);
/// The longest life that is believed; a time far ahead does not exist for the clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest wait until another attempt at a new login, while the tokens of the former one are good.
const LATER: Duration = Duration::from_secs(60);

/// The tokens of a session. Their texts reach no log.
#[derive(Clone)]
pub(crate) struct Tokens {
    access: String,
    refresh: Option<String>,
    session: String,
    /// Life of the access token, from [`Tokens::since`] on.
    life: Duration,
    since: Instant,
    /// When the access token is to be refreshed.
    due: Instant,
    /// Life of the first access token of the session.
    usual: Duration,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("session", &self.session)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

/// What a client reads of an access token. Nothing depends on it but texts and times of this client.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    z_asid: String,
    #[serde(default)]
    iat: i64,
    #[serde(default)]
    exp: i64,
}

impl Tokens {
    /// The tokens of an answer to a request that was sent at this time. `former` are those that they take the place of.
    pub(crate) fn of(answer: &TokenAnswer, asked: Instant, former: Option<&Self>) -> Result<Self> {
        let wrong =
            |reason: String| Error::Request(format!("the access token cannot be used: {reason}"));
        let (_, claims): (_, Claims) =
            peek(&answer.access_token).map_err(|error| wrong(error.to_string()))?;
        if claims.z_asid.is_empty() {
            return Err(wrong("it names no session".to_owned()));
        }
        let told = answer.expires_in.unwrap_or_else(|| {
            u64::try_from(claims.exp.saturating_sub(claims.iat)).unwrap_or_default()
        });
        let life = Duration::from_secs(told).clamp(SHORTEST, LONGEST);
        let (least, most) = DUE;
        let part = least + (most - least) * rand::random::<f64>();
        let former = former.filter(|former| former.session == claims.z_asid);
        Ok(Self {
            access: answer.access_token.clone(),
            refresh: answer
                .refresh_token
                .clone()
                .or_else(|| former.and_then(|former| former.refresh.clone())),
            session: claims.z_asid,
            life,
            since: asked,
            due: asked + life.mul_f64(part),
            usual: former.map_or(life, |former| former.usual),
        })
    }

    /// The access token.
    pub(crate) fn access(&self) -> &str {
        &self.access
    }

    /// The refresh token, if there is one.
    pub(crate) fn refresh(&self) -> Option<&str> {
        self.refresh.as_deref()
    }

    /// The id of the session, which stays the same when its tokens are refreshed.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// When the tokens are to be refreshed.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// The whole life of the access token.
    pub(crate) fn life(&self) -> Duration {
        self.life
    }

    /// When the access token ends.
    pub(crate) fn end(&self) -> Instant {
        self.since + self.life
    }

    /// These tokens, for another attempt to take their place a little later.
    pub(crate) fn postponed(self) -> Self {
        let now = Instant::now();
        let left = self.end().saturating_duration_since(now);
        Self { due: now + (left / 4).clamp(SHORTEST, LATER), ..self }
    }

    /// Whether the session itself ends soon, so that there is no access token of the usual life any more.
    pub(crate) fn are_last(&self) -> bool {
        self.refresh.is_none() || self.life < self.usual / 2
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::*;

    fn answer(session: &str, seconds: Option<u64>, refresh: Option<&str>) -> TokenAnswer {
        let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let claims = format!(r#"{{"z_asid":"{session}","iat":1000,"exp":1060}}"#);
        TokenAnswer {
            access_token: format!("{}.{}.{}", part(r#"{"alg":"ES256"}"#), part(&claims), part("x")),
            refresh_token: refresh.map(str::to_owned),
            expires_in: seconds,
            session_cert: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_refreshed_in_the_middle_of_their_life_whatever_the_clock_says() {
        let now = Instant::now();
        let tokens = Tokens::of(&answer("s", Some(1800), Some("r")), now, None).unwrap();
        let due = tokens.due() - now;
        assert!(due >= Duration::from_secs(900) && due <= Duration::from_secs(1350), "{due:?}");
        assert_eq!(tokens.end() - now, Duration::from_secs(1800));
        let untold = Tokens::of(&answer("s", None, Some("r")), now, None).unwrap();
        assert_eq!(untold.end() - now, Duration::from_secs(60));
        assert!(Tokens::of(&answer("", Some(1800), None), now, None).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_life_without_measure_is_a_year() {
        let now = Instant::now();
        let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let claims = |iat: i64, exp: i64| {
            let claims = format!(r#"{{"z_asid":"s","iat":{iat},"exp":{exp}}}"#);
            format!("{}.{}.{}", part(r#"{"alg":"ES256"}"#), part(&claims), part("x"))
        };
        let untold = |iat, exp| TokenAnswer {
            access_token: claims(iat, exp),
            ..answer("s", None, Some("r"))
        };
        let long = [answer("s", Some(u64::MAX), Some("r")), untold(0, i64::MAX)];
        for answer in long.into_iter().chain([untold(i64::MIN, i64::MAX)]) {
            let tokens = Tokens::of(&answer, now, None).unwrap();
            assert_eq!(tokens.end() - now, LONGEST);
            assert!(tokens.due() < tokens.end() && tokens.clone().postponed().due() > now);
        }
        let backwards = Tokens::of(&untold(i64::MAX, i64::MIN), now, None).unwrap();
        assert_eq!(backwards.end() - now, SHORTEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_ends_soon_shows_in_the_life_of_its_tokens() {
        let now = Instant::now();
        let first = Tokens::of(&answer("s", Some(1800), Some("r1")), now, None).unwrap();
        let next = |session, seconds, refresh| {
            Tokens::of(&answer(session, Some(seconds), refresh), now, Some(&first)).unwrap()
        };
        assert!(!first.are_last() && !next("s", 1000, Some("r2")).are_last());
        assert!(next("s", 800, Some("r2")).are_last());
        assert!(!next("another", 800, Some("r2")).are_last(), "it has another usual life");
        assert_eq!(next("s", 1800, None).refresh(), Some("r1"), "the former one goes on");
    }
}
