//! The connected routers with the facts that they reported, and the identities connected to them.
//! The table is kept in memory only: the control plane writes it, the APIs read it, and after a restart
//! routers report everything again.
//!
//! A router may connect again before its former connection has ended. Only facts from its current
//! connection count, and only the end of that connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use weft_contract::resource::edge_router::sync_status;
use weft_contract::resource::identity::{ConnectionStatus, Interface};
use weft_model::{Id, Timestamp};
use weft_wire::{Version, router_capability};

/// Facts about a connected router, as the router reported them.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterFacts {
    /// The time since which the router is connected.
    pub since: Timestamp,
    /// The address at which it listens for SDKs.
    pub hostname: String,
    /// The addresses of the router for SDKs, by protocol: `tls` to `tls://host:port`.
    pub protocols: BTreeMap<String, String>,
    /// The state of its copy of the data model; one of [`sync_status`].
    pub sync_status: String,
    /// The program that the router runs.
    pub version: RouterVersion,
    /// The capability bits of the router.
    pub capabilities: u64,
    /// The prints of the keys that prove the router to clients: SHA-256 of the SubjectPublicKeyInfo, in hex.
    pub keys: Vec<String>,
    /// The network interfaces of the router.
    pub interfaces: Arc<[Interface]>,
    /// True once the router has said that it drains: it takes no new circuits.
    pub drains: bool,
}

impl RouterFacts {
    /// Whether the router takes posture data from clients with signed tokens and judges it, as OpenZiti's do since 2.0
    /// (docs/protocol/sdk.md 12.2). With weft's routers, and with former ones, the controller does.
    fn judges_posture(&self) -> bool {
        let is_of_weft = self.capabilities & (1 << router_capability::SESSION_LISTS) != 0;
        let version: Option<Version> = self.version.version.parse().ok();
        !is_of_weft && version.is_some_and(|it| it.is_development() || it.at_least(2, 0, 0))
    }
}

impl Default for RouterFacts {
    fn default() -> Self {
        Self {
            since: Timestamp(0),
            hostname: String::new(),
            protocols: BTreeMap::new(),
            sync_status: sync_status::NEW.to_owned(),
            version: RouterVersion::default(),
            capabilities: 0,
            keys: Vec::new(),
            interfaces: Arc::default(),
            drains: false,
        }
    }
}

/// The program a router runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RouterVersion {
    /// The version of the program, such as `v1.6.5`.
    pub version: String,
    /// The revision of the source of the program.
    pub revision: String,
    /// When the program was built.
    pub build_date: String,
    /// The operating system of the program.
    pub os: String,
    /// The processor architecture of the program.
    pub arch: String,
}

/// The facts about a router, and the state of its data model, at one moment.
#[derive(Debug, Clone)]
pub struct Seen {
    facts: Option<Arc<RouterFacts>>,
    gone: Option<&'static str>,
}

impl Seen {
    /// Whether both are the same.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.facts, &other.facts) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => self.gone == other.gone,
            _ => false,
        }
    }
}

/// The table of connected routers and identities. Clones share it.
#[derive(Debug, Clone)]
pub struct Online {
    tables: Arc<RwLock<Tables>>,
    /// The state of an identity is unknown if no router has reported it for this long
    /// (docs/protocol/management-api.md 7.1).
    unknown_after: Duration,
}

#[derive(Debug, Default)]
struct Tables {
    routers: HashMap<Id, Connection>,
    /// How many of them judge the posture of clients.
    judging: usize,
    /// Increased by every change of facts about routers.
    version: u64,
    /// The states of the data model of disconnected routers.
    gone: HashMap<Id, &'static str>,
    /// By identity: the routers with a connection of it, and the time of the last report.
    identities: HashMap<Id, Connected>,
}

/// The connection of a router.
#[derive(Debug)]
struct Connection {
    number: u64,
    facts: Arc<RouterFacts>,
    judges_posture: bool,
    /// The identities that the router reported as connected.
    identities: HashSet<Id>,
}

#[derive(Debug, Default)]
struct Connected {
    routers: Vec<Id>,
    told: Timestamp,
}

impl Tables {
    fn is_current(&self, router: &Id, connection: u64) -> bool {
        self.routers.get(router).is_some_and(|current| current.number == connection)
    }

    /// Forgets an ended connection of a router, and all identities that were connected over it.
    fn disconnect_all(&mut self, router: &Id, ended: &Connection) {
        self.judging -= usize::from(ended.judges_posture);
        for identity in &ended.identities {
            if let Some(connected) = self.identities.get_mut(identity) {
                connected.routers.retain(|own| own != router);
            }
        }
    }
}

