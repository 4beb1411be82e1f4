//! Remembers accepted codes, which clients may use for one more purpose (docs/protocol/auth.md
//! 11.3). They are kept in memory only, and are bounded.
//!
//! A code is accepted once. Clients use it a second time: to read the result of an operation that
//! it allowed, or to authenticate after it completed an enrollment. Such a read works only in the
//! session that gave the code, and an enrollment allows one authentication, unless it was made
//! within a login, in which it has counted.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::{Id, Timestamp};

/// How long an accepted code may be used again: one step of the app.
const LASTS: Duration = Duration::from_secs(30);
/// Codes that are remembered; above that the old ones are forgotten, then all.
const REMEMBERED: usize = 100_000;

/// The last accepted code of each identity. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Spent(Arc<Mutex<HashMap<Id, Code>>>);

#[derive(Debug)]
struct Code {
    code: String,
    session: Id,
    at: Timestamp,
    /// Whether the code completed an enrollment and has not authenticated since.
    authenticates: bool,
}

impl Code {
    fn is(&self, code: &str, now: Timestamp) -> bool {
        self.code == code && self.at <= now && now < self.at.plus(LASTS)
    }
}

impl Spent {
    /// Notes an accepted code. `authenticates` says that it completed an enrollment.
    pub fn put(
        &self,
        identity: &Id,
        session: &Id,
        code: &str,
        authenticates: bool,
        now: Timestamp,
    ) {
        let mut codes = self.0.lock();
        if codes.len() >= REMEMBERED && !codes.contains_key(identity) {
            codes.retain(|_, code| now < code.at.plus(LASTS));
            if codes.len() >= REMEMBERED {
                codes.clear();
            }
        }
        let (code, session) = (code.to_owned(), session.clone());
        codes.insert(identity.clone(), Code { code, session, at: now, authenticates });
    }

    /// Whether a code was just accepted in this session.
    pub fn reads(&self, identity: &Id, session: &Id, code: &str, now: Timestamp) -> bool {
        let codes = self.0.lock();
        codes.get(identity).is_some_and(|spent| spent.session == *session && spent.is(code, now))
    }

    /// Whether a code just completed an enrollment and has not authenticated since. It counts as
    /// having authenticated from now on.
    pub(crate) fn authenticates(&self, identity: &Id, code: &str, now: Timestamp) -> bool {
        let mut codes = self.0.lock();
        let spent = codes.get_mut(identity).filter(|spent| spent.is(code, now));
        spent.is_some_and(|spent| std::mem::take(&mut spent.authenticates))
    }

    /// Forgets the code of an identity whose second factor was removed.
    pub fn forget(&self, identity: &Id) {
        self.0.lock().remove(identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_with_in_its_session_and_authenticates_once_after_an_enrollment() {
        let spent = Spent::default();
        let [anna, ben, here, there] = ["anna", "ben", "s1", "s2"].map(Id::new);
        let now = Timestamp::from_secs(1000);
        spent.put(&anna, &here, "123456", true, now);
        let later = now.plus(Duration::from_secs(29));
        assert!(spent.reads(&anna, &here, "123456", later));
        assert!(!spent.reads(&anna, &there, "123456", later));
        assert!(!spent.reads(&anna, &here, "654321", later));
        assert!(!spent.reads(&ben, &here, "123456", later));
        assert!(!spent.authenticates(&anna, "654321", later));
        assert!(spent.authenticates(&anna, "123456", later));
        assert!(!spent.authenticates(&anna, "123456", later));
        assert!(spent.reads(&anna, &here, "123456", later), "also after it");
        assert!(!spent.reads(&anna, &here, "123456", now.plus(LASTS)));

        spent.put(&anna, &here, "222222", false, later);
        assert!(!spent.authenticates(&anna, "222222", later));
        spent.put(&anna, &here, "333333", true, later);
        assert!(!spent.authenticates(&anna, "333333", later.plus(LASTS)));
        spent.forget(&anna);
        assert!(!spent.reads(&anna, &here, "333333", later));
    }
}
