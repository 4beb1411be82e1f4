//! Changes of the model: which routers an identity may use, and which identities a router serves.

use std::sync::Arc;

use hashbrown::HashSet;
use roaring::RoaringBitmap;
use weft_kernel::Published;
use weft_model::entity::{EdgeRouterPolicy, Identity, Router};
use weft_model::{Change, Entity, Id, Kind};

use super::state::State;
use crate::legacy::announced::{AnnouncedSession, Say};
use crate::legacy::shelves::Row;

/// A change that concerns more sessions of a router than this is told by telling everything again.
pub(super) const BULK: usize = 4096;

impl State {
    /// Follows a change of the model.
    pub(super) fn on_change(&mut self, published: &Published) {
        let changes = || published.changes.iter().flat_map(|set| &set.changes);
        let mut routers: HashSet<Id> = HashSet::new();
        let mut deleted: HashSet<&Id> = HashSet::new();
        // Ordinals are used again: deleted identities are handled first.
        for change in changes() {
            match change {
                Change::Delete(Kind::Identity, id) => {
                    self.identity_deleted(id);
                    deleted.insert(id);
                }
                Change::Put(Entity::EdgeRouterPolicy(policy)) => {
                    routers.extend(routers_of(published, &policy.base.id));
                }
                Change::Delete(Kind::EdgeRouterPolicy, id) => {
                    routers.extend(routers_of(published, id));
                }
                Change::Put(Entity::Router(router)) => {
                    let before = published.before.get::<Router>(&router.base.id);
                    if before.is_none_or(|it| it.role_attributes != router.role_attributes) {
                        routers.insert(router.base.id.clone());
                    }
                }
                Change::Delete(Kind::Router, id) => {
                    routers.insert(id.clone());
                }
                _ => {}
            }
        }
        self.snapshot = Arc::clone(&published.after);
        for change in changes() {
            if let Change::Put(Entity::Identity(identity)) = change {
                let id = &identity.base.id;
                let before = published.before.get::<Identity>(id);
                let before = before.filter(|_| !deleted.contains(id));
                if before.is_none_or(|it| it.role_attributes != identity.role_attributes) {
                    self.identity_changed(id);
                }
            }
        }
        let touched = self.feeds.iter().filter(|(_, feed)| routers.contains(&feed.router));
        let touched: Vec<u64> = touched.map(|(connection, _)| *connection).collect();
        touched.into_iter().for_each(|connection| self.router_changed(connection));
    }

    /// Forgets the sessions and the ordinal of a deleted identity, because the next identity with
    /// this ordinal must not get the sessions.
    fn identity_deleted(&mut self, id: &Id) {
        let Some(ordinal) = self.snapshot.ordinal_of::<Identity>(id) else { return };
        let sessions = self.identities.get(id).map(|own| own.sessions.clone());
        self.remove(&sessions.unwrap_or_default());
        for feed in self.feeds.values_mut() {
            feed.allowed.remove(ordinal);
        }
    }

    /// Handles an identity that is new or in other policies.
    fn identity_changed(&mut self, id: &Id) {
        let Some(ordinal) = self.snapshot.ordinal_of::<Identity>(id) else { return };
        let usable = self.snapshot.routers_of_identity(id);
        let mut sessions: Vec<Arc<AnnouncedSession>> = Vec::new();
        if let Some(own) = self.identities.get_mut(id) {
            let before = own.ordinal.replace(ordinal);
            debug_assert!(before.is_none_or(|before| before == ordinal), "ordinals stay");
            for session in &own.sessions {
                if let Some(known) = self.sessions.get_mut(session) {
                    known.ordinal = Some(ordinal);
                    self.shelves.put(ordinal, Row::new(Arc::clone(&known.told)));
                    sessions.push(Arc::clone(&known.told));
                }
            }
        }
        let sessions: Arc<[Arc<AnnouncedSession>]> = sessions.into();
        self.feeds.retain(|_, feed| {
            let may = feed.ordinal.is_some_and(|router| usable.contains(router));
            let say = match (feed.allowed.contains(ordinal), may) {
                (false, true) => Say::Added(Arc::clone(&sessions)),
                (true, false) => Say::Removed(Arc::clone(&sessions)),
                _ => return true,
            };
            match may {
                true => feed.allowed.insert(ordinal),
                false => feed.allowed.remove(ordinal),
            };
            sessions.is_empty() || feed.pending.tell(&say)
        });
    }

    /// Handles a router that other identities may use now.
    fn router_changed(&mut self, connection: u64) {
        let Some(feed) = self.feeds.get_mut(&connection) else { return };
        feed.ordinal = self.snapshot.ordinal_of::<Router>(&feed.router);
        let allowed = self.snapshot.identities_of_router(&feed.router);
        let now = (&allowed - &feed.allowed) & self.shelves.filled();
        let no_more = (&feed.allowed - &allowed) & self.shelves.filled();
        feed.allowed = allowed;
        let gone = self.sessions_of(&no_more).map(Say::Removed);
        let come = self.sessions_of(&now).map(Say::Added);
        let Some(feed) = self.feeds.get(&connection) else { return };
        let queued = [gone, come].into_iter().all(|say| match say {
            Some(Say::Added(sessions) | Say::Removed(sessions)) if sessions.is_empty() => true,
            Some(say) => feed.pending.tell(&say),
            None => false,
        });
        if !queued {
            self.feeds.remove(&connection);
        }
    }

    /// The sessions of identities; none if they are too many for notices.
    fn sessions_of(&self, ordinals: &RoaringBitmap) -> Option<Arc<[Arc<AnnouncedSession>]>> {
        let mut found = Vec::new();
        for ordinal in ordinals {
            found.extend(self.shelves.at(ordinal).iter().map(|row| Arc::clone(&row.told)));
            if found.len() > BULK {
                return None;
            }
        }
        Some(found.into())
    }
}

/// The routers that a policy selected before or selects now.
fn routers_of(published: &Published, policy: &Id) -> Vec<Id> {
    let side = EdgeRouterPolicy::EDGE_ROUTERS;
    let snapshots = [&published.before, &published.after];
    let members = snapshots.map(|it| it.members_of::<EdgeRouterPolicy>(policy, side));
    members.into_iter().flatten().map(|router| router.id().clone()).collect()
}
