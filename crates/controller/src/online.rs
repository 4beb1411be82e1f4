//! Who is connected now: routers with what they told of themselves, and the identities connected
//! to them. Class Memory: written by the network part, read by the resources, gone with the
//! process and rebuilt from the routers.
//!
//! A router can be back before its former connection has ended: what is told counts only from the
//! connection that is the router's now, and so does its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::RwLock;
use weft_contract::resource::edge_router::sync_status;
use weft_contract::resource::identity::{ConnectionStatus, Interface};
use weft_model::{Id, Timestamp};

/// An identity of which no router told for this long is in unknown state
/// (protocol: management-api 7.1).
const TOLD: Duration = Duration::from_secs(300);

/// What a connected router told of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterFacts {
    /// Since when it is connected.
    pub since: Timestamp,
    /// Where it listens for SDKs.
    pub hostname: String,
    /// Where it listens, by protocol: `tls` to `tls://host:port`.
    pub protocols: BTreeMap<String, String>,
    /// How far it has the data model; one of [`sync_status`].
    pub sync_status: String,
    /// Its program.
    pub version: RouterVersion,
    /// Raw capability bits.
    pub capabilities: u64,
    /// Its network interfaces.
    pub interfaces: Vec<Interface>,
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
            interfaces: Vec::new(),
        }
    }
}

/// The program a router runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RouterVersion {
    pub version: String,
    pub revision: String,
    pub build_date: String,
    pub os: String,
    pub arch: String,
}

/// The table of who is connected. Cheap to clone: clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct Online(Arc<RwLock<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    /// With the number of the connection.
    routers: HashMap<Id, (u64, Arc<RouterFacts>)>,
    /// Sync status of routers that were connected before.
    gone: HashMap<Id, &'static str>,
    /// By identity: the routers that hold a connection of it, and when one last told.
    identities: HashMap<Id, Connected>,
}

#[derive(Debug, Default)]
struct Connected {
    routers: Vec<Id>,
    told: Timestamp,
}

impl Tables {
    fn is_current(&self, router: &Id, connection: u64) -> bool {
        self.routers.get(router).is_some_and(|(current, _)| *current == connection)
    }

    /// No identity is connected to a router any more.
    fn disconnect_all(&mut self, router: &Id) {
        for connected in self.identities.values_mut() {
            connected.routers.retain(|own| own != router);
        }
    }
}

impl Online {
    /// A router has connected: what a former connection of it told is void.
    pub fn put_router(&self, router: &Id, connection: u64, facts: RouterFacts) {
        let mut tables = self.0.write();
        tables.gone.remove(router);
        if tables.routers.insert(router.clone(), (connection, Arc::new(facts))).is_some() {
            tables.disconnect_all(router);
        }
    }

    /// Changes what is known of a connected router; nothing if this is not its connection.
    pub fn change_router(
        &self,
        router: &Id,
        connection: u64,
        change: impl FnOnce(&mut RouterFacts),
    ) {
        if let Some((current, facts)) = self.0.write().routers.get_mut(router)
            && *current == connection
        {
            change(Arc::make_mut(facts));
        }
    }

    /// A connection of a router has ended; nothing if it has another one by now.
    pub fn remove_router(&self, router: &Id, connection: u64) {
        let mut tables = self.0.write();
        if !tables.is_current(router, connection) {
            return;
        }
        tables.routers.remove(router);
        tables.gone.insert(router.clone(), sync_status::DISCONNECTED);
        tables.disconnect_all(router);
    }

    /// What a router told, while it is connected.
    pub fn router(&self, router: &str) -> Option<Arc<RouterFacts>> {
        self.0.read().routers.get(router).map(|(_, facts)| Arc::clone(facts))
    }

    /// Whether a router is connected.
    pub fn is_online(&self, router: &str) -> bool {
        self.0.read().routers.contains_key(router)
    }

    /// Ids of the routers that are connected.
    pub fn routers(&self) -> Vec<Id> {
        self.0.read().routers.keys().cloned().collect()
    }

    /// The sync status of a router, connected or not.
    pub fn sync_status(&self, router: &str) -> String {
        let tables = self.0.read();
        match tables.routers.get(router) {
            Some((_, facts)) => facts.sync_status.clone(),
            None => tables.gone.get(router).copied().unwrap_or(sync_status::UNKNOWN).to_owned(),
        }
    }

    /// A router tells over its connection whether an identity has one to it.
    pub fn put_identity(
        &self,
        identity: &Id,
        (router, connection): (&Id, u64),
        connected: bool,
        now: Timestamp,
    ) {
        let mut tables = self.0.write();
        if !tables.is_current(router, connection) {
            return;
        }
        let entry = tables.identities.entry(identity.clone()).or_default();
        entry.told = now;
        entry.routers.retain(|own| own != router);
        if connected {
            entry.routers.push(router.clone());
        }
    }

    /// Whether an identity is connected to a router.
    pub fn identity(&self, identity: &str, now: Timestamp) -> ConnectionStatus {
        match self.0.read().identities.get(identity) {
            Some(connected) if now.since(connected.told) > TOLD => ConnectionStatus::Unknown,
            Some(connected) if connected.routers.is_empty() => ConnectionStatus::Offline,
            Some(_) => ConnectionStatus::Online,
            None => ConnectionStatus::Offline,
        }
    }

    /// Every identity of which a router told, with the routers it is connected to, by id.
    pub fn connections(&self, now: Timestamp) -> Vec<(Id, Vec<Id>, ConnectionStatus)> {
        let mut all: Vec<_> = {
            let tables = self.0.read();
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

    /// Forgets an identity or router that was deleted.
    pub fn forget(&self, id: &str) {
        let mut tables = self.0.write();
        tables.identities.remove(id);
        tables.gone.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_follow_their_routers() {
        let online = Online::default();
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
    fn only_the_connection_of_now_counts() {
        let online = Online::default();
        let (laptop, router) = (Id::new("laptop"), Id::new("r1"));
        let now = Timestamp(1_000_000);
        let status = || online.identity("laptop", now);
        online.put_router(&router, 1, RouterFacts::default());
        online.put_identity(&laptop, (&router, 1), true, now);
        // Another connection takes its place, which knows nobody yet.
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
