//! What is due with the keys of tokens, and what administrators ask for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_identity::PublicKey;
use weft_kernel::events::EndCause;
use weft_kernel::{Caller, Failure, Result};
use weft_model::{Id, Timestamp};

use super::stages::{ClockReading, InUse, NotYet, Stage};
use crate::handle::Auth;

/// The interval at which sessions are asked which former keys they need.
const ASK: Duration = Duration::from_secs(3600);
/// The interval at which it is told that there are too many former keys.
const TOLD: Duration = Duration::from_secs(24 * 3600);

/// A key of tokens as administrators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTokenKey {
    /// Its name.
    pub kid: String,
    /// Where it is in its life.
    pub stage: Stage,
}

/// What ended with stolen keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DroppedKeys {
    /// The names of the keys.
    pub keys: Vec<String>,
    /// The number of API sessions.
    pub sessions: usize,
}

impl Auth {
    /// The key with this name that verifies tokens.
    pub fn token_key(&self, kid: &str) -> Option<PublicKey> {
        self.token_keys().key(kid).or_else(|| self.token_key_of_others(kid))
    }

    /// All keys of tokens, those in use first.
    pub fn known_token_keys(&self) -> Vec<KnownTokenKey> {
        let ring = self.token_keys().ring.load();
        let known =
            ring.stages.iter().map(|(kid, stage)| KnownTokenKey { kid: kid.to_owned(), stage });
        let mut known: Vec<_> = known.collect();
        let order = |stage: Stage| match stage {
            Stage::Signing { .. } => 0,
            Stage::Ahead { .. } => 1,
            Stage::Former { .. } => 2,
            Stage::Gone { .. } => 3,
        };
        known.sort_by_key(|it| (order(it.stage), std::cmp::Reverse(it.stage.since())));
        known
    }

    /// The time at which the next key signs by the schedule.
    pub fn next_token_key_at(&self) -> Timestamp {
        let keys = self.token_keys();
        let signing = keys.ring.load().stages.signing();
        signing
            .map_or_else(|| self.kernel().now(), |(_, stage)| stage.since().plus(keys.pace.every))
    }

    /// Lets the next key sign. Nobody is logged out: tokens of the former key are good until their ends.
    ///
    /// # Errors
    /// While the next key is not known for long enough, or too many former keys are in use.
    pub fn roll_token_keys(&self, caller: &Caller) -> Result<()> {
        let now = self.kernel().now();
        let keys = self.token_keys();
        keys.change(|draft| {
            draft.stages.roll(keys.pace, now).map_err(RollRefused::NotYet)?;
            let reading = ClockReading { now, settled: None };
            draft.advance(keys.pace, reading, InUse::default).map_err(RollRefused::from)
        })
        .map_err(Failure::from)?;
        let kid = keys.ring.load().stages.signing().map(|(kid, _)| kid).unwrap_or_default();
        tracing::info!(caller = caller.author(), kid, "another key signs tokens, as was asked for");
        Ok(())
    }

    /// Drops a stolen key with all that it signed; without a name, the signing one. The next key signs at once, although not
    /// every router knows it yet. The answer comes when it is on the disk that the key counts no more. A key that was stolen
    /// already can be named again, if that failed.
    ///
    /// # Errors
    /// For a name that is none of a key that counts or was stolen.
    pub async fn drop_stolen_token_keys(
        &self,
        caller: &Caller,
        kid: Option<&str>,
    ) -> Result<DroppedKeys> {
        let now = self.kernel().now();
        let keys = self.token_keys();
        // Soon after a move two keys sign.
        let former = self.former_signer().filter(|_| kid.is_none());
        let dropped = keys.change(|draft| {
            // One that was stolen already is dropped again: what followed from it may have failed.
            let again = kid.map(|kid| draft.stages.stolen_with(kid)).unwrap_or_default();
            if !again.is_empty() {
                return Ok(again);
            }
            let mut dropped = draft.stages.steal(kid, now);
            if let Some(former) = &former {
                dropped.extend(draft.stages.steal(Some(former.kid()), now));
            }
            let reading = ClockReading { now, settled: None };
            draft.advance(keys.pace, reading, InUse::default)?;
            Ok::<_, RollRefused>(dropped)
        })?;
        if dropped.is_empty() {
            return Err(Failure::not_found("token key", kid.unwrap_or_default()));
        }
        let (auth, keys) = (self.clone(), dropped.clone());
        let ended = tokio::task::spawn_blocking(move || auth.end_of_keys(&keys)).await;
        let sessions = ended.map_err(|error| {
            Failure::unhandled(format!("the sessions of stolen keys could not be ended: {error}"))
        })?;
        let names = dropped.join(", ");
        tracing::warn!(
            caller = caller.author(),
            keys = names,
            sessions,
            "keys of tokens were stolen: all that they signed has ended"
        );
        let flushed = self.kernel().settings().store.live().flush().await;
        flushed.map_err(|error| {
            Failure::unwritable(format!(
                "the keys count no more in this run, but that could not be written: {error}"
            ))
        })?;
        Ok(DroppedKeys { keys: dropped, sessions })
    }

