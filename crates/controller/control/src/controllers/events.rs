//! Events about the controllers of the network (docs/protocol/operations.md 4.3, `cluster`).

use std::sync::Arc;

use tokio::time::{Duration, MissedTickBehavior, interval};
use weft_kernel::events::{ClusterChange, ClusterEvent, ClusterPeer, Event};
use weft_model::Id;
use weft_model::entity::ControllerMember;

use crate::plane::Plane;

/// The interval at which it is looked whether this controller can write.
const LOOK: Duration = Duration::from_secs(1);

/// How a controller stands to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    leads: bool,
    has_leader: bool,
    writes: bool,
}

/// The changes between two states.
fn changes(before: Standing, after: Standing) -> impl Iterator<Item = ClusterChange> {
    use ClusterChange as Change;
    let change = |before: bool, after: bool, changes: [Change; 2]| {
        (before != after).then(|| changes[usize::from(after)])
    };
    [
        change(before.writes, after.writes, [Change::ReadOnly, Change::ReadWrite]),
        change(before.has_leader, after.has_leader, [Change::IsLeaderless, Change::HasLeader]),
        change(before.leads, after.leads, [Change::LeadershipLost, Change::LeadershipGained]),
    ]
    .into_iter()
    .flatten()
}

impl Plane {
    /// Tells an event about controllers. `peer`: the one that it is about; all members if there is none.
    pub(super) fn tell_cluster(&self, change: ClusterChange, peer: Option<&Id>) {
        let (kernel, snapshot) = (self.auth.kernel(), self.auth.kernel().snapshot());
        if !kernel.events().has_listeners() {
            return;
        }
        let state = self.controllers.state.lock();
        let shown = |member: &ControllerMember| {
            let id = &member.base.id;
            let own = *id.as_str() == *kernel.settings().id;
            let version = own.then(|| self.version().version);
            let version = version.or_else(|| Some(state.dialed.get(id)?.version.clone()));
            let apis = member.apis.iter().map(|it| (Arc::clone(&it.api), Arc::clone(&it.url)));
            ClusterPeer {
                id: id.clone(),
                address: member.ctrl_addresses.first().cloned().unwrap_or_default(),
                version: version.unwrap_or_default(),
                apis: apis.collect(),
            }
        };
        let peers = match peer {
            Some(id) => match snapshot.get::<ControllerMember>(id) {
                Some(member) => vec![shown(member)],
                // It was removed.
                None => vec![shown(&ControllerMember::invited(
                    id.clone(),
                    Default::default(),
                    kernel.now(),
                ))],
            },
            None => {
                let members = snapshot.list::<ControllerMember>().filter(|it| it.is_present());
                members.map(|member| shown(member)).collect()
            }
        };
        drop(state);
        let leader = self.auth.leader_name().map(|name| Id::new(&name));
        let (at, index) = (kernel.now(), snapshot.revision().0);
        kernel
            .events()
            .tell(Event::Cluster(ClusterEvent { at, change, index, peers, leader }.into()));
    }

    fn standing(&self) -> Standing {
        Standing {
            leads: self.auth.is_leader(),
            has_leader: self.auth.leader_name().is_some(),
            writes: !self.auth.kernel().cannot_write(),
        }
    }

    /// Tells events when this controller begins to lead or to write, or does so no more.
    pub(super) async fn follow_standing(self: Arc<Self>) {
        let Some(mut alive) = self.auth.kernel().settings().store.alive() else { return };
        let mut known = self.standing();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = alive.changed() => if changed.is_err() {
                    return;
                },
                _ = looks.tick() => {}
            }
            let now = self.standing();
            changes(known, now).for_each(|change| self.tell_cluster(change, None));
            known = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_by_the_names_of_the_protocol() {
        let [all, none] =
            [true, false].map(|is| Standing { leads: is, has_leader: is, writes: is });
        let names = |before, after| {
            let names = changes(before, after).map(|change| -> &'static str { change.into() });
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(none, all), ["state.rw", "state.has_leader", "leadership.gained"]);
        assert_eq!(names(all, none), ["state.ro", "state.is_leaderless", "leadership.lost"]);
        assert_eq!(names(all, Standing { leads: false, ..all }), ["leadership.lost"]);
        assert!(names(all, all).is_empty());
    }
}
