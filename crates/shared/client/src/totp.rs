//! Codes of a second factor from its secret, for programs that run without a person
//! (docs/protocol/auth.md 11.1).

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use totp_rs::{Algorithm, Builder, Secret, Totp};
use url::Url;
use weft_identity::{open_to_all, text_of};

use crate::error::{Error, Result};

/// Life of a code, in seconds.
const STEP: u64 = 30;
/// Digits of a code.
const DIGITS: u8 = 6;
/// Longest text of a secret, in bytes.
const MAX_TEXT: usize = 4096;
/// Longest secret, in bytes.
const MAX_SECRET: usize = 256;

/// The secret of a second factor (TOTP), which makes codes without a person. Whoever has the secret has the
/// second factor.
///
/// No code is given twice. A code that a controller refuses was perhaps given by another holder of the secret;
/// then the code of the next step follows, once.
pub struct TotpSecret {
    app: Totp,
    given: tokio::sync::Mutex<Given>,
}

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TotpSecret").finish_non_exhaustive()
    }
}

impl TotpSecret {
    /// Reads a secret in the form in which it is shown when the second factor is set up: base32, or an `otpauth:`
    /// URL with it. Case and spaces of base32 do not matter.
    ///
    /// # Errors
    /// When the text is no such secret, or asks for codes other than those of controllers: six digits, for 30 s,
    /// with SHA-1.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: &str| Error::TotpSecret(reason.to_owned());
        if text.len() > MAX_TEXT {
            return Err(wrong("it is longer than 4096 bytes"));
        }
        let text = text.trim();
        let is_url = text.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case("otpauth:"));
        let base32 = if is_url { of_url(text)? } else { text.to_owned() };
        let base32: String = base32
            .chars()
            .filter(|one| !matches!(one, ' ' | '-'))
            .map(|one| one.to_ascii_uppercase())
            .collect();
        let secret = Secret::try_from_base32(base32.trim_end_matches('=')).map_err(|_| {
            wrong("it must be base32 (A-Z and 2-7) or an otpauth: URL, in one line")
        })?;
        if !(1..=MAX_SECRET).contains(&secret.as_bytes().len()) {
            return Err(wrong("it must have 1 to 256 bytes"));
        }
        let builder = Builder::new()
            .with_algorithm(Algorithm::SHA1)
            .with_digits(DIGITS)
            .with_step_duration(STEP)
            .with_secret(secret);
        Ok(Self { app: builder.build_noncompliant(), given: tokio::sync::Mutex::default() })
    }

    /// Reads a secret from a file, with a warning in the log if every user of this machine may read the file.
    ///
    /// # Errors
    /// When the file cannot be read, or its text is no secret.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |reason: String| Error::File { path: path.to_owned(), reason };
        let mut text = Vec::new();
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let limit = u64::try_from(MAX_TEXT).unwrap_or(u64::MAX).saturating_add(1);
        file.take(limit).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
        let text = text_of(text).map_err(|error| failed(error.to_string()))?;
        let secret = Self::parse(&text).map_err(|error| failed(error.to_string()))?;
        if let Some(warning) = open_to_all(path, "the secret of the second factor") {
            tracing::warn!("{warning}");
        }
        Ok(secret)
    }

    /// The next code, after a wait for its step of up to a minute. `is_repeated` tells that the controller
    /// refused the last one; `None` if it refused the one before, too.
    ///
    /// # Cancel safety
    /// A call that is given up has given no code: the next one gives it.
    pub async fn code(&self, is_repeated: bool) -> Option<String> {
        let mut given = self.given.lock().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut next = *given;
        let Some(step) = next.next(is_repeated, now.as_secs() / STEP) else {
            *given = next;
            return None;
        };
        let begin = Duration::from_secs(step.saturating_mul(STEP));
        tokio::time::sleep(begin.saturating_sub(now)).await;
        *given = Given { last: Some(step), ..next };
        Some(self.app.generate(step.saturating_mul(STEP)).to_string())
    }
}

/// The codes that were given.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// The step of the last code.
    last: Option<u64>,
    /// True if that code was given because the one before was refused.
    is_second: bool,
}

