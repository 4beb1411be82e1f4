//! Routes and addresses, set by `ip`: marked packets are delivered to this machine, and intercepted
//! destinations have a route even where the machine has none.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;
use std::ops::Not;

use ipnet::IpNet;

use super::command::{CommandError, run};
use super::setup::{DIVERT_MARK, Note};
use crate::socket::OWN_MARK;

/// Most instances on one machine.
const SLOTS: u32 = 16;
/// The first number of rules before the machine's own routes.
const FIRST: u32 = 7_700;
/// The first number of rules after the machine's own routes.
const LAST: u32 = 32_800;
/// The first number of routing tables.
const TABLES: u32 = 776_600;

#[derive(Debug)]
pub(super) struct Routes {
    note: Note,
    v6: bool,
    /// True if no packets are marked: packets are delivered to this machine by their destination.
    by_destination: bool,
}

const FAMILIES: [(&str, bool); 2] = [("-4", false), ("-6", true)];

/// The numbers of a slot that is not in use.
pub(super) async fn unused(names: IpNet, v6: bool) -> Result<Note, CommandError> {
    let mut rules = String::new();
    for (family, is_v6) in FAMILIES {
        if !is_v6 || v6 {
            rules.push_str(&run("ip", &[family, "rule", "show"], "").await?);
        }
    }
    let used: BTreeSet<&str> = rules.lines().filter_map(|line| line.split(':').next()).collect();
    for slot in 0..SLOTS {
        let numbers = [FIRST + slot, LAST + slot].map(|number| number.to_string());
        if numbers.iter().any(|number| used.contains(number.as_str())) {
            continue;
        }
        let mut empty = true;
        for table in [TABLES + 2 * slot, TABLES + 2 * slot + 1] {
            for (family, _) in FAMILIES {
                // `ip` reports an error for a table that never had a route.
                let shown =
                    run("ip", &[family, "route", "show", "table", &table.to_string()], "").await;
                empty &= shown.is_ok_and(|routes| !routes.trim().is_empty()).not();
            }
        }
        if empty {
            let there = run("ip", &["-o", "addr", "show", "dev", "lo"], "").await?;
            let ours = !there.contains(&format!(" {names} "));
            return Ok(Note { slot, names, ours });
        }
    }
    Err(CommandError::Failed {
        command: "ip rule show".into(),
        message: format!("all of the {SLOTS} places for interceptors on this machine are taken"),
    })
}

impl Routes {
    pub(super) fn of(note: Note, v6: bool) -> Self {
        Self { note, v6, by_destination: false }
    }

    /// For a program that diverts packets without marking them: packets to a network of a service
    /// are delivered to this machine, whatever their port.
    pub(super) fn by_destination(self, by_destination: bool) -> Self {
        Self { by_destination, v6: self.v6 && !by_destination, ..self }
    }

    pub(super) fn note(&self) -> Note {
        self.note
    }

    fn families(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        let v6 = self.v6;
        FAMILIES.into_iter().filter(move |(_, is_v6)| !is_v6 || v6)
    }

    /// The numbers of the rule for marked packets and of its table, and of the rule for
    /// destinations without a route and of its table.
    fn numbers(&self) -> [u32; 4] {
        let slot = self.note.slot;
        [FIRST + slot, TABLES + 2 * slot, LAST + slot, TABLES + 2 * slot + 1]
    }

    fn rules(&self, verb: &str) -> String {
        let [first, marked, last, routed] = self.numbers();
        if self.by_destination {
            return format!("rule {verb} pref {first} not fwmark {OWN_MARK:#x} lookup {marked}\n");
        }
        // `iif lo` matches packets that this machine sends: only these are given a route by the
        // second rule. A neighbour's packet to a destination without a route is not forwarded.
        format!(
            "rule {verb} pref {first} fwmark {DIVERT_MARK:#x} lookup {marked}\n\
             rule {verb} pref {last} iif lo lookup {routed}\n"
        )
    }

