//! Whether terminators can be relied upon. Routers are asked whether they still host their terminators: when they
//! connect, soon after each terminator was made, and when a dial was refused and the refusal may be older than a report.
//! A terminator that its router does not host is removed (docs/protocol/control-plane.md 12.4, 15.4), and so is one whose
//! host has lost its right to host and whose router has kept it for longer than `NetworkOptions::unfounded_life`.
//!
//! [`machine`] decides, and this module carries out what it says.

pub(crate) mod machine;

use std::sync::Arc;
use std::time::Duration;

use weft_channel::Lane;
use weft_kernel::{Caller, Notice, Published};
use weft_model::entity::Terminator;
use weft_model::{Change, Entity, Id, Kind};
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{self, ValidateTerminatorsV2Request, ValidateTerminatorsV2Response};

use self::machine::{Answer, Due, Input, Output, Removal};
use crate::clock;
use crate::hosting::is_founded;
use crate::network::Network;
use crate::routers::LiveRouter;
use crate::terminators::Terminators;

/// Terminators removed in one change set.
const BATCH: usize = 100;

impl Network {
    /// Asks a router that has connected about all of its terminators.
    pub fn validate_router(&self, router: &Id) {
        let snapshot = self.0.kernel.with_held();
        let own = snapshot.referring::<Terminator>(Terminator::ROUTER, router);
        let own: Vec<Id> = own.map(|terminator| terminator.base.id.clone()).collect();
        self.note(Input::Doubted { router, terminators: &own, at_once: true });
    }

    /// Notes that a router is about to report a terminator again, which may change nothing in the model. An earlier
    /// answer of the router no longer removes the terminator, and the router is asked once more. Routers are asked
    /// about new terminators in any case.
    pub fn terminator_reported(&self, router: &Id, id: &Id) {
        let snapshot = self.0.kernel.with_held();
        if snapshot.get::<Terminator>(id).is_some_and(|known| known.router_id == *router) {
            self.note(Input::Reported { router, terminator: id });
        }
    }

