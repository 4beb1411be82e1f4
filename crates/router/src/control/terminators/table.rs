//! The terminators of this router and the requests about them that are under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use weft_circuit::now;
use weft_limits::{
    AdaptiveWindow, FairSemaphore, Permit, Quota, Ticket, WindowOptions, WorkOutcome as Load,
};

use super::answer::CreateReply;
use super::removals::Removals;
use super::untold::Untold;
use crate::seam::{ControllerId, TerminatorHost, TerminatorPrecedence, TerminatorRequest};

/// The terminators of this router.
pub(crate) struct Terminators {
    /// Held while a terminator is queued for removal or taken off the queue, so that both follow the
    /// order of the changes here.
    pub(super) entries: Mutex<HashMap<String, Arc<Registration>>>,
    window: Mutex<AdaptiveWindow>,
    /// The turns of requests under way (`forwarder.rateLimitedWorkerCount`) and of those that wait
    /// (`forwarder.rateLimitedQueueLength`): hosts come one after the other, however many terminators each of them has.
    turns: Arc<FairSemaphore<Arc<str>>>,
    /// Notified when a request has left the window.
    room: Notify,
    pub(super) removals: Removals,
}

/// One terminator.
pub(crate) struct Registration {
    pub(super) state: Mutex<State>,
    /// Notified when its controller is connected again.
    pub(super) returned: Notify,
    /// Notified when a controller asked about the terminator.
    pub(super) asked: Notify,
    pub(super) stop: CancellationToken,
    pub(super) untold: Mutex<Untold>,
}

pub(super) struct State {
    pub(super) request: TerminatorRequest,
    pub(super) phase: Phase,
    /// Takes the answer to the request under way.
    pub(super) answer: Option<oneshot::Sender<CreateReply>>,
    /// The controller at which the terminator was made.
    pub(super) at: Option<ControllerId>,
    pub(super) created: SystemTime,
    pub(super) last_attempt: Option<SystemTime>,
}

/// The state of a terminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The terminator is being made.
    Establishing,
    /// A controller has it.
    Established,
    /// A controller had it before the connection was lost.
    Unconfirmed,
}

/// A terminator as inspections show it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) tunnel: bool,
    pub(crate) instance: String,
    pub(crate) cost: u16,
    pub(crate) precedence: TerminatorPrecedence,
    pub(crate) phase: Phase,
    pub(crate) created: SystemTime,
    pub(crate) last_attempt: Option<SystemTime>,
}

impl Terminators {
    pub(crate) fn new(limits: WindowOptions, workers: usize, queue: usize) -> Self {
        Self {
            entries: Mutex::default(),
            window: Mutex::new(AdaptiveWindow::new(limits)),
            turns: FairSemaphore::with_queue(
                Quota::new(workers.max(1), usize::MAX),
                queue,
                usize::MAX,
            ),
            room: Notify::new(),
            removals: Removals::default(),
        }
    }

    /// The number of terminators whose removal no controller has confirmed.
    pub(in crate::control) fn removals(&self) -> usize {
        self.removals.len()
    }

    /// The number of requests under way, and the most that may be.
    pub(in crate::control) fn window(&self) -> (usize, usize) {
        let window = self.window.lock();
        (window.in_flight(), window.size() as usize)
    }

    /// Handles an answer that is no reply to a waiting request. Some controllers do not name the
    /// request; their answers are matched by terminator. An answer that does name its request is
    /// late (`is_late`).
    pub(crate) fn on_answer(&self, answer: CreateReply, is_late: bool) {
        let Some(entry) = self.entry(&answer.terminator) else {
            // The terminator was removed while it was made.
            if answer.is_success() {
                self.removals.add([answer.terminator]);
            }
            return;
        };
        if is_late {
            return;
        }
        let waiting = entry.state.lock().answer.take();
        if let Some(waiting) = waiting {
            // The task that waited may have given up.
            let _ = waiting.send(answer);
        }
    }

    /// A controller asked about a living terminator: the controller has it.
    pub(crate) fn confirm(&self, id: &str) {
        let Some(entry) = self.entry(id) else { return };
        let mut state = entry.state.lock();
        if state.phase == Phase::Unconfirmed {
            state.phase = Phase::Established;
            drop(state);
            entry.asked.notify_one();
        }
    }

    /// A controller has connected again.
    pub(crate) fn on_connected(&self, controller: &ControllerId) {
        let entries: Vec<Arc<Registration>> = self.entries.lock().values().cloned().collect();
        for entry in entries {
            let mut state = entry.state.lock();
            if state.phase == Phase::Established && state.at.as_ref() == Some(controller) {
                state.phase = Phase::Unconfirmed;
                drop(state);
                entry.returned.notify_one();
            }
        }
    }

    /// True if a binding wants this terminator.
    pub(crate) fn wants(&self, id: &str) -> bool {
        self.entries.lock().contains_key(id)
    }

