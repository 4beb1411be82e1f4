//! The statements about this program, and the times at which the controller is asked for them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_contract::resource::service_session::EndStatement;
use weft_identity::SeenTokens;

use super::{Statement, clock};

/// Most statements that are kept.
const MAX_STATEMENTS: usize = 65_536;
/// The time for the first statement, and for a later one while the former is still good.
const FIRST: Duration = Duration::from_secs(3);
const LATER: Duration = Duration::from_secs(1);
/// The time until a controller is asked again that gives no statements, and one that was not reached.
const UNSUPPORTED: Duration = Duration::from_secs(600);
const UNREACHED: Duration = Duration::from_secs(30);
/// The time until a controller is asked again that gave none yet: the first time, and the longest.
const SOON: Duration = Duration::from_secs(1);
const NOT_YET: Duration = Duration::from_secs(8);

/// Statements, each by what it is for.
#[derive(Debug)]
pub struct Statements<K> {
    all: Mutex<HashMap<K, CachedStatement>>,
    /// The statements about other ends whose signature was right: it is verified once for all connections, also when the
    /// statements about this program, which come with the keys, are renewed.
    seen: Arc<SeenTokens>,
}

#[derive(Debug, Clone)]
struct CachedStatement {
    /// `None` if the controller gives none.
    own: Option<Arc<Statement>>,
    /// The time from which the controller is asked again.
    ask: Instant,
    /// The wait before that, if the controller gave none yet.
    waited: Duration,
    /// When the controller was asked out of turn.
    renewed: Option<Instant>,
}

/// What a controller answered.
#[derive(Debug)]
pub enum StatementReply {
    /// A statement for the session of this id.
    Stated(String, EndStatement),
    /// The controller gives no statements.
    Refused,
    /// The controller gives statements, but not this one, so far: it knows no terminator of the host yet, or no service.
    /// Whoever knows when the host asks, such as a router that passes a dial on too early, does not keep it from proving
    /// itself later.
    NotYet,
    /// The controller was not reached, or is too busy.
    Unreached,
}