    /// Handles a router's answer.
    pub fn on_validated(&self, router: &Arc<LiveRouter>, answer: &ValidateTerminatorsV2Response) {
        let answers = answer.states.iter().map(|(id, found)| Answer {
            terminator: Id::new(id),
            is_hosted: found.valid,
            number: found.marker,
        });
        let answers: Vec<Answer> = answers.collect();
        self.note(Input::Answered { router: &router.id, answers: &answers });
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
                _ = ticks.tick() => self.note(Input::Tick),
            }
        }
    }

    fn note_terminators(&self, published: &Published) {
        for change in published.changes.iter().flat_map(|set| &set.changes) {
            match change {
                Change::Put(Entity::Terminator(one))
                    if published.before.get::<Terminator>(&one.base.id).is_none() =>
                {
                    let (router, terminators) =
                        (&one.router_id, std::slice::from_ref(&one.base.id));
                    self.note(Input::Doubted { router, terminators, at_once: false });
                }
                Change::Delete(Kind::Terminator, id) => self.terminator_deleted(id),
                _ => {}
            }
        }
    }

    /// Gives the machine an input, and carries out what follows from it.
    pub(crate) fn note(&self, input: Input<'_>) {
        let outputs = self.0.standing.lock().step(clock::now(), input);
        for output in outputs {
            match output {
                Output::AskNow(router) => self.ask(&router),
                Output::Ask { router, terminators } => self.send_question(&router, &terminators),
                Output::Remove(removal) => self.spawn(self.clone().remove_denied(removal)),
                Output::Withdraw(ids) => self.spawn(self.clone().withdraw(ids)),
                Output::EndCircuits(id) => {
                    tracing::info!(terminator = %id, "terminator removed: its host has lost the right to host, and its router kept it");
                    self.end_circuits_to(&id);
                }
            }
        }
    }

    fn ask(&self, router: &Id) {
        let (snapshot, now) = (self.0.kernel.with_held(), self.0.kernel.now());
        // A terminator of the future was made before the clock was set back.
        let is_young = |one: &Terminator| {
            let made = one.base.created_at;
            (made..made.plus(self.0.options.validation_age)).contains(&now)
        };
        let due = |id: &Id| match snapshot.get::<Terminator>(id) {
            Some(one) if one.router_id != *router => Due::Never,
            Some(one) if is_young(one) => Due::Later,
            Some(one) => Due::Now(one.base.created_at),
            None => Due::Never,
        };
        self.note(Input::Ask { router, due: &due });
    }

    fn send_question(&self, router: &Id, terminators: &[(Id, u64)]) {
        let snapshot = self.0.kernel.with_held();
        let asked = terminators.iter().filter_map(|(id, number)| {
            let one = snapshot.get::<Terminator>(id)?;
            Some(ctrl::Terminator {
                id: id.to_string(),
                binding: one.binding.to_string(),
                address: one.address.to_string(),
                marker: *number,
            })
        });
        let terminators: Vec<_> = asked.collect();
        if terminators.is_empty() {
            // The terminators were removed since the machine chose them.
            return self.note(Input::Answered { router, answers: &[] });
        }
        let request =
            ValidateTerminatorsV2Request { terminators, fix_invalid: true, post_create: true };
        self.tell(router.as_str(), Lane::Default, request.to_message());
    }

    /// Removes terminators that their router does not host. Whether one is still denied is judged again in the change
    /// that removes it.
    async fn remove_denied(self, removal: Removal) {
        let Removal { router, terminators } = removal;
        for batch in terminators.chunks(BATCH) {
            let ids: Vec<Id> = batch.iter().map(|denied| denied.terminator.clone()).collect();
            let (network, of, denied) = (self.clone(), router.clone(), batch.to_vec());
            let is_denied = move |one: &Terminator| {
                let denied = denied.iter().find(|denied| denied.terminator == one.base.id);
                denied.is_some_and(|denied| {
                    denied.made == one.base.created_at
                        && network.0.standing.lock().may_remove(&of, denied)
                })
            };
            let caller = Caller::router(&router, "remove terminators");
            let terminators = Terminators::of(&self.0.kernel);
            let removed = terminators.remove_if(caller, &router, &ids, is_denied).await;
            match &removed {
                Ok(0) => {}
                Ok(count) => {
                    tracing::info!(%router, count, first = ?ids.first(), "terminators were removed, because their router does not host them");
                }
                Err(problem) => {
                    tracing::warn!(%router, %problem, "terminators were not removed; their router is asked again");
                }
            }
            let all = removed.is_ok_and(|count| count == ids.len());
            self.note(Input::Removed { router: &router, terminators: batch, all });
        }
    }

    /// Removes terminators whose hosts have lost the right to host. Whether a host has the right is judged again in the
    /// change that removes the terminator.
    async fn withdraw(self, terminators: Vec<Id>) {
        for batch in terminators.chunks(BATCH) {
            let now = self.0.kernel.now();
            let ids = batch.to_vec();
            let caller = Caller::own("terminators whose hosts have lost the right to host");
            let done = self.0.kernel.decide_or_hold(&caller, move |decision| {
                for id in &ids {
                    let found = decision.tip().get::<Terminator>(id);
                    if found.is_some_and(|found| !is_founded(decision.tip(), found, now)) {
                        decision.delete(Kind::Terminator, id)?;
                    }
                }
                Ok(())
            });
            let done = done.await;
            if let Err(problem) = &done {
                // The next dial that meets one of them notes it again.
                tracing::warn!(%problem, count = batch.len(), "terminators without a host that may host were not removed");
            }
            let snapshot = self.0.kernel.with_held();
            for id in batch {
                let is_removed = done.is_ok() && snapshot.get::<Terminator>(id).is_none();
                self.note(Input::Withdrawn { terminator: id, is_removed });
            }
        }
    }
}