impl Online {
    /// An empty table. The state of an identity is unknown if no router has reported it for
    /// `unknown_after`.
    pub fn new(unknown_after: Duration) -> Self {
        Self { tables: Arc::default(), unknown_after }
    }

    /// Notes that a router has connected; reports of its former connection become void.
    pub fn put_router(&self, router: &Id, connection: u64, facts: RouterFacts) {
        let mut tables = self.tables.write();
        tables.version += 1;
        tables.gone.remove(router);
        let judges_posture = facts.judges_posture();
        tables.judging += usize::from(judges_posture);
        let (facts, identities) = (Arc::new(facts), HashSet::new());
        let connection = Connection { number: connection, facts, judges_posture, identities };
        if let Some(former) = tables.routers.insert(router.clone(), connection) {
            tables.disconnect_all(router, &former);
        }
    }

    /// Changes the facts of a connected router; does nothing if this is not its current connection.
    /// A change that changes nothing leaves the version as it is, because every list of routers
    /// that clients get is made anew after a change.
    pub fn change_router(
        &self,
        router: &Id,
        connection: u64,
        change: impl FnOnce(&mut RouterFacts),
    ) {
        let mut tables = self.tables.write();
        if let Some(current) = tables.routers.get_mut(router)
            && current.number == connection
        {
            let mut changed = (*current.facts).clone();
            change(&mut changed);
            if changed != *current.facts {
                current.facts = Arc::new(changed);
                tables.version += 1;
            }
        }
    }

    /// Notes that a connection of a router has ended; does nothing if another one is current.
    pub fn remove_router(&self, router: &Id, connection: u64) {
        let mut tables = self.tables.write();
        if !tables.is_current(router, connection) {
            return;
        }
        let Some(ended) = tables.routers.remove(router) else { return };
        tables.version += 1;
        tables.gone.insert(router.clone(), sync_status::DISCONNECTED);
        tables.disconnect_all(router, &ended);
    }

    /// The facts about a router, while it is connected.
    pub fn router(&self, router: &str) -> Option<Arc<RouterFacts>> {
        self.tables.read().routers.get(router).map(|current| Arc::clone(&current.facts))
    }

    /// Whether a router is connected.
    pub fn is_online(&self, router: &str) -> bool {
        self.tables.read().routers.contains_key(router)
    }

    /// Whether every connected router follows revocations that name many sessions in a list
    /// (docs/protocol/edge-control-plane.md 4.4).
    pub fn all_know_session_lists(&self) -> bool {
        let knows = |connection: &Connection| {
            let bit = 1 << router_capability::SESSION_LISTS;
            connection.facts.capabilities & bit != 0
        };
        self.tables.read().routers.values().all(knows)
    }

    /// Whether routers judge the posture of an identity: some router does, and the identity is connected to no other one.
    pub fn leaves_posture_to_routers(&self, identity: &Id) -> bool {
        let tables = self.tables.read();
        let judges = |router: &Id| tables.routers.get(router).is_some_and(|it| it.judges_posture);
        let connected = tables.identities.get(identity);
        tables.judging > 0 && connected.is_none_or(|it| it.routers.iter().all(judges))
    }

    /// Whether this router is connected and judges the posture of clients.
    pub fn judges_posture(&self, router: &str) -> bool {
        self.tables.read().routers.get(router).is_some_and(|connection| connection.judges_posture)
    }

    /// Ids of the routers that are connected.
    pub fn routers(&self) -> Vec<Id> {
        self.tables.read().routers.keys().cloned().collect()
    }

