//! Limits the addresses from which key sets of external signers may be fetched
//! (docs/protocol/auth.md 13.3).
//!
//! The author of a signer chooses the URL of its key set. Link-local addresses, where clouds serve
//! credentials of machines, are always refused; others if the configuration says so. Plain HTTP leads to
//! loopback only, and elsewhere to hosts that the configuration names, because whoever is on the way could
//! put keys of his own in the place of the provider's. The URL is checked when a body sets it, and again at
//! each fetch and redirect; the addresses behind a host name are judged when it was resolved.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};
use weft_config::controller::{JwksFetch, Network};

/// Longest URL of a key set, in bytes.
const MAX_URL: usize = 2048;

/// Networks that are refused whatever the configuration says.
const NEVER: &[(IpAddr, u8)] = &[
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), 128),
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 24),
    (IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128),
];

/// Private and loopback networks.
const PRIVATE: &[(IpAddr, u8)] = &[
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
];

/// Whether the first `prefix` bits of two addresses of one family are equal.
fn is_within(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let same = |a: u128, b: u128, bits: u32| {
        let prefix = u32::from(prefix).min(bits);
        prefix == 0 || (a ^ b) >> (bits - prefix) == 0
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

fn is_in(address: IpAddr, networks: &[Network]) -> bool {
    networks.iter().any(|it| is_within(address, it.address, it.prefix))
}

/// Whether a key set may be fetched from an address. An IPv4 address mapped into IPv6 counts as
/// IPv4, and an address of IPv6 that leads to one of IPv4 has to be allowed as both.
fn allows_address(rules: &JwksFetch, address: IpAddr) -> bool {
    let address = address.to_canonical();
    let embedded = embedded(address).map(IpAddr::V4);
    [Some(address), embedded].into_iter().flatten().all(|it| allows_one(rules, it))
}

/// The address of IPv4 to which a gateway leads an address of IPv6: of NAT64 (64:ff9b::/96) or 6to4 (2002::/16).
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let bits = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => address.to_bits(),
        [0x2002, ..] => address.to_bits() >> 80,
        _ => return None,
    };
    // The cast keeps the lowest 32 bits.
    Some(Ipv4Addr::from_bits(bits as u32))
}

fn allows_one(rules: &JwksFetch, address: IpAddr) -> bool {
    let among = |of: &[(IpAddr, u8)]| of.iter().any(|(at, bits)| is_within(address, *at, *bits));
    if among(NEVER) || is_in(address, &rules.denied_ips) {
        return false;
    }
    is_in(address, &rules.allowed_ips) || !rules.block_private_addresses || !among(PRIVATE)
}

/// Whether a rule names a host, either exactly or as `*.suffix`.
fn is_named(host: &str, rules: &[String]) -> bool {
    rules.iter().any(|rule| match rule.strip_prefix("*.") {
        Some(suffix) => {
            host.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        }
        None => host == rule,
    })
}

/// Whether the configuration names a host, so that plain HTTP may lead to it.
fn names_host(rules: &JwksFetch, host: &Host<&str>) -> bool {
    match host {
        Host::Domain(host) => is_named(&plain(host), &rules.allowed_hostnames),
        Host::Ipv4(address) => is_in((*address).into(), &rules.allowed_ips),
        Host::Ipv6(address) => is_in(IpAddr::from(*address).to_canonical(), &rules.allowed_ips),
    }
}

/// A host name in the form of the rules.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a host is this machine by its text.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(host) => {
            let host = plain(host);
            host == "localhost" || host.ends_with(".localhost")
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => IpAddr::from(*address).to_canonical().is_loopback(),
    }
}

/// Checks an address at which a key set would be fetched: one to which the host of the URL was resolved. The
/// error is the reason of the refusal.
pub fn check_address(rules: &JwksFetch, url: &Url, address: IpAddr) -> Result<(), String> {
    if !allows_address(rules, address) {
        return Err(format!("the configuration forbids fetching from {address}"));
    }
    let is_plain = url.scheme() == "http" && !address.to_canonical().is_loopback();
    match url.host() {
        Some(host) if is_plain && !names_host(rules, &host) => Err(PLAIN.to_owned()),
        _ => Ok(()),
    }
}

/// The refusal of plain HTTP.
const PLAIN: &str = "http is for this machine only: use https, or name the host in \
                     edge.externalJwtSigners.jwksFetch.allowedHostnames (an address in allowedIPs)";

