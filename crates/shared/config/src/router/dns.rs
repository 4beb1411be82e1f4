//! The addresses of the tunneler's DNS server, and of the servers that it asks
//! (docs/protocol/tunnel.md 6.1).

use std::net::{IpAddr, SocketAddr};

use crate::controller::Network;
use crate::section::Section;

/// Most domains of the own network.
const MAX_DOMAINS: usize = 64;
/// Longest domain, in bytes.
const MAX_DOMAIN: usize = 253;

/// Notes mistakes that the DNS server refuses at its start. Hosts are not looked up.
pub(super) fn check(section: &Section<'_>, resolver: &[String], upstream: &[String]) {
    for text in resolver.iter().filter(|text| !text.starts_with("file:")) {
        if let Err(why) = listening(text) {
            section.problem("resolver", format!("{text:?}: {why}"));
        }
    }
    for text in upstream {
        let host = text.strip_prefix("tcp://").or_else(|| text.strip_prefix("udp://"));
        let form = || "has to be udp://<host>:<port> or tcp://<host>:<port>".to_owned();
        if let Err(why) = host.ok_or_else(form).and_then(address) {
            section.problem("dnsUpstream", format!("{text:?}: {why}"));
        }
    }
}

/// Notes domains that cannot be any.
pub(super) fn check_domains(section: &Section<'_>, domains: &[String]) {
    const KEY: &str = "dnsPrivateDomains";
    if domains.len() > MAX_DOMAINS {
        section.problem(KEY, format!("at most {MAX_DOMAINS} domains"));
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_part);
    for text in domains {
        let domain = text.trim_matches('.');
        if domain.len() > MAX_DOMAIN || !domain.split('.').all(is_label) {
            section.problem(KEY, format!("{text:?}: has to be a domain, such as lab.example"));
        }
    }
}

fn listening(text: &str) -> Result<(), String> {
    let (host, query) = text.split_once('?').unwrap_or((text, ""));
    let host =
        host.strip_prefix("udp://").ok_or("has to be udp://<address>:<port> or file:///<path>")?;
    address(host)?;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or(("", part));
        match key {
            "clients" => {
                for text in value.split(',') {
                    let net = text.parse::<Network>();
                    net.map_err(|_| format!("{text:?} is not a network"))?;
                }
            }
            "" | "response" | "unanswerable" => {
                if !["refused", "servfail", "timeout"].contains(&value) {
                    return Err(format!("{value:?} is none of refused, servfail, timeout"));
                }
            }
            _ => return Err(format!("{key:?} is none of clients, response, unanswerable")),
        }
    }
    Ok(())
}

/// `host:port`, `[v6]:port` or a host alone.
fn address(text: &str) -> Result<(), String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if text.parse::<SocketAddr>().is_ok() || bare.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let host = match text.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_err() => {
            return Err(format!("{port:?} is not a port"));
        }
        Some((host, _)) => host,
        None => text,
    };
    if host.is_empty() { Err("the host has no address".into()) } else { Ok(()) }
}
