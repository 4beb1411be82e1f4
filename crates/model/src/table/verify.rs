//! Whether the indexes of a table say what its entities say, and indexes made anew.
//!
//! A table keeps its indexes with every change, so what is found here is a fault of this program or
//! of the machine it runs on.

use super::{ApplyError, Key, Table, keys};
use crate::{Entity, Id};

/// How many entries the indexes hold.
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
    /// Tells everything that is wrong with the indexes, in words.
    pub fn verify(&self, wrong: &mut dyn FnMut(String)) {
        let kind = self.kind;
        let mut expected = Sizes::default();
        let mut count = 0;
        for (ordinal, entity) in self.occupied() {
            count += 1;
            let id = entity.id();
            if self.by_id.get(id) != Some(&ordinal) {
                wrong(format!("{kind} {id} is not found by its id"));
            }
            if !self.live.contains(ordinal) {
                wrong(format!("{kind} {id} is not counted among the living"));
            }
            for key in keys(entity) {
                expected.count(&key);
                if !self.holds(&key, ordinal) {
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

    /// The same entities with indexes made anew.
    pub fn rebuilt(&self) -> Result<Self, ApplyError> {
        let mut table = Self::new(self.kind);
        for (_, entity) in self.occupied() {
            table.put(entity.clone())?;
        }
        Ok(table)
    }

    /// The entities themselves, whatever the indexes say.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (u32, &Entity)> {
        (0u32..).zip(self.slots.iter()).filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
    }

    fn holds(&self, key: &Key, ordinal: u32) -> bool {
        match key {
            Key::Eligible => self.eligible.contains(ordinal),
            Key::Created(at) => self.by_created.contains(&(*at, ordinal)),
            Key::Name(name) => self.by_name.get(name) == Some(&ordinal),
            Key::Unique(index, value) => {
                let map = self.by_unique.get(usize::from(*index));
                map.is_some_and(|map| map.get(value) == Some(&ordinal))
            }
            Key::Link(link, target) => self.by_link.contains(&(*link, target.clone(), ordinal)),
            Key::Attribute(attribute) => {
                self.by_attribute.get(attribute).is_some_and(|bearers| bearers.contains(ordinal))
            }
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            eligible: self.eligible.len(),
            created: self.by_created.len(),
            names: self.by_name.len(),
            unique: self.by_unique.iter().map(|map| map.len()).sum(),
            links: self.by_link.len(),
            attributes: self.by_attribute.values().map(|bearers| bearers.len()).sum(),
        }
    }

    /// Tells of entries that no entity accounts for.
    fn verify_extra(&self, wrong: &mut dyn FnMut(String)) {
        let mut check = |key: Key, ordinal: u32| {
            let accounted = self.at(ordinal).is_some_and(|it| keys(it).binary_search(&key).is_ok());
            if !accounted {
                let (kind, shown) = (self.kind, self.shown(&key));
                wrong(format!("the indexes of {kind} hold an entry that none has: {shown}"));
            }
        };
        self.eligible.iter().for_each(|ordinal| check(Key::Eligible, ordinal));
        self.by_created.iter().for_each(|(at, ordinal)| check(Key::Created(*at), *ordinal));
        self.by_name.iter().for_each(|(name, ordinal)| check(Key::Name(name.clone()), *ordinal));
        for (index, map) in (0u8..).zip(&self.by_unique) {
            map.iter().for_each(|(value, at)| check(Key::Unique(index, value.clone()), *at));
        }
        for (link, target, ordinal) in &self.by_link {
            check(Key::Link(*link, target.clone()), *ordinal);
        }
        for (attribute, bearers) in &self.by_attribute {
            bearers.iter().for_each(|at| check(Key::Attribute(attribute.clone()), at));
        }
    }

    /// A key in words. Unique values may be secrets, so they are not shown.
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

    /// Takes an entity out of every index but the one by id: a fault, for tests of what finds it.
    #[doc(hidden)]
    pub fn plant_lost_keys(&mut self, id: &Id) {
        let Some((ordinal, entity)) = self.ordinal(id).and_then(|at| Some((at, self.at(at)?)))
        else {
            return;
        };
        keys(entity).iter().for_each(|key| self.remove_key(key, ordinal));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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

    /// Breaks a table in one way; it is found, and gone once the indexes are made anew.
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

    #[test]
    fn every_index_is_verified_and_made_anew() {
        planted(|it| _ = it.by_id.remove(&Id::new("a")), "not found by its id");
        planted(|it| _ = it.by_id.insert(Id::new("c"), 9), "entities that are gone");
        planted(|it| _ = Arc::make_mut(&mut it.live).remove(0), "not counted");
        planted(|it| _ = Arc::make_mut(&mut it.free).insert(1), "counts as free");
        planted(|it| _ = Arc::make_mut(&mut it.eligible).remove(0), "eligibility");
        planted(|it| _ = Arc::make_mut(&mut it.eligible).insert(9), "that none has");
        planted(|it| _ = it.by_created.remove(&(Timestamp(7), 0)), "time of creation");
        planted(|it| _ = it.by_created.insert((Timestamp(8), 1)), "that none has");
        planted(|it| _ = it.by_name.remove("ann"), "name ann");
        planted(|it| _ = it.by_name.insert("eve".into(), 0), "that none has: name eve");
        planted(|it| _ = it.by_unique[0].remove("x-ann"), "its externalId");
        planted(|it| _ = it.by_unique[0].insert("x".into(), 1), "that none has: externalId");
        let link = |target: &str| (0, Id::new(target), 0);
        planted(|it| _ = it.by_link.remove(&link("default")), "authPolicyId default");
        planted(|it| _ = it.by_link.insert(link("other")), "that none has: authPolicyId other");
        planted(|it| _ = it.by_attribute.remove("staff"), "attribute staff");
        let bearers = || Arc::new([0].into_iter().collect());
        planted(|it| _ = it.by_attribute.insert("boss".into(), bearers()), "attribute boss");
        planted(|it| it.plant_lost_keys(&Id::new("b")), "name bob");
    }

    #[test]
    fn values_that_may_be_secret_are_not_told() {
        let mut table = table();
        table.by_unique[0].clear();
        assert!(faults(&table).iter().all(|text| !text.contains("x-ann")));
        let mut other = Table::new(Kind::Service);
        other
            .put(Service { base: Base::new(Id::new("s"), Timestamp(1)), ..Service::default() })
            .unwrap();
        assert_eq!(faults(&other), [""; 0]);
    }
}
