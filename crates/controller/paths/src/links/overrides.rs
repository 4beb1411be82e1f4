//! Changes of links by operators, kept while a link is away, so that a new dial does not undo them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use weft_model::Id;

use super::{Link, STATIC_COST};

/// Most changes that are remembered; above that the oldest is forgotten.
const MOST: usize = 10_000;

/// The change of a link by an operator.
#[derive(Debug)]
struct Override {
    number: u64,
    source: Id,
    destination: Id,
    static_cost: i32,
    down: bool,
}

/// Changes by operators, by link.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    links: HashMap<Arc<str>, Override>,
    order: BTreeMap<u64, Arc<str>>,
    last_number: u64,
}

impl Overrides {
    /// Notes the change of a link; a link with default values is forgotten.
    pub(super) fn note(&mut self, link: &Link) {
        self.remove(&link.id);
        if link.static_cost == STATIC_COST && !link.down {
            return;
        }
        self.last_number += 1;
        let (id, number): (Arc<str>, _) = (link.id.as_str().into(), self.last_number);
        let (source, destination) = (link.source.clone(), link.destination.clone());
        let (static_cost, down) = (link.static_cost, link.down);
        let noted = Override { number, source, destination, static_cost, down };
        self.links.insert(Arc::clone(&id), noted);
        self.order.insert(number, id);
        if self.order.len() > MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.links.remove(&oldest);
        }
    }

    /// Applies the change of a link with this id between the same routers.
    pub(super) fn apply(&self, link: &mut Link) {
        let noted = self.links.get(link.id.as_str());
        let is_same =
            |it: &&Override| it.source == link.source && it.destination == link.destination;
        if let Some(noted) = noted.filter(is_same) {
            (link.static_cost, link.down) = (noted.static_cost, noted.down);
        }
    }

    /// Forgets the changes of a deleted router's links.
    pub(super) fn forget(&mut self, router: &Id) {
        let is_gone = |it: &Override| it.source == *router || it.destination == *router;
        let gone = self.links.iter().filter(|(_, it)| is_gone(it));
        let gone: Vec<Arc<str>> = gone.map(|(id, _)| Arc::clone(id)).collect();
        gone.iter().for_each(|id| self.remove(id));
    }

    fn remove(&mut self, link: &str) {
        if let Some(noted) = self.links.remove(link) {
            self.order.remove(&noted.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_model::Timestamp;

    use super::super::tests::reported;
    use super::super::{INITIAL, Links, ReportedLinkOutcome};
    use super::*;

    #[test]
    fn a_link_that_is_dialed_again_is_as_an_operator_left_it() {
        let (links, r1, r3) = (Links::default(), Id::new("r1"), Id::new("r3"));
        let again = |source: &Id, iteration| {
            let link = reported("l1", "r2", iteration);
            match links.report(source, &link, INITIAL, Timestamp(1)) {
                ReportedLinkOutcome::New(link) => (link.static_cost, link.down, link.counted),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(again(&r1, 1), (1, false, 130_001));
        links.change("l1", Some(500), Some(true)).unwrap();
        assert_eq!(again(&r1, 2), (500, true, 130_500));
        links.take_of(&r1);
        assert_eq!(again(&r1, 3), (500, true, 130_500), "its router was away");
        links.fault("l1", 0).unwrap();
        assert_eq!(again(&r3, 1), (1, false, 130_001), "it is another link");
        links.fault("l1", 0).unwrap();
        again(&r1, 4);
        links.change("l1", Some(1), Some(false)).unwrap();
        assert_eq!(again(&r1, 5), (1, false, 130_001));
        links.change("l1", None, Some(true)).unwrap();
        links.forget(&Id::new("r2"));
        assert_eq!(again(&r1, 6), (1, false, 130_001), "nobody remembers a router that is gone");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut overrides = Overrides::default();
        let links = Links::default();
        let link = links.report(&Id::new("r1"), &reported("l", "r2", 1), INITIAL, Timestamp(1));
        let ReportedLinkOutcome::New(link) = link else { panic!("{link:?}") };
        for number in 0..MOST + 5 {
            overrides.note(&Link { id: format!("l{number}"), down: true, ..(*link).clone() });
        }
        assert_eq!((overrides.links.len(), overrides.order.len()), (MOST, MOST));
        assert!(!overrides.links.contains_key("l4") && overrides.links.contains_key("l5"));
    }
}
