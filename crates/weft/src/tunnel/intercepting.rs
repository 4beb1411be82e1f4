//! Interception by `weft tunnel run`: begun before anything else, so that a missing privilege is
//! reported at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_tunnel::{
    InterceptError, InterceptOptions, Interception, Prepared, Unanswerable, UpstreamMode,
};

use super::identities;
use crate::cli::{DnsUnanswered, DnsUpstreams, Intercepting};
use crate::failure::{Failure, Result};

/// Port of a controller whose URL names none.
const HTTPS: u16 = 443;

/// Begins to intercept, if there are settings for it. Identities join later. A stop
/// ends the search for addresses of names, but once the machine is being changed, the changes are completed.
pub(super) async fn start(
    wanted: Option<&Intercepting>,
    identities: &[PathBuf],
    udp_idle: u32,
    stop: &CancellationToken,
) -> Result<Option<Arc<Interception>>> {
    let Some(wanted) = wanted else { return Ok(None) };
    let options = options(wanted, identities, udp_idle)?;
    let prepared = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(Failure::interrupted()),
        prepared = Prepared::new(options) => prepared.map_err(failed)?,
    };
    prepared.start().await.map(Some).map_err(failed)
}

fn failed(error: InterceptError) -> Failure {
    match error {
        InterceptError::Options(text) => Failure::usage(text),
        problem @ InterceptError::Machine(_) => Failure::new(format!(
            "services cannot be intercepted: {problem}"
        ))
        .and(
            "hint: interception changes routes and the firewall of this machine: it needs root, \
                 `ip`, and `nft` or `iptables`. Without: `weft tunnel proxy SERVICE:PORT` offers \
                 services at ports, `weft tunnel run-host` hosts, `weft tunnel run --no-intercept` \
                 does what configs say of both",
        ),
    }
}

fn options(
    wanted: &Intercepting,
    identities: &[PathBuf],
    udp_idle: u32,
) -> Result<InterceptOptions> {
    let wrong = || {
        let text = format!("--dns-range: `{}` must be an address and a prefix", wanted.dns_range);
        Failure::usage(text + ", for example 100.64.0.1/10")
    };
    let (address, prefix) = wanted.dns_range.split_once('/').ok_or_else(wrong)?;
    let names = (address.parse().map_err(|_| wrong())?, prefix.parse().map_err(|_| wrong())?);
    let given = |texts: &[String]| -> Vec<String> {
        texts.iter().filter(|text| !text.is_empty()).cloned().collect()
    };
    Ok(InterceptOptions {
        name: wanted.name.clone(),
        resolver: given(&wanted.resolver),
        diverter: wanted.diverter.clone(),
        names,
        upstream: given(&wanted.dns_upstream),
        upstream_mode: match wanted.dns_upstream_mode {
            DnsUpstreams::Parallel => UpstreamMode::Parallel,
            DnsUpstreams::Serial => UpstreamMode::Serial,
            DnsUpstreams::Failover => UpstreamMode::Failover,
            DnsUpstreams::Random => UpstreamMode::Random,
        },
        unanswerable: wanted.dns_unanswerable.map(|answer| match answer {
            DnsUnanswered::Refused => Unanswerable::Refused,
            DnsUnanswered::Servfail => Unanswerable::Servfail,
            DnsUnanswered::Timeout => Unanswerable::Timeout,
        }),
        private_domains: given(&wanted.dns_private_domain),
        interfaces: given(&wanted.interface),
        udp_idle: Some(Duration::from_secs(udp_idle.into())),
        udp_check: None,
        controllers: controllers(identities),
    })
}

/// Addresses of the identities' controllers.
pub(super) fn controllers(identities: &[PathBuf]) -> Vec<(String, u16)> {
    let urls = identities.iter().flat_map(|path| identities::controllers(path));
    let mut out: Vec<_> = urls.filter_map(|url| authority(&url)).collect();
    out.sort();
    out.dedup();
    out
}

/// Host and port of a URL.
fn authority(url: &str) -> Option<(String, u16)> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let bare = |host: &str| host.trim_matches(['[', ']']).to_owned();
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => Some((bare(host), port.parse().ok()?)),
        _ if authority.is_empty() => None,
        _ => Some((bare(authority), HTTPS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_found_in_urls() {
        let is = |url: &str, host: &str, port: u16| {
            assert_eq!(authority(url), Some((host.to_owned(), port)), "{url}");
        };
        is("https://ctrl.example:1280/edge/client/v1", "ctrl.example", 1280);
        is("https://ctrl.example/edge/client/v1", "ctrl.example", 443);
        is("https://[fd00::1]:1280", "fd00::1", 1280);
        is("https://[fd00::1]/", "fd00::1", 443);
        assert_eq!(authority("ctrl.example:1280"), None);
        assert_eq!(authority(""), None);
    }
}