    /// Adds the rules and routes that do not depend on services. A missing address is added, and
    /// belongs to this instance from then on: the instance that had added it may have ended.
    pub(super) async fn install(&mut self) -> Result<(), CommandError> {
        let [_, marked, _, _] = self.numbers();
        let names = self.note.names.to_string();
        let there = run("ip", &["-o", "addr", "show", "dev", "lo"], "").await?;
        if !there.contains(&format!(" {names} ")) {
            run("ip", &["addr", "add", &names, "dev", "lo", "scope", "host"], "").await?;
            self.note.ours = true;
        }
        for (family, v6) in self.families() {
            let all = if v6 { "::/0" } else { "0.0.0.0/0" };
            let mut script = self.rules("add");
            if !self.by_destination {
                let _ = writeln!(script, "route replace local {all} dev lo table {marked}");
            }
            batch(family, false, &script).await?;
        }
        Ok(())
    }

    pub(super) async fn change(
        &self,
        gone: &BTreeSet<IpNet>,
        new: &BTreeSet<IpNet>,
    ) -> Result<(), CommandError> {
        let table = self.table();
        for (family, v6) in self.families() {
            let own = |nets: &BTreeSet<IpNet>| -> Vec<IpNet> {
                nets.iter().filter(|net| matches!(net, IpNet::V6(_)) == v6).copied().collect()
            };
            let mut script = String::new();
            for net in own(gone) {
                let _ = writeln!(script, "route del local {net} dev lo table {table}");
            }
            // A missing address or route, for example of an interface that is gone, does not stop
            // the rest.
            if !script.is_empty() {
                let _ = batch(family, true, &script).await;
            }
            let mut script = String::new();
            let source = match self.note.names {
                IpNet::V4(names) if !v6 => format!(" src {}", names.addr()),
                _ => String::new(),
            };
            for net in own(new) {
                let _ = writeln!(script, "route replace local {net} dev lo table {table}{source}");
            }
            if !script.is_empty() {
                batch(family, false, &script).await?;
            }
        }
        Ok(())
    }

    /// The number of the table with the routes of services.
    fn table(&self) -> u32 {
        let [_, marked, _, routed] = self.numbers();
        if self.by_destination { marked } else { routed }
    }

    /// Excludes destinations inside networks of services by routes, where no rules do it.
    pub(super) async fn leave_alone(
        &self,
        destinations: impl Iterator<Item = IpAddr>,
    ) -> Result<(), CommandError> {
        let table = self.table();
        let _ = batch("-4", true, &format!("route flush table {table} type throw\n")).await;
        let mut script = String::new();
        for destination in destinations.filter(IpAddr::is_ipv4) {
            let _ = writeln!(script, "route replace throw {destination} table {table}");
        }
        if script.is_empty() { Ok(()) } else { batch("-4", false, &script).await }
    }

    pub(super) async fn are_intact(&self) -> bool {
        let [first, marked, last, _] = self.numbers();
        for (family, _) in self.families() {
            let rules = run("ip", &[family, "rule", "show"], "").await.unwrap_or_default();
            let number =
                |number: u32| rules.lines().any(|line| line.starts_with(&format!("{number}:")));
            let marked = marked.to_string();
            let routes = run("ip", &[family, "route", "show", "table", &marked], "").await;
            let there = routes.is_ok_and(|routes| !routes.trim().is_empty());
            let whole = self.by_destination || (number(last) && there);
            if !number(first) || !whole {
                return false;
            }
        }
        let names = format!(" {} ", self.note.names);
        let there = run("ip", &["-o", "addr", "show", "dev", "lo"], "").await;
        there.is_ok_and(|there| there.contains(&names))
    }

    /// Removes the rules, and the routes of services.
    pub(super) async fn clear(&self) {
        let table = self.table();
        for (family, _) in self.families() {
            let script = format!("{}route flush table {table}\n", self.rules("del"));
            let _ = batch(family, true, &script).await;
        }
    }

    /// Removes the rules, routes and addresses that exist.
    pub(super) async fn remove(&self) {
        self.clear().await;
        let [_, marked, _, _] = self.numbers();
        for (family, _) in self.families() {
            let script = format!("route flush table {marked}\n");
            let _ = batch(family, true, &script).await;
        }
        if self.note.ours {
            let names = self.note.names.to_string();
            let _ = run("ip", &["addr", "del", &names, "dev", "lo"], "").await;
        }
    }
}

async fn batch(family: &str, force: bool, script: &str) -> Result<(), CommandError> {
    let args: &[&str] =
        if force { &[family, "-force", "-batch", "-"] } else { &[family, "-batch", "-"] };
    run("ip", args, script).await.map(drop)
}
