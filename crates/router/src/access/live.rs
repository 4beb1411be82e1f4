//! The API sessions of open connections, each shared by its connections.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use parking_lot::Mutex;
use weft_wire::edge_ctrl::data_model::{Revocation, revocation_type};

use super::model::Model;
use super::sessions::Sessions;
use super::token::AccessClaims;
use crate::seam::{ApiSession, Release};

/// The API sessions of open connections. The sessions that an event concerns are found without a look at the others:
/// those of a revocation, those whose token is over, those that no connection holds any more.
#[derive(Debug, Default)]
pub(crate) struct LiveSessions {
    by_id: HashMap<String, LiveSession>,
    of_identity: HashMap<String, HashSet<String>>,
    /// The session of each newest token that is signed and has an id.
    of_token: HashMap<String, String>,
    /// The ends of the newest signed tokens, in milliseconds since 1970, each with its session.
    ends: BTreeSet<(u64, String)>,
    /// The sessions that a connection has let go of since the last sweep.
    released: Arc<Mutex<HashSet<String>>>,
}

#[derive(Debug)]
struct LiveSession {
    identity: String,
    /// The claims of the newest token; `None` for an opaque one.
    token: Option<TokenFacts>,
    holders: Vec<Weak<ApiSession>>,
}

/// The claims of a signed token that are checked repeatedly.
#[derive(Debug, Clone)]
pub(crate) struct TokenFacts {
    pub(crate) jti: String,
    /// The key that signed the token.
    pub(crate) kid: String,
    pub(crate) issued: f64,
    pub(crate) expires: f64,
}

impl TokenFacts {
    /// The end of the token, in milliseconds since 1970.
    fn end(&self) -> u64 {
        // The cast keeps times that are out of range within it.
        (self.expires * 1000.0).ceil() as u64
    }
}

impl From<&AccessClaims> for TokenFacts {
    fn from(claims: &AccessClaims) -> Self {
        Self {
            jti: claims.jti.clone(),
            kid: claims.kid.clone(),
            issued: claims.iat,
            expires: claims.exp,
        }
    }
}

/// Sessions that were removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The sessions that have ended: their connections are to be closed.
    pub(crate) ended: Vec<String>,
    /// The sessions that no connection holds any more.
    pub(crate) left: Vec<String>,
    /// The identities that have no session any more.
    pub(crate) identities: Vec<String>,
}

impl LiveSessions {
    /// Enters a session of a connection. Returns the equal session that other connections hold
    /// already, if there is one, so that equal sessions share one value.
    pub(crate) fn hold(
        &mut self,
        session: ApiSession,
        token: Option<TokenFacts>,
    ) -> Arc<ApiSession> {
        let live = self.by_id.entry(session.id.clone()).or_insert_with(|| {
            let of_identity = self.of_identity.entry(session.identity.clone()).or_default();
            of_identity.insert(session.id.clone());
            LiveSession { identity: session.identity.clone(), token: None, holders: Vec::new() }
        });
        if let Some(token) = token
            && live.token.as_ref().is_none_or(|known| known.expires <= token.expires)
        {
            if !token.jti.is_empty() {
                self.of_token.insert(token.jti.clone(), session.id.clone());
            }
            self.ends.insert((token.end(), session.id.clone()));
            let end = token.end();
            if let Some(former) = live.token.replace(token) {
                if live.token.as_ref().is_some_and(|token| token.jti != former.jti) {
                    self.of_token.remove(&former.jti);
                }
                if former.end() != end {
                    self.ends.remove(&(former.end(), session.id.clone()));
                }
            }
        }
        live.holders.retain(|holder| holder.strong_count() > 0);
        let same = |held: &Arc<ApiSession>| {
            held.token == session.token
                && held.fingerprints == session.fingerprints
                && held.identity == session.identity
                && held.legacy == session.legacy
                && held.controller == session.controller
        };
        if let Some(held) = live.holders.iter().filter_map(Weak::upgrade).find(same) {
            return held;
        }
        let (released, id) = (Arc::clone(&self.released), session.id.clone());
        let release = Release::new(move || {
            released.lock().insert(id);
        });
        let session = Arc::new(ApiSession { release, ..session });
        live.holders.push(Arc::downgrade(&session));
        session
    }

    /// True if a session is known and has not ended.
    pub(crate) fn contains(&self, session: &str) -> bool {
        self.by_id.contains_key(session)
    }

    /// The identities of the sessions.
    pub(crate) fn identities(&self) -> impl Iterator<Item = &str> {
        self.by_id.values().map(|live| live.identity.as_str())
    }