    /// The connected ones of these routers.
    pub fn among<'i>(&self, routers: impl Iterator<Item = &'i Id>) -> HashSet<Id> {
        let tables = self.tables.read();
        routers.filter(|router| tables.routers.contains_key(*router)).cloned().collect()
    }

    /// The routers among `routers` that are connected and drain.
    pub fn draining<'i>(&self, routers: impl Iterator<Item = &'i Id>) -> HashSet<Id> {
        let tables = self.tables.read();
        let drains = |router: &&Id| tables.routers.get(*router).is_some_and(|it| it.facts.drains);
        routers.filter(drains).cloned().collect()
    }

    /// A number that changes with any fact about a router.
    pub fn version(&self) -> u64 {
        self.tables.read().version
    }

    /// The facts about these routers, in this order.
    pub fn seen<'i>(&self, routers: impl Iterator<Item = &'i Id>) -> Vec<Seen> {
        let tables = self.tables.read();
        let seen = |router: &Id| {
            let current = tables.routers.get(router);
            let facts = current.map(|current| Arc::clone(&current.facts));
            Seen { facts, gone: tables.gone.get(router).copied() }
        };
        routers.map(seen).collect()
    }

    /// The state of the data model of a router, connected or not.
    pub fn sync_status(&self, router: &str) -> String {
        let tables = self.tables.read();
        match tables.routers.get(router) {
            Some(current) => current.facts.sync_status.clone(),
            None => tables.gone.get(router).copied().unwrap_or(sync_status::UNKNOWN).to_owned(),
        }
    }

    /// Notes a router's report whether an identity is connected to it.
    pub fn put_identity(
        &self,
        identity: &Id,
        (router, connection): (&Id, u64),
        connected: bool,
        now: Timestamp,
    ) {
        let mut tables = self.tables.write();
        let tables = &mut *tables;
        let Some(current) = tables.routers.get_mut(router) else { return };
        if current.number != connection {
            return;
        }
        match connected {
            true => current.identities.insert(identity.clone()),
            false => current.identities.remove(identity),
        };
        let entry = tables.identities.entry(identity.clone()).or_default();
        entry.told = now;
        entry.routers.retain(|own| own != router);
        if connected {
            entry.routers.push(router.clone());
        }
    }

    /// Whether an identity is connected to any router.
    pub fn identity(&self, identity: &str, now: Timestamp) -> ConnectionStatus {
        match self.tables.read().identities.get(identity) {
            Some(connected) if now.since(connected.told) > self.unknown_after => {
                ConnectionStatus::Unknown
            }
            Some(connected) if connected.routers.is_empty() => ConnectionStatus::Offline,
            Some(_) => ConnectionStatus::Online,
            None => ConnectionStatus::Offline,
        }
    }

    /// The routers that an identity is connected to.
    pub fn routers_of(&self, identity: &Id) -> Vec<Id> {
        let tables = self.tables.read();
        tables.identities.get(identity).map(|it| it.routers.clone()).unwrap_or_default()
    }

    /// All reported identities with the routers that they are connected to, ordered by id.
    pub fn connections(&self, now: Timestamp) -> Vec<(Id, Vec<Id>, ConnectionStatus)> {
        let mut all: Vec<_> = {
            let tables = self.tables.read();
            let told = tables.identities.iter();
            told.map(|(id, connected)| (id.clone(), connected.routers.clone())).collect()
        };
        all.sort_unstable();
        let with_status = |(id, routers): (Id, Vec<Id>)| {
            let status = self.identity(id.as_str(), now);
            (id, routers, status)
        };
        all.into_iter().map(with_status).collect()
    }

    /// Forgets the identities and routers that do not exist any more.
    pub fn retain(&self, is_identity: impl Fn(&Id) -> bool, is_router: impl Fn(&Id) -> bool) {
        let mut tables = self.tables.write();
        tables.identities.retain(|id, _| is_identity(id));
        tables.gone.retain(|id, _| is_router(id));
    }

    /// Forgets an identity or router that was deleted.
    pub fn forget(&self, id: &str) {
        let mut tables = self.tables.write();
        tables.identities.remove(id);
        tables.gone.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: Duration = Duration::from_secs(420);

    #[test]
    fn identities_follow_their_routers() {
        let online = Online::new(TOLD);
        let (laptop, router) = (Id::new("laptop"), Id::new("r1"));
        let now = Timestamp(1_000_000);
        assert_eq!(online.identity("laptop", now), ConnectionStatus::Offline);
        online.put_identity(&laptop, (&router, 1), true, now);
        assert_eq!(online.identity("laptop", now), ConnectionStatus::Offline);
        online.put_router(&router, 1, RouterFacts::default());
        online.put_identity(&laptop, (&router, 1), true, now);
        assert_eq!(online.identity("laptop", now), ConnectionStatus::Online);
        assert_eq!(online.identity("laptop", now.plus(TOLD * 2)), ConnectionStatus::Unknown);
        online.remove_router(&router, 1);
        assert_eq!(online.identity("laptop", now), ConnectionStatus::Offline);
        assert_eq!(online.sync_status("r1"), sync_status::DISCONNECTED);
        assert_eq!(online.sync_status("r2"), sync_status::UNKNOWN);
    }

    #[test]
    fn routers_of_the_original_judge_posture_while_they_are_connected() {
        let online = Online::new(TOLD);
        let facts = |version: &str, capabilities| RouterFacts {
            version: RouterVersion { version: version.to_owned(), ..RouterVersion::default() },
            capabilities,
            ..RouterFacts::default()
        };
        let weft = 1 << router_capability::SESSION_LISTS;
        let table = [
            ("v2.0.3", 0, true),
            ("v2.1.0-pre4", 0, true),
            ("v0.0.0", 0, true),
            ("v1.6.5", 0, false),
            ("", 0, false),
            ("v2.1.0", weft, false),
        ];
        for (number, (version, capabilities, judges)) in (1..).zip(table) {
            // In place of the former connection.
            online.put_router(&Id::new("r1"), number, facts(version, capabilities));
            assert_eq!(online.judges_posture("r1"), judges, "{version}");
            assert_eq!(online.leaves_posture_to_routers(&Id::new("i")), judges, "{version}");
        }
        for router in ["r1", "r2"] {
            online.put_router(&Id::new(router), 10, facts("v2.0.3", 0));
        }
        assert!(!online.judges_posture("r3"));
        online.remove_router(&Id::new("r1"), 10);
        let laptop = Id::new("i");
        assert!(online.leaves_posture_to_routers(&laptop) && !online.judges_posture("r1"));
        // Not if it is also connected to a router of weft.
        let (weft, judge) = (Id::new("r4"), Id::new("r2"));
        online.put_router(&weft, 1, facts("v2.1.0", 1 << router_capability::SESSION_LISTS));
        online.put_identity(&laptop, (&judge, 10), true, Timestamp(1));
        assert!(online.leaves_posture_to_routers(&laptop));
        online.put_identity(&laptop, (&weft, 1), true, Timestamp(1));
        assert!(!online.leaves_posture_to_routers(&laptop));
        assert!(online.leaves_posture_to_routers(&Id::new("other")));
        online.remove_router(&weft, 1);
        assert!(online.leaves_posture_to_routers(&laptop));
        online.remove_router(&judge, 10);
        assert!(!online.leaves_posture_to_routers(&laptop));
    }

    #[test]
    fn a_router_that_goes_takes_only_its_own_connections_along() {
        let online = Online::new(TOLD);
        let now = Timestamp(1_000_000);
        let (one, other) = (Id::new("r1"), Id::new("r2"));
        online.put_router(&one, 1, RouterFacts::default());
        online.put_router(&other, 2, RouterFacts::default());
        let ids: Vec<Id> = (0..100).map(|number| Id::new(&format!("i{number}"))).collect();
        for (number, id) in ids.iter().enumerate() {
            online.put_identity(id, (&one, 1), true, now);
            online.put_identity(id, (&other, 2), number % 2 == 0, now);
        }
        online.put_identity(&ids[1], (&one, 1), false, now);
        let up = || {
            let is_up = |id: &&Id| online.identity(id.as_str(), now) == ConnectionStatus::Online;
            ids.iter().filter(is_up).count()
        };
        assert_eq!(up(), 99);
        online.remove_router(&one, 1);
        assert_eq!(up(), 50);
        online.forget("i0");
        online.put_router(&other, 3, RouterFacts::default());
        assert_eq!(up(), 0);
    }

    #[test]
    fn a_change_that_changes_nothing_is_none() {
        let online = Online::new(TOLD);
        let router = Id::new("r1");
        online.put_router(&router, 1, RouterFacts::default());
        let say = |status: &str| {
            online.change_router(&router, 1, |facts| status.clone_into(&mut facts.sync_status));
            (online.version(), online.router("r1").unwrap())
        };
        let (version, facts) = say(sync_status::DONE);
        let (same, again) = say(sync_status::DONE);
        assert_eq!(same, version);
        assert!(Arc::ptr_eq(&again, &facts));
        let (other, changed) = say(sync_status::IN_PROGRESS);
        assert_ne!(other, version);
        assert_eq!(changed.sync_status, sync_status::IN_PROGRESS);
    }

    #[test]
    fn only_the_connection_of_now_counts() {
        let online = Online::new(TOLD);
        let (laptop, router) = (Id::new("laptop"), Id::new("r1"));
        let now = Timestamp(1_000_000);
        let status = || online.identity("laptop", now);
        online.put_router(&router, 1, RouterFacts::default());
        online.put_identity(&laptop, (&router, 1), true, now);
        // A new connection replaces it, and no identity is reported on it yet.
        online.put_router(&router, 2, RouterFacts::default());
        assert_eq!(status(), ConnectionStatus::Offline);
        online.put_identity(&laptop, (&router, 1), true, now);
        assert_eq!(status(), ConnectionStatus::Offline);
        online.put_identity(&laptop, (&router, 2), true, now);
        online.put_identity(&laptop, (&router, 1), false, now);
        online.change_router(&router, 1, |facts| facts.hostname = "old".into());
        online.remove_router(&router, 1);
        assert_eq!(status(), ConnectionStatus::Online);
        assert_eq!(online.router("r1").unwrap().hostname, "");
        online.remove_router(&router, 2);
        assert!(!online.is_online("r1") && status() == ConnectionStatus::Offline);
    }
}
