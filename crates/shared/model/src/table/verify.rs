//! Verification that the indexes of a table agree with its entities, and rebuilding of indexes.
//!
//! A table updates its indexes with every change, so that a fault found here is a defect of this
//! program or of the machine.

use std::collections::HashSet;

use super::key::{Key, head_of, head_of_time, keys};
use super::ranked::Ranked;
use super::{ApplyError, Table};
use crate::Id;

/// Number of entries in the indexes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sizes {
    eligible: u64,
    created: usize,
    names: usize,
    unique: usize,
    links: usize,
    attributes: u64,
}

impl Sizes {
    fn count(&mut self, key: &Key) {
        match key {
            Key::Eligible => self.eligible += 1,
            Key::Created(_) => self.created += 1,
            Key::Name(_) => self.names += 1,
            Key::Unique(..) => self.unique += 1,
            Key::Link(..) => self.links += 1,
            Key::Attribute(_) => self.attributes += 1,
        }
    }
}

impl Table {
    /// Passes a description of every fault of the indexes to `wrong`.
    pub fn verify(&self, wrong: &mut dyn FnMut(String)) {
        let kind = self.kind;
        let mut expected = Sizes::default();
        let mut count = 0;
        for (ordinal, entity) in self.occupied() {
            count += 1;
            let id = entity.id();
            if self.ordinal(id) != Some(ordinal) {
                wrong(format!("{kind} {id} is not found by its id"));
            }
            if !self.live.contains(ordinal) {
                wrong(format!("{kind} {id} is not counted among the living"));
            }
            for key in keys(entity) {
                expected.count(&key);
                if !self.holds(&key, ordinal, id) {
                    wrong(format!("{kind} {id} is not found by its {}", self.shown(&key)));
                }
            }
        }
        if self.by_id.len() != count || self.live.len() != count as u64 {
            wrong(format!("the index of {kind} by id holds entries of entities that are gone"));
        }
        if self.sizes() != expected {
            self.verify_extra(wrong);
        }
        if !self.free.is_disjoint(&self.live) {
            wrong(format!("a place of a {kind} that is there counts as free"));
        }
    }

    /// The same entities with rebuilt indexes.
    pub fn rebuilt(&self) -> Result<Self, ApplyError> {
        let mut table = Self::new(self.kind);
        for (_, entity) in self.occupied() {
            table.put(entity.clone())?;
        }
        Ok(table)
    }

    fn holds(&self, key: &Key, ordinal: u32, id: &Id) -> bool {
        match key {
            Key::Eligible => self.eligible.contains(ordinal),
            Key::Created(at) => {
                let compare = |other| self.compare_id(other, id.as_str());
                self.by_created.find(head_of_time(*at), &compare) == Some(ordinal)
            }
            Key::Name(name) => self.named(name) == Some(ordinal),
            Key::Unique(index, value) => {
                self.holding_unique(usize::from(*index), value) == Some(ordinal)
            }
            Key::Link(link, target) => self.referrers((*link).into(), target).contains(ordinal),
            Key::Attribute(attribute) => {
                self.by_attribute.get(attribute).is_some_and(|bearers| bearers.contains(ordinal))
            }
        }
    }

    fn sizes(&self) -> Sizes {
        let refs = self.by_link.iter().flat_map(|targets| targets.values());
        Sizes {
            eligible: self.eligible.len(),
            created: self.by_created.len(),
            names: self.by_name.len(),
            unique: self.by_unique.iter().map(Ranked::len).sum(),
            links: refs.map(|refs| refs.len() as usize).sum(),
            attributes: self.by_attribute.values().map(|bearers| bearers.len()).sum(),
        }
    }

    /// Reports entries that belong to no entity.
    fn verify_extra(&self, wrong: &mut dyn FnMut(String)) {
        let mut extra = |shown: &str| {
            let kind = self.kind;
            wrong(format!("the indexes of {kind} hold an entry that none has: {shown}"));
        };
        let mut ordered = |index: &Ranked, is_of: &dyn Fn(&Key) -> bool, shown: &str| {
            let mut seen = HashSet::new();
            for (head, ordinal) in index.ranks(0..index.len()) {
                let own = self.at(ordinal).map(keys).unwrap_or_default();
                let accounted = own.iter().any(|key| is_of(key) && head_of(key) == head)
                    && seen.insert(ordinal);
                if !accounted {
                    extra(shown);
                }
            }
        };
        ordered(&self.by_created, &|key| matches!(key, Key::Created(_)), "time of creation");
        ordered(&self.by_name, &|key| matches!(key, Key::Name(_)), "name");
        for (number, index) in (0u8..).zip(&self.by_unique) {
            let field = self.kind.unique().get(usize::from(number)).copied();
            let is_of = |key: &Key| matches!(key, Key::Unique(own, _) if *own == number);
            ordered(index, &is_of, field.unwrap_or("unique value"));
        }
        let mut check = |key: Key, ordinal: u32| {
            let accounted = self.at(ordinal).is_some_and(|it| keys(it).binary_search(&key).is_ok());
            if !accounted {
                extra(&self.shown(&key));
            }
        };
        self.eligible.iter().for_each(|ordinal| check(Key::Eligible, ordinal));
        for (link, targets) in (0u8..).zip(&self.by_link) {
            for (target, refs) in targets {
                refs.iter().for_each(|ordinal| check(Key::Link(link, target.clone()), ordinal));
            }
        }
        for (attribute, bearers) in &self.by_attribute {
            bearers.iter().for_each(|at| check(Key::Attribute(attribute.clone()), at));
        }
    }

