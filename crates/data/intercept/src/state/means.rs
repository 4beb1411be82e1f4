//! The limits of services on a machine without rules of weft's own, or without its DNS server.

use ipnet::IpNet;

use super::State;
use crate::service::{Address, Diverted};

/// Longest name of an interface, and longest id of a service, in bytes.
const MOST_INTERFACE: usize = 15;
const MOST_ID: usize = 64;

impl State {
    /// For names in a hosts file only (`wildcards`), and for a program that diverts packets
    /// (`rules`).
    pub(crate) fn without(self, wildcards: bool, rules: bool) -> Self {
        Self { no_wildcards: wildcards, diverted: rules, ..self }
    }

    /// Why an address of a service cannot be intercepted on this machine.
    pub(super) fn impossible(&self, address: &Address) -> Option<&'static str> {
        match address {
            Address::Under(_) | Address::Every if self.no_wildcards => {
                Some("needs a DNS server: a hosts file has no wildcards")
            }
            Address::Net(IpNet::V6(_)) if self.diverted => {
                Some("is not diverted: the program of mode tproxy:<path> does it for IPv4 only")
            }
            Address::Net(net) if self.diverted && net.prefix_len() == 0 => {
                Some("is not diverted: this machine would not reach any other destination")
            }
            _ => None,
        }
    }

    /// Why a service cannot be passed to a program that diverts.
    pub(super) fn unspeakable(&self, told: &Diverted) -> Option<&'static str> {
        let legal = |text: &str, most: usize| {
            (1..=most).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-@:".contains(c))
        };
        let interface = |name: &String| legal(name, MOST_INTERFACE) && !name.starts_with('-');
        if !self.diverted {
            None
        } else if !legal(&told.id, MOST_ID) {
            Some("has an id that cannot be passed to the diverting program")
        } else if !told.interfaces.iter().flatten().all(interface) {
            Some("names an interface in its interfaces.v1 that cannot exist")
        } else {
            None
        }
    }
}
