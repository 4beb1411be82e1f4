//! What services may name on a machine that intercepts by other means than rules and a DNS server.

use ipnet::IpNet;

use super::State;
use crate::service::{Address, Diverted};

/// Longest name of an interface, and of a service's id.
const MOST_INTERFACE: usize = 15;
const MOST_ID: usize = 64;

impl State {
    /// For names that are in a hosts file only, and for a program that diverts packets.
    pub(crate) fn without(self, wildcards: bool, rules: bool) -> Self {
        Self { no_wildcards: wildcards, diverted: rules, ..self }
    }

    /// Why an address of a service cannot be intercepted in the way that this machine does it.
    pub(super) fn impossible(&self, address: &Address) -> Option<&'static str> {
        match address {
            Address::Under(_) | Address::Every if self.no_wildcards => {
                Some("needs a DNS server: a hosts file has no wildcards")
            }
            Address::Net(IpNet::V6(_)) if self.diverted => {
                Some("is not diverted: the program of mode tproxy:<path> does it for IPv4 only")
            }
            Address::Net(net) if self.diverted && net.prefix_len() == 0 => {
                Some("is not diverted: this machine would reach nothing else any more")
            }
            _ => None,
        }
    }

    /// Why a program that diverts cannot be told of a service.
    pub(super) fn unspeakable(&self, told: &Diverted) -> Option<&'static str> {
        let legal = |text: &str, most: usize| {
            (1..=most).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-@:".contains(c))
        };
        let interface = |name: &String| legal(name, MOST_INTERFACE) && !name.starts_with('-');
        if !self.diverted {
            None
        } else if !legal(&told.id, MOST_ID) {
            Some("has an id that a program is not told")
        } else if !told.interfaces.iter().flatten().all(interface) {
            Some("names an interface in its interfaces.v1 that there cannot be")
        } else {
            None
        }
    }
}
