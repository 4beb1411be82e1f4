//! Logins with the code of a device (RFC 8628): a person opens an address anywhere, enters a code, and logs in there, while
//! the program that showed the code asks for its tokens at intervals.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use crate::error::{Error, Result};
use crate::http::{Http, HttpResponse};
use crate::oidc::requests::{accepted, posted};

/// The grant of a device's code.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Interval of questions, in seconds, if the provider names none.
const INTERVAL: u64 = 5;
/// Longest interval that is believed.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// How much longer the interval gets when the provider asks for it.
const SLOWER: Duration = Duration::from_secs(5);
/// Longest time that a person has, whatever the provider says.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Longest text that is shown to the person, in characters.
const MAX_SHOWN: usize = 1024;

/// What a person needs to know to log in a device. The texts come from the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DevicePrompt {
    /// The address to open, in any browser.
    pub url: String,
    /// The code to enter there.
    pub code: String,
    /// The address with the code in it, if the provider has one.
    pub whole_url: Option<String>,
    /// The time that the person has.
    pub expires_in: Duration,
}

/// The codes of a device.
#[derive(Deserialize)]
struct Codes {
    device_code: String,
    user_code: String,
    verification_uri: Option<String>,
    /// The name that some providers use.
    verification_url: Option<String>,
    verification_uri_complete: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
    #[serde(default)]
    interval: Option<u64>,
}

/// A login of a device that waits for its person.
pub(crate) struct Waiting {
    code: String,
    interval: Duration,
    end: Instant,
    pub(crate) prompt: DevicePrompt,
}

/// Asks a provider for the codes of this device.
pub(crate) async fn begin(http: &Http, url: Url, form: &[(&str, &str)]) -> Result<Waiting> {
    let answer = accepted(posted(http, url, form).await?)?;
    let codes: Codes =
        serde_json::from_slice(&answer.body).map_err(|error| answer.odd(&error.to_string()))?;
    let place = codes.verification_uri.or(codes.verification_url);
    let place = place.ok_or_else(|| answer.odd("it names no address for the person"))?;
    let is_web = |text: &str| {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
        url.is_some() && text.len() <= MAX_SHOWN
    };
    if !is_web(&place) || codes.user_code.len() > MAX_SHOWN {
        return Err(answer.odd("the address for the person is none"));
    }
    let lasts = Duration::from_secs(codes.expires_in.unwrap_or(300)).min(LONGEST);
    let interval = Duration::from_secs(codes.interval.unwrap_or(INTERVAL).max(1));
    Ok(Waiting {
        code: codes.device_code,
        interval: interval.min(LONGEST_INTERVAL),
        end: Instant::now() + lasts,
        prompt: DevicePrompt {
            url: place,
            code: codes.user_code,
            whole_url: codes.verification_uri_complete.filter(|text| is_web(text)),
            expires_in: lasts,
        },
    })
}

impl Waiting {
    /// Asks for the tokens until the person has logged in; the answer with them. `more` is sent with each question.
    pub(crate) async fn tokens(
        mut self,
        http: &Http,
        url: &Url,
        more: &[(&str, &str)],
    ) -> Result<HttpResponse> {
        let mut form = vec![("grant_type", GRANT), ("device_code", self.code.as_str())];
        form.extend(more);
        loop {
            tokio::time::sleep(self.interval).await;
            let asked = posted(http, url.clone(), &form).await.and_then(accepted);
            let problem = match asked {
                Ok(answer) => return Ok(answer),
                Err(problem) => problem,
            };
            match &problem {
                Error::Provider(refusal) if refusal.error == "authorization_pending" => {}
                Error::Provider(refusal) if refusal.error == "slow_down" => {
                    self.interval = (self.interval + SLOWER).min(LONGEST_INTERVAL);
                }
                // The provider may be back before the code has ended.
                problem if problem.is_temporary() => {
                    self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
                }
                _ => return Err(problem),
            }
            if Instant::now() >= self.end {
                return Err(problem);
            }
        }
    }
}
