//! Addresses that dialers may have connections come from: `allowedSourceAddresses` of hosts.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use weft_channel::Asker;
use weft_channel::clock::now;
use weft_limits::LogLines;

use super::written::ConfigError;
use crate::{AddressRule, DialingIdentity, Network};

/// Most addresses and networks of one list.
const MOST_NETWORKS: usize = 256;
/// Most host names of one list, and most addresses of one of them that are used.
const MOST_NAMES: usize = 16;
const MOST_OF_NAME: usize = 16;
/// Time limit for the addresses of a name.
const PATIENCE: Duration = Duration::from_secs(5);
/// The share in which the names of all lists are looked up while services begin to be hosted.
const SHARE: &str = "allowedSourceAddresses";
/// The log lines about names, which any dial may cause.
static LINES: LazyLock<Mutex<LogLines>> = LazyLock::new(|| Mutex::new(LogLines::new(now())));

/// The addresses: networks, and hosts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    networks: Vec<Network>,
    names: Vec<String>,
}

impl Sources {
    /// Reads a list; the entries that are left out are told.
    pub(super) fn read(config: &'static str, texts: &[String]) -> (Self, Vec<ConfigError>) {
        let (mut read, mut left_out) = (Self::default(), Vec::new());
        for (index, text) in texts.iter().enumerate() {
            let problem = match (Network::parse(text.trim()), AddressRule::parse(text)) {
                (Some(network), _) if read.networks.len() < MOST_NETWORKS => {
                    read.networks.push(network);
                    continue;
                }
                (Some(_), _) => {
                    format!(
                        "`{text}` is left out: {MOST_NETWORKS} addresses and networks are the most"
                    )
                }
                (None, Some(AddressRule::Name(name))) if read.names.len() < MOST_NAMES => {
                    read.names.push(name);
                    continue;
                }
                (None, Some(AddressRule::Name(_))) => {
                    format!("`{text}` is left out: {MOST_NAMES} host names are the most")
                }
                _ => format!(
                    "`{text}` is left out: it is no address, no network (10.0.0.0/8) and no host name"
                ),
            };
            let member = format!("allowedSourceAddresses[{index}]");
            left_out.push(ConfigError::new(config, member, problem));
        }
        (read, left_out)
    }

    /// The networks, with the present addresses of the names. A name without an address is logged.
    pub(crate) async fn networks(&self) -> Vec<Network> {
        let found = self.names.iter().map(|name| addresses(Asker::Check(SHARE), name));
        let found = join_all(found).await;
        let found = found.into_iter().flatten().map(Network::of);
        self.networks.iter().copied().chain(found).collect()
    }

    /// True if connections of this dialer may come from this address.
    pub(crate) async fn allow(&self, source: IpAddr, dialer: &DialingIdentity) -> bool {
        if self.networks.iter().any(|known| known.contains(source)) {
            return true;
        }
        let asker = Asker::Dialer(dialer.as_str());
        let found = join_all(self.names.iter().map(|name| addresses(asker, name))).await;
        found.into_iter().flatten().any(|address| address.to_canonical() == source)
    }
}

/// The addresses of a host; none if it has none, which is logged.
async fn addresses(asker: Asker<'_>, name: &str) -> Vec<IpAddr> {
    let found = tokio::time::timeout(PATIENCE, weft_channel::resolve_for(asker, name, 0)).await;
    let problem = match found {
        Ok(Ok(found)) if !found.is_empty() => {
            return found.iter().map(|at| at.ip()).take(MOST_OF_NAME).collect();
        }
        Ok(Ok(_)) => "the host has no address".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    let due = LINES.lock().due(now());
    if let Some(left_out) = due {
        tracing::warn!(name, problem, left_out, "a host in allowedSourceAddresses is not found");
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> (Sources, Vec<ConfigError>) {
        let texts: Vec<_> = texts.iter().map(|&text| text.to_owned()).collect();
        Sources::read("host.v1", &texts)
    }

    #[tokio::test]
    async fn names_stand_for_their_addresses() {
        let (sources, left_out) = read(&["10.0.0.0/8", "localhost", " fd00::1 "]);
        assert_eq!(left_out, []);
        for (source, allowed) in [
            ("10.1.2.3", true),
            ("127.0.0.1", true),
            ("fd00::1", true),
            ("127.0.0.2", false),
            ("11.0.0.1", false),
        ] {
            let dialer = DialingIdentity::new(None, "a");
            let allows = sources.allow(source.parse().unwrap(), &dialer).await;
            assert_eq!(allows, allowed, "{source}");
        }
        let networks = sources.networks().await;
        assert!(networks.contains(&Network::parse("127.0.0.1").unwrap()), "{networks:?}");
        // A label is too long, so that no DNS server is asked.
        let (none, _) = read(&[&format!("{}.invalid", "x".repeat(63)), "10.0.0.1"]);
        assert_eq!(none.networks, [Network::parse("10.0.0.1").unwrap()]);
    }

    #[test]
    fn what_can_be_no_source_is_left_out_with_a_reason() {
        let (sources, left_out) = read(&["*.lab.example", "a b", "10.0.0.0/40", "", "10.0.0.1"]);
        assert_eq!(sources, read(&["10.0.0.1"]).0);
        let members: Vec<_> = left_out.iter().map(|one| one.member.as_str()).collect();
        let expected = [0, 1, 2, 3].map(|index| format!("allowedSourceAddresses[{index}]"));
        assert_eq!(members, expected);
        let names: Vec<_> = (0..=MOST_NAMES).map(|number| format!("h{number}.example")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (sources, left_out) = read(&names);
        assert_eq!((sources.names.len(), left_out.len()), (MOST_NAMES, 1));
        let networks: Vec<_> = (0..=MOST_NETWORKS)
            .map(|number| format!("10.{}.{}.0/24", number / 256, number % 256))
            .collect();
        let networks: Vec<_> = networks.iter().map(String::as_str).collect();
        let (sources, left_out) = read(&networks);
        assert_eq!((sources.networks.len(), left_out.len()), (MOST_NETWORKS, 1));
        assert!(left_out[0].to_string().contains("256 addresses and networks"), "{}", left_out[0]);
    }
}
