//! Identities that are disabled for a while, by an administrator or by a lockout, are enabled when
//! the time is over (docs/protocol/auth.md 7.4). Whoever looks at the clock sees that by himself;
//! routers are told of changes only, so there has to be one.
//!
//! ```text
//! changes of identities --> when each one's time is over --tick--> enabled, in one change each batch
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Weak;
use std::time::Duration;

use weft_model::entity::Identity;
use weft_model::{Change, Entity, Id, Kind, Snapshot, Timestamp};

use crate::{Caller, Controller, Core, Failure, Notice};

/// How often the clock is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Most that are enabled in one change.
const BATCH: usize = 500;

/// Whose time is over when.
#[derive(Debug, Default)]
struct Due {
    by_time: BTreeSet<(Timestamp, Id)>,
    by_id: HashMap<Id, Timestamp>,
}

impl Due {
    /// Everybody of a network.
    fn of(snapshot: &Snapshot) -> Self {
        let mut due = Self::default();
        snapshot.list::<Identity>().for_each(|identity| due.note(identity));
        due
    }

    /// What is known of an identity now.
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

    /// The first of those whose time is over. They stay until the change is heard of.
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

/// Enables identities whose time is over, for as long as the controller lives.
pub(crate) async fn enable(core: Weak<Core>) {
    let Some((snapshot, mut changes)) = core.upgrade().map(|core| core.writer.subscribe()) else {
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
                let Some(core) = core.upgrade() else { return };
                let controller = Controller(core);
                let over = due.over(controller.now());
                if over.is_empty() {
                    continue;
                }
                if let Err(error) = controller.enable_lapsed(over).await {
                    tracing::warn!(%error, "identities whose time is over stay disabled for now");
                }
            }
        }
    }
}

impl Controller {
    /// Enables those of these identities whose time is over.
    async fn enable_lapsed(&self, ids: Vec<Id>) -> Result<(), Failure> {
        self.decide(&Caller::own("end of disabling"), move |decision| {
            for id in &ids {
                let now = decision.now();
                // One may have been disabled anew meanwhile.
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
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Bed, until};

    #[tokio::test]
    async fn whose_time_is_over_is_enabled_and_routers_hear_of_it() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let mut ids = Vec::new();
        for (name, minutes) in [("short", 1), ("long", 10), ("ever", 0)] {
            let body = json!({"name": name, "type": "Default", "isAdmin": false});
            let id = bed.create(&admin, "createIdentity", body).await;
            let body = json!({"durationMinutes": minutes});
            bed.manage(&admin, "disableIdentity", &[&id], body).await.unwrap();
            ids.push(Id::new(&id));
        }
        // Also of a controller that was not there at the time.
        let bed = bed.restarted().await;
        let mut changes = bed.controller.subscribe().1;
        let is_marked = |at: usize| {
            let snapshot = bed.controller.snapshot();
            snapshot.get::<Identity>(&ids[at]).unwrap().disabled_at.is_some()
        };
        assert!([0, 1, 2].into_iter().all(is_marked));
        bed.clock.advance(Duration::from_secs(60));
        until("the first is enabled", || !is_marked(0)).await;
        assert!(is_marked(1) && is_marked(2));
        let Some(Notice::Change(heard)) = changes.next().await else { panic!("no change") };
        let put =
            |it: &Change| matches!(it, Change::Put(Entity::Identity(it)) if it.base.id == ids[0]);
        assert!(heard.changes.iter().flat_map(|set| &set.changes).any(put));

        // Disabled anew, and for longer, while its time runs.
        let admin = bed.admin().await;
        let body = json!({"durationMinutes": 30});
        bed.manage(&admin, "disableIdentity", &[ids[1].as_str()], body).await.unwrap();
        let body = json!({"durationMinutes": 1});
        bed.manage(&admin, "disableIdentity", &[ids[0].as_str()], body).await.unwrap();
        bed.clock.advance(Duration::from_secs(900));
        until("the first is enabled again", || !is_marked(0)).await;
        assert!(is_marked(1) && is_marked(2));
        bed.manage(&admin, "enableIdentity", &[ids[1].as_str()], Value::Null).await.unwrap();
    }

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
