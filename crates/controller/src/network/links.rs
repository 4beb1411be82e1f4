//! The links between routers, as their dialers report them (protocol: control-plane 9, 10).
//!
//! Routers decide about links; the controller only keeps what it is told, to find paths over them.
//! A report counts only from the router that dials the link, a fault only from one of its ends.

use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::RwLock;
use weft_model::{Id, Timestamp};
use weft_wire::ctrl::{LinkConnState, RouterLink};

/// Most links one router may report.
const MAX_PER_ROUTER: usize = 10_000;

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its id, chosen by the router that dials it.
    pub id: String,
    /// The router that dialed it.
    pub source: Id,
    /// The router at the other end.
    pub destination: Id,
    /// For example `tls`.
    pub protocol: String,
    /// The address that was dialed.
    pub address: String,
    /// Number of the dial; identifies this incarnation.
    pub iteration: u32,
    /// Part of its cost that does not depend on measurements.
    pub static_cost: i32,
    /// What the dialing side measured, in nanoseconds.
    pub source_latency: u64,
    /// What the other side measured, in nanoseconds.
    pub destination_latency: u64,
    /// Taken out of use by an operator.
    pub down: bool,
    /// Its connections.
    pub connections: LinkConnState,
    /// When it was reported first.
    pub since: Timestamp,
}

impl Link {
    /// What it costs to go over it: never negative.
    pub fn cost(&self) -> u64 {
        let millis = (self.source_latency / 1_000_000) + (self.destination_latency / 1_000_000);
        millis.saturating_add_signed(i64::from(self.static_cost))
    }

    /// Whether a router is one of its ends.
    pub fn has_end(&self, router: &str) -> bool {
        self.source.as_str() == router || self.destination.as_str() == router
    }

    /// The end that `router` is not.
    pub fn other_end(&self, router: &str) -> &Id {
        if self.source.as_str() == router { &self.destination } else { &self.source }
    }
}

/// What became of one reported link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It is new, or a new incarnation.
    New,
    /// It was known.
    Known,
    /// It belongs to another router, or the router has too many.
    Refused,
}

/// All links.
#[derive(Debug, Default)]
pub struct Links(RwLock<HashMap<String, Link>>);

impl Links {
    /// Every link.
    pub fn all(&self) -> Vec<Link> {
        self.0.read().values().cloned().collect()
    }

    /// A link by id.
    pub fn get(&self, id: &str) -> Option<Link> {
        self.0.read().get(id).cloned()
    }

    /// Looks at every link without copying it.
    pub fn each(&self, mut look: impl FnMut(&Link)) {
        self.0.read().values().for_each(&mut look);
    }

    /// A router reports a link that it dialed.
    pub fn report(
        &self,
        source: &Id,
        reported: &RouterLink,
        initial_latency: Duration,
        now: Timestamp,
    ) -> Report {
        let mut links = self.0.write();
        match links.get(&reported.id) {
            Some(known) if known.source != *source => return Report::Refused,
            Some(known) if known.iteration >= reported.iteration => return Report::Known,
            Some(_) => {}
            None => {
                let own = links.values().filter(|link| link.source == *source).count();
                if own >= MAX_PER_ROUTER {
                    return Report::Refused;
                }
            }
        }
        let latency = u64::try_from(initial_latency.as_nanos()).unwrap_or(u64::MAX);
        let link = Link {
            id: reported.id.clone(),
            source: source.clone(),
            destination: Id::new(&reported.dest_router_id),
            protocol: reported.link_protocol.clone(),
            address: reported.dial_address.clone(),
            iteration: reported.iteration,
            static_cost: 1,
            source_latency: latency,
            destination_latency: latency,
            down: false,
            connections: reported.conn_state.clone().unwrap_or_default(),
            since: now,
        };
        links.insert(reported.id.clone(), link);
        Report::New
    }

    /// Ids of a router's own links that are not among `named`.
    pub fn missing(&self, source: &Id, named: &[RouterLink]) -> Vec<String> {
        let links = self.0.read();
        let own = links.values().filter(|link| link.source == *source);
        let gone = own.filter(|link| named.iter().all(|named| named.id != link.id));
        gone.map(|link| link.id.clone()).collect()
    }

