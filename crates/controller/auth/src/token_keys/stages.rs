//! The life of the keys that sign tokens, as a state machine without keys, clocks and I/O.
//!
//! | stage | event | next stage |
//! |---|---|---|
//! | | no key is ahead | ahead |
//! | ahead | the signing key is due, or an administrator rolls; and this one has been known for long enough | signing |
//! | ahead | no key signs | signing |
//! | signing | its successor signs | former |
//! | ahead, signing | its private half is lost | former |
//! | former | the last token that it may have signed has ended | gone |
//! | ahead, signing, former | it was stolen | gone |
//! | gone | more than [`MOST_GONE`] are gone | forgotten |
//!
//! After each step one key signs and one is ahead. The signing key and the one that is ahead are kept in one place:
//! who has stolen one has the other, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weft_model::Timestamp;

/// Most former keys. With so many, no further key signs until the tokens of one of them have ended.
pub const MOST_FORMER: usize = 64;
/// Names of keys that routers are told to forget; above that the oldest are dropped.
pub const MOST_GONE: usize = 64;
/// A former key is kept for this much longer than its last token by its time: the clock may have been an hour ahead when the
/// token was signed, or an hour behind when the key was followed by the next one.
const OVERLAP: Duration = Duration::from_secs(2 * 3600);
/// A time that is further ahead of the clock was noted when the clock was wrong.
const WRONG: Duration = Duration::from_secs(24 * 3600);

/// Where a key is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The key is published, and signs nothing yet.
    Ahead {
        /// The time since which it is published.
        since: Timestamp,
    },
    /// The key signs.
    Signing {
        /// The time of its first signature.
        since: Timestamp,
    },
    /// The key verifies tokens that it has signed, and signs no more.
    Former {
        /// The time of its last signature.
        until: Timestamp,
    },
    /// The key is not accepted any more, and routers are told to forget it.
    Gone {
        /// The time since which the key is not accepted any more.
        since: Timestamp,
        /// Whether the key was stolen: all tokens that it signed ended with it then.
        stolen: bool,
    },
}

impl Stage {
    /// Whether signatures of the key are right.
    pub fn verifies(self) -> bool {
        !matches!(self, Self::Gone { .. })
    }

    /// Whether the private half of the key is kept.
    pub fn has_secret(self) -> bool {
        matches!(self, Self::Ahead { .. } | Self::Signing { .. })
    }

    /// The time since which the key is in this stage.
    pub fn since(self) -> Timestamp {
        match self {
            Self::Ahead { since } | Self::Signing { since } | Self::Gone { since, .. } => since,
            Self::Former { until } => until,
        }
    }
}

/// How long keys sign, and how long tokens live.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The time for which a key signs.
    pub every: Duration,
    /// The time for which a key is published before it signs, unless its predecessor was stolen.
    pub known: Duration,
    /// The longest life of tokens, except those that live with a session.
    pub longest: Duration,
}

/// A moment, by the clock and by the clock of the last hours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) now: Timestamp,
    /// The time that has [settled](weft_limits::SettledClock), after which something may be forgotten for good.
    pub(crate) settled: Option<Timestamp>,
}

/// What the existing sessions say of keys.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    /// The time at which the oldest service session was made, whose token may be as old.
    pub(crate) oldest_service: Option<Timestamp>,
    /// The keys that have signed tokens of API sessions.
    pub(crate) named: BTreeSet<String>,
}

impl InUse {
    /// Nobody has looked: every key may be in use.
    pub(crate) fn unknown() -> Self {
        Self { oldest_service: Some(Timestamp(i64::MIN)), named: BTreeSet::new() }
    }
}

/// Why the next key does not sign yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotYet {
    /// The next key has not been published for long enough; it will have been at this time.
    Young(Timestamp),
    /// There are too many former keys whose tokens have not ended.
    Full,
}

/// The time at which the last token of a former key has ended by any clock, except tokens that live with a session.
fn last_end(pace: Pace, until: Timestamp) -> Timestamp {
    until.plus(pace.longest).plus(OVERLAP)
}

