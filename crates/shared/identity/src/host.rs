//! The hosts that a certificate names.
//!
//! Only alternative names count, whatever the certificate's version and its other extensions are. A
//! wildcard is the whole first label of a name, and covers exactly one label.

use rustls_pki_types::ServerName;

use crate::certificate::San;

/// True if one of the names covers the host.
pub(crate) fn is_covered(host: &ServerName<'_>, names: &[San]) -> bool {
    match host {
        ServerName::DnsName(host) => {
            let host = host.as_ref();
            let host = host.strip_suffix('.').unwrap_or(host);
            names.iter().any(|name| matches!(name, San::Dns(name) if covers(name, host)))
        }
        ServerName::IpAddress(address) => {
            let address = std::net::IpAddr::from(*address).to_canonical();
            let is_same = |named: &std::net::IpAddr| named.to_canonical() == address;
            names.iter().any(|name| matches!(name, San::Ip(named) if is_same(named)))
        }
        _ => false,
    }
}

fn covers(name: &str, host: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(rest) => host.split_once('.').is_some_and(|(first, others)| {
            !first.is_empty() && !rest.is_empty() && others.eq_ignore_ascii_case(rest)
        }),
        None => name.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_hosts() {
        let address = |text: &str| San::Ip(text.parse().unwrap());
        let dns = |text: &str| San::Dns(text.to_owned());
        let table = [
            (dns("ctrl.example.com"), "ctrl.example.com", true),
            (dns("ctrl.example.com"), "CTRL.example.com.", true),
            (dns("Ctrl.Example.com"), "ctrl.example.com", true),
            (dns("ctrl.example.com"), "x.ctrl.example.com", false),
            (dns("ctrl.example.com"), "example.com", false),
            (dns("ctrl.example.com."), "ctrl.example.com", false),
            (dns("*.example.com"), "ctrl.example.com", true),
            (dns("*.example.com"), "example.com", false),
            (dns("*.example.com"), "a.b.example.com", false),
            (dns("c*.example.com"), "ctrl.example.com", false),
            (dns("ctrl.*.com"), "ctrl.example.com", false),
            (dns("*"), "localhost", false),
            (dns("*."), "localhost.", false),
            (dns("my_host"), "my_host", true),
            (dns("10.1.2.3"), "10.1.2.3", false),
            (address("10.1.2.3"), "10.1.2.3", true),
            (address("10.1.2.3"), "10.1.2.4", false),
            (address("::1"), "::1", true),
            (address("2001:db8::1"), "2001:0db8:0:0::0001", true),
            (address("2001:db8::1"), "2001:db8::2", false),
            (San::Email("a@example.com".into()), "example.com", false),
            (San::Uri("https://example.com".into()), "example.com", false),
        ];
        for (name, host, wanted) in table {
            let found =
                is_covered(&ServerName::try_from(host).unwrap(), std::slice::from_ref(&name));
            assert_eq!(found, wanted, "{name} {host}");
        }
    }
}
