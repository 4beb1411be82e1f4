//! Links that closed lately, with the number of the dial that had opened each. A report to a controller names this
//! number, so that the controller does not take a link down that was dialed again since.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The time for which a closed link is remembered.
const KEPT: Duration = Duration::from_secs(60);
/// Most closed links that are remembered. Beyond that, newly closed ones are not.
const MOST: usize = 4_096;

/// Links that closed lately: the number of the last dial of each, and the time of its end.
#[derive(Debug, Default)]
pub(super) struct ClosedLinks(HashMap<Arc<str>, (u32, Instant)>);

impl ClosedLinks {
    /// Remembers the dial of a link that closes now.
    pub(super) fn closed(&mut self, link: &Arc<str>, dial: u32, now: Instant) {
        if self.0.len() >= MOST && !self.0.contains_key(link) {
            self.0.retain(|_, (_, at)| now.saturating_duration_since(*at) < KEPT);
            if self.0.len() >= MOST {
                return;
            }
        }
        // The end of an older connection may be noticed after the end of a newer one.
        let last = self.dial_of(link, now).max(dial);
        self.0.insert(Arc::clone(link), (last, now));
    }

    /// The number of the last dial of a link that closed lately; 0 if there is none.
    pub(super) fn dial_of(&self, link: &str, now: Instant) -> u32 {
        let known = self.0.get(link);
        known
            .filter(|(_, at)| now.saturating_duration_since(*at) < KEPT)
            .map_or(0, |(dial, _)| *dial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dial_is_remembered_for_its_time() {
        let (mut links, now) = (ClosedLinks::default(), Instant::now());
        let id: Arc<str> = "l1".into();
        links.closed(&id, 4, now);
        links.closed(&id, 3, now);
        assert_eq!((links.dial_of("l1", now), links.dial_of("l2", now)), (4, 0));
        assert_eq!(links.dial_of("l1", now + KEPT), 0);
        links.closed(&id, 3, now + KEPT);
        assert_eq!(links.dial_of("l1", now + KEPT), 3, "an id may be used anew");
    }

    #[test]
    fn few_links_are_remembered() {
        let (mut links, now) = (ClosedLinks::default(), Instant::now());
        (0..MOST + 10).for_each(|number| links.closed(&format!("l{number}").into(), 1, now));
        assert_eq!(links.0.len(), MOST);
        links.closed(&"later".into(), 2, now + KEPT);
        assert_eq!((links.0.len(), links.dial_of("later", now + KEPT)), (1, 2));
    }
}
