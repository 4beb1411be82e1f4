//! Device codes (RFC 8628): a device shows a short code, a person enters it on a page, logs in and agrees, and the device,
//! which asks again and again, gets its tokens.
//!
//! | state | event | answer to the device |
//! |---|---|---|
//! | waiting | the device asks | `authorization_pending`; `slow_down` within the interval, which grows by 5 s |
//! | waiting | the person agrees | |
//! | waiting | the person refuses | |
//! | agreed | the device asks | its tokens, once |
//! | refused | the device asks | `access_denied` |
//! | any | 5 minutes | `expired_token`, for another minute |

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Client;
use crate::issuer::Issuer;
use crate::login::Granted;
use crate::params::Params;
use crate::problem::{OidcError, OidcErrorCode, bad_grant, invalid};
use crate::scopes::{MAX_SCOPE, Scopes};
use crate::secret::RandomBytes;

/// How long a device code is good.
pub const LIFE: Duration = Duration::from_secs(300);
/// How long a device is told that its code was too old.
pub(crate) const TOLD: Duration = Duration::from_secs(60);
/// The pause between two questions of a device, at first, and by how much it grows.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// Wrong codes that one source may enter within the life of a code.
pub const MAX_TRIES: u8 = 5;
/// Longest name of a program, in characters.
pub const MAX_PROGRAM: usize = 120;

/// Letters that neither make words nor look alike.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LENGTH: usize = 8;

/// The code that a person enters: 8 letters in any case; spaces and hyphens do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCode(String);

impl UserCode {
    /// A new code.
    #[must_use]
    pub fn new(random: &RandomBytes) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&random[..16]);
        let mut rest = u128::from_be_bytes(bytes);
        let mut letter = || {
            let letter = LETTERS[(rest % 20) as usize];
            rest /= 20;
            char::from(letter)
        };
        Self((0..CODE_LENGTH).map(|_| letter()).collect())
    }

    /// Reads what a person entered.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > 4 * CODE_LENGTH {
            return None;
        }
        let letters = text.chars().filter(|c| !matches!(c, '-' | ' '));
        let code: String = letters.map(|c| c.to_ascii_uppercase()).collect();
        let is_code = code.len() == CODE_LENGTH && code.bytes().all(|c| LETTERS.contains(&c));
        is_code.then_some(Self(code))
    }

    /// The code as it is shown: two groups.
    #[must_use]
    pub fn shown(&self) -> String {
        let (first, second) = self.0.split_at(CODE_LENGTH / 2);
        format!("{first}-{second}")
    }

    pub(crate) fn letters(&self) -> &str {
        &self.0
    }
}

/// What a device asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    /// The client.
    pub client: Client,
    /// At least one.
    pub scopes: Scopes,
    /// What the program calls itself, for the person who is asked.
    pub program: String,
    /// Where it asks from.
    pub address: IpAddr,
}

impl DeviceRequest {
    /// Reads the parameters of `/oidc/device_authorization`. `program` is the header `User-Agent`. The client may come by
    /// HTTP Basic, as at the token endpoint.
    pub fn read(
        params: &Params<'_>,
        authorization: Option<&str>,
        program: Option<&str>,
        address: IpAddr,
    ) -> Result<Self, OidcError> {
        let client = crate::token_request::client(params, authorization)?;
        let scopes = params
            .one("scope", MAX_SCOPE)?
            .map_or(Scopes { openid: true, offline_access: true }, Scopes::parse);
        if scopes.is_empty() {
            return Err(invalid("the scope has neither openid nor offline_access"));
        }
        let is_shown = |c: &char| c.is_ascii_graphic() || *c == ' ';
        let program = program.unwrap_or_default().chars().filter(is_shown).take(MAX_PROGRAM);
        Ok(Self { client, scopes, program: program.collect(), address })
    }
}

/// The codes of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCodes {
    /// The secret with which the device asks for its tokens.
    pub device_code: String,
    /// What it shows.
    pub user_code: UserCode,
}

impl DeviceCodes {
    /// The answer of `/oidc/device_authorization`, JSON.
    #[must_use]
    pub fn body(&self, issuer: &Issuer) -> String {
        let (page, code) = (issuer.at("/device"), self.user_code.shown());
        let body = json!({
            "device_code": self.device_code,
            "user_code": code,
            "verification_uri": page,
            "verification_uri_complete": format!("{page}?user_code={code}"),
            "expires_in": LIFE.as_secs(),
            "interval": INTERVAL.as_secs(),
        });
        body.to_string()
    }
}

