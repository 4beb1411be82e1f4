//! Answers of other servers that lead elsewhere than the name says (DNS rebinding): the owner of a public name answers
//! with an address of a service, or of this machine, and a page under that name may then read what is there, because
//! for the browser both have the same origin.

use std::net::IpAddr;

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::svcb::SvcParamValue;
use hickory_proto::rr::{RData, Record};
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::time::Instant;
use weft_limits::LogLines;

/// Last labels of names that nobody can register: a server of the own network may give them any address.
const PRIVATE: [&str; 12] = [
    "local",
    "localhost",
    "internal",
    "lan",
    "home",
    "corp",
    "private",
    "intranet",
    "localdomain",
    "test",
    "invalid",
    "onion",
];
/// The domain of home networks (RFC 8375), whose last label is of the public tree.
const HOME: &str = "home.arpa";

/// Keeps addresses out of answers.
#[derive(Debug)]
pub(super) struct Rebinding {
    /// The addresses of names of services.
    range: IpNet,
    /// Domains whose names may lead anywhere.
    private: Vec<String>,
    lines: Mutex<LogLines>,
}

/// What is wrong with an address in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// The address is in the range of addresses for names of services, whether a service has it or not.
    OfServices,
    /// The address is that of this machine or of one beside it, and the name is public.
    OfMachine,
}

impl Rebinding {
    pub(super) fn new(range: IpNet, private: &[String]) -> Self {
        let lines = Mutex::new(LogLines::new(Instant::now().into_std()));
        Self { range, private: private.to_vec(), lines }
    }

    /// Another server's answer to the question for a name (in lower case, without the dot at its end), without the
    /// records that lead to services or, for a public name, to this machine. An answer without any left is still an
    /// answer: after an error, clients ask the next server, which may say the same.
    pub(super) fn kept(&self, name: &str, answer: Vec<u8>) -> Option<Vec<u8>> {
        if self.private.iter().any(|domain| is_in(name, domain)) {
            return Some(answer);
        }
        let mut message = Message::from_vec(&answer).ok()?;
        let is_public = is_public(name);
        let mut refused = None;
        let Message { answers, authorities, additionals, .. } = &mut message;
        for records in [answers, authorities, additionals] {
            records.retain(|record| {
                let mut all = addresses(record).into_iter();
                let wrong = all.find_map(|it| Some((it, self.wrong(it, is_public)?)));
                refused = refused.or(wrong);
                wrong.is_none()
            });
        }
        let Some((address, wrong)) = refused else { return Some(answer) };
        self.log(name, address, wrong);
        // What is left was not signed so.
        message.metadata.authentic_data = false;
        message.to_vec().ok()
    }

    fn wrong(&self, address: IpAddr, is_public: bool) -> Option<Wrong> {
        let address = address.to_canonical();
        let is_of_machine = match address {
            IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_loopback() || v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unspecified() || v6.is_loopback() || v6.is_unicast_link_local(),
        };
        if self.range.contains(&address) {
            return Some(Wrong::OfServices);
        }
        (is_public && is_of_machine).then_some(Wrong::OfMachine)
    }

    fn log(&self, name: &str, address: IpAddr, wrong: Wrong) {
        let what = match wrong {
            Wrong::OfServices => {
                format!("which is in the range for names of services ({})", self.range.trunc())
            }
            Wrong::OfMachine => "which means this machine or its own link".to_owned(),
        };
        let text = format!(
            "a DNS server answers the question for {name} with {address}, {what}: the address was left out; if the name \
             rightly leads there, name its domain in `dnsPrivateDomains` (`--dns-private-domain`)"
        );
        match self.lines.lock().due(Instant::now().into_std()) {
            Some(left_out) => {
                tracing::warn!("{text} ({left_out} more such answers since the last such line)")
            }
            None => tracing::debug!("{text}"),
        }
    }
}