    /// Description of a key. Unique values may be secrets and are not shown.
    fn shown(&self, key: &Key) -> String {
        match key {
            Key::Eligible => "eligibility for policies".to_owned(),
            Key::Created(_) => "time of creation".to_owned(),
            Key::Name(name) => format!("name {name}"),
            Key::Unique(index, _) => {
                let field = self.kind.unique().get(usize::from(*index));
                field.copied().unwrap_or("unique value").to_owned()
            }
            Key::Link(link, target) => {
                let field = self.kind.links().get(usize::from(*link)).map(|link| link.field);
                format!("{} {target}", field.unwrap_or("reference"))
            }
            Key::Attribute(attribute) => format!("attribute {attribute}"),
        }
    }

    /// Removes an entity from every index except that by id: a fault, for tests.
    #[doc(hidden)]
    pub fn plant_lost_keys(&mut self, id: &Id) {
        let Some((ordinal, entity)) = self.ordinal(id).and_then(|at| Some((at, self.at(at)?)))
        else {
            return;
        };
        keys(entity).iter().for_each(|key| self.remove_key(key, ordinal, id));
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use super::super::ranked::head;
    use super::super::refs::Refs;
    use super::*;
    use crate::entity::{Identity, Service};
    use crate::{Base, Kind, Timestamp};

    fn table() -> Table {
        let mut table = Table::new(Kind::Identity);
        for (id, name) in [("a", "ann"), ("b", "bob")] {
            let base = Base::new(Id::new(id), Timestamp(7));
            table
                .put(Identity {
                    base,
                    name: name.into(),
                    external_id: Some(format!("x-{name}").into()),
                    auth_policy_id: Id::new("default"),
                    role_attributes: vec!["staff".into()],
                    ..Identity::default()
                })
                .unwrap();
        }
        table
    }

    fn faults(table: &Table) -> Vec<String> {
        let mut found = Vec::new();
        table.verify(&mut |text| found.push(text));
        found
    }

    /// Breaks a table, and checks that the fault is found and that rebuilding removes it.
    fn planted(breaks: impl FnOnce(&mut Table), found: &str) {
        let mut table = table();
        assert_eq!(faults(&table), [""; 0]);
        breaks(&mut table);
        let all = faults(&table);
        assert!(all.iter().any(|text| text.contains(found)), "{found}: {all:?}");
        let mended = table.rebuilt().unwrap();
        assert_eq!(faults(&mended), [""; 0]);
        assert_eq!(mended.len(), 2);
        assert_eq!(mended.by_name("ann").unwrap().id(), "a");
    }

    fn remove(index: &mut Ranked, head: u64) {
        index.remove(head, &|_| Ordering::Equal);
    }

    fn insert(index: &mut Ranked, head: u64, ordinal: u32) {
        index.insert(head, ordinal, &|_| Ordering::Less);
    }

    #[test]
    fn every_index_is_verified_and_made_anew() {
        let at = |at| head_of_time(Timestamp(at));
        planted(|it| remove(&mut it.by_id, head(b"a")), "not found by its id");
        planted(|it| insert(&mut it.by_id, head(b"c"), 9), "entities that are gone");
        planted(|it| _ = Arc::make_mut(&mut it.live).remove(0), "not counted");
        planted(|it| _ = Arc::make_mut(&mut it.free).insert(1), "counts as free");
        planted(|it| _ = Arc::make_mut(&mut it.eligible).remove(0), "eligibility");
        planted(|it| _ = Arc::make_mut(&mut it.eligible).insert(9), "that none has");
        planted(|it| remove(&mut it.by_created, at(7)), "time of creation");
        planted(|it| insert(&mut it.by_created, at(8), 1), "that none has");
        planted(|it| remove(&mut it.by_name, head(b"ann")), "name ann");
        planted(|it| insert(&mut it.by_name, head(b"eve"), 0), "that none has: name");
        planted(|it| insert(&mut it.by_name, head(b"ann"), 0), "that none has: name");
        planted(|it| remove(&mut it.by_unique[0], head(b"x-ann")), "its externalId");
        planted(|it| insert(&mut it.by_unique[0], head(b"x"), 1), "that none has: externalId");
        let link = Id::new("default");
        planted(|it| _ = it.by_link[0].remove(&link), "authPolicyId default");
        planted(|it| _ = it.by_link[0].get_mut(&link).unwrap().remove(0), "authPolicyId default");
        let other = || (Id::new("other"), Refs::One(0));
        planted(|it| it.by_link[0].extend([other()]), "that none has: authPolicyId other");
        planted(|it| _ = it.by_attribute.remove("staff"), "attribute staff");
        let bearers = || Arc::new([0].into_iter().collect());
        planted(|it| _ = it.by_attribute.insert("boss".into(), bearers()), "attribute boss");
        planted(|it| it.plant_lost_keys(&Id::new("b")), "name bob");
    }

    #[test]
    fn values_that_may_be_secret_are_not_told() {
        let mut table = table();
        table.by_unique[0] = Ranked::default();
        assert!(faults(&table).iter().all(|text| !text.contains("x-ann")));
        let mut other = Table::new(Kind::Service);
        other
            .put(Service { base: Base::new(Id::new("s"), Timestamp(1)), ..Service::default() })
            .unwrap();
        assert_eq!(faults(&other), [""; 0]);
    }
}