/// The stages of all keys, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stages(BTreeMap<String, Stage>);

impl Stages {
    pub(crate) fn get(&self, kid: &str) -> Option<Stage> {
        self.0.get(kid).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Stage)> {
        self.0.iter().map(|(kid, stage)| (kid.as_str(), *stage))
    }

    /// Enters a key of an earlier run.
    pub(crate) fn enter(&mut self, kid: String, stage: Stage) {
        self.0.insert(kid, stage);
    }

    fn first(&self, is: impl Fn(Stage) -> bool) -> Option<(String, Stage)> {
        let mut found: Vec<_> = self.iter().filter(|(_, stage)| is(*stage)).collect();
        found.sort_by_key(|(_, stage)| stage.since());
        found.first().map(|(kid, stage)| ((*kid).to_owned(), *stage))
    }

    /// The key that signs.
    pub(crate) fn signing(&self) -> Option<(String, Stage)> {
        self.first(|stage| matches!(stage, Stage::Signing { .. }))
    }

    /// The key that signs next.
    pub(crate) fn ahead(&self) -> Option<(String, Stage)> {
        self.first(|stage| matches!(stage, Stage::Ahead { .. }))
    }

    fn count(&self, is: impl Fn(Stage) -> bool) -> usize {
        self.0.values().filter(|stage| is(**stage)).count()
    }

    /// Takes a key whose private half is lost out of service.
    pub(crate) fn lose(&mut self, kid: &str, now: Timestamp) {
        if let Some(stage) = self.0.get_mut(kid).filter(|stage| stage.has_secret()) {
            *stage = Stage::Former { until: now };
        }
    }

    /// Whether tokens of a key may be good at a settled time: it counts, and not all of them have ended.
    pub(crate) fn may_have_tokens(
        &self,
        kid: &str,
        pace: Pace,
        settled: Option<Timestamp>,
    ) -> bool {
        match self.get(kid) {
            Some(Stage::Former { until }) => settled.is_none_or(|now| now < last_end(pace, until)),
            other => other.is_some_and(Stage::verifies),
        }
    }

    /// Whether a key was stolen.
    pub(crate) fn is_stolen(&self, kid: &str) -> bool {
        matches!(self.get(kid), Some(Stage::Gone { stolen: true, .. }))
    }

    /// The keys that were dropped together with this one because it was stolen, and itself; none if it was not.
    pub(crate) fn stolen_with(&self, kid: &str) -> Vec<String> {
        let same = self.get(kid).filter(|_| self.is_stolen(kid));
        let all = self.iter().filter(|(_, stage)| Some(*stage) == same);
        all.map(|(kid, _)| kid.to_owned()).collect()
    }

    /// Whether the signing key goes on to sign after its time, because there are too many former keys.
    pub(crate) fn is_full(&self, pace: Pace, now: Timestamp) -> bool {
        let signing = self.signing();
        signing.is_some_and(|(_, stage)| now.since(stage.since()) >= pace.every)
            && self.count(|stage| matches!(stage, Stage::Former { .. })) >= MOST_FORMER
    }

    /// Whether a former key goes if no session uses it.
    pub(crate) fn is_end_due(&self, pace: Pace, settled: Option<Timestamp>) -> bool {
        let mut former = self.iter().filter(|(_, stage)| matches!(stage, Stage::Former { .. }));
        former.any(|(kid, _)| !self.may_have_tokens(kid, pace, settled))
    }

    /// Lets the next key sign.
    pub(crate) fn roll(&mut self, pace: Pace, now: Timestamp) -> Result<(), NotYet> {
        let Some((next, stage)) = self.ahead() else {
            return Err(NotYet::Young(now.plus(pace.known)));
        };
        if now.since(stage.since()) < pace.known {
            return Err(NotYet::Young(stage.since().plus(pace.known)));
        }
        if self.count(|stage| matches!(stage, Stage::Former { .. })) >= MOST_FORMER {
            return Err(NotYet::Full);
        }
        if let Some((signing, _)) = self.signing() {
            self.0.insert(signing, Stage::Former { until: now });
        }
        self.0.insert(next, Stage::Signing { since: now });
        Ok(())
    }

