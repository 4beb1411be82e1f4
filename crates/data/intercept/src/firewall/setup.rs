//! The input from which the rules of the firewall are made, and the note about the rules that outlives the process.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use ipnet::IpNet;

use crate::options::Interfaces;

/// The mark of packets that are delivered here whatever their destination.
pub const DIVERT_MARK: u32 = 0x7766_0001;

/// Where intercepted traffic is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listeners {
    pub(crate) tcp4: u16,
    pub(crate) udp4: u16,
    /// TCP and UDP; none if this machine has no IPv6.
    pub(crate) v6: Option<(u16, u16)>,
}

/// The input of rules.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) instance: String,
    pub(crate) names: IpNet,
    pub(crate) interfaces: Interfaces,
    pub(crate) exclude: BTreeSet<(IpAddr, Option<u16>)>,
    pub(crate) listeners: Listeners,
    /// This machine's own addresses of IPv6.
    pub(crate) own: BTreeSet<Ipv6Addr>,
    /// A program that diverts packets, and the file with the commands that it was given.
    pub(crate) diverter: Option<PathBuf>,
    pub(crate) record: PathBuf,
}

/// The facts that a later start has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    /// The slot of the instance, which gives the numbers of its routing tables and rules.
    pub(super) slot: u32,
    pub(super) names: IpNet,
    /// True if this instance added the address of the range for names to the machine.
    pub(super) ours: bool,
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, names, ours } = self;
        write!(out, "weft slot={slot} names={names} ours={}", u8::from(*ours))
    }
}

impl Note {
    /// The first note in a listing.
    pub(super) fn find(listing: &str) -> Option<Self> {
        let (_, rest) = listing.split_once("weft slot=")?;
        let mut words = rest.split([' ', '"', '\n']);
        let slot = words.next()?.parse().ok()?;
        let names = words.next()?.strip_prefix("names=")?.parse().ok()?;
        let ours = words.next()?.strip_prefix("ours=")? == "1";
        Some(Self { slot, names, ours })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_is_written() {
        let note = Note { slot: 3, names: "100.64.0.1/10".parse().unwrap(), ours: true };
        let listing = format!("table inet weft_x {{\n\tcomment \"{note}\"\n\tset a {{");
        assert_eq!(Note::find(&listing), Some(note));
        let listing = format!("-A WEFT-x-P -m comment --comment \"{note}\"\n-A WEFT");
        assert_eq!(Note::find(&listing), Some(note));
        assert_eq!(Note::find("table inet weft_x {"), None);
    }
}
