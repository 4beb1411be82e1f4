//! The API sessions of open connections, each shared by its connections.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Weak},
    time::SystemTime,
};

use weft_wire::edge_ctrl::data_model::{Revocation, revocation_type};

use super::{model::Model, sessions::Sessions, token::AccessClaims};
use crate::seam::ApiSession;

/// The API sessions of open connections. The sessions that a revocation concerns are found without a
/// look at the others.
#[derive(Debug, Default)]
pub(crate) struct LiveSessions {
    by_id: HashMap<String, LiveSession>,
    of_identity: HashMap<String, HashSet<String>>,
    /// The session of each newest token that is signed and has an id.
    of_token: HashMap<String, String>,
}

#[derive(Debug)]
struct LiveSession {
    identity: String,
    /// The claims of the newest token; `None` for an opaque one.
    token: Option<TokenFacts>,
    holders: Vec<Weak<ApiSession>>,
}

/// The keys of a session in the indexes.
struct LiveFacts {
    identity: String,
    jti: Option<String>,
}

impl LiveFacts {
    fn of(live: &LiveSession) -> Self {
        let jti = live.token.as_ref().map(|token| token.jti.clone());
        Self { identity: live.identity.clone(), jti }
    }
}

/// The claims of a signed token that are checked repeatedly.
#[derive(Debug, Clone)]
pub(crate) struct TokenFacts {
    pub(crate) jti: String,
    pub(crate) issued: f64,
    pub(crate) expires: f64,
}

impl From<&AccessClaims> for TokenFacts {
    fn from(claims: &AccessClaims) -> Self {
        Self { jti: claims.jti.clone(), issued: claims.iat, expires: claims.exp }
    }
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
            if let Some(former) = live.token.replace(token)
                && live.token.as_ref().is_some_and(|token| token.jti != former.jti)
            {
                self.of_token.remove(&former.jti);
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
        let session = Arc::new(session);
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

    /// Removes sessions that have ended and returns their ids; sessions without a connection are
    /// forgotten.
    pub(crate) fn sweep(
        &mut self,
        model: &Model,
        sessions: &Sessions,
        now: SystemTime,
    ) -> Vec<String> {
        let (mut ended, mut left) = (Vec::new(), Vec::new());
        self.by_id.retain(|id, live| {
            live.holders.retain(|holder| holder.strong_count() > 0);
            if live.holders.is_empty() {
                left.push((id.clone(), LiveFacts::of(live)));
                return false;
            }
            let over = match &live.token {
                None => !sessions.contains(id),
                Some(token) => {
                    seconds(now) >= token.expires || is_revoked(model, id, &live.identity, token)
                }
            };
            if over {
                left.push((id.clone(), LiveFacts::of(live)));
                ended.push(id.clone());
            }
            !over
        });
        left.iter().for_each(|(id, live)| self.forget(id, live));
        ended
    }

    /// Removes the sessions that these revocations end, and returns their ids.
    pub(crate) fn end_revoked(&mut self, model: &Model, revocations: &[String]) -> Vec<String> {
        let mut concerned = BTreeSet::new();
        for id in revocations {
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
        for id in &ended {
            if let Some(live) = self.by_id.remove(id) {
                self.forget(id, &LiveFacts::of(&live));
            }
        }
        ended
    }

    /// Removes a session from the indexes.
    fn forget(&mut self, id: &str, live: &LiveFacts) {
        if let Some(of_identity) = self.of_identity.get_mut(&live.identity) {
            of_identity.remove(id);
            if of_identity.is_empty() {
                self.of_identity.remove(&live.identity);
            }
        }
        if let Some(jti) = &live.jti
            && self.of_token.get(jti).is_some_and(|session| session == id)
        {
            self.of_token.remove(jti);
        }
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
    revocation(session, revocation_type::API_SESSION).is_some()
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
        }
    }

    fn token(jti: &str, expires: f64) -> Option<TokenFacts> {
        Some(TokenFacts { jti: jti.into(), issued: 10.0, expires })
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
        live.end_revoked(&model, &touched.revocations)
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
        assert!(live.sweep(&Model::default(), &Sessions::default(), now).is_empty());
        assert!(live.by_id.is_empty() && live.of_identity.is_empty());
    }
}