impl Given {
    /// The step of the next code: the present one, or the one after the last code.
    fn next(&mut self, is_repeated: bool, now: u64) -> Option<u64> {
        if is_repeated && std::mem::take(&mut self.is_second) {
            return None;
        }
        self.is_second = is_repeated;
        // A last step in the future means that the clock was set back since.
        let last = self.last.filter(|last| *last <= now.saturating_add(1));
        Some(last.map_or(now, |last| now.max(last.saturating_add(1))))
    }
}

/// The secret of an `otpauth:` URL, in base32.
fn of_url(text: &str) -> Result<String> {
    let wrong = |reason: &str| Error::TotpSecret(reason.to_owned());
    let url = Url::parse(text).map_err(|_| wrong("it is not a whole otpauth: URL"))?;
    if url.host_str() != Some("totp") {
        return Err(wrong("the URL must begin with otpauth://totp/"));
    }
    let member = |name: &str| {
        let found = url.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    };
    let is = |name: &str, expected: &str| {
        member(name).is_none_or(|value| value.eq_ignore_ascii_case(expected))
    };
    if !is("algorithm", "SHA1") || !is("digits", "6") || !is("period", "30") {
        return Err(wrong("controllers take codes of six digits, for 30 s, with SHA1 only"));
    }
    member("secret").ok_or_else(|| wrong("the URL has no secret"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "JBSWY3DPEHPK3PXP";

    fn parsed(text: &str) -> Result<String> {
        TotpSecret::parse(text).map(|secret| secret.app.generate(59).to_string())
    }

    #[test]
    fn a_secret_is_read_as_it_is_shown() {
        let url = format!("otpauth://totp/openziti.io:me%20too?issuer=openziti.io&secret={SECRET}");
        let long = format!("OTPAUTH://totp/me?secret={SECRET}&algorithm=sha1&digits=6&period=30");
        for text in [SECRET, " jbsw y3dp-ehpk 3pxp\n", "JBSWY3DPEHPK3PXP==", &url, &long] {
            assert_eq!(parsed(text).unwrap(), "996554", "{text}");
        }
        for wrong in [
            "",
            "=",
            "JBSW1",
            "JBSWY3DPEHPK3PXP\nJBSWY3DPEHPK3PXP",
            "otpauth://totp/me",
            "otpauth://hotp/me?secret=JBSWY3DPEHPK3PXP",
            "otpauth://totp/me?secret=JBSWY3DPEHPK3PXP&digits=8",
            "otpauth://totp/me?secret=JBSWY3DPEHPK3PXP&period=60",
            "otpauth:JBSWY3DPEHPK3PXP",
            &SECRET.repeat(50),
            &SECRET.repeat(500),
        ] {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(!error.contains(SECRET), "{error}");
        }
        assert!(!format!("{:?}", TotpSecret::parse(SECRET).unwrap()).contains("JBSW"));
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(TotpSecret::read(&path).unwrap_err().to_string().contains("secret"));
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        TotpSecret::read(&path).unwrap();
        std::fs::write(&path, " ".repeat(MAX_TEXT) + SECRET).unwrap();
        TotpSecret::read(&path).unwrap_err();
    }

    #[test]
    fn no_step_is_used_twice_and_a_refused_code_is_followed_by_one() {
        let mut given = Given::default();
        let mut next = |is_repeated, now| {
            let step = given.next(is_repeated, now);
            given.last = step.or(given.last);
            step
        };
        assert_eq!(next(false, 10), Some(10));
        assert_eq!(next(false, 10), Some(11), "another login in the same step");
        assert_eq!(next(false, 20), Some(20));
        assert_eq!(next(true, 20), Some(21));
        assert_eq!(next(true, 21), None, "the secret is wrong, or the clock");
        assert_eq!(next(true, 22), Some(22), "of another login");
        assert_eq!(next(false, 22), Some(23));
        assert_eq!(next(true, 30), Some(30), "the present step is new already");
        assert_eq!(next(false, 5), Some(5), "the clock was set back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_code_comes_with_the_next_step() {
        let secret = TotpSecret::parse(SECRET).unwrap();
        let first = secret.code(false).await.unwrap();
        let begun = tokio::time::Instant::now();
        let second = secret.code(true).await.unwrap();
        assert_ne!(first, second);
        assert!(begun.elapsed() <= Duration::from_secs(2 * STEP));
        assert_eq!(secret.code(true).await, None);
    }
}
