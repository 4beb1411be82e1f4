//! How a store stands to those with whom it is shared: which controllers are alive, what its copy lacks, and how the members
//! of the service are in which it is shared.

mod clocks;

use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use weft_model::{Revision, Timestamp};

pub(crate) use self::clocks::ClockReadings;
pub use self::clocks::{ClockOffsets, WallClock};

/// A controller that shares a store and is alive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Presence {
    /// The name of the controller. Each has another one, unless somebody has made a mistake.
    pub name: String,
    /// A random number for each run of the program.
    pub run: u128,
    /// The version of the program.
    pub version: String,
    /// The revision of the model that the controller had when it said that it was alive.
    pub revision: Revision,
    /// Whether it could write then.
    pub writes: bool,
    /// What its clock showed then.
    pub said_at: Timestamp,
    /// When it has begun to be alive without a break ([`Alive::moment`]); it does not say that itself.
    pub since: u64,
}

impl Presence {
    /// A run of a controller that begins now.
    #[must_use]
    pub fn of_new_run(name: &str, version: &str) -> Self {
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { name, version, run: rand::random(), writes: true, ..Self::default() }
    }

    /// Encodes it: run (16 bytes), revision (8), whether it writes (1), milliseconds of its clock (8) and length of the name
    /// (2, all big endian), name, version.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(35 + self.name.len() + self.version.len());
        bytes.put_u128(self.run);
        bytes.put_u64(self.revision.0);
        bytes.put_u8(u8::from(self.writes));
        bytes.put_i64(self.said_at.0);
        bytes.put_u16(self.name.len() as u16);
        bytes.put_slice(self.name.as_bytes());
        bytes.put_slice(self.version.as_bytes());
        bytes
    }

    /// Decodes it; none if it is no presence.
    #[must_use]
    pub fn from_bytes(mut bytes: Bytes) -> Option<Self> {
        let run = bytes.try_get_u128().ok()?;
        let revision = Revision(bytes.try_get_u64().ok()?);
        let writes = bytes.try_get_u8().ok()? != 0;
        let said_at = Timestamp(bytes.try_get_i64().ok()?);
        let length = usize::from(bytes.try_get_u16().ok()?);
        let (name, version) = bytes.split_at_checked(length)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (name, version) = (text(name)?, text(version)?);
        Some(Self { name, run, version, revision, writes, said_at, since: 0 })
    }
}

/// The controllers that share a store and are alive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alive {
    /// The controllers; the one that has been alive for the longest time comes first.
    pub controllers: Vec<Presence>,
    /// Whether the others were heard of. Without that, this controller is the only one known.
    pub is_heard: bool,
    /// When the others were heard of, as a number. Whatever was heard later, by any controller, has a higher one if a
    /// controller has begun to be alive or has ended meanwhile.
    pub moment: u64,
    /// The clocks of the others.
    pub clocks: ClockOffsets,
}

impl Alive {
    /// The controller that does what one of them has to do: of those that can write and count as members, the one that has
    /// been alive for the longest time. None while nobody is heard of.
    #[must_use]
    pub fn leader(&self, is_member: impl Fn(&str) -> bool) -> Option<&Presence> {
        let may_lead = |it: &&Presence| it.writes && is_member(&it.name);
        self.controllers.iter().find(may_lead).filter(|_| self.is_heard)
    }

    /// Another run of a controller with this name that began earlier.
    #[must_use]
    pub fn former_run(&self, of: &Presence) -> Option<&Presence> {
        let before = self.controllers.iter().take_while(|it| it.run != of.run);
        before.into_iter().find(|it| it.name == of.name)
    }
}

/// How a copy stands to the shared log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaState {
    /// Why the shared log cannot be used, if so.
    pub obstacle: Option<String>,
    /// The number of change sets that the copy is known to lack.
    pub lag: u64,
    /// Whether the copy is of another history than the shared log, so that it never has what others write.
    pub has_diverged: bool,
}

/// What a copy has written to the shared log since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaCounts {
    /// Batches that the shared log has taken.
    pub appends: u64,
    /// Batches for which another controller was first; they are decided anew.
    pub conflicts: u64,
    /// Batches that were refused, or not answered in time.
    pub failures: u64,
    /// Microseconds until the batches that were taken were answered, in all.
    pub append_micros: u64,
}

/// A member of the service that keeps a shared log.
#[derive(Debug, Clone, Default)]
pub struct LogMember {
    /// Host and port.
    pub address: String,
    /// The version of its program; empty if it did not answer.
    pub version: String,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// Bytes of its file that are in use.
    pub bytes_in_use: u64,
    /// Whether it leads the others.
    pub is_leader: bool,
    /// The time until it answered.
    pub round_trip: Duration,
    /// Why it did not answer, or what it reports about itself.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_presence_is_read_as_it_was_written_and_one_that_is_cut_short_is_none() {
        let (name, version) = ("north".to_owned(), "v0.1.0".to_owned());
        let revision = Revision(300);
        let (run, said_at) = (7 << 100, Timestamp(1_800_000_000_000));
        let presence = Presence { name, run, version, revision, writes: false, said_at, since: 0 };
        let bytes = Bytes::from(presence.to_bytes());
        assert_eq!(Presence::from_bytes(bytes.clone()), Some(presence));
        for end in 0..40 {
            assert_eq!(Presence::from_bytes(bytes.slice(..end)), None, "{end}");
        }
    }

    #[test]
    fn the_one_that_was_alive_first_leads_while_the_others_are_heard() {
        let run = |name: &str, run| Presence { run, ..Presence::of_new_run(name, "") };
        let controllers = vec![run("b", 1), run("a", 2), run("b", 3)];
        let alive = Alive { controllers: controllers.clone(), is_heard: true, ..Alive::default() };
        let leader = |alive: &Alive| alive.leader(|_| true).cloned();
        assert_eq!(leader(&alive), Some(controllers[0].clone()));
        assert_eq!(alive.leader(|name| name != "b"), Some(&controllers[1]), "b was removed");
        assert_eq!(alive.former_run(&controllers[2]), Some(&controllers[0]));
        assert_eq!(alive.former_run(&controllers[0]), None);
        assert_eq!(alive.former_run(&controllers[1]), None);
        let mut other = alive.clone();
        other.controllers[0].writes = false;
        assert_eq!(leader(&other), Some(controllers[1].clone()));
        assert_eq!(leader(&Alive { is_heard: false, ..alive }), None);
    }
}
