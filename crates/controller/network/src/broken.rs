//! Links that broke, of which the router that dialed them has said nothing: it may not be heard any more, and such a link
//! may come back without a report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use weft_model::Id;
use weft_paths::links::Link;

/// How long a router is asked whether a link that broke is back: no circuit waits longer for it.
const WAITS: Duration = Duration::from_secs(60);
/// Most broken links that may come back.
const MOST_BROKEN: usize = 20_000;

/// Links that broke, by the router that did not dial them.
#[derive(Debug, Default)]
pub(crate) struct Broken(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    count: usize,
    by_router: HashMap<Id, HashMap<String, BrokenLink>>,
    /// The numbers of the links about which nobody has been asked since they broke, by the router that dialed them.
    unasked: HashMap<Id, usize>,
}

#[derive(Debug)]
struct BrokenLink {
    link: Arc<Link>,
    broke_at: Instant,
    /// Whether the router at its other end has said since then that the link is not back.
    is_asked: bool,
}

impl State {
    fn asked(&mut self, dialer: &Id) {
        if let Some(count) = self.unasked.get_mut(dialer) {
            *count -= 1;
            if *count == 0 {
                self.unasked.remove(dialer);
            }
        }
    }

    /// Removes the links of a router that `goes` names, and returns them.
    fn remove(&mut self, router: &Id, goes: impl Fn(&BrokenLink) -> bool) -> Vec<Arc<Link>> {
        let Some(links) = self.by_router.get_mut(router) else { return Vec::new() };
        let gone: Vec<BrokenLink> = links.extract_if(|_, it| goes(it)).map(|(_, it)| it).collect();
        if links.is_empty() {
            self.by_router.remove(router);
        }
        self.count -= gone.len();
        gone.iter().filter(|it| !it.is_asked).for_each(|it| self.asked(&it.link.source));
        gone.into_iter().map(|it| it.link).collect()
    }
}

impl Broken {
    pub(crate) fn insert(&self, link: &Arc<Link>, now: Instant) {
        let mut state = self.0.lock();
        state.remove(&link.destination, |it| it.link.id == link.id);
        if state.count < MOST_BROKEN {
            let broken = BrokenLink { link: Arc::clone(link), broke_at: now, is_asked: false };
            let links = state.by_router.entry_ref(&link.destination).or_default();
            links.insert(link.id.clone(), broken);
            state.count += 1;
            *state.unasked.entry_ref(&link.source).or_default() += 1;
        }
    }

    /// The routers that dialed links of a router which may come back.
    pub(crate) fn dialers(&self, router: &Id, now: Instant) -> HashSet<Id> {
        let mut state = self.0.lock();
        state.remove(router, |it| now.saturating_duration_since(it.broke_at) >= WAITS);
        let links = state.by_router.get(router).into_iter().flat_map(HashMap::values);
        links.map(|it| it.link.source.clone()).collect()
    }

    /// Whether a link that a router has dialed may be back, for all that is known: nobody has been asked about the link
    /// since it broke.
    pub(crate) fn may_have(&self, dialer: &Id) -> bool {
        self.0.lock().unasked.contains_key(dialer)
    }

    /// Takes the links of a router that it has again: `named` are all that it has, by its answer to a question of the
    /// time `asked_at`, which says nothing of links that broke later.
    pub(crate) fn take(
        &self,
        router: &Id,
        named: &HashSet<String>,
        asked_at: Instant,
    ) -> Vec<Arc<Link>> {
        let mut state = self.0.lock();
        let back = state.remove(router, |it| it.broke_at < asked_at && named.contains(&it.link.id));
        let links = state.by_router.get_mut(router).into_iter().flat_map(HashMap::values_mut);
        let unasked = links.filter(|it| it.broke_at < asked_at && !it.is_asked);
        let note = |it: &mut BrokenLink| {
            it.is_asked = true;
            it.link.source.clone()
        };
        let dialers: Vec<Id> = unasked.map(note).collect();
        dialers.iter().for_each(|dialer| state.asked(dialer));
        back
    }

    /// Forgets the links of a router, which says by itself which links it has, or may have none.
    pub(crate) fn forget(&self, router: &Id) {
        let mut state = self.0.lock();
        let others: Vec<Id> = state.by_router.keys().cloned().collect();
        for other in others {
            state.remove(&other, |it| it.link.has_end(router.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: &str, source: &str, destination: &str) -> Arc<Link> {
        Arc::new(Link {
            id: id.into(),
            source: Id::new(source),
            destination: Id::new(destination),
            protocol: "tls".into(),
            address: String::new(),
            iteration: 1,
            static_cost: 1,
            source_latency: 0,
            destination_latency: 0,
            counted: 1,
            down: false,
            connections: Default::default(),
            since: weft_model::Timestamp(0),
        })
    }

    #[test]
    fn a_link_may_be_back_until_somebody_has_been_asked() {
        let (broken, now) = (Broken::default(), Instant::now());
        let (r1, r2, r3) = (Id::new("r1"), Id::new("r2"), Id::new("r3"));
        broken.insert(&link("l1", "r1", "r2"), now);
        broken.insert(&link("l1", "r1", "r2"), now);
        broken.insert(&link("l2", "r1", "r3"), now);
        assert!(broken.may_have(&r1) && !broken.may_have(&r2));
        assert_eq!(broken.dialers(&r2, now), HashSet::from([r1.clone()]));
        let (none, l2) = (HashSet::new(), HashSet::from(["l2".to_owned()]));
        let later = now + Duration::from_secs(1);
        assert!(broken.take(&r2, &none, later).is_empty());
        assert!(broken.may_have(&r1), "the other router was not asked");
        assert!(broken.take(&r3, &l2, now).is_empty(), "it was asked before the link broke");
        assert!(broken.may_have(&r1));
        let back = broken.take(&r3, &l2, later);
        assert_eq!(back.iter().map(|link| link.id.as_str()).collect::<Vec<_>>(), ["l2"]);
        assert!(!broken.may_have(&r1));
        // It is asked about for a while.
        assert_eq!(broken.dialers(&r2, now).len(), 1);
        assert!(broken.dialers(&r2, now + WAITS).is_empty());
        broken.insert(&link("l1", "r1", "r2"), now);
        broken.forget(&r1);
        let state = broken.0.lock();
        assert!(state.unasked.is_empty() && state.by_router.is_empty() && state.count == 0);
    }
}