    /// Removes sessions that no connection holds any more, and those whose token is over. Sessions that stay are not
    /// looked at, unless one of their connections has closed since the last call.
    pub(crate) fn sweep(&mut self, now: SystemTime) -> Removed {
        let mut removed = Removed::default();
        let released = std::mem::take(&mut *self.released.lock());
        for id in released {
            if self.by_id.get_mut(&id).is_some_and(LiveSession::sweep) {
                self.remove(&id, &mut removed);
                removed.left.push(id);
            }
        }
        let now = (seconds(now) * 1000.0) as u64;
        while self.ends.first().is_some_and(|(end, _)| *end <= now)
            && let Some((_, id)) = self.ends.pop_first()
        {
            self.remove(&id, &mut removed);
            removed.ended.push(id);
        }
        removed
    }

    /// Removes the sessions that a whole new model ends, and those that are over otherwise.
    pub(crate) fn judge_all(
        &mut self,
        model: &Model,
        sessions: &Sessions,
        now: SystemTime,
    ) -> Removed {
        let mut removed = self.sweep(now);
        let is_over = |(id, live): &(&String, &LiveSession)| match &live.token {
            None => !sessions.contains(id),
            Some(token) => is_revoked(model, id, &live.identity, token),
        };
        let over = self.by_id.iter().filter(is_over).map(|(id, _)| id.clone());
        let over: Vec<String> = over.collect();
        over.iter().for_each(|id| self.remove(id, &mut removed));
        removed.ended.extend(over);
        removed
    }

    /// Removes the sessions that these revocations end.
    pub(crate) fn end_revoked(&mut self, model: &Model, revocations: &[String]) -> Removed {
        let mut concerned = BTreeSet::new();
        for id in revocations {
            let listed = model.revocations.listed(id);
            concerned.extend(listed.filter(|session| self.by_id.contains_key(session)));
            concerned.extend(self.by_id.get_key_value(id).map(|(session, _)| session.clone()));
            concerned.extend(self.of_identity.get(id).into_iter().flatten().cloned());
            concerned.extend(self.of_token.get(id).cloned());
        }
        let is_over = |live: &LiveSession, id: &str| {
            let token = live.token.as_ref();
            token.is_some_and(|token| is_revoked(model, id, &live.identity, token))
        };
        let mut ended: Vec<String> = concerned.into_iter().collect();
        ended.retain(|id| self.by_id.get(id).is_some_and(|live| is_over(live, id)));
        self.end(ended)
    }

    /// Removes the sessions whose newest token was signed with a key that counts no more.
    pub(crate) fn end_without_key(&mut self, counts: impl Fn(&str) -> bool) -> Removed {
        let is_lost =
            |live: &LiveSession| live.token.as_ref().is_some_and(|token| !counts(&token.kid));
        let lost = self.by_id.iter().filter(|(_, live)| is_lost(live));
        let lost = lost.map(|(id, _)| id.clone()).collect();
        self.end(lost)
    }

    /// Removes the opaque sessions among these, which their controller has ended.
    pub(crate) fn end_opaque(&mut self, ids: &[String]) -> Removed {
        let is_opaque = |id: &&String| self.by_id.get(*id).is_some_and(|it| it.token.is_none());
        let ended = ids.iter().filter(is_opaque).cloned().collect();
        self.end(ended)
    }

    fn end(&mut self, ids: Vec<String>) -> Removed {
        let mut removed = Removed::default();
        ids.iter().for_each(|id| self.remove(id, &mut removed));
        Removed { ended: ids, ..removed }
    }

    /// Removes a session, and notes the identity if it has no other one.
    fn remove(&mut self, id: &str, removed: &mut Removed) {
        let Some(live) = self.by_id.remove(id) else { return };
        if let Some(of_identity) = self.of_identity.get_mut(&live.identity) {
            of_identity.remove(id);
            if of_identity.is_empty() {
                self.of_identity.remove(&live.identity);
                removed.identities.push(live.identity);
            }
        }
        let Some(token) = live.token else { return };
        self.ends.remove(&(token.end(), id.to_owned()));
        if self.of_token.get(&token.jti).is_some_and(|session| session == id) {
            self.of_token.remove(&token.jti);
        }
    }
}

impl LiveSession {
    /// Forgets connections that have ended; true if none holds the session any more.
    fn sweep(&mut self) -> bool {
        self.holders.retain(|holder| holder.strong_count() > 0);
        self.holders.is_empty()
    }
}

