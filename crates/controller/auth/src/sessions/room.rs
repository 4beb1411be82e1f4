//! Limits the complete sessions of an identity, and those that lack a factor: each of these has a place among all
//! logins that are not finished (`half`). Somebody who has only the first factor can end no complete session of the
//! owner, nor the owner's login before its last factor, as each source has places of its own.

use weft_model::entity::ApiSession;
use weft_model::{Id, Timestamp};

use super::{SWEEP_BATCH, Sessions};

/// API sessions with every factor that an identity may always have.
pub const PER_IDENTITY: usize = 256;
/// API sessions of all identities above which an identity may have no more than [`PER_IDENTITY`].
const MANY: usize = 200_000;
/// The sessions that may be kept, divided by this number, end together with one that has no room: not every login of
/// an identity with thousands of sessions looks at all of them.
const ENDED_TOGETHER: usize = 64;
/// A session by its last use: its order among those that may end.
type Used = (Timestamp, Id);

impl Sessions {
    /// Handles a session that has every factor: it waits for none any more. If its identity has more of them than it may,
    /// those end that were not used for the longest time; the newest one stays.
    pub fn make_room(&self, newest: &ApiSession, is_complete: impl Fn(&ApiSession) -> bool) {
        self.waits_no_more(&newest.base.id);
        let surplus: Vec<Id> = {
            let mut tables = self.0.tables.write();
            let most = match tables.api.len() > MANY {
                true => PER_IDENTITY,
                false => self.0.per_identity.max(PER_IDENTITY),
            };
            let owner = &newest.identity_id;
            if tables.whole.count(owner) <= most {
                return;
            }
            let own = tables.whole.of(owner).filter(|id| **id != newest.base.id);
            let own: Vec<Id> = own.cloned().collect();
            let mut alike = Vec::new();
            for id in own {
                let known = tables.api.get(&id).and_then(|it| it.get::<ApiSession>());
                match known.filter(|session| is_complete(session)) {
                    Some(session) => alike.push((tables.last_activity(session), id)),
                    // More factors are asked for by now.
                    None => tables.whole.remove(owner, &id),
                }
            }
            unused(alike, most)
        };
        self.end(&surplus);
    }
}

impl Sessions {
    /// A new session that lacks a factor waits for it. Sessions whose places it takes end.
    pub(super) fn wait_for_factor(
        &self,
        session: &ApiSession,
        lacks: impl Fn(&ApiSession) -> bool,
    ) {
        self.end_displaced(self.0.halves.hold(session), &lacks);
        // It may have ended before it had its place.
        if self.by_id(session.base.id.as_str()).is_none() {
            self.0.halves.release(std::slice::from_ref(&session.base.id));
        }
    }

    /// Counts the sessions of the last run that have every factor. The others may be those of other controllers, where they
    /// wait.
    pub(crate) fn count_whole(&self, lacks: impl Fn(&ApiSession) -> bool) {
        for some in self.all().chunks(SWEEP_BATCH) {
            let mut tables = self.0.tables.write();
            let whole = some.iter().filter(|session| !lacks(session));
            whole.for_each(|it| tables.whole.add(&it.identity_id, &it.base.id));
        }
    }

    /// The sessions of the last run that lack a factor wait for it again, the oldest ones first.
    pub(crate) fn wait_again(&self, lacks: impl Fn(&ApiSession) -> bool) {
        let (mut waiting, whole): (Vec<_>, Vec<_>) =
            self.all().into_iter().partition(|it| lacks(it));
        for some in whole.chunks(SWEEP_BATCH) {
            let mut tables = self.0.tables.write();
            some.iter().for_each(|it| tables.whole.add(&it.identity_id, &it.base.id));
        }
        waiting.sort_unstable_by_key(|session| session.base.created_at);
        waiting.iter().for_each(|session| self.wait_for_factor(session, &lacks));
    }

    /// Ends the sessions that lost their places to logins of either protocol.
    pub(crate) fn end_crowded_out(&self, lacks: impl Fn(&ApiSession) -> bool) {
        self.end_displaced(self.0.halves.take_ended(), &lacks);
    }

    /// A session has every factor.
    pub(crate) fn waits_no_more(&self, id: &Id) {
        self.0.halves.release(std::slice::from_ref(id));
        let mut tables = self.0.tables.write();
        let known = tables.api.get(id).and_then(|it| it.get::<ApiSession>());
        if let Some(identity) = known.map(|session| session.identity_id.clone()) {
            tables.whole.add(&identity, id);
        }
    }

    fn end_displaced(&self, mut displaced: Vec<Id>, lacks: &impl Fn(&ApiSession) -> bool) {
        // One that got its factor at this moment stays.
        displaced.retain(|id| self.by_id(id.as_str()).is_some_and(|session| lacks(&session)));
        if !displaced.is_empty() {
            self.end(&displaced);
        }
    }
}

