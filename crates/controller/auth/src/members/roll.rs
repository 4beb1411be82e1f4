//! When the key of a network rolls: which step a controller takes next, without I/O.
//!
//! What controllers share is sealed with a key that all of them have. A controller that was removed has it, too. So the
//! leader makes another one, and wraps it for each of the others. When all have it they seal with it, and what the former
//! ones have sealed is written anew. Then nobody believes anything any more that is sealed with these. A controller that is
//! away holds this up until it is back, or is removed as well: no controller meets anything that it cannot read.
//!
//! ```text
//!  remove ──> made, for each controller (leader) ──> taken (each) ──> all have it: seals (each)
//!                                                                          │
//!  forgotten (each) <── nothing of former keys is found (leader) <── written anew (leader)
//! ```

use weft_model::entity::ControllerMember;
use weft_store::LogKeyNumbers;

/// What a controller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Take the key that was made for it.
    Take,
    /// Tell the others what it has.
    Tell,
    /// Make a key of this number.
    Make(u32),
    /// Wrap the newest key for controllers that lack it.
    Hand,
    /// Seal with the key of this number.
    SealWith(u32),
    /// Have everything written anew that former keys have sealed.
    SealAnew,
    /// Forget keys before this one.
    Forget(u32),
}

/// What a controller knows of the keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roll<'a> {
    /// The id of the controller.
    pub(crate) own: &'a str,
    /// Whether it does what one of the controllers has to do.
    pub(crate) is_leader: bool,
    /// What its file holds.
    pub(crate) keys: LogKeyNumbers,
    /// Since which key it has found nothing older.
    pub(crate) sealed_since: u32,
}

impl Roll<'_> {
    /// The next step; none while there is nothing to do.
    pub(crate) fn next(&self, members: &[&ControllerMember]) -> Option<Step> {
        let Self { own, is_leader, keys, .. } = *self;
        let own = members.iter().find(|it| it.base.id.as_str() == own && it.is_present())?;
        if own.handed.as_ref().is_some_and(|handed| handed.number > keys.newest) {
            return Some(Step::Take);
        }
        let told = (own.network_key, own.seals_with, own.sealed_since);
        if told
            != (keys.newest, keys.sealing, sealed_since(own.sealed_since, &keys, self.sealed_since))
        {
            return Some(Step::Tell);
        }
        if is_leader && let Some(number) = due(members) {
            return Some(Step::Make(number));
        }
        if is_leader && lacking(members, keys.newest).next().is_some() {
            return Some(Step::Hand);
        }
        let all = |number_of: fn(&ControllerMember) -> u32| {
            present(members).map(number_of).min().unwrap_or_default()
        };
        // One that was let in and has not started has the key that it was given.
        let all_have = members.iter().filter(|it| counts(it)).map(|it| it.network_key).min();
        let of_all = all_have.unwrap_or_default();
        if of_all > keys.sealing {
            return Some(Step::SealWith(of_all));
        }
        let do_all_seal = all(|it| it.seals_with) >= keys.sealing;
        let sealed_since = present(members).map(|it| it.sealed_since).max().unwrap_or_default();
        if is_leader && do_all_seal && keys.oldest < keys.sealing && sealed_since < keys.sealing {
            return Some(Step::SealAnew);
        }
        let is_past = do_all_seal && keys.oldest < sealed_since && sealed_since <= keys.sealing;
        is_past.then_some(Step::Forget(sealed_since))
    }
}

/// Since which key nothing older was found: as the entry of a controller says, and as it has found itself. An entry from
/// before the keys began anew, with lower numbers, says nothing of these.
pub(crate) fn sealed_since(told: u32, keys: &LogKeyNumbers, found: u32) -> u32 {
    told.min(keys.sealing).max(found)
}

/// Whether nobody seals with a key before this controller has it: it is there, or was let in and may start at any time.
fn counts(member: &ControllerMember) -> bool {
    member.is_present() || (!member.is_removed && !member.awaited.is_empty())
}

fn present<'a>(
    members: &'a [&ControllerMember],
) -> impl Iterator<Item = &'a ControllerMember> + use<'a> {
    members.iter().copied().filter(|it| it.is_present())
}

/// The number of the newest key that a controller has, or that was made for it.
fn newest_of(member: &ControllerMember) -> u32 {
    member.network_key.max(member.handed.as_ref().map_or(0, |handed| handed.number))
}

/// The number of the newest key that was made.
pub(crate) fn newest<'a>(members: impl Iterator<Item = &'a ControllerMember>) -> u32 {
    members.map(newest_of).max().unwrap_or_default()
}

