//! Links that broke while the router that dialed them was not heard: they may come back without a report.

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

/// Links that broke while one of their routers was not heard, by id, with the time at which they broke.
#[derive(Debug, Default)]
pub(crate) struct Broken(Mutex<HashMap<String, (Arc<Link>, Instant)>>);

impl Broken {
    pub(crate) fn insert(&self, link: &Arc<Link>, now: Instant) {
        let mut links = self.0.lock();
        if links.len() < MOST_BROKEN {
            links.insert(link.id.clone(), (Arc::clone(link), now));
        }
    }

    /// Whether a link of a router may come back.
    pub(crate) fn has_at(&self, router: &Id, now: Instant) -> bool {
        let mut links = self.0.lock();
        links.retain(|_, (_, at)| now.saturating_duration_since(*at) < WAITS);
        links.values().any(|(link, _)| link.has_end(router.as_str()))
    }

    /// Takes the links of a router that it has again.
    pub(crate) fn take(&self, router: &Id, named: &HashSet<String>) -> Vec<Arc<Link>> {
        let mut links = self.0.lock();
        let is_back = |link: &Link| link.has_end(router.as_str()) && named.contains(&link.id);
        let back: Vec<Arc<Link>> =
            links.values().map(|(link, _)| link).filter(|link| is_back(link)).cloned().collect();
        back.iter().for_each(|link| drop(links.remove(&link.id)));
        back
    }

    /// Forgets the links of a router, which says by itself which links it has, or may have none.
    pub(crate) fn forget(&self, router: &Id) {
        self.0.lock().retain(|_, (link, _)| !link.has_end(router.as_str()));
    }
}