/// True if a token is revoked: by itself, with its session, or with its identity
/// (docs/protocol/edge-control-plane.md 4.4, 11.4). Times are compared in whole seconds, so that a
/// token of the same second as the revocation is revoked.
pub(crate) fn is_revoked(model: &Model, session: &str, identity: &str, token: &TokenFacts) -> bool {
    let revocation = |id: &str, kind: &str| -> Option<&Revocation> {
        model.revocations.get(id).map(|one| &**one).filter(|one| one.r#type == kind)
    };
    let before = |one: &Revocation| {
        one.issued_before
            .as_ref()
            .is_none_or(|cutoff| token.issued.floor() <= cutoff.seconds as f64)
    };
    model.revocations.has_session(session)
        || (!token.jti.is_empty() && revocation(&token.jti, revocation_type::JTI).is_some())
        || revocation(identity, revocation_type::IDENTITY).is_some_and(before)
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_model::session_list;
    use weft_wire::edge_ctrl::data_model::{ChangeSet, Timestamp};

    use super::revocation_type::{API_SESSION, IDENTITY, JTI};
    use super::*;
    use crate::tests::events;

    fn session(id: &str, identity: &str) -> ApiSession {
        ApiSession {
            id: id.into(),
            token: String::new(),
            identity: identity.into(),
            identity_name: None,
            legacy: false,
            controller: None,
            fingerprints: Vec::new(),
            release: Release::default(),
        }
    }

    impl LiveSessions {
        fn is_empty(&self) -> bool {
            let indexes = self.of_identity.is_empty() && self.of_token.is_empty();
            self.by_id.is_empty() && self.ends.is_empty() && indexes
        }
    }

    fn token(jti: &str, expires: f64) -> Option<TokenFacts> {
        Some(TokenFacts { jti: jti.into(), kid: "k1".into(), issued: 10.0, expires })
    }

    /// Revokes tokens, of those that were issued until `before`. Returns the sessions that end.
    fn revoke(live: &mut LiveSessions, kind: &str, id: &str, before: i64) -> Vec<String> {
        let mut model = Model::default();
        let one = Revocation {
            id: id.into(),
            r#type: kind.into(),
            issued_before: Some(Timestamp { seconds: before, nanos: 0 }),
            ..Revocation::default()
        };
        let changes = vec![events::create(events::Model::Revocation(one))];
        let touched = model.apply(ChangeSet { changes, ..ChangeSet::default() });
        live.end_revoked(&model, &touched.revocations).ended
    }

    #[test]
    fn a_key_that_counts_no_more_ends_the_sessions_of_its_tokens() {
        let mut live = LiveSessions::default();
        let signed = |jti: &str, kid: &str, expires: f64| {
            token(jti, expires).map(|facts| TokenFacts { kid: kid.into(), ..facts })
        };
        let held = [
            live.hold(session("s1", "i1"), signed("j1", "old", 100.0)),
            live.hold(session("s2", "i1"), signed("j2", "new", 100.0)),
            live.hold(session("opaque", "i1"), None),
            live.hold(session("s3", "i2"), signed("j3", "old", 100.0)),
            // This one has a token of the new key by now.
            live.hold(session("s3", "i2"), signed("j4", "new", 200.0)),
        ];
        assert!(live.end_without_key(|_| true).ended.is_empty());
        assert_eq!(live.end_without_key(|kid| kid == "new").ended, ["s1"]);
        assert!(["s2", "s3", "opaque"].iter().all(|id| live.contains(id)));
        drop(held);
    }

    #[test]
    fn a_revocation_ends_the_sessions_that_it_concerns() {
        let mut live = LiveSessions::default();
        let mut held = Vec::new();
        for (id, identity, jti) in
            [("s1", "i1", "j1"), ("s2", "i1", "j2"), ("s3", "i2", "j3"), ("s4", "i3", "")]
        {
            held.push(live.hold(session(id, identity), token(jti, 100.0)));
        }
        held.push(live.hold(session("opaque", "i1"), None));
        held.push(live.hold(session("s1", "i1"), token("j1b", 200.0)));
        assert!(revoke(&mut live, JTI, "none", 99).is_empty());
        assert!(revoke(&mut live, JTI, "", 99).is_empty(), "a token without an id");
        assert!(revoke(&mut live, JTI, "j1", 99).is_empty(), "there is a newer token");
        assert!(revoke(&mut live, JTI, "s1", 99).is_empty(), "another kind of id");
        assert!(revoke(&mut live, IDENTITY, "i1", 9).is_empty(), "the tokens are newer");
        assert_eq!(revoke(&mut live, JTI, "j1b", 99), ["s1"]);
        assert_eq!(revoke(&mut live, IDENTITY, "i1", 10), ["s2"], "and no opaque one");
        assert_eq!(revoke(&mut live, API_SESSION, "s3", 99), ["s3"]);
        assert!(revoke(&mut live, API_SESSION, "s3", 99).is_empty(), "it ends once");
        assert!(live.contains("s4") && live.contains("opaque"));
        assert!(live.of_token.is_empty());
        assert_eq!((live.by_id.len(), live.of_identity.len()), (2, 2));
        drop(held);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert!(live.sweep(now).ended.is_empty());
        assert!(live.is_empty());
    }

    #[test]
    fn a_list_ends_the_sessions_in_it() {
        let name = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
        let mut live = LiveSessions::default();
        let held: Vec<_> =
            (0..10).map(|at| live.hold(session(&name(at), "i1"), token("j", 100.0))).collect();
        let opaque = live.hold(session(&name(20), "i1"), None);
        let keys = (0..30).filter(|at| *at != 4).filter_map(|at| session_list::key(&name(at)));
        let one = Revocation {
            id: "list".into(),
            r#type: API_SESSION.into(),
            sessions: session_list::pack(keys.collect()),
            ..Revocation::default()
        };
        let mut model = Model::default();
        let changes = vec![events::create(events::Model::Revocation(one))];
        let touched = model.apply(ChangeSet { changes, ..ChangeSet::default() });
        let ended = live.end_revoked(&model, &touched.revocations).ended;
        assert_eq!(ended.len(), 9);
        assert!(live.contains(&name(4)), "it is not in the list");
        assert!(live.contains(&name(20)), "its controller ends it");
        let facts = token("j", 100.0).unwrap();
        assert!(is_revoked(&model, &name(29), "i1", &facts), "one that comes later");
        assert!(!is_revoked(&model, &name(30), "i1", &facts));
        drop((held, opaque));
    }

    #[test]
    fn a_sweep_looks_at_what_is_over_or_left_alone() {
        let mut live = LiveSessions::default();
        let at = |secs: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        let name = |number: u64| format!("s{number:03}");
        let held = |number: u64| token(&format!("j{number}"), 100.0 + number as f64);
        let mut holders: Vec<_> = (0..100)
            .map(|number| {
                live.hold(session(&name(number), &format!("i{}", number / 2)), held(number))
            })
            .collect();
        assert_eq!(live.sweep(at(99)), Removed::default());
        assert_eq!(live.sweep(at(100)).ended, [name(0)]);
        let two = live.sweep(at(102));
        assert_eq!(two.ended, [name(1), name(2)]);
        assert_eq!(two.identities, ["i0"], "the other one of i1 is there");
        // A newer token moves the end, and an older one does not.
        let renewed = live.hold(session(&name(3), "i1"), token("j3b", 150.0));
        live.hold(session(&name(3), "i1"), token("j3", 103.0));
        assert_eq!(live.sweep(at(103)), Removed::default());
        assert_eq!(live.ends.len(), live.by_id.len());
        // Those that nobody holds any more are forgotten, and nobody is told.
        drop(renewed);
        let again = live.hold(session(&name(5), "i2"), None);
        drop(holders.drain(3..10));
        let left = live.sweep(at(103));
        assert!(left.ended.is_empty());
        let names: BTreeSet<String> = left.left.into_iter().collect();
        assert_eq!(names, [3, 4, 6, 7, 8, 9].map(name).into(), "a connection holds one of them");
        assert!(!live.contains(&name(3)) && live.contains(&name(5)));
        assert!(live.released.lock().is_empty());
        // Sessions that are not over are not looked at: these have no holder that would be told.
        drop((again, holders));
        live.released.lock().clear();
        assert_eq!(live.sweep(at(103)), Removed::default());
        let all = live.sweep(at(1000));
        assert_eq!((all.ended.len(), all.left.len()), (91, 0));
        assert!(live.is_empty());
    }

    #[test]
    fn opaque_sessions_end_with_their_controllers_word() {
        let mut live = LiveSessions::default();
        let opaque = live.hold(session("opaque", "i1"), None);
        let signed = live.hold(session("signed", "i1"), token("j", 100.0));
        let ids = ["opaque", "signed", "unknown"].map(str::to_owned);
        let removed = live.end_opaque(&ids);
        assert_eq!(removed, Removed { ended: vec!["opaque".into()], ..Removed::default() });
        assert!(!live.contains("opaque") && live.contains("signed"));
        drop((opaque, signed));
        assert_eq!(live.sweep(SystemTime::UNIX_EPOCH).identities, ["i1"]);
        assert!(live.is_empty());
    }

    #[test]
    fn a_whole_model_is_held_against_all_sessions() {
        let mut live = LiveSessions::default();
        let held = [
            live.hold(session("opaque", "i1"), None),
            live.hold(session("s1", "i1"), token("j1", 100.0)),
            live.hold(session("s2", "i2"), token("j2", 200.0)),
        ];
        let mut model = Model::default();
        let one =
            Revocation { id: "s2".into(), r#type: API_SESSION.into(), ..Revocation::default() };
        let changes = vec![events::create(events::Model::Revocation(one))];
        model.apply(ChangeSet { changes, ..ChangeSet::default() });
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let mut removed = live.judge_all(&model, &Sessions::default(), now);
        removed.ended.sort_unstable();
        assert_eq!(removed.ended, ["opaque", "s2"]);
        assert_eq!(removed.identities, ["i2"]);
        drop(held);
    }
}
