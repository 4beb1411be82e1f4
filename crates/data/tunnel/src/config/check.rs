//! Health checks in configs (docs/protocol/tunnel.md 3.1, 8).

use std::time::Duration;

use serde::Deserialize;

use super::part;
use super::written::{ConfigError, Result};

/// Shortest interval of a check.
const SHORTEST: Duration = Duration::from_secs(1);
/// Most checks of one terminator. The author of a config makes every host of the service run them.
const MOST_CHECKS: usize = 64;
/// Most actions of one check.
const MOST_ACTIONS: usize = 20;

/// A probe that is repeated, and the actions that follow from its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminatorCheck {
    /// The probe.
    pub probe: CheckProbe,
    /// The interval.
    pub interval: Duration,
    /// The time limit of one probe.
    pub timeout: Duration,
    /// The actions.
    pub actions: Vec<CheckAction>,
}

/// The probe of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckProbe {
    /// A TCP connection to `host:port`.
    Port(String),
    /// A request by HTTP.
    Http(HttpCheck),
}

/// An HTTP request, and the expected answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The URL.
    pub url: url::Url,
    /// The method.
    pub method: &'static str,
    /// The body of the request.
    pub body: Option<String>,
    /// The expected status.
    pub expect_status: u16,
    /// A text that the answer has to contain.
    pub expect_in_body: Option<String>,
}

/// An action that follows from results of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckAction {
    /// The results that count.
    pub trigger: Trigger,
    /// The number of these results in a row.
    pub consecutive_events: Option<u16>,
    /// The time that these results have lasted.
    pub duration: Option<Duration>,
    /// The effect.
    pub effect: Effect,
}

/// The results that cause an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// Failed checks.
    Fail,
    /// Passed checks.
    Pass,
    /// The first result of a series, failed or passed.
    Change,
}

/// The effect of an action on a terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The terminator is dialed only if no other is left.
    MarkUnhealthy,
    /// The terminator gets its initial precedence.
    MarkHealthy,
    /// The cost goes up by this much.
    IncreaseCost(u16),
    /// The cost goes down by this much, but not below the initial cost.
    DecreaseCost(u16),
    /// Controllers are told the result.
    SendEvent,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PortCheck {
    interval: String,
    timeout: String,
    address: String,
    actions: Option<Vec<WrittenAction>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenHttpCheck {
    interval: String,
    timeout: String,
    url: String,
    method: Option<String>,
    body: Option<String>,
    expect_status: Option<u16>,
    expect_in_body: Option<String>,
    actions: Option<Vec<WrittenAction>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenAction {
    trigger: Trigger,
    action: String,
    consecutive_events: Option<u16>,
    duration: Option<String>,
}

/// The checks of a terminator.
pub(super) fn checks(
    config: &'static str,
    ports: Vec<PortCheck>,
    https: Vec<WrittenHttpCheck>,
) -> Result<Vec<TerminatorCheck>> {
    let count = ports.len() + https.len();
    if count > MOST_CHECKS {
        let member = if ports.len() > MOST_CHECKS { "portChecks" } else { "httpChecks" };
        let problem =
            format!("{count} checks are too many for a terminator, at most {MOST_CHECKS}");
        return Err(ConfigError::new(config, member, problem));
    }
    let ports = ports.into_iter().enumerate().map(|(index, check)| {
        port_check(config, check).map_err(|error| error.within(&format!("portChecks[{index}]")))
    });
    let https = https.into_iter().enumerate().map(|(index, check)| {
        http_check(config, check).map_err(|error| error.within(&format!("httpChecks[{index}]")))
    });
    ports.chain(https).collect()
}

fn port_check(config: &'static str, written: PortCheck) -> Result<TerminatorCheck> {
    let port = written.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        let problem = format!("`{}` must be <host>:<port>", written.address);
        return Err(ConfigError::new(config, "address", problem));
    }
    let probe = CheckProbe::Port(written.address);
    check(config, probe, &written.interval, &written.timeout, written.actions)
}

fn http_check(config: &'static str, written: WrittenHttpCheck) -> Result<TerminatorCheck> {
    const METHODS: [&str; 4] = ["GET", "POST", "PUT", "PATCH"];
    let wrong = |member: &str, problem: String| ConfigError::new(config, member, problem);
    let url: url::Url = written
        .url
        .parse()
        .map_err(|error| wrong("url", format!("`{}` is no URL: {error}", written.url)))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("url", format!("`{url}` must begin with http:// or https://")));
    }
    let asked = written.method.as_deref().unwrap_or("GET");
    let method = METHODS.into_iter().find(|known| known.eq_ignore_ascii_case(asked));
    let method = method.ok_or_else(|| {
        wrong("method", format!("`{asked}` must be one of {}", METHODS.join(", ")))
    })?;
    let status = written.expect_status.unwrap_or(200);
    if !(100..600).contains(&status) {
        return Err(wrong("expectStatus", format!("{status} must be between 100 and 599")));
    }
    let probe = CheckProbe::Http(HttpCheck {
        url,
        method,
        body: written.body,
        expect_status: status,
        expect_in_body: written.expect_in_body.filter(|text| !text.is_empty()),
    });
    check(config, probe, &written.interval, &written.timeout, written.actions)
}

fn check(
    config: &'static str,
    probe: CheckProbe,
    interval: &str,
    timeout: &str,
    actions: Option<Vec<WrittenAction>>,
) -> Result<TerminatorCheck> {
    let actions = actions.unwrap_or_default();
    if actions.len() > MOST_ACTIONS {
        let problem = format!("{} are too many, at most {MOST_ACTIONS}", actions.len());
        return Err(ConfigError::new(config, "actions", problem));
    }
    let read = |(index, written): (usize, WrittenAction)| {
        action(config, &written).map_err(|error| error.within(&format!("actions[{index}]")))
    };
    Ok(TerminatorCheck {
        probe,
        interval: part::duration(config, "interval", interval)?.max(SHORTEST),
        timeout: part::duration(config, "timeout", timeout)?,
        actions: actions.into_iter().enumerate().map(read).collect::<Result<_>>()?,
    })
}

fn action(config: &'static str, written: &WrittenAction) -> Result<CheckAction> {
    let duration = written.duration.as_deref();
    let duration = duration.map(|text| part::duration(config, "duration", text)).transpose()?;
    let effect =
        effect(&written.action).map_err(|problem| ConfigError::new(config, "action", problem))?;
    let consecutive_events = written.consecutive_events;
    Ok(CheckAction { trigger: written.trigger, consecutive_events, duration, effect })
}

fn effect(text: &str) -> std::result::Result<Effect, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("`{text}` must be a number between 1 and 65535"))
    };
    match words.as_slice() {
        ["mark", "unhealthy"] => Ok(Effect::MarkUnhealthy),
        ["mark", "healthy"] => Ok(Effect::MarkHealthy),
        ["increase", "cost", by] => number(by).map(Effect::IncreaseCost),
        ["decrease", "cost", by] => number(by).map(Effect::DecreaseCost),
        ["send", "event"] => Ok(Effect::SendEvent),
        _ => Err(format!(
            "`{text}` must be mark healthy, mark unhealthy, increase cost <n>, decrease cost <n> or \
             send event"
        )),
    }
}
