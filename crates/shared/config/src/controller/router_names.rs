//! Names that certificates of routers may have (`edge.enrollment.edgeRouter`).

use std::net::IpAddr;

use super::edge::{Network, is_hostname};
use crate::section::Section;

/// Names that certificates of routers may have, beside the rules for every router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouterNames {
    /// Names and addresses that no router gets (`refusedNames`).
    pub refused: Vec<NameRule>,
    /// Names and addresses of the controller that routers may have too, because they run on its
    /// machine (`sharedNames`).
    pub shared: Vec<NameRule>,
}

/// A rule for one name or address, or for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameRule {
    /// A host name, or `*.suffix`, in lower case without final dot.
    Host(String),
    /// An address, or all addresses of a network.
    Network(Network),
}

impl RouterNames {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self { refused: rules(section, "refusedNames"), shared: rules(section, "sharedNames") }
    }
}

impl NameRule {
    /// Reads a rule.
    fn of(text: &str) -> Option<Self> {
        if let Ok(network) = text.parse() {
            return Some(Self::Network(network));
        }
        let name = text.trim_end_matches('.').to_lowercase();
        is_hostname(name.strip_prefix("*.").unwrap_or(&name)).then_some(Self::Host(name))
    }

    /// True if the rule has this address.
    #[must_use]
    pub fn covers(&self, address: IpAddr) -> bool {
        match self {
            Self::Host(_) => false,
            Self::Network(network) => network.contains(address),
        }
    }

    /// True if the rule has this name, or a name of this `*.suffix`.
    #[must_use]
    pub fn meets(&self, name: &str) -> bool {
        match self {
            Self::Host(rule) => overlap(rule, name),
            Self::Network(_) => false,
        }
    }
}

/// True if two names, each of which may be `*.suffix`, can mean the same host.
fn overlap(one: &str, other: &str) -> bool {
    let below = |name: &str, suffix: &str| {
        name.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    };
    match (one.strip_prefix("*."), other.strip_prefix("*.")) {
        (None, None) => one == other,
        (Some(suffix), None) => below(other, suffix),
        (None, Some(suffix)) => below(one, suffix),
        (Some(one), Some(other)) => one == other || below(one, other) || below(other, one),
    }
}

fn rules(section: &Section<'_>, key: &'static str) -> Vec<NameRule> {
    let mut out = Vec::new();
    for text in section.texts(key) {
        match NameRule::of(&text) {
            Some(rule) => out.push(rule),
            None => {
                let path = section.path_of(key);
                let must = "must be a host name, *.<suffix>, an IP address or a CIDR";
                section.problem(key, format!("invalid value {text:?} in [{path}]: {must}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_meet_where_they_can_mean_the_same_host() {
        for (one, other, do_meet) in [
            ("ctrl.example", "ctrl.example", true),
            ("ctrl.example", "*.example", true),
            ("*.example", "ctrl.example", true),
            ("*.example", "*.ctrl.example", true),
            ("*.example", "*.example", true),
            ("ctrl.example", "r.example", false),
            ("*.example", "example", false),
            ("*.ample", "ctrl.example", false),
            ("*.a.example", "*.b.example", false),
        ] {
            assert_eq!(NameRule::of(one).unwrap().meets(other), do_meet, "{one} {other}");
        }
    }

    #[test]
    fn addresses_are_meant_one_by_one_or_by_network() {
        let rule = NameRule::of("10.0.0.0/8").unwrap();
        assert!(rule.covers("10.1.2.3".parse().unwrap()));
        assert!(!rule.covers("11.1.2.3".parse().unwrap()));
        assert!(!rule.covers("::1".parse().unwrap()) && !rule.meets("10.1.2.3"));
        let rule = NameRule::of("fd00::1").unwrap();
        assert!(rule.covers("fd00::1".parse().unwrap()));
        assert!(!rule.covers("fd00::2".parse().unwrap()));
        assert_eq!(NameRule::of("a b"), None);
    }
}
