//! Where a circuit goes when the dialer says so: application data, what is allowed, translations
//! (protocol: tunnel 4 and 9.1).

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;
use serde_json::Value;

use super::config::{Protocol, generic};
use crate::seam::RouteFailure;

/// Largest application data that is read.
const MAX_APP_DATA: usize = 64 * 1024;

/// Where a circuit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// What is spoken there.
    pub(crate) protocol: Protocol,
    /// Name or address.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
}

/// What the dialer says about where it wants to go: a JSON object of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AppData(BTreeMap<String, Value>);

impl AppData {
    /// Reads application data; none is an empty object.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, RouteFailure> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_APP_DATA {
            return Err(generic(format!("application data of {} bytes is too large", text.len())));
        }
        serde_json::from_slice(text)
            .map(Self)
            .map_err(|error| generic(format!("application data is no JSON object: {error}")))
    }

    /// A text that must be there.
    pub(crate) fn required(&self, key: &str) -> Result<&str, RouteFailure> {
        self.text(key)?.ok_or_else(|| generic(format!("{key} required but not provided")))
    }

    fn text(&self, key: &str) -> Result<Option<&str>, RouteFailure> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(generic(format!("{key} in the application data is no text"))),
        }
    }

    /// The address the dialer names, if it is allowed: its name before its IP address.
    pub(crate) fn address(
        &self,
        allowed: &[AddressRule],
        translations: &[Translation],
    ) -> Result<String, RouteFailure> {
        let refused = |text: &str| generic(format!("address '{text}' is not in allowed addresses"));
        if let Some(name) = self.text("dst_hostname")? {
            let fits = allowed.iter().any(|rule| rule.allows_name(name));
            return if fits { Ok(translate_text(name, translations)) } else { Err(refused(name)) };
        }
        let text = self.required("dst_ip")?;
        let address: IpAddr =
            text.parse().map_err(|_| generic(format!("dst_ip '{text}' is no IP address")))?;
        if !allowed.iter().any(|rule| rule.allows_address(address)) {
            return Err(refused(text));
        }
        Ok(translate(address, translations).to_string())
    }
}

/// What may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressRule {
    /// Any name.
    AnyName,
    /// A domain and everything in it; lower case, without the star and the dot.
    Domain(String),
    /// One name; lower case.
    Name(String),
    /// A network.
    Network(IpAddr, u8),
}

impl AddressRule {
    /// Reads a rule; one that means nothing is left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        if text == "*" {
            return Some(Self::AnyName);
        }
        if let Some(domain) = text.strip_prefix("*.") {
            return Some(Self::Domain(domain.to_owned()));
        }
        if text.starts_with('*') {
            tracing::warn!(rule = %text, "an allowed address is skipped: write * or *.domain");
            return None;
        }
        Some(
            network(&text).map_or(Self::Name(text), |(address, bits)| Self::Network(address, bits)),
        )
    }

    fn allows_name(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        match self {
            Self::AnyName => true,
            Self::Domain(domain) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|front| front.is_empty() || front.ends_with('.')),
            Self::Name(known) => *known == name,
            Self::Network(..) => false,
        }
    }

    fn allows_address(&self, address: IpAddr) -> bool {
        matches!(self, Self::Network(network, bits) if contains(*network, *bits, address))
    }
}

/// An address, or a network in CIDR form.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, width(address)));
    }
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    (bits <= width(address)).then_some((address, bits))
}

/// Replaces the network part of an address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Translation {
    /// The network as dialers know it.
    from: IpAddr,
    /// The network as it is here.
    to: IpAddr,
    /// Bits of the network.
    prefix_length: u8,
}

fn translate_text(text: &str, translations: &[Translation]) -> String {
    match text.parse::<IpAddr>() {
        Ok(address) => translate(address, translations).to_string(),
        Err(_) => text.to_owned(),
    }
}

/// The address after the most precise translation that fits.
fn translate(address: IpAddr, translations: &[Translation]) -> IpAddr {
    let fits = |rule: &&Translation| contains(rule.from, rule.prefix_length, address);
    let best = translations.iter().filter(fits).max_by_key(|rule| rule.prefix_length);
    let Some(rule) = best else { return address };
    match (address, rule.to) {
        (IpAddr::V4(address), IpAddr::V4(to)) => {
            let mask = mask(32, rule.prefix_length) as u32;
            IpAddr::V4(((u32::from(to) & mask) | (u32::from(address) & !mask)).into())
        }
        (IpAddr::V6(address), IpAddr::V6(to)) => {
            let mask = mask(128, rule.prefix_length);
            IpAddr::V6(((u128::from(to) & mask) | (u128::from(address) & !mask)).into())
        }
        _ => address,
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u32::from(network) ^ u32::from(address)) & mask(32, bits) as u32 == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (u128::from(network) ^ u128::from(address)) & mask(128, bits) == 0
        }
        _ => false,
    }
}

/// The highest `bits` of `width` bits.
fn mask(width: u32, bits: u8) -> u128 {
    let bits = u32::from(bits).min(width);
    let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    all & !all.checked_shr(bits).unwrap_or(0)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(from: &str, to: &str, bits: u8) -> Translation {
        Translation { from: from.parse().unwrap(), to: to.parse().unwrap(), prefix_length: bits }
    }

    #[test]
    fn translations() {
        // tunnel 9.1
        let rules = [rule("192.168.0.0", "10.0.1.0", 24), rule("192.168.1.4", "1.2.3.4", 32)];
        let after = |text: &str| translate(text.parse().unwrap(), &rules).to_string();
        assert_eq!(after("192.168.0.3"), "10.0.1.3");
        assert_eq!(after("192.168.1.4"), "1.2.3.4");
        assert_eq!(after("192.168.10.3"), "192.168.10.3");
    }

    #[test]
    fn rules() {
        let rule = |text: &str| AddressRule::parse(text).unwrap();
        assert!(rule("*.Corp.example").allows_name("a.b.corp.EXAMPLE"));
        assert!(rule("*.corp.example").allows_name("corp.example"));
        assert!(!rule("*.corp.example").allows_name("evilcorp.example"));
        assert!(rule("*").allows_name("x") && !rule("*").allows_address([1, 2, 3, 4].into()));
        assert!(rule("10.0.0.0/8").allows_address([10, 9, 8, 7].into()));
        assert!(!rule("10.0.0.0/8").allows_address([11, 0, 0, 1].into()));
        assert!(rule("0.0.0.0/0").allows_address([11, 0, 0, 1].into()));
        assert!(rule("fd00::/8").allows_address("fd12::1".parse().unwrap()));
        // A network that is none is a name.
        assert!(rule("1.2.3.4/56").allows_name("1.2.3.4/56"));
        assert_eq!(AddressRule::parse("*x"), None);
    }

    #[test]
    fn texts_that_are_none_are_refused() {
        let data = AppData::parse(br#"{"dst_port":443}"#).unwrap();
        assert!(data.required("dst_port").is_err());
        assert!(AppData::parse(b"[]").is_err());
        assert!(AppData::parse(&vec![b' '; MAX_APP_DATA + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_data_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = AppData::parse(&text);
        }

        #[test]
        fn any_rule_is_read(text in ".{0,40}", bits in any::<u8>(), address in any::<u128>()) {
            let _ = AddressRule::parse(&text);
            let _ = contains(IpAddr::V6(address.into()), bits, IpAddr::V6(0.into()));
            let _ = contains(IpAddr::V4((address as u32).into()), bits, IpAddr::V4(0.into()));
        }
    }
}