    /// A link broke. Taken out, unless the fault is about an earlier incarnation (0 is any).
    pub fn fault(&self, id: &str, iteration: u32) -> Option<Link> {
        let mut links = self.0.write();
        let link = links.get(id)?;
        if iteration != 0 && link.iteration != 0 && iteration < link.iteration {
            return None;
        }
        links.remove(id)
    }

    /// The connections of a link changed; false if that is old news.
    pub fn connections_changed(&self, id: &str, iteration: u32, state: LinkConnState) -> bool {
        let mut links = self.0.write();
        let Some(link) = links.get_mut(id) else { return false };
        let newer = state.state_iteration > link.connections.state_iteration;
        if link.iteration != iteration || !newer {
            return false;
        }
        link.connections = state;
        true
    }

    /// Takes the links that a router dialed, when it has gone.
    pub fn take_of(&self, source: &Id) -> Vec<Link> {
        let mut links = self.0.write();
        let ids: Vec<String> = {
            let own = links.values().filter(|link| link.source == *source);
            own.map(|link| link.id.clone()).collect()
        };
        ids.iter().filter_map(|id| links.remove(id)).collect()
    }

    /// A router measured its links.
    pub fn measured(&self, router: &str, latency: impl Fn(&str) -> Option<u64>) {
        for link in self.0.write().values_mut().filter(|link| link.has_end(router)) {
            let Some(latency) = latency(&link.id) else { continue };
            if link.source.as_str() == router {
                link.source_latency = latency;
            } else {
                link.destination_latency = latency;
            }
        }
    }

    /// An operator changes a link.
    pub fn change(&self, id: &str, static_cost: Option<i32>, down: Option<bool>) -> Option<Link> {
        let mut links = self.0.write();
        let link = links.get_mut(id)?;
        link.static_cost = static_cost.unwrap_or(link.static_cost);
        link.down = down.unwrap_or(link.down);
        Some(link.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: Duration = Duration::from_secs(65);

    fn reported(id: &str, to: &str, iteration: u32) -> RouterLink {
        RouterLink { id: id.into(), dest_router_id: to.into(), iteration, ..RouterLink::default() }
    }

    #[test]
    fn reports_make_and_replace_links() {
        let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
        let report = |from, link: &RouterLink| links.report(from, link, INITIAL, Timestamp(1));
        assert_eq!(report(&r1, &reported("l1", "r2", 1)), Report::New);
        assert_eq!(links.get("l1").unwrap().cost(), 130_001);
        assert_eq!(report(&r1, &reported("l1", "r2", 1)), Report::Known);
        assert_eq!(report(&r2, &reported("l1", "r1", 9)), Report::Refused);
        links.measured("r1", |_| Some(10_900_000));
        links.measured("r2", |_| Some(11_000_000));
        links.measured("r3", |_| Some(0));
        assert_eq!(links.get("l1").unwrap().cost(), 22);
        assert_eq!(report(&r1, &reported("l1", "r2", 2)), Report::New);
        assert_eq!(links.get("l1").unwrap().cost(), 130_001);
        assert_eq!(links.missing(&r1, &[]), ["l1"]);
        assert!(links.missing(&r1, &[reported("l1", "r2", 2)]).is_empty());
    }

    #[test]
    fn old_faults_do_not_count() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        links.report(&r1, &reported("l1", "r2", 3), INITIAL, Timestamp(1));
        assert!(links.fault("l1", 2).is_none());
        assert!(links.fault("l2", 0).is_none());
        assert_eq!(links.fault("l1", 3).unwrap().other_end("r1"), &Id::new("r2"));
        assert!(links.all().is_empty());
    }

    #[test]
    fn state_of_connections_only_goes_forward() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        links.report(&r1, &reported("l1", "r2", 1), INITIAL, Timestamp(1));
        let state = |n| LinkConnState { state_iteration: n, conns: Vec::new() };
        assert!(links.connections_changed("l1", 1, state(2)));
        assert!(!links.connections_changed("l1", 1, state(2)));
        assert!(!links.connections_changed("l1", 2, state(3)));
        assert!(!links.connections_changed("l9", 1, state(3)));
        assert_eq!(links.change("l1", Some(-200_000), Some(true)).unwrap().cost(), 0);
        assert_eq!(links.take_of(&r1).len(), 1);
    }
}