/// Of the complete sessions beside the newest, those that end.
fn unused(mut alike: Vec<Used>, most: usize) -> Vec<Id> {
    if alike.len() < most {
        return Vec::new();
    }
    alike.sort_unstable();
    let kept = most - 1 - most / ENDED_TOGETHER;
    let over = alike.len().saturating_sub(kept);
    alike.into_iter().take(over).map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use parking_lot::Mutex;
    use weft_identity::SealKey;
    use weft_kernel::Durations;
    use weft_model::Base;
    use weft_oidc::client::Client;
    use weft_oidc::device::DeviceRequest;
    use weft_oidc::logins::PendingLogins;
    use weft_oidc::scopes::Scopes;
    use weft_store::Memory;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn is_whole(session: &ApiSession) -> bool {
        session.is_mfa_complete
    }

    fn loaded(
        store: &Arc<Memory>,
        key: &Arc<SealKey>,
        table: &Arc<Mutex<PendingLogins<()>>>,
    ) -> Sessions {
        let (store, key) = (Arc::clone(store), Arc::clone(key));
        Sessions::load(store, key, &Durations::default(), 0, Arc::clone(table) as _, NOW).unwrap()
    }

    #[test]
    fn sessions_that_lack_a_factor_share_the_places_of_other_logins() {
        let table = Arc::new(Mutex::new(PendingLogins::<()>::new(64, 8)));
        let (store, key) = (Arc::new(Memory::new()), Arc::new(SealKey::random().unwrap()));
        let sessions = loaded(&store, &key, &table);
        let open = |id: &str, is_mfa_complete: bool| {
            let session = ApiSession {
                base: Base::new(Id::new(id), NOW),
                identity_id: Id::new("owner"),
                ip_address: "192.0.2.1".into(),
                last_activity_at: NOW,
                is_mfa_complete,
                ..ApiSession::default()
            };
            sessions.open(session, id, is_whole).unwrap()
        };
        let is_there = |id: &str| sessions.by_id(id).is_some();
        open("whole", true);
        for id in ["h1", "h2", "h3", "h4"] {
            open(id, false);
        }
        assert_eq!(table.lock().len(), 4);
        // One that ends and one that gets its factor give their places back.
        sessions.end(&[Id::new("h1")]);
        let passed = sessions.change(&Id::new("h2"), NOW, |it| it.is_mfa_complete = true);
        sessions.make_room(&passed.unwrap(), is_whole);
        assert_eq!(table.lock().len(), 2);
        // Logins of the other protocol from the same source, in which nobody has shown a factor yet, do not take their places.
        let begin = |number: u8| {
            let request = DeviceRequest {
                client: Client::Native,
                scopes: Scopes::parse("openid"),
                program: "weft/1".into(),
                address: [192, 0, 2, 1].into(),
            };
            let random = [[number; 32], [number.wrapping_mul(37); 32]];
            table.lock().begin_device(request, &random, Instant::now());
        };
        (1..=4).for_each(begin);
        sessions.end_crowded_out(|it| !is_whole(it));
        assert_eq!(["whole", "h2", "h3", "h4"].map(is_there), [true; 4]);
        // They take the places of such logins, and then each other's.
        for number in 0..20 {
            open(&format!("late{number:02}"), false);
        }
        assert_eq!(
            (table.lock().places(), is_there("late11"), is_there("late12")),
            (8, false, true)
        );
        // After a restart they wait again.
        let table = Arc::new(Mutex::new(PendingLogins::<()>::new(64, 8)));
        let again = loaded(&store, &key, &table);
        again.wait_again(|it| !is_whole(it));
        assert_eq!((table.lock().len(), again.counts().api_sessions), (8, 10));
    }

    #[test]
    fn the_login_of_the_owner_looks_at_no_session_that_lacks_a_factor() {
        let table = Arc::new(Mutex::new(PendingLogins::<()>::new(65_536, 65_536)));
        let (store, key) = (Arc::new(Memory::new()), Arc::new(SealKey::random().unwrap()));
        let sessions = loaded(&store, &key, &table);
        let judged = std::cell::Cell::new(0);
        let open = |number: usize, is_mfa_complete: bool| {
            let session = ApiSession {
                base: Base::new(Id::new(&format!("s{number:05}")), NOW),
                identity_id: Id::new("owner"),
                ip_address: "192.0.2.1".into(),
                last_activity_at: NOW,
                is_mfa_complete,
                ..ApiSession::default()
            };
            let is_whole = |session: &ApiSession| {
                judged.set(judged.get() + 1);
                is_whole(session)
            };
            sessions.open(session, &format!("t{number}"), is_whole).unwrap();
        };
        (0..3000).for_each(|number| open(number, false));
        (3000..3000 + PER_IDENTITY).for_each(|number| open(number, true));
        judged.set(0);
        open(9000, true);
        // Itself, and the others with every factor, of which some end.
        assert_eq!(judged.get(), PER_IDENTITY + 1);
        let left = PER_IDENTITY - PER_IDENTITY / ENDED_TOGETHER;
        assert_eq!(sessions.counts().api_sessions as usize, 3000 + left);
        judged.set(0);
        (9001..9005).for_each(|number| open(number, true));
        assert_eq!(judged.get(), 4, "there is room for the next ones");
    }
}
