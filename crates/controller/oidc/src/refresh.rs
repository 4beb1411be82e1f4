//! The refresh tokens of a session. They have numbers; a refresh gives the next one.
//!
//! | the token that comes | condition | answer | the session after it |
//! |---|---|---|---|
//! | the last one | | its successor | the successor is the last one, not seen yet |
//! | the last but one | the last one was not seen, or not 60 s ago | the last one again | as before |
//! | the last but one | the last one was seen 60 s ago | as for older ones | |
//! | an older one | its key was proved | `invalid_grant` | as before |
//! | an older one | it has no key | `invalid_grant` | to be revoked |
//! | one that is newer than the last one | the store lost the last moments before a crash | its successor | as for the last one |
//!
//! A token is seen when it comes itself, or when an access token that was issued with it comes. Programs repeat a refresh
//! after a lost answer, after sleep, and in several processes or tabs at once, which all have the same token: they get the
//! same successor. Whoever comes with an older token later has copied it, or was copied: without a proof of the key nobody
//! can tell, and the session ends.
//!
//! A request that is refused for its client, scope or certificate is judged before, and changes nothing here. An exchange for
//! an ID token or an access token needs a token that would give a successor, and uses nothing up.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_model::Timestamp;

use crate::problem::{OidcError, bad_grant};

/// How long the last but one is good after the last one was seen.
pub const GRACE: Duration = Duration::from_secs(60);

/// The state of the refresh tokens of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// The number of the last token.
    #[serde(rename = "n")]
    last: u64,
    /// When that token, or an access token issued with it, was first seen.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    seen: Option<Timestamp>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self::new()
    }
}

/// What the client proved of the key that the token names in `z_cfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The token names none.
    NoKey,
    /// The client has it.
    Shown,
}

/// What the client wants for a refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedTokens {
    /// The next refresh token, and an access token.
    Refresh,
    /// Only an access token or an ID token.
    Other,
}

/// What the client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefreshVerdict {
    /// Tokens. The number is that of the refresh token that is issued, or that an access token is issued with.
    Granted {
        /// The number.
        number: u64,
        /// True if the state has changed and is to be kept.
        is_new: bool,
    },
    /// An error.
    Refused(OidcError),
    /// An error, and the session is to be revoked.
    Revoke {
        /// The error.
        problem: OidcError,
        /// Why, for the log.
        reason: String,
    },
}

impl Numbers {
    /// The state after a login: the first token has the number 1.
    #[must_use]
    pub fn new() -> Self {
        Self { last: 1, seen: None }
    }

    /// The state with this last number, and the time at which it was first seen.
    #[must_use]
    pub fn with(last: u64, seen: Option<Timestamp>) -> Self {
        Self { last, seen }
    }

    /// When the last token was first seen.
    #[must_use]
    pub fn seen(&self) -> Option<Timestamp> {
        self.seen
    }

    /// The number of the last token.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// A token of this number came, or an access token issued with it. True: the state has changed.
    pub fn see(&mut self, number: u64, now: Timestamp) -> bool {
        let is_new = number == self.last && self.seen.is_none();
        if is_new {
            self.seen = Some(now);
        }
        is_new
    }

    /// Judges a refresh token whose signature, client, scope and certificate are right.
    pub fn judge(
        &mut self,
        number: u64,
        proof: Proof,
        wanted: RequestedTokens,
        now: Timestamp,
    ) -> RefreshVerdict {
        if number >= self.last {
            return self.judge_last(number, wanted, now);
        }
        if number + 1 == self.last && self.grants_grace(now) {
            return RefreshVerdict::Granted { number: self.last, is_new: false };
        }
        let problem = bad_grant("the refresh token was used before; log in again");
        match proof {
            Proof::Shown => RefreshVerdict::Refused(problem),
            Proof::NoKey => {
                let last = self.last;
                let reason = format!(
                    "refresh token {number} of the session came after {last}: somebody has a copy of it"
                );
                RefreshVerdict::Revoke { problem, reason }
            }
        }
    }

    fn judge_last(
        &mut self,
        number: u64,
        wanted: RequestedTokens,
        now: Timestamp,
    ) -> RefreshVerdict {
        let is_newer = number > self.last;
        if is_newer {
            *self = Self { last: number, seen: None };
        }
        match wanted {
            RequestedTokens::Refresh => {
                *self = Self { last: number.saturating_add(1), seen: None };
                RefreshVerdict::Granted { number: self.last, is_new: true }
            }
            RequestedTokens::Other => {
                let is_seen = self.see(number, now);
                RefreshVerdict::Granted { number, is_new: is_newer || is_seen }
            }
        }
    }

