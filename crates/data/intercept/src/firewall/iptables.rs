//! The rules of the firewall by `iptables` and `ip6tables`, for machines without `nft`: chains of
//! their own, a rule for each network with ports, and changes by `iptables-restore`, which applies
//! each table of each family as a whole.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use ipnet::IpNet;

use super::command::{CommandError, run};
use super::setup::{DIVERT_MARK, Note, Setup};
use crate::options::Interfaces;
use crate::service::Protocol;
use crate::socket::OWN_MARK;
use crate::state::{Changes, EVERYBODY, Element, Group};

#[derive(Debug)]
pub(super) struct Iptables {
    instance: String,
    v6: bool,
    interfaces: Interfaces,
    ports: [Option<(u16, u16)>; 2],
    groups: BTreeMap<Group, Arc<[IpNet]>>,
    /// The number of rules for incoming packets to networks with ports, for IPv4 and IPv6.
    rules: [usize; 2],
}

/// `iptables` or `ip6tables`, with its restore program.
struct Family {
    v6: bool,
    program: &'static str,
    restore: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family { v6: false, program: "iptables", restore: "iptables-restore" },
    Family { v6: true, program: "ip6tables", restore: "ip6tables-restore" },
];

/// The chains: incoming (`P`) and outgoing packets (`O`); of both, packets that are never
/// intercepted (`PN`, `ON`) and packets that are (`PM`, `OM`); packets with a socket on this machine
/// (`D`).
const CHAINS: [&str; 7] = ["P", "O", "PN", "ON", "PM", "OM", "D"];
/// The chain in table `filter`, for packets to addresses in the range of names that belong to no
/// name.
const REFUSED: &str = "R";

/// A table of the system, its chains that jump to weft's chains, and weft's chains.
struct Table {
    name: &'static str,
    from: &'static [&'static str],
    own: &'static [&'static str],
}

const TABLES: [Table; 2] = [
    Table { name: "mangle", from: &["PREROUTING", "OUTPUT"], own: &CHAINS },
    Table { name: "filter", from: &["INPUT"], own: &[REFUSED] },
];

impl Iptables {
    pub(super) fn new(setup: &Setup) -> Self {
        let listeners = &setup.listeners;
        Self {
            instance: setup.instance.clone(),
            v6: listeners.v6.is_some(),
            interfaces: setup.interfaces.clone(),
            ports: [Some((listeners.tcp4, listeners.udp4)), listeners.v6],
            groups: BTreeMap::new(),
            rules: [0; 2],
        }
    }

