//! The statements about this program, and the times at which the controller is asked for them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_contract::resource::service_session::EndStatement;

use super::Statement;

/// Most statements that are kept.
const MAX_STATEMENTS: usize = 65_536;
/// The time for the first statement, and for a later one while the former is still good.
const FIRST: Duration = Duration::from_secs(3);
const LATER: Duration = Duration::from_secs(1);
/// The time until a controller is asked again that gave no statement.
const UNSUPPORTED: Duration = Duration::from_secs(600);
const UNREACHED: Duration = Duration::from_secs(30);

/// Statements, each by what it is for.
#[derive(Debug)]
pub struct Statements<K>(Mutex<HashMap<K, Known>>);

#[derive(Debug, Clone)]
struct Known {
    /// `None` if the controller gives none.
    own: Option<Arc<Statement>>,
    /// The time from which the controller is asked again.
    ask: Instant,
}

/// What a controller answered.
#[derive(Debug)]
pub enum Answer {
    /// A statement for the session of this id.
    Stated(String, EndStatement),
    /// It gives none.
    Refused,
    /// It was not reached, or is too busy.
    Unreached,
}

impl<K> Default for Statements<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Statements<K> {
    /// The statement that is known and good, and the longest wait for an answer of the controller, if that is to be
    /// asked now: others go on with the known one meanwhile.
    #[must_use]
    pub fn known(&self, key: &K) -> (Option<Arc<Statement>>, Option<Duration>) {
        let now = Instant::now();
        let mut statements = self.0.lock();
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
    pub fn answered(&self, key: &K, answer: Answer) -> Option<Arc<Statement>> {
        let now = Instant::now();
        let told = match answer {
            Answer::Stated(session, told) => Statement::new(&session, told).map(Arc::new),
            Answer::Refused => None,
            Answer::Unreached => {
                let known = self.0.lock().get(key).and_then(|known| known.own.clone());
                let own = known.filter(|own| own.good_until() > now);
                self.keep(key, own.clone(), now + UNREACHED);
                return own;
            }
        };
        let ask = match &told {
            Some(told) => now + told.good_until().saturating_duration_since(now) / 2,
            None => now + UNSUPPORTED,
        };
        self.keep(key, told.clone(), ask);
        told
    }

    /// Has the controller asked again soon: its keys may have changed.
    pub fn ask_soon(&self, key: &K) {
        if let Some(known) = self.0.lock().get_mut(key) {
            known.ask = known.ask.min(Instant::now() + LATER);
        }
    }

    fn keep(&self, key: &K, own: Option<Arc<Statement>>, ask: Instant) {
        let mut statements = self.0.lock();
        if statements.len() >= MAX_STATEMENTS {
            let now = Instant::now();
            statements.retain(|_, known| known.ask > now);
        }
        if statements.len() < MAX_STATEMENTS || statements.contains_key(key) {
            statements.insert(key.clone(), Known { own, ask });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{claims, signer, told};
    use super::*;

    #[test]
    fn a_controller_is_asked_once_and_again_in_time() {
        let (statements, signer) = (Statements::<&str>::default(), signer());
        assert!(matches!(statements.known(&"s1"), (None, Some(FIRST))));
        let answer = Answer::Stated("s1".into(), told(&signer, &claims()));
        let own = statements.answered(&"s1", answer).unwrap();
        assert_eq!(own.session(), "s1");
        assert!(matches!(statements.known(&"s1"), (Some(_), None)));
        assert!(matches!(statements.known(&"s2"), (None, Some(FIRST))));
        // Once it is due, one asks, and others go on with it.
        statements.0.lock().get_mut("s1").unwrap().ask = Instant::now();
        assert!(matches!(statements.known(&"s1"), (Some(_), Some(LATER))));
        assert!(matches!(statements.known(&"s1"), (Some(_), None)));
        assert!(statements.answered(&"s1", Answer::Unreached).is_some());
        assert!(statements.answered(&"s1", Answer::Refused).is_none());
        assert!(matches!(statements.known(&"s1"), (None, None)));
        statements.ask_soon(&"s1");
        assert!(statements.0.lock()["s1"].ask <= Instant::now() + LATER);
    }
}
