//! Health checks as configs write them (docs/protocol/tunnel.md 3.1, 8).

use std::time::Duration;

use serde::Deserialize;

use super::{
    part,
    written::{ConfigError, Result},
};

/// Checks are made no more often.
const SHORTEST: Duration = Duration::from_secs(1);
/// Checks of one terminator. Whoever writes a config has every host of the service make them.
const MOST_CHECKS: usize = 64;
/// Actions of one check.
const MOST_ACTIONS: usize = 20;

/// Something that is tried again and again, and what follows from how it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is tried.
    pub probe: Probe,
    /// How often.
    pub interval: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// What follows.
    pub actions: Vec<Action>,
}

/// What a check tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A TCP connection to `host:port`.
    Port(String),
    /// A request over HTTP.
    Http(HttpCheck),
}

/// A request, and what has to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// Where.
    pub url: url::Url,
    /// How.
    pub method: &'static str,
    /// What is sent.
    pub body: Option<String>,
    /// The status that is answered.
    pub expect_status: u16,
    /// What the answer contains.
    pub expect_in_body: Option<String>,
}

/// What follows from results of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Of which results.
    pub trigger: Trigger,
    /// Of how many in a row.
    pub consecutive_events: Option<u16>,
    /// Of those that have gone on for so long.
    pub duration: Option<Duration>,
    /// What follows.
    pub effect: Effect,
}

/// Results that an action follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// Failures.
    Fail,
    /// Passes.
    Pass,
    /// The first of a series of either.
    Change,
}

/// What an action does to a terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is dialed when nothing else is left.
    MarkUnhealthy,
    /// It is preferred as at the beginning.
    MarkHealthy,
    /// Its cost goes up.
    IncreaseCost(u16),
    /// Its cost goes down, not below what it was at the beginning.
    DecreaseCost(u16),
    /// Controllers are told of the result.
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
) -> Result<Vec<Check>> {
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

fn port_check(config: &'static str, written: PortCheck) -> Result<Check> {
    let port = written.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        let problem = format!("`{}` must be <host>:<port>", written.address);
        return Err(ConfigError::new(config, "address", problem));
    }
    let probe = Probe::Port(written.address);
    check(config, probe, &written.interval, &written.timeout, written.actions)
}

fn http_check(config: &'static str, written: WrittenHttpCheck) -> Result<Check> {
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
    let probe = Probe::Http(HttpCheck {
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
    probe: Probe,
    interval: &str,
    timeout: &str,
    actions: Option<Vec<WrittenAction>>,
) -> Result<Check> {
    let actions = actions.unwrap_or_default();
    if actions.len() > MOST_ACTIONS {
        let problem = format!("{} are too many, at most {MOST_ACTIONS}", actions.len());
        return Err(ConfigError::new(config, "actions", problem));
    }
    let read = |(index, written): (usize, WrittenAction)| {
        action(config, &written).map_err(|error| error.within(&format!("actions[{index}]")))
    };
    Ok(Check {
        probe,
        interval: part::duration(config, "interval", interval)?.max(SHORTEST),
        timeout: part::duration(config, "timeout", timeout)?,
        actions: actions.into_iter().enumerate().map(read).collect::<Result<_>>()?,
    })
}

fn action(config: &'static str, written: &WrittenAction) -> Result<Action> {
    let duration = written.duration.as_deref();
    let duration = duration.map(|text| part::duration(config, "duration", text)).transpose()?;
    let effect =
        effect(&written.action).map_err(|problem| ConfigError::new(config, "action", problem))?;
    let consecutive_events = written.consecutive_events;
    Ok(Action { trigger: written.trigger, consecutive_events, duration, effect })
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
