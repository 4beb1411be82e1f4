//! Rules by `nft`: one table, a few rules over sets, and one transaction for each change.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;

use super::command::{CommandError, run};
use super::setup::{DIVERT_MARK, Note, Setup};
use crate::options::Interfaces;
use crate::socket::OWN_MARK;
use crate::state::{Changes, EVERYBODY, Element, Group};

/// Elements in each line of a script.
const CHUNK: usize = 500;

#[derive(Debug)]
pub(super) struct Nft {
    table: String,
    /// The address families of each group's sources, IPv4 and IPv6; the group of all clients has
    /// none.
    groups: BTreeMap<Group, [bool; 2]>,
}

impl Nft {
    pub(super) fn new(instance: &str) -> Self {
        Self { table: format!("inet weft_{instance}"), groups: BTreeMap::new() }
    }

    pub(super) async fn note(&self) -> Result<Option<Note>, CommandError> {
        let [family, name] = self.words();
        let listed = run("nft", &["--terse", "list", "table", family, name], "").await;
        match listed {
            Ok(listing) => Ok(Note::find(&listing)),
            Err(CommandError::Failed { message, .. }) if message.contains("No such file") => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn words(&self) -> [&str; 2] {
        let (family, name) = self.table.split_once(' ').unwrap_or_default();
        [family, name]
    }

    /// Replaces the table in one step: no rule is missing in between.
    pub(super) async fn install(
        &mut self,
        setup: &Setup,
        note: Note,
        everything: &Changes,
    ) -> Result<(), CommandError> {
        self.groups.clear();
        let script = self.skeleton(setup, note) + &self.changing(everything);
        self.script(&script).await?;
        self.know(everything);
        Ok(())
    }

    pub(super) async fn apply(&mut self, changes: &Changes) -> Result<(), CommandError> {
        let script = self.changing(changes);
        if script.is_empty() {
            return Ok(());
        }
        self.script(&script).await?;
        self.know(changes);
        Ok(())
    }

    pub(super) async fn exclude(&self, setup: &Setup) -> Result<(), CommandError> {
        let mut script = String::new();
        for set in ["excluded4", "excluded6", "own6"] {
            let _ = writeln!(script, "flush set {} {set}", self.table);
        }
        script.push_str(&self.excluded(setup));
        self.script(&script).await
    }

    pub(super) async fn is_intact(&self) -> bool {
        let [family, name] = self.words();
        let listed = run("nft", &["--terse", "list", "table", family, name], "").await;
        let rules = ["tproxy ip to", "jump incoming", "goto divert", "goto outgoing", "mark set"];
        listed.is_ok_and(|table| rules.iter().all(|rule| table.contains(rule)))
    }

    pub(super) async fn remove(&self) -> Result<(), CommandError> {
        self.script(&format!("add table {0}\ndelete table {0}\n", self.table)).await
    }

    async fn script(&self, script: &str) -> Result<(), CommandError> {
        run("nft", &["-f", "-"], script).await.map(drop)
    }

    /// The table while nothing is intercepted.
    fn skeleton(&self, setup: &Setup, note: Note) -> String {
        let table = &self.table;
        let names = setup.names.trunc();
        let interfaces = match &setup.interfaces {
            Interfaces::All => String::new(),
            Interfaces::Named(named) => {
                let mut list = vec!["\"lo\"".to_owned()];
                list.extend(named.iter().map(|name| format!("{name:?}")));
                format!("iifname != {{ {} }} return", list.join(", "))
            }
        };
        // The range is local to this machine, so that packets of its programs get here; the rules
        // treat it as services' addresses.
        let own4 = match names {
            IpNet::V4(net) => format!("ip daddr != {net} "),
            IpNet::V6(_) => String::new(),
        };
        // Packets to addresses of the range without a name must not reach a server of this machine.
        let family = if matches!(names, IpNet::V4(_)) { "ip" } else { "ip6" };
        let unclaimed = format!("{family} daddr {names} goto refused");
        let refused = format!(
            "{family} daddr {} return\nmeta l4proto tcp reject with tcp reset\nreject",
            setup.names.addr()
        );
        let (tcp4, udp4) = (setup.listeners.tcp4, setup.listeners.udp4);
        let taken = format!("meta mark set {DIVERT_MARK:#x} accept");
        let v6 = setup.listeners.v6.map_or(String::new(), |(tcp, udp)| {
            format!(
                "meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:{tcp} {taken}\n\
                 meta nfproto ipv6 meta l4proto udp tproxy ip6 to [::1]:{udp} {taken}"
            )
        });
        let local = "fib daddr type { local, broadcast, anycast, multicast } return";
        let never = "ip daddr . th dport @excluded4 return\n\
                     ip6 daddr . th dport @excluded6 return\n\
                     ip6 daddr @own6 return\n\
                     ip6 daddr { fe80::/10, ff00::/8 } return";
        // Packets that this program sent come in over `lo` only if an address or a route of a
        // service led them there. They come from no client, and are not for a server of this
        // machine: they are refused.
        let ourselves = format!("iifname \"lo\" meta mark {OWN_MARK:#x} goto refused");
        let mut script = format!(
            "add table {table}\n\
             delete table {table}\n\
             table {table} {{\n\
             comment \"{note}\"\n\
             set excluded4 {{ type ipv4_addr . inet_service; flags interval; }}\n\
             set excluded6 {{ type ipv6_addr . inet_service; flags interval; }}\n\
             set own6 {{ type ipv6_addr; }}\n\
             set to4_0 {{ type ipv4_addr . inet_proto . inet_service; flags interval; }}\n\
             set to6_0 {{ type ipv6_addr . inet_proto . inet_service; flags interval; }}\n\
             chain divert {{\n\
             meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:{tcp4} {taken}\n\
             meta nfproto ipv4 meta l4proto udp tproxy ip to 127.0.0.1:{udp4} {taken}\n\
             {v6}\n\
             }}\n\
             chain refused {{\n\
             {refused}\n\
             }}\n\
             chain incoming {{ }}\n\
             chain outgoing {{ }}\n\
             chain prerouting {{\n\
             type filter hook prerouting priority mangle; policy accept;\n\
             meta l4proto != {{ tcp, udp }} return\n\
             {interfaces}\n\
             meta l4proto tcp socket transparent 1 {taken}\n\
             ct direction reply return\n\
             {own4}{local_v4}\n\
             {never}\n\
             {ourselves}\n\
             jump incoming\n\
             {unclaimed}\n\
             }}\n\
             chain output {{\n\
             type route hook output priority mangle; policy accept;\n\
             meta l4proto != {{ tcp, udp }} return\n\
             meta mark {OWN_MARK:#x} return\n\
             ct direction reply return\n\
             {local_v4}\n\
             {never}\n\
             goto outgoing\n\
             }}\n\
             }}\n",
            local_v4 = format_args!("meta nfproto ipv4 {local}"),
        );
        script.push_str(&self.excluded(setup));
        self.dispatch(&BTreeMap::new(), &mut script);
        script
    }

    fn excluded(&self, setup: &Setup) -> String {
        let mut script = String::new();
        for (set, v6) in [("excluded4", false), ("excluded6", true)] {
            let whole = |address: &IpAddr| setup.exclude.contains(&(*address, None));
            let elements = setup.exclude.iter().filter_map(|(address, port)| match port {
                _ if address.is_ipv6() != v6 => None,
                None => Some(format!("{address} . 0-65535")),
                Some(_) if whole(address) => None,
                Some(port) => Some(format!("{address} . {port}")),
            });
            self.elements("add", set, elements, &mut script);
        }
        self.elements("add", "own6", setup.own.iter().map(ToString::to_string), &mut script);
        script
    }

    fn elements(
        &self,
        verb: &str,
        set: &str,
        elements: impl Iterator<Item = String>,
        script: &mut String,
    ) {
        let elements: Vec<String> = elements.collect();
        for chunk in elements.chunks(CHUNK) {
            let _ =
                writeln!(script, "{verb} element {} {set} {{ {} }}", self.table, chunk.join(", "));
        }
    }

    fn changing(&self, changes: &Changes) -> String {
        let mut script = String::new();
        let kept = |element: &&Element| !changes.gone_groups.contains(&element.group);
        self.all_elements("delete", changes.gone.iter().filter(kept), &mut script);
        for (group, sources) in &changes.new_groups {
            for (v6, name, kind) in [(false, '4', "ipv4_addr"), (true, '6', "ipv6_addr")] {
                let own: Vec<&IpNet> =
                    sources.iter().filter(|net| matches!(net, IpNet::V6(_)) == v6).collect();
                if own.is_empty() {
                    continue;
                }
                let table = &self.table;
                let _ = writeln!(
                    script,
                    "add set {table} from{name}_{group} {{ type {kind}; flags interval; }}\n\
                     add set {table} to{name}_{group} {{ type {kind} . inet_proto . inet_service; flags interval; }}"
                );
                let own = own.into_iter().map(|net| span(*net));
                self.elements("add", &format!("from{name}_{group}"), own, &mut script);
            }
        }
        self.all_elements("add", changes.new.iter(), &mut script);
        if !changes.new_groups.is_empty() || !changes.gone_groups.is_empty() {
            self.dispatch(&self.groups_after(changes), &mut script);
        }
        for group in &changes.gone_groups {
            let [v4, v6] = self.groups.get(group).copied().unwrap_or_default();
            for (name, there) in [('4', v4), ('6', v6)] {
                if there {
                    let table = &self.table;
                    let _ = writeln!(
                        script,
                        "delete set {table} from{name}_{group}\ndelete set {table} to{name}_{group}"
                    );
                }
            }
        }
        script
    }

    fn all_elements<'a>(
        &self,
        verb: &str,
        elements: impl Iterator<Item = &'a Element>,
        script: &mut String,
    ) {
        let mut by_set: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Element { group, protocol, net, ports: (low, high) } in elements {
            let family = if matches!(net, IpNet::V6(_)) { '6' } else { '4' };
            let text = format!("{} . {protocol} . {low}-{high}", span(*net));
            by_set.entry(format!("to{family}_{group}")).or_default().push(text);
        }
        for (set, elements) in by_set {
            self.elements(verb, &set, elements.into_iter(), script);
        }
    }

    /// The rules that look destinations up in the groups' sets.
    fn dispatch(&self, groups: &BTreeMap<Group, [bool; 2]>, script: &mut String) {
        let mark = format!("meta mark set {DIVERT_MARK:#x}");
        for (chain, then) in [("incoming", "goto divert"), ("outgoing", mark.as_str())] {
            let table = &self.table;
            let _ = writeln!(script, "flush chain {table} {chain}");
            for (group, families) in [(&EVERYBODY, &[true, true])].into_iter().chain(groups) {
                for (family, name, there) in [("ip", '4', families[0]), ("ip6", '6', families[1])] {
                    if !there {
                        continue;
                    }
                    let from = if *group == EVERYBODY {
                        String::new()
                    } else {
                        format!("{family} saddr @from{name}_{group} ")
                    };
                    let _ = writeln!(
                        script,
                        "add rule {table} {chain} {from}{family} daddr . meta l4proto . th dport \
                         @to{name}_{group} {then}"
                    );
                }
            }
        }
    }

    fn groups_after(&self, changes: &Changes) -> BTreeMap<Group, [bool; 2]> {
        let mut groups = self.groups.clone();
        groups.retain(|group, _| !changes.gone_groups.contains(group));
        groups.extend(changes.new_groups.iter().map(|(group, sources)| {
            let of = |v6| sources.iter().any(|net| matches!(net, IpNet::V6(_)) == v6);
            (*group, [of(false), of(true)])
        }));
        groups
    }

    fn know(&mut self, changes: &Changes) {
        self.groups = self.groups_after(changes);
    }
}

/// The first and the last address of a network, as text.
fn span(net: IpNet) -> String {
    format!("{}-{}", net.network(), net.broadcast())
}