    /// Ends the API sessions whose tokens were signed with these keys.
    fn end_of_keys(&self, dropped: &[String]) -> usize {
        let ended: Vec<Id> = self
            .sessions()
            .all()
            .iter()
            .filter(|session| {
                let login = session.tokens.as_ref();
                // An earlier release noted no keys.
                login.is_some_and(|login| {
                    login.signed_by.is_empty()
                        || login.signed_by.iter().any(|kid| dropped.contains(kid))
                })
            })
            .map(|session| session.base.id.clone())
            .collect();
        self.sessions().end_because(&ended, &EndCause::StolenKey);
        ended.len()
    }

    /// Ends the sessions of stolen keys that a crash has left.
    pub(crate) fn end_of_stolen_keys(&self) {
        let stolen = |(kid, stage): (&str, Stage)| {
            matches!(stage, Stage::Gone { stolen: true, .. }).then(|| kid.to_owned())
        };
        let stolen: Vec<String> =
            self.token_keys().ring.load().stages.iter().filter_map(stolen).collect();
        if !stolen.is_empty() {
            self.end_of_keys(&stolen);
        }
    }

    /// Goes on with the keys of tokens: rolls them by the schedule, and drops those whose tokens have ended. The call may
    /// look at all sessions, for which it needs a thread of its own.
    pub(crate) fn sweep_token_keys(&self) {
        let (now, settled) = (self.kernel().now(), self.settled_now());
        let keys = self.token_keys();
        let before = keys.ring.load_full();
        // Asked before the change, so that nobody waits for it.
        let is_asked = before.stages.is_end_due(keys.pace, settled) && is_due(&keys.asked, ASK);
        let in_use = if is_asked { self.keys_in_use() } else { InUse::unknown() };
        let swept =
            keys.change(|draft| draft.advance(keys.pace, ClockReading { now, settled }, || in_use));
        if let Err(error) = swept {
            tracing::warn!(%error, "a key of tokens could not be made or kept; it is tried again");
        }
        let after = keys.ring.load_full();
        let (was, is) = (before.stages.signing(), after.stages.signing());
        if let Some((kid, _)) = is.filter(|is| was.as_ref().is_none_or(|was| was.0 != is.0)) {
            tracing::info!(kid, "another key signs tokens, by the schedule");
        }
        if after.stages.is_full(keys.pace, now) && is_due(&keys.told_full, TOLD) {
            tracing::warn!(
                "the key of tokens goes on to sign after its time, because there are too many former keys whose tokens have not ended"
            );
        }
    }

    fn keys_in_use(&self) -> InUse {
        let mut named = BTreeSet::new();
        for session in self.sessions().all() {
            let Some(login) = &session.tokens else { continue };
            for kid in &login.signed_by {
                if !named.contains(kid) {
                    named.insert(kid.clone());
                }
            }
        }
        InUse { oldest_service: self.sessions().oldest_service(), named }
    }
}

/// Whether something is due that was done at this time, if at all; then it is done now.
fn is_due(last: &Mutex<Option<Instant>>, every: Duration) -> bool {
    let (mut last, now) = (last.lock(), Instant::now());
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= every);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// Why a change of keys was not made.
#[derive(Debug)]
enum RollRefused {
    NotYet(NotYet),
    Key(weft_identity::Error),
}

impl From<weft_identity::Error> for RollRefused {
    fn from(error: weft_identity::Error) -> Self {
        Self::Key(error)
    }
}

impl From<RollRefused> for Failure {
    fn from(refused: RollRefused) -> Self {
        match refused {
            RollRefused::NotYet(NotYet::Young(from)) => Self::field(
                "stolen",
                format!(
                    "the next key is known to routers for too short a time and can sign from {from} on; only a stolen key is dropped before"
                ),
                "",
            ),
            RollRefused::NotYet(NotYet::Full) => Self::field(
                "stolen",
                "there are too many former keys with tokens that have not ended; only a stolen key is dropped before one of them is gone",
                "",
            ),
            RollRefused::Key(error) => {
                Self::unhandled(format!("a key of tokens could not be made: {error}"))
            }
        }
    }
}
