//! Whether terminators are still there: routers are asked about those they reported, when they
//! connect and soon after each was made. What a router no longer hosts is removed
//! (docs/protocol/control-plane.md 15.4).

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_model::entity::Terminator;
use weft_model::{Change, Entity, Id, Kind};
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{self, ValidateTerminatorsV2Request, ValidateTerminatorsV2Response};

use super::Network;
use super::routers::LiveRouter;
use crate::{Notice, Published};

/// How long a router has to answer before it is asked again.
const ANSWER_TIME: Duration = Duration::from_secs(180);
/// Terminators removed in one change.
const BATCH: usize = 100;

/// What is to be asked of whom.
#[derive(Debug, Default)]
pub struct Validations {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    routers: HashMap<Id, Check>,
    /// Routers that have connected and are to be asked at once.
    connected: HashSet<Id>,
    last_marker: u64,
}

#[derive(Debug, Default)]
struct Check {
    /// Markers of the terminators that nobody has vouched for yet.
    pending: HashMap<Id, u64>,
    /// When the question was sent that is not answered yet.
    asked: Option<Instant>,
}

impl Validations {
    fn add(&self, router: &Id, terminators: impl Iterator<Item = Id>) {
        let mut state = self.state.lock();
        for terminator in terminators {
            state.last_marker += 1;
            let marker = state.last_marker;
            let check = state.routers.entry(router.clone()).or_default();
            check.pending.insert(terminator, marker);
        }
    }

    /// A router is gone; it is asked about everything when it comes back.
    pub(super) fn forget(&self, router: &Id) {
        let mut state = self.state.lock();
        state.routers.remove(router);
        state.connected.remove(router);
    }

    /// The routers that have connected since the last call.
    fn take_connected(&self) -> Vec<Id> {
        self.state.lock().connected.drain().collect()
    }

    /// The routers with terminators that nobody has vouched for.
    fn waiting(&self) -> Vec<Id> {
        let mut state = self.state.lock();
        state.routers.retain(|_, check| !check.pending.is_empty());
        state.routers.keys().cloned().collect()
    }

    /// What there is to ask of a router now.
    fn due(&self, router: &Id, is_due: impl Fn(&Id) -> Due) -> Vec<(Id, u64)> {
        let mut state = self.state.lock();
        let Some(check) = state.routers.get_mut(router) else { return Vec::new() };
        if check.asked.is_some_and(|at| at.elapsed() < ANSWER_TIME) {
            return Vec::new();
        }
        let mut due = Vec::new();
        check.pending.retain(|id, marker| match is_due(id) {
            Due::Now => {
                due.push((id.clone(), *marker));
                true
            }
            Due::Later => true,
            Due::Never => false,
        });
        check.asked = (!due.is_empty()).then(Instant::now);
        due
    }

    /// Takes an answer in, and says which terminators are to be removed.
    fn answered(&self, router: &Id, answer: &ValidateTerminatorsV2Response) -> Vec<Id> {
        let mut state = self.state.lock();
        let Some(check) = state.routers.get_mut(router) else { return Vec::new() };
        check.asked = None;
        let mut gone = Vec::new();
        for (id, found) in &answer.states {
            let id = Id::new(id);
            let asked = check.pending.get(&id);
            if asked.is_none_or(|marker| found.marker != 0 && found.marker != *marker) {
                continue;
            }
            check.pending.remove(&id);
            if !found.valid {
                gone.push(id);
            }
        }
        gone
    }
}

/// Whether a terminator is to be asked about.
enum Due {
    Now,
    Later,
    Never,
}

impl Network {
    /// Asks a router that has connected about all of its terminators.
    pub(crate) fn validate_router(&self, router: &Id) {
        let snapshot = self.0.controller.snapshot();
        let own = snapshot.referring::<Terminator>(Terminator::ROUTER, router);
        self.0.validations.add(router, own.map(|terminator| terminator.base.id.clone()));
        self.0.validations.state.lock().connected.insert(router.clone());
        self.0.validations.wake.notify_one();
    }

    /// A router has answered.
    pub(crate) fn on_validated(
        &self,
        router: &Arc<LiveRouter>,
        answer: &ValidateTerminatorsV2Response,
    ) {
        let gone = self.0.validations.answered(&router.id, answer);
        if gone.is_empty() {
            return;
        }
        tracing::info!(router = %router.id, count = gone.len(), "removing terminators that the router does not host");
        let (network, router) = (self.clone(), router.id.clone());
        self.spawn(async move {
            for batch in gone.chunks(BATCH) {
                let done = network.0.controller.remove_terminators(&router, batch).await;
                if let Err(problem) = done {
                    tracing::warn!(%router, %problem, "terminators not removed, asking again");
                    network.0.validations.add(&router, batch.iter().cloned());
                }
            }
        });
    }

    /// Asks about what was made, and again about what routers did not answer.
    pub(super) async fn validate_terminators(self) {
        let (_, mut changes) = self.0.controller.subscribe();
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
        let snapshot = self.0.controller.snapshot();
        let now = self.0.controller.now();
        let routers = routers.iter().filter_map(|id| self.0.routers.get(id.as_str()));
        for router in routers {
            let is_due = |id: &Id| match snapshot.get::<Terminator>(id) {
                Some(one) if one.router_id != router.id => Due::Never,
                Some(one) if now.since(one.base.created_at) < self.0.options.validation_age => {
                    Due::Later
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::ctrl::RouterTerminatorState;

    #[test]
    fn only_what_was_asked_is_removed() {
        let (validations, r1) = (Validations::default(), Id::new("r1"));
        validations.add(&r1, ["t1", "t2", "t3"].into_iter().map(Id::new));
        let due = validations.due(&r1, |id| match id.as_str() {
            "t3" => Due::Later,
            _ => Due::Now,
        });
        assert_eq!(due.len(), 2);
        assert!(validations.due(&r1, |_| Due::Now).is_empty(), "one question at a time");
        let state = |marker| RouterTerminatorState { marker, ..RouterTerminatorState::default() };
        let marker = |id: &str| due.iter().find(|(own, _)| own.as_str() == id).unwrap().1;
        let answer = ValidateTerminatorsV2Response {
            states: [
                ("t1".to_owned(), state(marker("t1"))),
                ("t2".to_owned(), state(marker("t2") + 77)),
                ("t9".to_owned(), state(0)),
            ]
            .into(),
        };
        assert_eq!(validations.answered(&r1, &answer), [Id::new("t1")]);
        let again: Vec<_> = validations.due(&r1, |_| Due::Now);
        assert_eq!(again.len(), 2, "t2 was not answered, t3 not asked yet");
        assert_eq!(validations.waiting(), std::slice::from_ref(&r1));
        validations.forget(&r1);
        assert!(validations.due(&r1, |_| Due::Now).is_empty());
        assert!(validations.waiting().is_empty(), "nobody else is looked at");
    }
}