/// The decision of the person.
#[derive(Debug)]
pub(crate) enum Decision<D> {
    Open,
    Agreed(Box<Granted<D>>),
    Refused,
}

/// A device that waits.
#[derive(Debug)]
pub(crate) struct Waiting<D> {
    pub(crate) request: DeviceRequest,
    /// The key of the code that it shows.
    pub(crate) user_code: [u8; 32],
    pub(crate) decision: Decision<D>,
    end: Instant,
    interval: Duration,
    asked: Option<Instant>,
}

impl<D> Waiting<D> {
    pub(crate) fn new(request: DeviceRequest, user_code: [u8; 32], now: Instant) -> Self {
        let (end, decision) = (now + LIFE, Decision::Open);
        Self { request, user_code, decision, end, interval: INTERVAL, asked: None }
    }

    /// True while a person may decide.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        now < self.end && matches!(self.decision, Decision::Open)
    }

    /// The device asks. After its tokens it has none left.
    pub(crate) fn ask(&mut self, client: Client, now: Instant) -> Result<Granted<D>, OidcError> {
        if client != self.request.client {
            return Err(bad_grant("the device code belongs to another client"));
        }
        if now >= self.end {
            return Err(OidcError::new(OidcErrorCode::ExpiredToken, "the device code is too old"));
        }
        match std::mem::replace(&mut self.decision, Decision::Refused) {
            Decision::Agreed(granted) => return Ok(*granted),
            Decision::Refused => {
                return Err(OidcError::new(OidcErrorCode::AccessDenied, "the login was refused"));
            }
            Decision::Open => self.decision = Decision::Open,
        }
        let last = self.asked.replace(now);
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            self.interval += INTERVAL;
            let text = format!("ask once in {} s", self.interval.as_secs());
            return Err(OidcError::new(OidcErrorCode::SlowDown, text));
        }
        Err(OidcError::new(OidcErrorCode::AuthorizationPending, "nobody has agreed yet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HttpHost;

    #[test]
    fn user_codes_have_eight_letters_in_two_groups() {
        let code = UserCode::new(&[0; 32]);
        assert_eq!(code.shown(), "BBBB-BBBB");
        let code = UserCode::new(&[0xa7; 32]);
        for text in [code.shown(), code.shown().to_lowercase(), format!(" {} ", code.letters())] {
            assert_eq!(UserCode::read(&text), Some(code.clone()), "{text}");
        }
        for text in
            ["", "BBBB-BBB", "BBBB-BBBBB", "BBBB-BBBA", "BBBB-BBB1", "BBBB_BBBB", &"B ".repeat(17)]
        {
            assert_eq!(UserCode::read(text), None, "{text}");
        }
        assert_ne!(UserCode::new(&[1; 32]), UserCode::new(&[2; 32]));
    }

    #[test]
    fn a_device_says_what_it_is() {
        let address: IpAddr = [192, 0, 2, 1].into();
        let read = |form: &str, program| {
            DeviceRequest::read(&Params::read("", form).unwrap(), None, program, address)
        };
        let request = read("client_id=openziti&scope=openid", Some("weft/1.0\n\u{202e}x")).unwrap();
        assert_eq!(
            (request.program.as_str(), request.scopes.to_string().as_str()),
            ("weft/1.0x", "openid")
        );
        let bare = read("client_id=native", None).unwrap();
        assert_eq!((bare.program.as_str(), bare.scopes.offline_access), ("", true));
        let long = "x".repeat(999);
        assert_eq!(read("client_id=native", Some(&long)).unwrap().program.len(), MAX_PROGRAM);
        assert_eq!(read("client_id=x", None).unwrap_err().code, OidcErrorCode::InvalidClient);
        assert_eq!(
            read("client_id=native&scope=email", None).unwrap_err().code,
            OidcErrorCode::InvalidRequest
        );
    }

    #[test]
    fn the_answer_is_exact() {
        let codes = DeviceCodes { device_code: "d".into(), user_code: UserCode::new(&[0; 32]) };
        let issuer = Issuer::of(&HttpHost::parse("ctrl.example:1280").unwrap());
        let page = "https://ctrl.example:1280/oidc/device";
        assert_eq!(
            codes.body(&issuer),
            format!(
                r#"{{"device_code":"d","user_code":"BBBB-BBBB","verification_uri":"{page}","verification_uri_complete":"{page}?user_code=BBBB-BBBB","expires_in":300,"interval":5}}"#
            )
        );
    }
}
