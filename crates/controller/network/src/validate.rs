//! Asks routers whether they still host their terminators: when they connect, and soon after each
//! terminator was made. A terminator that its router no longer hosts is removed
//! (docs/protocol/control-plane.md 15.4).

use std::sync::Arc;
use std::time::Duration;

use weft_kernel::{Caller, Notice, Published};
use weft_model::entity::Terminator;
use weft_model::{Change, Entity, Id, Kind};
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{self, ValidateTerminatorsV2Request, ValidateTerminatorsV2Response};

use super::routers::LiveRouter;
use crate::network::Network;
use crate::terminators::Terminators;
use crate::validations::{Due, Standing};

/// Terminators removed in one change set.
const BATCH: usize = 100;

impl Network {
    /// Asks a router that has connected about all of its terminators.
    pub fn validate_router(&self, router: &Id) {
        let snapshot = self.0.kernel.snapshot();
        let own = snapshot.referring::<Terminator>(Terminator::ROUTER, router);
        self.0.validations.add(router, own.map(|terminator| terminator.base.id.clone()));
        self.0.validations.state.lock().connected.insert(router.clone());
        self.0.validations.wake.notify_one();
    }

    /// Asks a router about one of its terminators; nothing if the router is not connected, because it is asked about
    /// all of them when it connects.
    pub(crate) fn validate_terminator(&self, router: &Id, id: &Id) {
        let _held = self.0.coming_or_going.lock();
        if self.0.routers.get(router.as_str()).is_some() {
            self.0.validations.add(router, std::iter::once(id.clone()));
            self.0.validations.state.lock().connected.insert(router.clone());
            self.0.validations.wake.notify_one();
        }
    }

    /// What is known of the terminators of a router now.
    pub(crate) fn standing(&self, router: &Id) -> Standing {
        let live = self.0.routers.get(router.as_str());
        let connection = live.map_or(0, |live| live.connection);
        Standing { connection, marker: self.0.validations.last_marker() }
    }

    /// Whether the router of a terminator has connected anew, or reported the terminator once more, since a dial.
    pub(crate) fn is_known_anew(&self, router: &Id, terminator: &Id, since: Standing) -> bool {
        self.standing(router).connection != since.connection
            || self.0.validations.was_reported_since(terminator, since.marker)
    }

    /// Notes that a router is about to report a terminator again, which may change nothing in the model. An earlier
    /// answer of the router no longer removes the terminator, and the router is asked once more. Routers are asked
    /// about new terminators in any case.
    pub fn terminator_reported(&self, router: &Id, id: &Id) {
        let snapshot = self.0.kernel.snapshot();
        if snapshot.get::<Terminator>(id).is_some_and(|known| known.router_id == *router) {
            self.0.validations.reported(router, id);
        }
    }

    /// Handles a router's answer.
    pub fn on_validated(&self, router: &Arc<LiveRouter>, answer: &ValidateTerminatorsV2Response) {
        let gone = self.0.validations.answered(&router.id, answer);
        if gone.is_empty() {
            return;
        }
        tracing::info!(router = %router.id, count = gone.len(), "terminators are removed, because their router does not host them");
        let (network, router) = (self.clone(), router.id.clone());
        self.spawn(async move {
            for batch in gone.chunks(BATCH) {
                let caller = Caller::router(&router, "remove terminators");
                let (asking, of) = (network.clone(), router.clone());
                // The router has reported a terminator again about which there is a newer question.
                let is_gone = move |one: &Terminator| !asking.0.validations.asks(&of, &one.base.id);
                let terminators = Terminators::of(&network.0.kernel);
                let done = terminators.remove_if(caller, &router, batch, is_gone).await;
                if let Err(problem) = done {
                    tracing::warn!(%router, %problem, "terminators were not removed; their router is asked again");
                    network.0.validations.add(&router, batch.iter().cloned());
                }
            }
        });
    }

    /// Asks about new terminators, and again about those that routers did not answer for.
    pub(super) async fn validate_terminators(self) {
        let (_, mut changes) = self.0.kernel.subscribe();
        let interval = self.0.options.validation_interval.max(Duration::from_millis(10));
        let mut ticks = tokio::time::interval(interval);
        loop {
            tokio::select! {
                notice = changes.next() => match notice {
                    Some(Notice::Change(published)) => self.note_terminators(&published),
                    Some(Notice::Resync(_)) => {
                        for router in self.0.routers.all() {
                            self.validate_router(&router.id);
                        }
                    }
                    None => return,
                },
                _ = ticks.tick() => self.ask(&self.0.validations.waiting()),
                () = self.0.validations.wake.notified() => {
                    self.ask(&self.0.validations.take_connected());
                }
            }
        }
    }

    fn note_terminators(&self, published: &Published) {
        for change in published.changes.iter().flat_map(|set| &set.changes) {
            match change {
                Change::Put(Entity::Terminator(terminator)) => {
                    let id = &terminator.base.id;
                    let is_new = published.before.get::<Terminator>(id).is_none();
                    if is_new && self.0.routers.get(terminator.router_id.as_str()).is_some() {
                        let one = std::iter::once(id.clone());
                        self.0.validations.add(&terminator.router_id, one);
                    }
                }
                Change::Delete(Kind::Terminator, id) => self.terminator_deleted(id),
                _ => {}
            }
        }
    }

    fn ask(&self, routers: &[Id]) {
        let snapshot = self.0.kernel.snapshot();
        let now = self.0.kernel.now();
        let routers = routers.iter().filter_map(|id| self.0.routers.get(id.as_str()));
        for router in routers {
            // A terminator of the future was made before the clock was set back.
            let is_young = |one: &Terminator| {
                let made = one.base.created_at;
                (made..made.plus(self.0.options.validation_age)).contains(&now)
            };
            let is_due = |id: &Id| match snapshot.get::<Terminator>(id) {
                Some(one) if one.router_id != router.id => Due::Never,
                Some(one) if is_young(one) => Due::Later,
                Some(_) => Due::Now,
                None => Due::Never,
            };
            let due = self.0.validations.due(&router.id, is_due);
            let asked = due.iter().filter_map(|(id, marker)| {
                let one = snapshot.get::<Terminator>(id)?;
                Some(ctrl::Terminator {
                    id: id.to_string(),
                    binding: one.binding.to_string(),
                    address: one.address.to_string(),
                    marker: *marker,
                })
            });
            let terminators: Vec<_> = asked.collect();
            if terminators.is_empty() {
                continue;
            }
            let request =
                ValidateTerminatorsV2Request { terminators, fix_invalid: true, post_create: true };
            self.tell(router.id.as_str(), weft_channel::Lane::Default, request.to_message());
        }
    }
}