    fn families(&self) -> impl Iterator<Item = &'static Family> + use<> {
        let v6 = self.v6;
        FAMILIES.iter().filter(move |family| !family.v6 || v6)
    }

    fn chain(&self, name: &str) -> String {
        format!("WEFT-{}-{name}", self.instance)
    }

    pub(super) async fn note(&self) -> Result<Option<Note>, CommandError> {
        let listed = run("iptables", &["-w", "-t", "mangle", "-S"], "").await?;
        let own = format!("-A {} ", self.chain("P"));
        Ok(listed.lines().filter(|line| line.starts_with(&own)).find_map(Note::find))
    }

    /// Replaces all rules in one step: no rule is missing in between.
    pub(super) async fn install(
        &mut self,
        setup: &Setup,
        note: Note,
        everything: &Changes,
    ) -> Result<(), CommandError> {
        let groups: BTreeMap<_, _> = everything.new_groups.iter().cloned().collect();
        for family in self.families() {
            let mut script = String::new();
            for table in &TABLES {
                let _ = writeln!(script, "*{}", table.name);
                for chain in table.own {
                    // An existing chain is emptied by this line.
                    let _ = writeln!(script, ":{} - [0:0]", self.chain(chain));
                }
                script.push_str(&self.unlinking(table, &listed(family, table).await?));
                if table.name == "filter" {
                    script.push_str(&self.refusing(family, setup));
                } else {
                    script.push_str(&self.skeleton(family, setup, note));
                    let before = script.len();
                    for element in &everything.new {
                        self.rules("-A", family, element, &groups, &mut script);
                    }
                    let coming = script.get(before..).map_or(0, |rules| self.coming("-A", rules));
                    self.rules[usize::from(family.v6)] = coming;
                }
                script.push_str("COMMIT\n");
            }
            restore(family, &script).await?;
        }
        self.groups = groups;
        Ok(())
    }

    pub(super) async fn apply(&mut self, changes: &Changes) -> Result<(), CommandError> {
        let mut groups = self.groups.clone();
        groups.extend(changes.new_groups.iter().cloned());
        for family in self.families() {
            let mut script = String::new();
            for (verb, elements) in [("-D", &changes.gone), ("-A", &changes.new)] {
                for element in elements {
                    self.rules(verb, family, element, &groups, &mut script);
                }
            }
            if !script.is_empty() {
                restore(family, &format!("*mangle\n{script}COMMIT\n")).await?;
                let (new, gone) = (self.coming("-A", &script), self.coming("-D", &script));
                let rules = &mut self.rules[usize::from(family.v6)];
                *rules = (*rules + new).saturating_sub(gone);
            }
        }
        groups.retain(|group, _| !changes.gone_groups.contains(group));
        self.groups = groups;
        Ok(())
    }

    /// The number of lines with `verb` for rules of incoming packets.
    fn coming(&self, verb: &str, script: &str) -> usize {
        let start = format!("{verb} {} ", self.chain("PM"));
        script.lines().filter(|line| line.starts_with(&start)).count()
    }

    pub(super) async fn exclude(&self, setup: &Setup) -> Result<(), CommandError> {
        for family in self.families() {
            let [p, o] = ["PN", "ON"].map(|name| self.chain(name));
            let never = self.never(family, setup);
            restore(family, &format!("*mangle\n-F {p}\n-F {o}\n{never}COMMIT\n")).await?;
        }
        Ok(())
    }

    pub(super) async fn is_intact(&self) -> bool {
        let [mangle, _] = &TABLES;
        for family in self.families() {
            let Ok(listed) = listed(family, mangle).await else { return false };
            let leads = |from: &str, to: &str| {
                let [jump, go] = ["-j", "-g"].map(|verb| format!(" {verb} {}", self.chain(to)));
                listed.lines().any(|line| {
                    line.starts_with(&format!("-A {from} "))
                        && (line.ends_with(&jump) || line.ends_with(&go))
                })
            };
            let [p, o, pn, on] = ["P", "O", "PN", "ON"].map(|name| self.chain(name));
            let whole = leads("PREROUTING", "P")
                && leads("OUTPUT", "O")
                && leads(&p, "D")
                && leads(&p, "PN")
                && leads(&o, "ON")
                && leads(&pn, "PM")
                && leads(&on, "OM")
                && listed.contains(&format!("-A {} -j ACCEPT", self.chain("D")));
            let rules = self.rules[usize::from(family.v6)];
            if !whole || self.coming("-A", &listed) != rules {
                return false;
            }
        }
        true
    }

    /// Removes the chains and the rules that jump to them.
    pub(super) async fn remove(&self) -> Result<(), CommandError> {
        for family in self.families() {
            for table in &TABLES {
                let listed = listed(family, table).await?;
                let mut script = self.unlinking(table, &listed);
                let own = table.own.iter().map(|name| self.chain(name));
                let there: Vec<String> = own
                    .filter(|chain| listed.lines().any(|line| line == format!("-N {chain}")))
                    .collect();
                for verb in ["-F", "-X"] {
                    for chain in &there {
                        let _ = writeln!(script, "{verb} {chain}");
                    }
                }
                if !script.is_empty() {
                    restore(family, &format!("*{}\n{script}COMMIT\n", table.name)).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the rules that jump to weft's chains.
    fn unlinking(&self, table: &Table, listed: &str) -> String {
        let jumps: Vec<String> =
            table.own.iter().map(|name| format!(" -j {}", self.chain(name))).collect();
        let mut script = String::new();
        for line in listed.lines() {
            let linked = table.from.iter().any(|from| line.starts_with(&format!("-A {from} ")));
            if linked && jumps.iter().any(|jump| line.ends_with(jump.as_str())) {
                let _ = writeln!(script, "{}", line.replacen("-A", "-D", 1));
            }
        }
        script
    }

    /// Rejects packets to addresses of the range that belong to no name, so that they do not reach
    /// a server of this machine.
    fn refusing(&self, family: &Family, setup: &Setup) -> String {
        let names = setup.names;
        if matches!(names, IpNet::V6(_)) != family.v6 {
            return String::new();
        }
        let (r, net) = (self.chain(REFUSED), names.trunc());
        format!(
            "-A {r} -m mark --mark {DIVERT_MARK:#x} -j RETURN\n\
             -A {r} -d {} -j RETURN\n\
             -A {r} -p tcp -j REJECT --reject-with tcp-reset\n\
             -A {r} -p udp -j REJECT\n\
             -I INPUT 1 -d {net} -j {r}\n",
            names.addr()
        )
    }

    /// The chains while nothing is intercepted.
    fn skeleton(&self, family: &Family, setup: &Setup, note: Note) -> String {
        let [p, o, pn, on, d] = ["P", "O", "PN", "ON", "D"].map(|name| self.chain(name));
        let mut script = String::new();
        let local = "-m addrtype --dst-type LOCAL,BROADCAST,ANYCAST,MULTICAST -j RETURN";
        // The range is local to this machine, so that packets of its programs get here; the rules
        // treat it as services' addresses.
        let (coming, going) = match setup.names {
            IpNet::V4(names) if !family.v6 => {
                (format!("-A {p} ! -d {} {local}\n", names.trunc()), format!("-A {o} {local}\n"))
            }
            _ if family.v6 => (String::new(), String::new()),
            _ => (format!("-A {p} {local}\n"), format!("-A {o} {local}\n")),
        };
        let reply = "-m conntrack --ctdir REPLY -j RETURN";
        let _ = write!(
            script,
            "-A {p} -m comment --comment \"{note}\"\n\
             -A {p} -p tcp -m socket --transparent -j {d}\n\
             -A {p} {reply}\n\
             {coming}\
             -A {p} -g {pn}\n\
             -A {d} -j MARK --set-mark {DIVERT_MARK:#x}\n\
             -A {d} -j ACCEPT\n\
             -A {o} -m mark --mark {OWN_MARK:#x} -j RETURN\n\
             -A {o} {reply}\n\
             {going}\
             -A {o} -g {on}\n"
        );
        script.push_str(&self.never(family, setup));
        match &self.interfaces {
            Interfaces::All => {
                let _ = writeln!(script, "-A PREROUTING -j {p}");
            }
            Interfaces::Named(named) => {
                for name in ["lo"].into_iter().chain(named.iter().map(String::as_str)) {
                    let _ = writeln!(script, "-A PREROUTING -i {name} -j {p}");
                }
            }
        }
        let _ = writeln!(script, "-A OUTPUT -j {o}");
        script
    }

    /// Rules for packets that are never intercepted, which come first. A chain that was entered by
    /// `goto` returns to the system's chain.
    fn never(&self, family: &Family, setup: &Setup) -> String {
        let mut left = Vec::new();
        for (address, port) in &setup.exclude {
            match port {
                _ if address.is_ipv6() != family.v6 => {}
                None => left.push(format!("-d {address}")),
                Some(port) => left.extend(
                    [Protocol::Tcp, Protocol::Udp]
                        .map(|protocol| format!("-d {address} -p {protocol} --dport {port}")),
                ),
            }
        }
        if family.v6 {
            left.extend(setup.own.iter().map(|own| format!("-d {own}/128")));
            left.extend(["-d fe80::/10".to_owned(), "-d ff00::/8".to_owned()]);
        }
        let mut script = String::new();
        for (chain, then) in [("PN", "PM"), ("ON", "OM")] {
            let is_coming = chain == "PN";
            let [chain, then] = [chain, then].map(|name| self.chain(name));
            for what in &left {
                let _ = writeln!(script, "-A {chain} {what} -j RETURN");
            }
            // Packets that this program sent come in over `lo` only if an address or a route of a
            // service led them there. They come from no client, and are not for a server of this
            // machine: they are dropped.
            if is_coming {
                let ours = format!("-A {chain} -i lo -m mark --mark {OWN_MARK:#x}");
                // Packets to the range are rejected later, with an answer.
                let net = setup.names.trunc();
                if matches!(net, IpNet::V6(_)) == family.v6 {
                    let _ = writeln!(script, "{ours} -d {net} -j RETURN");
                }
                let _ = writeln!(script, "{ours} -j DROP");
            }
            let _ = writeln!(script, "-A {chain} -g {then}");
        }
        script
    }

    fn rules(
        &self,
        verb: &str,
        family: &Family,
        element: &Element,
        groups: &BTreeMap<Group, Arc<[IpNet]>>,
        script: &mut String,
    ) {
        let Element { group, protocol, net, ports: (low, high) } = element;
        let is_v6 = |net: &IpNet| matches!(net, IpNet::V6(_));
        let Some((tcp, udp)) = self.ports[usize::from(family.v6)] else { return };
        if is_v6(net) != family.v6 {
            return;
        }
        let (local, port) = match (family.v6, protocol) {
            (false, Protocol::Tcp) => ("127.0.0.1", tcp),
            (false, Protocol::Udp) => ("127.0.0.1", udp),
            (true, Protocol::Tcp) => ("::1", tcp),
            (true, Protocol::Udp) => ("::1", udp),
        };
        let [pm, om] = ["PM", "OM"].map(|name| self.chain(name));
        let mut write = |from: &str| {
            let what = format!("{from}-d {net} -p {protocol} --dport {low}:{high}");
            let _ = write!(
                script,
                "{verb} {pm} {what} -j TPROXY --on-ip {local} --on-port {port} \
                 --tproxy-mark {DIVERT_MARK:#x}/0xffffffff\n\
                 {verb} {om} {what} -j MARK --set-mark {DIVERT_MARK:#x}\n"
            );
        };
        if *group == EVERYBODY {
            return write("");
        }
        for source in groups.get(group).into_iter().flat_map(|nets| nets.iter()) {
            if is_v6(source) == family.v6 {
                write(&format!("-s {source} "));
            }
        }
    }
}

async fn listed(family: &Family, table: &Table) -> Result<String, CommandError> {
    run(family.program, &["-w", "-t", table.name, "-S"], "").await
}

async fn restore(family: &Family, script: &str) -> Result<(), CommandError> {
    run(family.restore, &["-w", "--noflush"], script).await.map(drop)
}
