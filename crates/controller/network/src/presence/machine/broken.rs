//! Links that broke. The router that dialed one reports it when it is back; if that router is not heard by then, the link
//! comes back without a report.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use weft_model::Id;
use weft_paths::links::Link;

use super::table::State;

/// Most broken links that may come back.
const MOST_BROKEN: usize = 20_000;
/// Most of these that one router dialed.
const MOST_OF_DIALER: usize = 500;

/// Links that broke, by the router that did not dial them.
#[derive(Debug, Default)]
pub(super) struct Broken {
    count: usize,
    by_router: HashMap<Id, HashMap<String, BrokenLink>>,
    /// The links by the router that dialed them: their other routers and ids.
    by_dialer: HashMap<Id, HashSet<(Id, String)>>,
}

#[derive(Clone, Debug)]
pub(super) struct BrokenLink {
    pub(super) link: Arc<Link>,
    pub(super) state: State,
    pub(super) broke_at: Instant,
}

impl Broken {
    pub(super) fn get(&self, router: &Id, link: &str) -> Option<&BrokenLink> {
        self.by_router.get(router)?.get(link)
    }

    /// Whether there is room for a further link that this router dialed.
    pub(super) fn has_room(&self, dialer: &Id) -> bool {
        let dialed = self.by_dialer.get(dialer).map_or(0, HashSet::len);
        self.count < MOST_BROKEN && dialed < MOST_OF_DIALER
    }

    /// Puts a link in the place of what was known of it.
    pub(super) fn put(&mut self, broken: BrokenLink) {
        self.remove(&broken.link);
        let dialed = self.by_dialer.entry_ref(&broken.link.source).or_default();
        dialed.insert((broken.link.destination.clone(), broken.link.id.clone()));
        let links = self.by_router.entry_ref(&broken.link.destination).or_default();
        links.insert(broken.link.id.clone(), broken);
        self.count += 1;
    }

    pub(super) fn remove(&mut self, link: &Link) -> Option<BrokenLink> {
        let links = self.by_router.get_mut(&link.destination)?;
        let removed = links.remove(&link.id)?;
        if links.is_empty() {
            self.by_router.remove(&link.destination);
        }
        self.count -= 1;
        let dialer = &removed.link.source;
        if let Some(dialed) = self.by_dialer.get_mut(dialer) {
            dialed.remove(&(link.destination.clone(), link.id.clone()));
            if dialed.is_empty() {
                self.by_dialer.remove(dialer);
            }
        }
        Some(removed)
    }

    /// The links that a router did not dial.
    pub(super) fn at(&self, router: &Id) -> impl Iterator<Item = &BrokenLink> {
        self.by_router.get(router).into_iter().flat_map(HashMap::values)
    }

    /// The links that a router dialed.
    pub(super) fn dialed_by(&self, router: &Id) -> impl Iterator<Item = &BrokenLink> {
        let dialed = self.by_dialer.get(router).into_iter().flatten();
        dialed.filter_map(|(destination, link)| self.get(destination, link))
    }

    /// The routers that dialed links of a router.
    pub(super) fn dialers(&self, router: &Id) -> HashSet<Id> {
        self.at(router).map(|it| it.link.source.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.by_router.is_empty() && self.by_dialer.is_empty()
    }
}
