//! Loading of a table: entities are appended, and the orders are sorted once at the end, which is
//! several times as fast as inserting each entity at its place.

use std::cmp::Ordering;

use super::key::{Key, head_of_id, head_of_time, keys};
use super::ranked::{Ranked, wide_head};
use super::{ApplyError, Table};
use crate::Entity;

impl Table {
    /// Appends an entity and shares its attributes. Nothing can be found before [`Table::loaded`].
    pub(crate) fn load(&mut self, mut entity: Entity) {
        entity.share_attributes(&mut |attribute| self.share(attribute));
        let ordinal = self.slots.len() as u32;
        for key in keys(&entity) {
            if matches!(key, Key::Eligible | Key::Link(..) | Key::Attribute(_)) {
                self.insert_key(&key, ordinal, entity.id());
            }
        }
        self.slots.push_back(Some(entity));
    }

    /// Sorts the orders of the loaded entities.
    pub(crate) fn loaded(&mut self) -> Result<(), ApplyError> {
        if self.sort_orders().is_some() {
            return Ok(());
        }
        // Two entities have the same id or unique value: inserting them one by one replaces the
        // first or refuses the second.
        let mut table = Self::new(self.kind);
        for entity in self.slots.iter().flatten() {
            table.put(entity.clone())?;
        }
        *self = table;
        Ok(())
    }

    /// Sorts the orders; `None` if two entities have the same key.
    fn sort_orders(&mut self) -> Option<()> {
        self.live = std::sync::Arc::new((0..self.slots.len() as u32).collect());
        self.by_id = self
            .order(|entity| Some(wide_head(entity.id().as_bytes())), |a, b| a.id().cmp(b.id()))?;
        self.by_name = self.order(
            |entity| {
                entity.name().filter(|name| !name.is_empty()).map(|name| wide_head(name.as_bytes()))
            },
            |a, b| a.name().cmp(&b.name()),
        )?;
        self.by_created = self.order(
            |entity| {
                let (time, id) = (head_of_time(entity.base().created_at), head_of_id(entity.id()));
                Some(u128::from(time) << 64 | u128::from(id))
            },
            |a, b| a.id().cmp(b.id()),
        )?;
        for index in 0..self.by_unique.len() {
            self.by_unique[index] = self.order(
                |entity| unique(entity, index, |value| wide_head(value.as_bytes())),
                |a, b| unique(a, index, str::to_owned).cmp(&unique(b, index, str::to_owned)),
            )?;
        }
        Some(())
    }

    /// The entities with a key, sorted by it; `compare` orders those with the same head.
    fn order(
        &self,
        key: impl Fn(&Entity) -> Option<u128>,
        compare: impl Fn(&Entity, &Entity) -> Ordering,
    ) -> Option<Ranked> {
        let mut entries = Vec::with_capacity(self.slots.len());
        entries.extend(self.occupied().filter_map(|(at, entity)| Some((key(entity)?, at))));
        Ranked::sorted(entries, |a, b| match (self.at(a), self.at(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        })
    }
}

/// A function of an entity's unique value, if it has one.
fn unique<T>(entity: &Entity, index: usize, of: impl Fn(&str) -> T) -> Option<T> {
    let mut found = None;
    entity.unique(&mut |own, value| {
        if own == index && !value.is_empty() {
            found = Some(of(value));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::entity::Identity;
    use crate::{Base, Id, Kind, Timestamp};

    fn identity(number: i64, name: &str) -> Entity {
        let base = Base::new(Id::new(&format!("i{number:03}")), Timestamp(number / 3));
        let external_id = (number % 2 == 0).then(|| format!("an external id {number}").into());
        let role_attributes: Vec<Arc<str>> = vec!["all-of-them".into()];
        Identity { base, name: name.into(), external_id, role_attributes, ..Identity::default() }
            .into()
    }

    fn loaded(entities: impl IntoIterator<Item = Entity>) -> Result<Table, ApplyError> {
        let mut table = Table::new(Kind::Identity);
        entities.into_iter().for_each(|entity| table.load(entity));
        table.loaded().map(|()| table)
    }

    #[test]
    fn sessions_of_a_login_for_a_service_are_those_that_name_both() {
        use crate::entity::ServiceSession;
        let mut table = Table::new(Kind::ServiceSession);
        for number in 0..60 {
            let session = ServiceSession {
                base: Base::new(Id::new(&format!("s{number:02}")), Timestamp(number)),
                api_session_id: Id::new(&format!("login{}", number % 3)),
                service_id: Id::new(&format!("service{}", number % 20)),
                ..ServiceSession::default()
            };
            table.put(session).unwrap();
        }
        let both = |one: (usize, &str), other: (usize, &str)| {
            let (first, second) = (Id::new(one.1), Id::new(other.1));
            let found = table.referring_both((one.0, &first), (other.0, &second));
            found.map(|it| it.id().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(both((0, "login1"), (2, "service4")), ["s04"]);
        assert_eq!(both((2, "service4"), (0, "login1")), ["s04"]);
        assert_eq!(both((2, "service4"), (0, "login2")), ["s44"]);
        assert!(both((2, "service4"), (0, "nobody")).is_empty());
    }

    #[test]
    fn a_loaded_table_is_as_one_that_grew() {
        // Names that differ only behind their heads, and an empty one.
        let name = |number: i64| match number {
            7 => String::new(),
            _ => format!("a name that is long: {}", number * 37 % 100),
        };
        let entities = || (0..100).rev().map(|number| identity(number, &name(number)));
        let mut table = loaded(entities()).unwrap();
        table.check();
        let mut grown = Table::new(Kind::Identity);
        entities().for_each(|entity| grown.put(entity).unwrap());
        assert!(table.iter().eq(grown.iter()));
        // The table can be changed like any other.
        for number in 100..150 {
            table.put(identity(number, &format!("a name that is new: {number}"))).unwrap();
        }
        table.remove(&Id::new("i050"));
        table.check();
    }

    #[test]
    fn what_comes_twice_is_replaced_or_refused() {
        let table = loaded([identity(1, "a"), identity(2, "b"), identity(1, "c")]).unwrap();
        table.check();
        assert_eq!(table.len(), 2);
        assert!(table.by_name("a").is_none() && table.by_name("c").is_some());
        let same_name = loaded([identity(1, "a"), identity(2, "a")]);
        assert!(matches!(same_name, Err(ApplyError::DuplicateName { .. })));
    }
}