/// Parses the URL of a key set and checks its host; the error is the reason of the refusal.
pub fn check_url(rules: &JwksFetch, text: &str) -> Result<Url, String> {
    if text.len() > MAX_URL {
        return Err(format!("must be at most {MAX_URL} characters long"));
    }
    let url = Url::parse(text).map_err(|error| format!("must be a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must be an address of http or https".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user name and no password".into());
    }
    let refused = || "the configuration forbids fetching from this address".to_owned();
    match url.host() {
        None => return Err("must have a host".into()),
        Some(Host::Ipv4(address)) if !allows_address(rules, address.into()) => {
            return Err(refused());
        }
        Some(Host::Ipv6(address)) if !allows_address(rules, address.into()) => {
            return Err(refused());
        }
        Some(Host::Domain(host)) => {
            let host = plain(host);
            let is_listed =
                rules.allowed_hostnames.is_empty() || is_named(&host, &rules.allowed_hostnames);
            if is_named(&host, &rules.denied_hostnames) || !is_listed {
                return Err("the configuration forbids fetching from this host".into());
            }
        }
        Some(_) => {}
    }
    if let Some(host) = url.host()
        && url.scheme() == "http"
        && !is_loopback(&host)
        && !names_host(rules, &host)
    {
        return Err(PLAIN.into());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use weft_kernel::settings::open_fetch;

    use super::*;

    fn allows(rules: &JwksFetch, address: &str) -> bool {
        allows_address(rules, address.parse().unwrap())
    }

    #[test]
    fn metadata_addresses_are_never_fetched_from() {
        let open = open_fetch();
        for never in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "fd00:ec2::254",
            "224.0.0.1",
            "ff02::1",
            "0.0.0.0",
            "::",
        ] {
            assert!(!allows(&open, never), "{never}");
        }
        for fine in ["10.0.0.1", "127.0.0.1", "::1", "8.8.8.8", "224.0.1.1", "fd00:ec2::253"] {
            assert!(allows(&open, fine), "{fine}");
        }
        assert!(check_url(&open, "https://169.254.169.254/latest").is_err());
        assert!(check_url(&open, "https://[fe80::1]/").is_err());
        assert!(check_url(&open, "https://idp.example/keys").is_ok());
        for wrong in ["idp.example/keys", "file:///etc/passwd", "https://", "x", ""] {
            assert!(check_url(&open, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn plain_http_leads_to_this_machine_and_to_named_hosts() {
        let open = open_fetch();
        for fine in ["http://localhost:8080/x", "http://127.0.0.1/x", "http://[::1]/x"] {
            assert!(check_url(&open, fine).is_ok(), "{fine}");
        }
        for refused in ["http://idp.example/x", "http://10.0.0.1/x", "http://localhost.example/x"] {
            assert!(check_url(&open, refused).unwrap_err().contains("https"), "{refused}");
        }
        assert!(check_url(&open, "https://user:secret@idp.example/x").is_err());
        let url = |text: &str| Url::parse(text).unwrap();
        let judge = |rules: &JwksFetch, at: &str, address: &str| {
            check_address(rules, &url(at), address.parse().unwrap()).is_ok()
        };
        assert!(judge(&open, "http://localhost/x", "127.0.0.1"));
        assert!(!judge(&open, "http://localhost/x", "192.0.2.1"), "a name of this machine lies");
        assert!(judge(&open, "https://idp.example/x", "192.0.2.1"));
        assert!(!judge(&open, "https://idp.example/x", "::ffff:169.254.169.254"));
        let named = JwksFetch {
            allowed_hostnames: vec!["*.internal".into()],
            allowed_ips: vec!["10.0.0.0/8".parse().unwrap()],
            ..open_fetch()
        };
        assert!(check_url(&named, "http://keys.internal/x").is_ok());
        assert!(judge(&named, "http://keys.internal/x", "192.0.2.1"));
        assert!(check_url(&named, "http://10.0.0.1/x").is_ok());
        assert!(check_url(&named, "http://192.0.2.1/x").is_err());
        assert!(!judge(&named, "http://keys.internal/x", "169.254.169.254"));
    }

    #[test]
    fn the_configuration_says_what_else() {
        let rules = JwksFetch {
            block_private_addresses: true,
            allowed_ips: vec!["10.1.0.0/16".parse().unwrap()],
            denied_ips: vec!["10.1.2.0/24".parse().unwrap(), "1.2.3.4".parse().unwrap()],
            denied_hostnames: vec!["*.internal".into(), "bad.example".into()],
            ..open_fetch()
        };
        assert!(allows(&rules, "10.1.0.1"));
        assert!(allows(&rules, "64:ff9b::10.1.0.1") && allows(&rules, "64:ff9b::8.8.8.8"));
        for refused in [
            "64:ff9b::10.2.0.1",
            "2002:a01:203::",
            "10.1.2.3",
            "10.2.0.1",
            "127.0.0.1",
            "::1",
            "fc00::1",
            "1.2.3.4",
        ] {
            assert!(!allows(&rules, refused), "{refused}");
        }
        assert!(check_url(&rules, "https://keys.internal./x").is_err());
        assert!(check_url(&rules, "https://BAD.example/x").is_err());
        assert!(check_url(&rules, "https://internal/x").is_ok());
        let only = JwksFetch { allowed_hostnames: vec!["idp.example".into()], ..open_fetch() };
        assert!(check_url(&only, "https://idp.example/x").is_ok());
        assert!(check_url(&only, "https://other.example/x").is_err());
    }
}