    /// All terminators, for inspections.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let entries = self.entries.lock();
        let seen = entries.values().map(|entry| {
            let state = entry.state.lock();
            Seen {
                id: state.request.id.clone(),
                tunnel: matches!(state.request.host, TerminatorHost::Tunnel { .. }),
                instance: state.request.instance.clone(),
                cost: state.request.cost,
                precedence: state.request.precedence,
                phase: state.phase,
                created: state.created,
                last_attempt: state.last_attempt,
            }
        });
        seen.collect()
    }

    /// Queues terminators for removal at a controller.
    pub(crate) fn remove(&self, ids: impl IntoIterator<Item = String>) {
        let ids: Vec<String> = ids.into_iter().collect();
        let mut entries = self.entries.lock();
        let known: Vec<Arc<Registration>> =
            ids.iter().filter_map(|id| entries.remove(id)).collect();
        self.removals.add(ids);
        drop(entries);
        known.iter().for_each(|entry| entry.stop.cancel());
    }

    /// Queues the terminator of an entry for removal, unless another entry took its place.
    pub(super) fn remove_entry(&self, entry: &Arc<Registration>) {
        let id = entry.state.lock().request.id.clone();
        let mut entries = self.entries.lock();
        if entries.get(&id).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            entries.remove(&id);
            self.removals.add([id]);
            drop(entries);
            entry.stop.cancel();
        }
    }

    pub(super) fn entry(&self, id: &str) -> Option<Arc<Registration>> {
        self.entries.lock().get(id).cloned()
    }

    /// True if this is still the entry of its terminator.
    pub(super) fn is_current(&self, entry: &Arc<Registration>) -> bool {
        let id = entry.state.lock().request.id.clone();
        self.entry(&id).is_some_and(|known| Arc::ptr_eq(&known, entry))
    }

    /// Removes an entry unless another one took its place; true if it was removed.
    pub(super) fn forget(&self, entry: &Arc<Registration>) -> bool {
        let id = entry.state.lock().request.id.clone();
        let mut entries = self.entries.lock();
        let same = entries.get(&id).is_some_and(|known| Arc::ptr_eq(known, entry));
        if same {
            entries.remove(&id);
        }
        same
    }

    /// Waits for the turn of a host and for room in the window; `None` if too many wait already, and no host has
    /// more of them than this one.
    pub(super) async fn slot(&self, host: &str) -> Option<Slot<'_>> {
        let turn = self.turns.acquire(host.into()).await?;
        loop {
            let room = self.room.notified();
            if let Some(ticket) = self.window.lock().try_start(now()) {
                return Some(Slot { terminators: self, ticket: Some(ticket), _turn: turn });
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), room).await;
        }
    }
}

/// Room in the window and a turn, released when dropped.
pub(super) struct Slot<'a> {
    terminators: &'a Terminators,
    ticket: Option<Ticket>,
    _turn: Permit<Arc<str>>,
}

impl Slot<'_> {
    pub(super) fn finish(mut self, load: Load) {
        self.give_back(load);
    }

    fn give_back(&mut self, load: Load) {
        if let Some(ticket) = self.ticket.take() {
            self.terminators.window.lock().finish(ticket, load);
            self.terminators.room.notify_one();
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.give_back(Load::Neutral);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminators(workers: usize, queue: usize) -> Terminators {
        let wide = WindowOptions { min_size: 100, max_size: 100, ..WindowOptions::default() };
        Terminators::new(wide, workers, queue)
    }

    #[tokio::test]
    async fn so_many_ask_and_so_many_wait() {
        let terminators = Arc::new(terminators(2, 1));
        let first = terminators.slot("a").await.unwrap();
        let _second = terminators.slot("a").await.unwrap();
        let waiting = terminators.clone();
        let third = tokio::spawn(async move { waiting.slot("a").await.is_some() });
        while terminators.turns.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        // The queue is full.
        assert!(terminators.slot("a").await.is_none());
        assert!(!third.is_finished());
        first.finish(Load::Success);
        assert!(third.await.unwrap());
    }

    #[tokio::test]
    async fn a_host_waits_for_one_turn_of_another_however_many_terminators_that_has() {
        let terminators = Arc::new(terminators(1, 100));
        let first = terminators.slot("greedy").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut all = Vec::new();
        for host in ["greedy", "greedy", "greedy", "modest", "greedy"] {
            let (terminators, order) = (&terminators, &order);
            let mut waits = Box::pin(async move {
                let slot = terminators.slot(host).await;
                order.lock().push(host);
                drop(slot);
            });
            assert!(futures::poll!(&mut waits).is_pending());
            all.push(waits);
        }
        // A terminator that is removed meanwhile holds up no other.
        drop(all.remove(0));
        assert_eq!(terminators.turns.waiting(), 4);
        drop(first);
        futures::future::join_all(all).await;
        assert_eq!(*order.lock(), ["greedy", "modest", "greedy", "greedy"]);
        assert!(terminators.slot("greedy").await.is_some(), "every turn has come back");
    }
}
