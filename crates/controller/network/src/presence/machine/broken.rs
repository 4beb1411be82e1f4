//! Links that broke, of which the router that dialed them has said nothing: it may not be heard any more, and such a link
//! may come back without a report.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use weft_model::Id;
use weft_paths::links::Link;

use super::table::State;

/// Most broken links that may come back.
const MOST_BROKEN: usize = 20_000;

/// Links that broke, by the router that did not dial them.
#[derive(Debug, Default)]
pub(super) struct Broken {
    count: usize,
    by_router: HashMap<Id, HashMap<String, BrokenLink>>,
    /// The numbers of the links in [`State::Broken`], by the router that dialed them.
    unasked: HashMap<Id, usize>,
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

    pub(super) fn has_room(&self) -> bool {
        self.count < MOST_BROKEN
    }

    /// Puts a link in the place of what was known of it.
    pub(super) fn put(&mut self, broken: BrokenLink) {
        self.remove(&broken.link);
        if broken.state == State::Broken {
            *self.unasked.entry_ref(&broken.link.source).or_default() += 1;
        }
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
        if removed.state == State::Broken
            && let Some(count) = self.unasked.get_mut(dialer)
        {
            *count -= 1;
            if *count == 0 {
                self.unasked.remove(dialer);
            }
        }
        Some(removed)
    }

    /// The links that a router did not dial.
    pub(super) fn at(&self, router: &Id) -> impl Iterator<Item = &BrokenLink> {
        self.by_router.get(router).into_iter().flat_map(HashMap::values)
    }

    /// The links that end at a router, whichever router dialed them.
    pub(super) fn with_end(&self, router: &Id) -> Vec<Arc<Link>> {
        let all = self.by_router.values().flat_map(HashMap::values).map(|it| &it.link);
        all.filter(|link| link.has_end(router.as_str())).cloned().collect()
    }

    /// The routers that dialed links of a router.
    pub(super) fn dialers(&self, router: &Id) -> HashSet<Id> {
        self.at(router).map(|it| it.link.source.clone()).collect()
    }

    /// Whether a link that a router has dialed may be back, for all that is known: nobody has been asked about the link
    /// since it broke.
    pub(super) fn may_have(&self, dialer: &Id) -> bool {
        self.unasked.contains_key(dialer)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.by_router.is_empty() && self.unasked.is_empty()
    }
}
