//! The channels between the controllers of a network (docs/protocol/control-plane.md 31): what a change of the model or of
//! a session is too much for, and what has to go on while etcd has no quorum.
//!
//! ```text
//!  this controller                                   another one
//!  `dial`: a channel to each other controller ─────> `accept`: proved by the certificate in its entry
//!     posture data, all and then what changes ─────> tables of posture data
//!     what waits until etcd can be written ────────> sessions; terminators that are held
//!     wrong passwords ───────────────────────────────> counts, after which a password is locked
//!     its revision, every 5 s ─────────────────────> whether it is behind
//!     a call: circuits, one circuit, its end ──────> its own answer, within 1 s
//! ```
//!
//! Each controller dials all others, so that two of them have two channels; whoever dials, tells and asks. No change of the
//! network waits for one of these channels.

pub(crate) mod accept;
mod dial;
mod events;
mod passwords;
mod posture;
pub(crate) mod proof;
pub(crate) mod shared;
mod shown;
mod waiting;

use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use shared::Dialing;
use tokio::sync::Notify;
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientTls, client_config};
use weft_kernel::Notice;
use weft_kernel::events::ClusterChange;
use weft_model::{Id, Kind};

use crate::control_plane::ControlPlane;
use crate::plane::Plane;

impl ControlPlane {
    /// Starts to dial the other controllers, with this identity. A controller that is alone dials nobody.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn dial_controllers(&self, identity: &Arc<LiveIdentity>) -> weft_identity::Result<()> {
        if !self.0.auth.is_member() {
            return Ok(());
        }
        let tls = Arc::new(client_config(&ClientTls::of_identity(identity, &[]))?);
        if self.0.controllers.tls.set(tls).is_ok() {
            self.0.judge_what_was_heard();
            let shown = Arc::downgrade(&self.0);
            self.0.network.shows("connected-peers", move || {
                shown.upgrade().map_or(serde_json::Value::Null, |plane| plane.connected_peers())
            });
            let (plane, stop) = (Arc::clone(&self.0), self.0.stop.clone());
            self.0.network.spawn(async move {
                let following = futures::future::join(
                    Arc::clone(&plane).follow_members(),
                    plane.follow_standing(),
                );
                let _ = stop.run_until_cancelled(following).await;
            });
        }
        Ok(())
    }
}

impl Plane {
    /// Dials every controller that is a member, and closes the channels of those that are not any more.
    async fn follow_members(self: Arc<Self>) {
        let (_, mut changes) = self.auth.kernel().subscribe();
        self.look_at_members();
        while let Some(notice) = changes.next().await {
            let has_changed = match notice {
                Notice::Change(published) => {
                    let mut changes = published.changes.iter().flat_map(|set| &set.changes);
                    changes.any(|change| change.kind() == Kind::ControllerMember)
                }
                Notice::Resync(_) => true,
            };
            if has_changed {
                self.look_at_members();
                self.tell_cluster(ClusterChange::MembersChanged, None);
            }
        }
    }

    fn look_at_members(self: &Arc<Self>) {
        let Some(tls) = self.controllers.tls.get() else { return };
        let snapshot = self.auth.kernel().snapshot();
        let members = self.auth.other_members(&snapshot).filter(|it| it.is_present());
        let members: HashMap<Id, _> = members.map(|it| (it.base.id.clone(), it)).collect();
        let mut state = self.controllers.state.lock();
        state.dialing.retain(|id, task| {
            let stays = members.contains_key(id);
            if !stays {
                task.stop.cancel();
            }
            stays
        });
        let dialed = state.dialed.iter().map(|(id, it)| (id, it.leaf.as_ref(), &it.channel));
        let accepted =
            state.accepted.iter().map(|it| (&it.controller, Some(&it.leaf), &it.channel));
        let mut strangers = HashSet::new();
        for (id, leaf, channel) in dialed.chain(accepted) {
            let member = members.get(id);
            if !member.is_some_and(|it| leaf.is_some_and(|leaf| proof::is_of(it, leaf))) {
                channel.close("it is no member of the network, or has another certificate");
                strangers.insert(id.clone());
            }
        }
        for id in members.into_keys() {
            state.dialing.entry(id.clone()).or_insert_with(|| {
                let stop = self.stop.child_token();
                let is_there = Arc::<Notify>::default();
                let (plane, tls, ended) = (Arc::clone(self), Arc::clone(tls), stop.clone());
                let wakes = Arc::clone(&is_there);
                self.network.spawn(async move {
                    let dialing = plane.keep_dialed(id, tls, &wakes);
                    let _ = ended.run_until_cancelled(dialing).await;
                });
                Dialing { stop, is_there }
            });
        }
        drop(state);
        strangers.iter().for_each(|id| self.tell_cluster(ClusterChange::PeerNotMember, Some(id)));
    }

    /// Notes which controllers are alive, by their names.
    pub(crate) fn note_alive(&self, alive: HashSet<Id>) {
        self.controllers.state.lock().note_alive(alive, Instant::now());
        self.judge_what_was_heard();
    }

    /// To be called when another controller is alive or has ended, has told all or is heard no more, and at intervals.
    pub(crate) fn judge_what_was_heard(&self) {
        if self.controllers.tls.get().is_none() {
            return;
        }
        let snapshot = self.auth.kernel().snapshot();
        let members = self.auth.other_members(&snapshot).filter(|it| it.is_present());
        let members: HashSet<&Id> = members.map(|it| &it.base.id).collect();
        // Whoever decides applies the decision before anybody else does.
        let mut state = self.controllers.state.lock();
        let has_heard_all = state.judge_heard(&members, Instant::now());
        let excused = self.auth.heard_all_postures(has_heard_all);
        drop(state);
        if !excused.is_empty() {
            let auth = self.auth.clone();
            tokio::task::spawn_blocking(move || auth.judge_excused(&excused));
        }
    }
}
