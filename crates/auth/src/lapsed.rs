//! Enables identities whose time of being disabled, by an administrator or by a lockout, is over
//! (docs/protocol/auth.md 7.4). Routers follow changes of identities and compare no times: they need
//! a change to enable an identity.
//!
//! ```text
//! changes of identities --> when each one's time is over --tick--> enabled, in one change each batch
//! ```

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use weft_kernel::{Caller, Failure, Kernel, Notice};
use weft_model::entity::Identity;
use weft_model::{Change, Entity, Id, Kind, Snapshot, Timestamp};

use crate::handle::WeakAuth;

/// The interval at which times are checked.
const EVERY: Duration = Duration::from_secs(1);
/// Identities enabled in one change set.
const BATCH: usize = 500;

/// Disabled identities by the end of their time.
#[derive(Debug, Default)]
struct Due {
    by_time: BTreeSet<(Timestamp, Id)>,
    by_id: HashMap<Id, Timestamp>,
}

impl Due {
    /// The disabled identities of a snapshot.
    fn of(snapshot: &Snapshot) -> Self {
        let mut due = Self::default();
        snapshot.list::<Identity>().for_each(|identity| due.note(identity));
        due
    }

    /// Notes the present state of an identity.
    fn note(&mut self, identity: &Identity) {
        self.forget(&identity.base.id);
        if let (Some(_), Some(until)) = (identity.disabled_at, identity.disabled_until) {
            self.by_id.insert(identity.base.id.clone(), until);
            self.by_time.insert((until, identity.base.id.clone()));
        }
    }

    fn forget(&mut self, id: &Id) {
        if let Some(until) = self.by_id.remove(id) {
            self.by_time.remove(&(until, id.clone()));
        }
    }

    /// The first identities whose time is over. They stay listed until the change is published.
    fn over(&self, now: Timestamp) -> Vec<Id> {
        let over = self.by_time.iter().take_while(|(until, _)| *until <= now);
        over.take(BATCH).map(|(_, id)| id.clone()).collect()
    }

    fn follow(&mut self, notice: &Notice) {
        match notice {
            Notice::Resync(snapshot) => *self = Self::of(snapshot),
            Notice::Change(published) => {
                for change in published.changes.iter().flat_map(|set| &set.changes) {
                    match change {
                        Change::Put(Entity::Identity(identity)) => self.note(identity),
                        Change::Delete(Kind::Identity, id) => self.forget(id),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Enables identities whose time is over, until the controller stops.
pub async fn enable(weak: WeakAuth) {
    let Some((snapshot, mut changes)) = weak.upgrade().map(|auth| auth.subscribe()) else {
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
                let over = due.over(auth.now());
                if over.is_empty() {
                    continue;
                }
                if let Err(error) = enable_lapsed(&auth, over).await {
                    tracing::warn!(%error, "identities whose time of being disabled is over were not enabled; it is tried again");
                }
            }
        }
    }
}

/// Enables the identities among `ids` whose time of being disabled is over.
async fn enable_lapsed(kernel: &Kernel, ids: Vec<Id>) -> Result<(), Failure> {
    kernel
        .decide(&Caller::own("end of disabling"), move |decision| {
            for id in &ids {
                let now = decision.now();
                // An identity may have been disabled anew meanwhile.
                let lapsed = |it: &Identity| it.disabled_at.is_some() && !it.is_disabled(now);
                let current = decision.tip().get::<Identity>(id).filter(|it| lapsed(it));
                if let Some(mut identity) = current.map(|it| (**it).clone()) {
                    identity.disabled_at = None;
                    identity.disabled_until = None;
                    identity.base.updated_at = now;
                    decision.put(identity);
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
            due.note(&identity);
        }
        assert_eq!((due.by_time.len(), due.by_id.len()), (1, 1));
        assert!(due.over(Timestamp(19)).is_empty());
        assert_eq!(due.over(Timestamp(20)), [identity.base.id.clone()]);
        identity.disabled_until = None;
        due.note(&identity);
        assert!(due.over(Timestamp(1000)).is_empty() && due.by_id.is_empty());
    }
}
