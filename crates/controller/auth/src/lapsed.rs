//! Enables identities whose time of being disabled is over, and unlocks passwords whose lock is over
//! (docs/protocol/auth.md 7.4). Routers follow changes of identities and compare no times: they need
//! a change to enable an identity. A lock that is over counts no more by itself; what is known of the
//! guesser goes with it.
//!
//! ```text
//! changes of identities    --> when each one's time is over --tick--> enabled or unlocked, in one
//!         and authenticators                                          change for each batch
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use weft_kernel::{Caller, Kernel, Notice, Result};
use weft_model::entity::{Authenticator, Identity};
use weft_model::{Change, Entity, Id, Kind, Snapshot, Timestamp};

use crate::handle::WeakAuth;

/// The interval at which times are checked.
const EVERY: Duration = Duration::from_secs(1);
/// Identities enabled, and passwords unlocked, in one change set.
const BATCH: usize = 500;

/// An identity, or the authenticator of a password.
type LapsingEntity = (Kind, Id);

/// Disabled identities, and authenticators of locked passwords, by the end of their time.
#[derive(Debug, Default)]
struct Due {
    by_time: BTreeSet<(Timestamp, LapsingEntity)>,
    by_id: HashMap<LapsingEntity, Timestamp>,
}

impl Due {
    /// The disabled identities and locked passwords of a snapshot.
    fn of(snapshot: &Snapshot) -> Self {
        let mut due = Self::default();
        snapshot.list::<Identity>().for_each(|identity| due.note_identity(identity));
        snapshot.list::<Authenticator>().for_each(|it| due.note_authenticator(it));
        due
    }

    /// Notes the present state of an identity.
    fn note_identity(&mut self, identity: &Identity) {
        let until = identity.disabled_at.and(identity.disabled_until);
        self.note(Kind::Identity, &identity.base.id, until);
    }

    /// Notes the present state of an authenticator.
    fn note_authenticator(&mut self, authenticator: &Authenticator) {
        let updb = authenticator.updb.as_ref();
        let until = updb.and_then(|updb| updb.locked_at.and(updb.locked_until));
        self.note(Kind::Authenticator, &authenticator.base.id, until);
    }

    fn note(&mut self, kind: Kind, id: &Id, until: Option<Timestamp>) {
        let entry = (kind, id.clone());
        if let Some(known) = self.by_id.remove(&entry) {
            self.by_time.remove(&(known, entry.clone()));
        }
        if let Some(until) = until {
            self.by_id.insert(entry.clone(), until);
            self.by_time.insert((until, entry));
        }
    }

    /// The first entries whose time is over. They stay listed until the change is published.
    fn over(&self, now: Timestamp) -> Vec<LapsingEntity> {
        let over = self.by_time.iter().take_while(|(until, _)| *until <= now);
        over.take(BATCH).map(|(_, entry)| entry.clone()).collect()
    }

    fn follow(&mut self, notice: &Notice) {
        match notice {
            Notice::Resync(snapshot) => *self = Self::of(snapshot),
            Notice::Change(published) => {
                for change in published.changes.iter().flat_map(|set| &set.changes) {
                    match change {
                        Change::Put(Entity::Identity(identity)) => self.note_identity(identity),
                        Change::Put(Entity::Authenticator(it)) => self.note_authenticator(it),
                        Change::Delete(kind, id) => self.note(*kind, id, None),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Enables identities, and unlocks passwords, whose time is over, until the controller stops.
pub async fn enable(weak: WeakAuth) {
    let Some((snapshot, mut changes)) = weak.upgrade().map(|auth| auth.kernel().subscribe()) else {
        return;
    };
    let mut due = Due::of(&snapshot);
    drop(snapshot);
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            notice = changes.next() => match notice {
                Some(notice) => due.follow(&notice),
                None => return,
            },
            _ = ticks.tick() => {
                let Some(auth) = weak.upgrade() else { return };
                // One of several controllers does it.
                if !auth.is_leader() {
                    continue;
                }
                let over = auth.agreed_now().map(|now| due.over(now)).unwrap_or_default();
                if over.is_empty() {
                    continue;
                }
                if let Err(error) = end_lapsed(auth.kernel(), over).await {
                    tracing::warn!(%error, "identities whose time of being disabled is over were not enabled, or passwords not unlocked; it is tried again");
                }
            }
        }
    }
}

/// Enables the identities, and unlocks the passwords, among these whose time is over.
async fn end_lapsed(kernel: &Kernel, entries: Vec<LapsingEntity>) -> Result<()> {
    kernel
        .decide(&Caller::own("end of disabling"), move |decision| {
            let (tip, now) = (decision.tip(), decision.now());
            // Each may have been disabled or locked anew meanwhile.
            for (kind, id) in &entries {
                let lapsed = |it: &&Arc<Identity>| it.disabled_at.is_some() && !it.is_disabled(now);
                let identity = tip.get::<Identity>(id).filter(lapsed);
                if let Some(identity) = identity.filter(|_| *kind == Kind::Identity) {
                    let mut identity = (**identity).clone();
                    identity.disabled_at = None;
                    identity.disabled_until = None;
                    identity.base.updated_at = now;
                    decision.put(identity);
                }
                let authenticator = tip.get::<Authenticator>(id);
                let authenticator = authenticator.filter(|_| *kind == Kind::Authenticator);
                if let Some(mut authenticator) = authenticator.map(|it| (**it).clone())
                    && let Some(updb) = authenticator.updb.as_mut()
                    && updb.locked_at.is_some()
                    && !updb.is_locked(now)
                {
                    updb.unlock();
                    authenticator.base.updated_at = now;
                    decision.put(authenticator);
                }
            }
            Ok(())
        })
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_due_once() {
        let mut due = Due::default();
        let mut identity = Identity { disabled_at: Some(Timestamp(1)), ..Identity::default() };
        for until in [30, 10, 20] {
            identity.disabled_until = Some(Timestamp(until));
            due.note_identity(&identity);
        }
        assert_eq!((due.by_time.len(), due.by_id.len()), (1, 1));
        assert!(due.over(Timestamp(19)).is_empty());
        assert_eq!(due.over(Timestamp(20)), [(Kind::Identity, identity.base.id.clone())]);
        identity.disabled_until = None;
        due.note_identity(&identity);
        assert!(due.over(Timestamp(1000)).is_empty() && due.by_id.is_empty());
    }
}