/// The number of the key that is to be made, if a controller that was removed has the newest one.
pub(crate) fn due(members: &[&ControllerMember]) -> Option<u32> {
    let removed = members.iter().filter(|it| it.is_removed);
    let theirs = removed.map(|it| it.network_key).max()?;
    let newest = newest(members.iter().copied());
    (newest == theirs).then(|| newest.saturating_add(1))
}

/// The controllers for which the key of this number is to be wrapped.
pub(crate) fn lacking<'a>(
    members: &'a [&ControllerMember],
    number: u32,
) -> impl Iterator<Item = &'a ControllerMember> + use<'a> {
    present(members).filter(move |it| newest_of(it) < number && !it.wrap_key.is_empty())
}

/// The controllers that do not have the newest key, and so hold up that it seals.
pub(crate) fn awaited<'a>(
    members: &'a [&ControllerMember],
) -> impl Iterator<Item = &'a ControllerMember> + use<'a> {
    let newest = newest(members.iter().copied());
    members.iter().copied().filter(move |it| counts(it) && it.network_key < newest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use weft_model::entity::HandedKey;
    use weft_model::{Base, Id, Timestamp};

    use super::*;

    /// Controllers with their files, and with what one of them was told last.
    #[derive(Default)]
    struct World {
        rows: BTreeMap<&'static str, ControllerMember>,
        files: BTreeMap<&'static str, Vec<u32>>,
        since: BTreeMap<&'static str, u32>,
        /// The numbers of the keys of what is in etcd.
        values: Vec<u32>,
    }

    impl World {
        fn join(&mut self, id: &'static str) {
            let base = Base::new(Id::new(id), Timestamp(1));
            let wrap_key = Bytes::from_static(b"key");
            self.rows.insert(id, ControllerMember { base, wrap_key, ..Default::default() });
            let newest = self.files.values().next().cloned().unwrap_or_else(|| vec![1]);
            self.files.insert(id, newest);
        }

        fn remove(&mut self, id: &str) {
            let network_key = newest(self.rows.values());
            let removed = ControllerMember { network_key, ..self.rows[id].removed(Timestamp(2)) };
            *self.rows.get_mut(id).unwrap() = removed;
        }

        /// One controller takes a step. Each reads all that is there.
        fn step(&mut self, id: &'static str, leader: &str) -> Option<Step> {
            let file = &self.files[id];
            assert!(self.values.iter().all(|number| file.contains(number)), "{id} cannot read");
            let keys = LogKeyNumbers {
                newest: *file.iter().max().unwrap(),
                sealing: *file.last().unwrap(),
                oldest: *file.iter().min().unwrap(),
            };
            let sealed_since = self.since.get(id).copied().unwrap_or_default();
            let members: Vec<&ControllerMember> = self.rows.values().collect();
            let roll = Roll { own: id, is_leader: id == leader, keys, sealed_since };
            let step = roll.next(&members)?;
            let file = self.files.get_mut(id).unwrap();
            match &step {
                Step::Take => {
                    let number = self.rows[id].handed.as_ref().unwrap().number;
                    file.insert(file.len() - 1, number);
                }
                Step::Tell => {
                    let row = self.rows.get_mut(id).unwrap();
                    (row.network_key, row.seals_with) = (keys.newest, keys.sealing);
                    row.sealed_since = super::sealed_since(row.sealed_since, &keys, sealed_since);
                    row.handed = row.handed.take().filter(|it| it.number > keys.newest);
                    self.values.push(keys.sealing);
                }
                Step::Make(number) => self.hand(*number),
                Step::Hand => self.hand(keys.newest),
                Step::SealWith(number) => {
                    file.retain(|it| it != number);
                    file.push(*number);
                }
                Step::SealAnew => {
                    self.values.fill(keys.sealing);
                    self.since.insert(id, keys.sealing);
                }
                Step::Forget(number) => file.retain(|it| it >= number),
            }
            Some(step)
        }

        fn hand(&mut self, number: u32) {
            for row in self.rows.values_mut().filter(|it| it.is_present()) {
                if newest_of(row) < number {
                    row.handed = Some(HandedKey { number, wrapped: Bytes::new() });
                }
            }
        }

        /// Lets these controllers take steps, in an order of chance, until nothing is left to do.
        fn settle(&mut self, ids: &[&'static str], seed: &mut u64) {
            for _ in 0..1_000 {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let first = (*seed >> 33) as usize;
                let mut order = (0..ids.len()).map(|at| ids[(first + at) % ids.len()]);
                let leader = ids[first / 7 % ids.len()];
                if order.all(|id| self.step(id, leader).is_none())
                    && ids.iter().all(|id| self.step(id, id).is_none())
                {
                    return;
                }
            }
            panic!("there is always something to do");
        }
    }

    #[test]
    fn after_a_removal_nothing_is_left_of_the_key_that_the_controller_had() {
        for mut seed in 0..200 {
            let mut world = World::default();
            ["a", "b", "c", "d"].into_iter().for_each(|id| world.join(id));
            world.settle(&["a", "b", "c", "d"], &mut seed);
            assert!(world.values.iter().all(|number| *number == 1), "nothing has happened");
            world.remove("d");
            // One that is away holds it up, and nobody writes what it could not read.
            world.settle(&["a", "b"], &mut seed);
            assert_eq!((&world.files["a"], &world.files["c"]), (&vec![2, 1], &vec![1]));
            let members: Vec<&ControllerMember> = world.rows.values().collect();
            let ids: Vec<&str> = awaited(&members).map(|it| it.base.id.as_str()).collect();
            assert_eq!(ids, ["c"]);
            world.settle(&["a", "b", "c"], &mut seed);
            for id in ["a", "b", "c"] {
                assert_eq!(world.files[id], [2], "{id}");
            }
            assert!(world.values.iter().all(|number| *number == 2));
            // One that joins has the newest key. One that is removed while it is away waits for nobody.
            world.join("e");
            world.settle(&["a", "b", "c", "e"], &mut seed);
            world.remove("c");
            world.settle(&["a", "b"], &mut seed);
            world.remove("e");
            world.settle(&["a", "b"], &mut seed);
            assert!(world.files["a"].iter().all(|number| *number >= 3), "{:?}", world.files["a"]);
            assert_eq!(world.files["a"], world.files["b"]);
            assert!(world.values.iter().all(|number| *number >= 3));
        }
    }

    #[test]
    fn one_that_was_let_in_and_has_not_started_is_not_locked_out() {
        let mut seed = 7;
        let mut world = World::default();
        ["a", "b", "d"].into_iter().for_each(|id| world.join(id));
        world.settle(&["a", "b", "d"], &mut seed);
        let authority = Bytes::from_static(b"authority");
        let mut invited = ControllerMember::invited(Id::new("c"), authority, Timestamp(1));
        invited.network_key = 1;
        world.rows.insert("c", invited.clone());
        world.files.insert("c", vec![1]);
        world.remove("d");
        world.settle(&["a", "b"], &mut seed);
        assert!(
            world.values.iter().all(|number| *number == 1),
            "c reads everything when it starts"
        );
        let members: Vec<_> = world.rows.values().collect();
        assert_eq!(awaited(&members).map(|it| it.base.id.as_str()).collect::<Vec<_>>(), ["c"]);
        // It starts, or its name is taken out.
        let mut started =
            World { rows: world.rows.clone(), files: world.files.clone(), ..World::default() };
        let wrap_key = Bytes::from_static(b"key");
        let base = invited.base;
        started.rows.insert("c", ControllerMember { base, wrap_key, ..Default::default() });
        started.settle(&["a", "b", "c"], &mut seed);
        world.remove("c");
        world.settle(&["a", "b"], &mut seed);
        for files in [&started.files, &world.files] {
            assert!(files["a"].iter().all(|number| *number >= 2), "{files:?}");
        }
    }

    #[test]
    fn what_was_said_of_former_numbers_says_nothing_of_keys_that_begin_anew() {
        let mut world = World::default();
        ["a", "b", "c"].into_iter().for_each(|id| world.join(id));
        // The network was in a file meanwhile, and got a first key again.
        world.rows.values_mut().for_each(|row| row.sealed_since = 2);
        let mut seed = 1;
        world.settle(&["a", "b", "c"], &mut seed);
        world.remove("c");
        world.settle(&["a", "b"], &mut seed);
        assert_eq!((&world.files["a"], &world.files["b"]), (&vec![2], &vec![2]));
        assert!(world.values.iter().all(|number| *number == 2));
    }

    #[test]
    fn one_that_has_lost_its_wrapped_key_gets_another_one() {
        let mut world = World::default();
        ["a", "b", "c"].into_iter().for_each(|id| world.join(id));
        let mut seed = 1;
        world.settle(&["a", "b", "c"], &mut seed);
        world.remove("c");
        while world.rows["b"].handed.is_none() {
            world.step("a", "a").unwrap();
        }
        world.rows.get_mut("b").unwrap().handed = None;
        world.settle(&["a", "b"], &mut seed);
        assert_eq!((&world.files["a"], &world.files["b"]), (&vec![2], &vec![2]));
    }
}