    /// True if the last but one is good. A clock that was set back makes that no longer than from now.
    fn grants_grace(&mut self, now: Timestamp) -> bool {
        let Some(seen) = &mut self.seen else { return true };
        *seen = now.min(*seen);
        now.since(*seen) < GRACE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp(1_000_000);

    fn at(secs: u64) -> Timestamp {
        START.plus(Duration::from_secs(secs))
    }

    /// The number that a token gives; 0 for a refusal, -1 if the session is revoked.
    fn refresh(numbers: &mut Numbers, number: u64, proof: Proof, secs: u64) -> i64 {
        match numbers.judge(number, proof, RequestedTokens::Refresh, at(secs)) {
            RefreshVerdict::Granted { number, .. } => number.cast_signed(),
            RefreshVerdict::Refused(_) => 0,
            RefreshVerdict::Revoke { .. } => -1,
        }
    }

    #[test]
    fn a_refresh_that_is_repeated_gives_the_same_successor() {
        let mut numbers = Numbers::new();
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 0), 2);
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 5), 2);
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 80_000), 2, "after a long sleep");
        assert!(numbers.see(2, at(80_000)), "the access token comes");
        assert!(!numbers.see(2, at(80_010)) && !numbers.see(1, at(80_010)));
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 80_059), 2, "another tab");
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 80_060), -1);
    }

    #[test]
    fn an_old_token_ends_a_session_without_a_key_and_nothing_else() {
        let mut numbers = Numbers::new();
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 0), 2);
        assert_eq!(refresh(&mut numbers, 2, Proof::NoKey, 1), 3);
        assert_eq!(refresh(&mut numbers, 1, Proof::Shown, 2), 0);
        assert_eq!(refresh(&mut numbers, 2, Proof::Shown, 2), 3, "the session goes on");
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 2), -1);
        let RefreshVerdict::Revoke { reason, problem } =
            numbers.judge(1, Proof::NoKey, RequestedTokens::Other, at(3))
        else {
            panic!("an exchange for an ID token shows a copy, too");
        };
        assert!(reason.contains("token 1 ") && reason.contains("after 3"));
        assert_eq!(problem.code.word(), "invalid_grant");
    }

    #[test]
    fn two_exchanges_with_one_token_are_a_refresh() {
        let mut numbers = Numbers::new();
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 0), 2);
        assert!(numbers.see(2, at(1)));
        let id_token = numbers.judge(1, Proof::NoKey, RequestedTokens::Other, at(2));
        assert_eq!(id_token, RefreshVerdict::Granted { number: 2, is_new: false });
        assert_eq!(numbers.last(), 2, "nothing was used up");
        let access = numbers.judge(2, Proof::NoKey, RequestedTokens::Other, at(3));
        assert_eq!(access, RefreshVerdict::Granted { number: 2, is_new: false });
    }

    #[test]
    fn a_store_that_lost_moments_locks_nobody_out() {
        let mut numbers = Numbers::new();
        assert_eq!(refresh(&mut numbers, 3, Proof::NoKey, 0), 4);
        let newer = numbers.judge(6, Proof::NoKey, RequestedTokens::Other, at(1));
        assert_eq!(newer, RefreshVerdict::Granted { number: 6, is_new: true });
        assert_eq!(refresh(&mut numbers, 5, Proof::NoKey, 2), 6);
    }

    #[test]
    fn a_clock_that_jumps_lets_nobody_in_for_long() {
        let mut numbers = Numbers::new();
        refresh(&mut numbers, 1, Proof::NoKey, 3600);
        numbers.see(2, at(3600));
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 0), 2, "an hour back");
        assert_eq!(refresh(&mut numbers, 1, Proof::NoKey, 60), -1);
    }

    #[test]
    fn the_state_is_short() {
        let mut numbers = Numbers::new();
        assert_eq!(serde_json::to_string(&numbers).unwrap(), r#"{"n":1}"#);
        numbers.see(1, Timestamp(5));
        let text = serde_json::to_string(&numbers).unwrap();
        assert_eq!(text, r#"{"n":1,"s":5}"#);
        assert_eq!(serde_json::from_str::<Numbers>(&text).unwrap(), numbers);
    }

    proptest! {
        /// Clients that share a token file, repeat and lose answers, and use what they got within 60 s of each other, are
        /// never taken for thieves.
        #[test]
        fn honest_clients_are_never_refused(steps in prop::collection::vec((0usize..3, any::<bool>(), 0u64..2000), 1..60)) {
            let mut numbers = Numbers::new();
            let mut held = [1u64; 3];
            let mut now = 0;
            for (client, is_lost, pause) in steps {
                now += pause;
                let got = refresh(&mut numbers, held[client], Proof::NoKey, now);
                prop_assert!(got > 0);
                if !is_lost {
                    // All read the file before the access token is used.
                    held = [got.cast_unsigned(); 3];
                    numbers.see(got.cast_unsigned(), at(now));
                }
            }
        }

        /// A thief with a copy and the owner cannot both go on: one of both is found at the latest when either comes more
        /// than 60 s after the other one's successor was used.
        #[test]
        fn a_copy_is_found(turns in prop::collection::vec(any::<bool>(), 2..40)) {
            let mut numbers = Numbers::new();
            let (mut held, mut now, mut last) = ([1u64; 2], 0, None);
            let mut is_found = false;
            for is_thief in turns {
                now += 61;
                let who = usize::from(is_thief);
                let got = refresh(&mut numbers, held[who], Proof::NoKey, now);
                if got < 0 {
                    prop_assert!(last.is_some_and(|last| last != who), "only a change of hands is found");
                    is_found = true;
                    break;
                }
                prop_assert!(last.is_none_or(|last| last == who), "a change of hands was not found");
                held[who] = got.cast_unsigned();
                numbers.see(held[who], at(now));
                last = Some(who);
            }
            _ = is_found;
        }
    }
}