    /// Drops a key that was stolen, and what was kept with it; without a name, the signing one. Returns the names of all that
    /// are dropped; none if there is no such key.
    pub(crate) fn steal(&mut self, kid: Option<&str>, now: Timestamp) -> Vec<String> {
        let named = |own: &str, stage: Stage| match kid {
            Some(kid) => own == kid && stage.verifies(),
            None => matches!(stage, Stage::Signing { .. }),
        };
        let found = self.iter().find(|(own, stage)| named(own, *stage));
        let Some((found, stage)) = found.map(|(own, stage)| (own.to_owned(), stage)) else {
            return Vec::new();
        };
        let dropped: Vec<String> = self
            .iter()
            .filter(|(own, other)| *own == found || (stage.has_secret() && other.has_secret()))
            .map(|(own, _)| own.to_owned())
            .collect();
        for kid in &dropped {
            self.0.insert(kid.clone(), Stage::Gone { since: now, stolen: true });
        }
        dropped
    }

    /// Goes on to this moment: a key that is due is followed by the next one, and keys whose tokens have ended go. `fresh`
    /// makes a key and returns its name. `in_use` is asked only if it decides something.
    pub(crate) fn advance<E>(
        &mut self,
        pace: Pace,
        reading: ClockReading,
        in_use: impl FnOnce() -> InUse,
        mut fresh: impl FnMut() -> Result<String, E>,
    ) -> Result<(), E> {
        let now = reading.now;
        self.correct(reading);
        let signing = self.signing();
        if signing.is_some_and(|(_, stage)| now.since(stage.since()) >= pace.every) {
            // It goes on to sign until the next one may.
            let _ = self.roll(pace, now);
        }
        if self.signing().is_none() {
            let next = match self.ahead() {
                Some((kid, _)) => kid,
                None => fresh()?,
            };
            self.0.insert(next, Stage::Signing { since: now });
        }
        if self.ahead().is_none() {
            self.0.insert(fresh()?, Stage::Ahead { since: now });
        }
        self.end_former(pace, reading, in_use);
        self.limit();
        Ok(())
    }

    /// Corrects times that were noted when the clock was far ahead: a key must not sign for years because of it.
    fn correct(&mut self, ClockReading { now, settled }: ClockReading) {
        let Some(settled) = settled else { return };
        let latest = now.max(settled).plus(WRONG);
        for stage in self.0.values_mut() {
            if let Stage::Ahead { since } | Stage::Signing { since } = stage
                && *since > latest
            {
                *since = now;
            }
        }
    }

    fn end_former(&mut self, pace: Pace, reading: ClockReading, in_use: impl FnOnce() -> InUse) {
        let Some(settled) = reading.settled else { return };
        let due: Vec<(String, Timestamp)> = self
            .0
            .iter()
            .filter_map(|(kid, stage)| match stage {
                Stage::Former { until } if settled >= last_end(pace, *until) => {
                    Some((kid.clone(), *until))
                }
                _ => None,
            })
            .collect();
        if due.is_empty() {
            return;
        }
        let in_use = in_use();
        for (kid, until) in due {
            let is_younger = |oldest: Timestamp| oldest > until.plus(OVERLAP);
            if in_use.oldest_service.is_none_or(is_younger) && !in_use.named.contains(&kid) {
                self.0.insert(kid, Stage::Gone { since: reading.now, stolen: false });
            }
        }
    }

    /// Forgets the oldest names of keys that are gone.
    fn limit(&mut self) {
        let is_gone = |stage: Stage| !stage.verifies();
        while self.count(is_gone) > MOST_GONE {
            let Some((oldest, _)) = self.first(is_gone) else { return };
            self.0.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