/// Whether a name is a domain, or a name in it.
fn is_in(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether a name means this machine itself (RFC 6761 6.3).
pub(super) fn is_localhost(name: &str) -> bool {
    name.rsplit('.').next() == Some("localhost")
}

/// Whether anybody can register a name, or a name above it.
fn is_public(name: &str) -> bool {
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    !is_in(name, HOME) && !PRIVATE.contains(&last)
}

/// The addresses that a record leads to.
fn addresses(record: &Record) -> Vec<IpAddr> {
    let parameters = match &record.data {
        RData::A(address) => return vec![address.0.into()],
        RData::AAAA(address) => return vec![address.0.into()],
        RData::HTTPS(service) => &service.0.svc_params,
        RData::SVCB(service) => &service.svc_params,
        _ => return Vec::new(),
    };
    let hints = parameters.iter().flat_map(|(_, value)| match value {
        SvcParamValue::Ipv4Hint(hints) => hints.0.iter().map(|it| it.0.into()).collect(),
        SvcParamValue::Ipv6Hint(hints) => hints.0.iter().map(|it| it.0.into()).collect(),
        _ => Vec::new(),
    });
    hints.collect()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use hickory_proto::op::{MessageType, OpCode, Query};
    use hickory_proto::rr::rdata::svcb::{IpHint, SvcParamKey};
    use hickory_proto::rr::rdata::{CNAME, HTTPS, SVCB};
    use hickory_proto::rr::{Name, RecordType};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn hinted(addresses: &[IpAddr]) -> SVCB {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) => v4.push((*address).into()),
                IpAddr::V6(address) => v6.push((*address).into()),
            }
        }
        let parameters = vec![
            (SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(v4))),
            (SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(v6))),
        ];
        SVCB::new(1, name("x.example."), parameters)
    }

    /// Which of the addresses an answer for a name still has, in every record that can carry it.
    fn left(asked: &str, addresses: &[&str]) -> Vec<String> {
        let rebinding = Rebinding::new("100.64.0.1/10".parse().unwrap(), &["lab.example".into()]);
        let mut forms = Vec::new();
        for form in 0..5 {
            let mut message = Message::new(7, MessageType::Response, OpCode::Query);
            message.metadata.authentic_data = true;
            message.add_query(Query::query(name(asked), RecordType::A));
            let alias = RData::CNAME(CNAME(name("alias.example.")));
            message.add_answer(Record::from_rdata(name(asked), 60, alias));
            for address in addresses.iter().map(|text| text.parse::<IpAddr>().unwrap()) {
                let data = match (form, address) {
                    (0 | 3 | 4, IpAddr::V4(address)) => RData::A(address.into()),
                    (0 | 3 | 4, IpAddr::V6(address)) => RData::AAAA(address.into()),
                    (1, _) => RData::SVCB(hinted(&[[192, 0, 2, 1].into(), address])),
                    _ => RData::HTTPS(HTTPS(hinted(&[[192, 0, 2, 1].into(), address]))),
                };
                let record = Record::from_rdata(name("alias.example."), 60, data);
                match form {
                    3 => message.add_additional(record),
                    4 => message.add_authority(record),
                    _ => message.add_answer(record),
                };
            }
            let bytes = message.to_vec().unwrap();
            let kept = rebinding.kept(asked.trim_end_matches('.'), bytes.clone()).unwrap();
            let message = Message::from_vec(&kept).unwrap();
            assert_eq!(message.metadata.authentic_data, kept == bytes);
            assert!(
                matches!(&message.answers[0].data, RData::CNAME(_)),
                "what carries no address stays"
            );
            let Message { answers, authorities, additionals, .. } = &message;
            let all = [answers, authorities, additionals].into_iter().flatten();
            let all =
                all.flat_map(super::addresses).filter(|it| *it != IpAddr::from([192, 0, 2, 1]));
            forms.push(all.map(|address| address.to_string()).collect::<Vec<_>>());
        }
        assert!(forms.iter().all(|form| *form == forms[0]), "{forms:?}");
        forms.remove(0)
    }

    #[test]
    fn no_name_of_others_leads_to_a_service_or_to_this_machine() {
        let outside =
            ["203.0.113.9", "10.0.0.9", "192.168.1.1", "2001:db8::9", "fd00::9", "100.128.0.1"];
        let services = ["100.64.0.2", "100.127.255.255", "::ffff:100.64.0.2"];
        let own = [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "0.0.0.1",
            "169.254.169.254",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:0.0.0.0",
            "::ffff:169.254.1.1",
        ];
        let all = [&outside[..], &services, &own].concat();
        for public in
            ["page.example.", "a.b.page.example.", "7f000001.rebind.example.", "localhost.example."]
        {
            assert_eq!(left(public, &all), outside, "{public}");
        }
        assert_eq!(left("page.example.", &services), [""; 0], "an answer without addresses");
        // A server of the own network may know names of this machine, but no services.
        for private in ["printer.", "a.printer.local.", "x.home.arpa.", "db.corp.", "home.arpa."] {
            assert_eq!(left(private, &all), [&outside[..], &own].concat(), "{private}");
        }
    }

    #[test]
    fn names_of_private_domains_lead_wherever_their_servers_say() {
        let all = ["100.64.0.2", "127.0.0.1", "fe80::1"];
        for private in ["lab.example.", "x.y.lab.example."] {
            assert_eq!(left(private, &all), all, "{private}");
        }
        for other in ["otherlab.example.", "other.example.", "lab.example.org."] {
            assert_eq!(left(other, &all), [""; 0], "{other}");
        }
    }

    #[test]
    fn a_range_of_ipv6_is_kept_out_too() {
        let rebinding = Rebinding::new("fd00:64::1/64".parse().unwrap(), &[]);
        let inside = Ipv6Addr::new(0xfd00, 0x64, 0, 0, 0, 0, 0, 9);
        assert_eq!(rebinding.wrong(inside.into(), false), Some(Wrong::OfServices));
        assert_eq!(rebinding.wrong(Ipv4Addr::new(100, 64, 0, 2).into(), true), None);
        assert_eq!(rebinding.wrong(Ipv4Addr::LOCALHOST.into(), true), Some(Wrong::OfMachine));
    }

    #[test]
    fn localhost_is_one_label() {
        for own in ["localhost", "a.localhost", "a.b.localhost"] {
            assert!(is_localhost(own), "{own}");
        }
        for other in ["", "localhost.example", "mylocalhost", "localhost.localdomain"] {
            assert!(!is_localhost(other), "{other}");
        }
    }
}