impl<K> Default for Statements<K> {
    fn default() -> Self {
        Self { all: Mutex::default(), seen: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash> Statements<K> {
    /// The statement that is known and good, and the longest wait for an answer of the controller, if that is to be
    /// asked now: others go on with the known one meanwhile.
    #[must_use]
    pub fn known(&self, key: &K) -> (Option<Arc<Statement>>, Option<Duration>) {
        let now = clock::now();
        let mut statements = self.all.lock();
        let known = statements.get_mut(key);
        let own = known.as_ref().and_then(|known| known.own.clone());
        let own = own.filter(|own| own.good_until() > now + LATER);
        match known {
            Some(known) if now < known.ask => (own, None),
            Some(known) if own.is_some() => {
                known.ask = now + UNREACHED;
                (own, Some(LATER))
            }
            _ => (own, Some(FIRST)),
        }
    }

    /// Keeps the answer of a controller; the statement that is good now.
    pub fn answered(&self, key: &K, answer: StatementReply) -> Option<Arc<Statement>> {
        let now = clock::now();
        let told = match answer {
            StatementReply::Stated(session, told) => {
                Statement::new(&session, told, Arc::clone(&self.seen)).map(Arc::new)
            }
            StatementReply::Refused => None,
            StatementReply::Unreached => return self.go_on(key, now, UNREACHED, Duration::ZERO),
            StatementReply::NotYet => {
                let waited = self.all.lock().get(key).map(|known| known.waited);
                let wait = (waited.unwrap_or_default() * 2).clamp(SOON, NOT_YET);
                return self.go_on(key, now, wait, wait);
            }
        };
        let ask = match &told {
            Some(told) => now + told.good_until().saturating_duration_since(now) / 2,
            None => now + UNSUPPORTED,
        };
        let kept =
            CachedStatement { own: told.clone(), ask, waited: Duration::ZERO, renewed: None };
        self.keep(key, kept);
        told
    }

    /// Goes on with the statement that is known and good, and asks again after a wait.
    fn go_on(
        &self,
        key: &K,
        now: Instant,
        wait: Duration,
        waited: Duration,
    ) -> Option<Arc<Statement>> {
        let known = self.all.lock().get(key).and_then(|known| known.own.clone());
        let own = known.filter(|own| own.good_until() > now);
        let kept = CachedStatement { own: own.clone(), ask: now + wait, waited, renewed: None };
        self.keep(key, kept);
        own
    }

    /// Has the controller asked again at once, unless it was a moment ago: an end has shown a statement of a key that is not
    /// known.
    pub fn ask_now(&self, key: &K) {
        let now = clock::now();
        if let Some(known) = self.all.lock().get_mut(key)
            && known.renewed.is_none_or(|at| clock::since(at) >= SOON)
        {
            (known.ask, known.renewed) = (now, Some(now));
        }
    }

    /// Has the controller asked again soon: its keys may have changed.
    pub fn ask_soon(&self, key: &K) {
        if let Some(known) = self.all.lock().get_mut(key) {
            known.ask = known.ask.min(clock::now() + LATER);
        }
    }

    fn keep(&self, key: &K, kept: CachedStatement) {
        let mut statements = self.all.lock();
        let renewed = statements.get(key).and_then(|known| known.renewed);
        let kept = CachedStatement { renewed, ..kept };
        if statements.len() >= MAX_STATEMENTS {
            let now = clock::now();
            statements.retain(|_, known| known.ask > now);
        }
        if statements.len() < MAX_STATEMENTS || statements.contains_key(key) {
            statements.insert(key.clone(), kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_contract::resource::service_session::EndClaims;
    use weft_identity::token::{Expect, TokenSigner};

    use super::super::tests::{claims, signer, told};
    use super::*;

    #[test]
    fn a_controller_is_asked_once_and_again_in_time() {
        let (statements, signer) = (Statements::<&str>::default(), signer());
        assert!(matches!(statements.known(&"s1"), (None, Some(FIRST))));
        let answer = StatementReply::Stated("s1".into(), told(&signer, &claims()));
        let own = statements.answered(&"s1", answer).unwrap();
        assert_eq!(own.session(), "s1");
        assert!(matches!(statements.known(&"s1"), (Some(_), None)));
        assert!(matches!(statements.known(&"s2"), (None, Some(FIRST))));
        // Once it is due, one asks, and others go on with it.
        statements.all.lock().get_mut("s1").unwrap().ask = clock::now();
        assert!(matches!(statements.known(&"s1"), (Some(_), Some(LATER))));
        assert!(matches!(statements.known(&"s1"), (Some(_), None)));
        assert!(statements.answered(&"s1", StatementReply::Unreached).is_some());
        assert!(statements.answered(&"s1", StatementReply::Refused).is_none());
        assert!(matches!(statements.known(&"s1"), (None, None)));
        statements.ask_soon(&"s1");
        assert!(statements.all.lock()["s1"].ask <= clock::now() + LATER);
    }

    #[test]
    fn a_controller_that_states_nothing_yet_is_asked_again_soon_and_not_at_each_dial() {
        let (statements, signer) = (Statements::<&str>::default(), signer());
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert!(matches!(statements.known(&"s1"), (None, Some(FIRST))));
            assert!(statements.answered(&"s1", StatementReply::NotYet).is_none());
            assert!(
                matches!(statements.known(&"s1"), (None, None)),
                "others ask no more meanwhile"
            );
            let wait = statements.all.lock()["s1"].waited;
            waits.push(wait.as_secs());
            clock::testing::AHEAD.set(clock::testing::AHEAD.get() + wait);
        }
        assert_eq!(waits, [1, 2, 4, 8, 8, 8]);
        let answer = StatementReply::Stated("s1".into(), told(&signer, &claims()));
        assert!(statements.answered(&"s1", answer).is_some());
        // A later refusal does not take the statement away, which is the controller's word until it ends.
        assert!(statements.answered(&"s1", StatementReply::NotYet).is_some());
        assert_eq!(statements.all.lock()["s1"].waited, SOON);
        clock::testing::AHEAD.set(clock::testing::AHEAD.get() + UNSUPPORTED);
        assert!(statements.answered(&"s1", StatementReply::NotYet).is_none());
    }

    #[test]
    fn a_controller_is_asked_out_of_turn_once_in_a_second() {
        let (statements, signer) = (Statements::<&str>::default(), signer());
        let answer = || StatementReply::Stated("s1".into(), told(&signer, &claims()));
        statements.ask_now(&"s1");
        assert!(statements.answered(&"s1", answer()).is_some());
        assert!(matches!(statements.known(&"s1"), (Some(_), None)));
        statements.ask_now(&"s1");
        assert!(matches!(statements.known(&"s1"), (Some(_), Some(LATER))));
        assert!(statements.answered(&"s1", answer()).is_some());
        statements.ask_now(&"s1");
        assert!(matches!(statements.known(&"s1"), (Some(_), None)));
        clock::testing::AHEAD.set(clock::testing::AHEAD.get() + SOON);
        statements.ask_now(&"s1");
        assert!(matches!(statements.known(&"s1"), (Some(_), Some(LATER))));
    }

    /// The statement about a host, as the dialer's statements of before and of now take it.
    #[test]
    fn the_signature_of_a_statement_is_verified_once_for_each_key_of_the_controller() {
        let (statements, signer, forger) = (Statements::<&str>::default(), signer(), signer());
        let own = |statements: &Statements<&'static str>, signer: &TokenSigner| {
            let answer = StatementReply::Stated("s1".into(), told(signer, &claims()));
            statements.answered(&"s1", answer).unwrap()
        };
        let text = signer.sign(&EndClaims { session: "s9".into(), ..claims() }).unwrap();
        let (before, now) = (own(&statements, &signer), own(&statements, &signer));
        let is_seen = |own: &Statement| {
            let expect = Expect::unexpired(own.now());
            let key = |kid: &str| own.keys.get(kid).cloned();
            statements.seen.recall_within::<EndClaims>(&text, key, &expect, Duration::ZERO).is_ok()
        };
        assert!(!is_seen(&now));
        assert!(before.host("web", "", &text).is_ok());
        assert!(is_seen(&now) && now.host("web", "", &text).is_ok());
        // What is known is still for one service, one role and one time.
        assert!(now.host("db", "", &text).is_err() && now.dialer("web", &text).is_err());
        let late = Statement::new("s1", told(&signer, &claims()), Arc::clone(&statements.seen));
        let late = late.unwrap();
        let late = Statement { told_at: late.told_at + Duration::from_secs(600), ..late };
        assert!(late.host("web", "", &text).unwrap_err().contains("expired"));
        // Another text with the same signature, and the same name of a key with another key.
        let (_, signature) = text.rsplit_once('.').unwrap();
        let other = signer.sign(&EndClaims { session: "s8".into(), ..claims() }).unwrap();
        let (other, _) = other.rsplit_once('.').unwrap();
        assert!(now.host("web", "", &format!("{other}.{signature}")).is_err());
        let changed = own(&statements, &forger);
        assert!(!is_seen(&changed) && changed.host("web", "", &text).is_err());
        let forged = forger.sign(&EndClaims { session: "s9".into(), ..claims() }).unwrap();
        assert!(changed.host("web", "", &forged).is_ok() && now.host("web", "", &forged).is_err());
    }
}
