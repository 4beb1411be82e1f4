//! Terminators: made, kept over reconnects, changed and removed.
//!
//! Each terminator that a binding wants has a task. It asks a controller, within a window that
//! shrinks when controllers are busy, until the terminator is there or refused for good. When the
//! controller comes back after its connection was lost, the terminator waits a while for the
//! controller to ask about it, which shows that it is still known there, and is made again if that
//! does not happen; making it twice is harmless. Removals are gathered and repeated until a
//! controller confirms them
//! (docs/protocol/edge-control-plane.md 14, 15; docs/protocol/control-plane.md 15).

mod answer;
pub(crate) mod removal;
mod request;
mod telling;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;
use weft_channel::RequestError;
use weft_limits::{AdaptiveWindow, Outcome as Load, Ticket, WindowOptions};
use weft_wire::edge_ctrl::ErrorCode;

pub(crate) use answer::Answer;
use answer::Verdict;
use removal::Removals;
use telling::Untold;

use super::{Core, circuits::refusal};
use crate::{
    controllers::Controller,
    seam::{
        ControllerId, Host, Precedence, Refusal, RetryHint, TerminatorRequest, TerminatorUpdate,
    },
};

/// Failures of no known cause in a row that make a refusal.
const MAX_FAILURES: u32 = 3;
/// Most terminators in one removal.
const REMOVAL_BATCH: usize = 50;
/// First and longest wait after a controller was busy or away.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Wait after a terminator of the router itself was refused; policies may change.
const REFUSED_WAIT: Duration = Duration::from_secs(120);

/// The terminators of this router.
pub(crate) struct Terminators {
    entries: Mutex<HashMap<String, Arc<Entry>>>,
    window: Mutex<AdaptiveWindow>,
    /// Who asks controllers (`forwarder.rateLimitedWorkerCount`).
    workers: Semaphore,
    /// Who waits for one of them (`forwarder.rateLimitedQueueLength`).
    queue: Semaphore,
    /// Work has left the window.
    room: Notify,
    removals: Removals,
}

/// One terminator.
pub(crate) struct Entry {
    state: Mutex<State>,
    /// Its controller is there again.
    returned: Notify,
    /// A controller asked about it.
    asked: Notify,
    stop: CancellationToken,
    untold: Mutex<Untold>,
}

struct State {
    request: TerminatorRequest,
    phase: Phase,
    /// Takes the answer of the request under way.
    answer: Option<oneshot::Sender<Answer>>,
    /// The controller it was made at.
    at: Option<ControllerId>,
    created: SystemTime,
    last_attempt: Option<SystemTime>,
}

/// How far a terminator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being made.
    Establishing,
    /// It is there.
    Established,
    /// It was there before the connection to its controller was lost.
    Unconfirmed,
}

/// What is told about a terminator when somebody looks.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) tunnel: bool,
    pub(crate) instance: String,
    pub(crate) cost: u16,
    pub(crate) precedence: Precedence,
    pub(crate) phase: Phase,
    pub(crate) created: SystemTime,
    pub(crate) last_attempt: Option<SystemTime>,
}

impl Terminators {
    pub(crate) fn new(limits: WindowOptions, workers: usize, queue: usize) -> Self {
        Self {
            entries: Mutex::default(),
            window: Mutex::new(AdaptiveWindow::new(limits)),
            workers: Semaphore::new(workers.max(1)),
            queue: Semaphore::new(queue.max(1)),
            room: Notify::new(),
            removals: Removals::default(),
        }
    }

    /// How many are to be removed, and no controller has confirmed it.
    pub(super) fn removals(&self) -> usize {
        self.removals.len()
    }

    /// How many requests are under way, and how many may be.
    pub(super) fn window(&self) -> (usize, usize) {
        let window = self.window.lock();
        (window.in_flight(), window.size() as usize)
    }

    /// A controller answered and nobody waits for a reply. Some controllers do not say to which
    /// request; those answers are matched by terminator. One that does is too late.
    pub(crate) fn on_answer(&self, answer: Answer, is_late: bool) {
        let Some(entry) = self.entry(&answer.terminator) else {
            // It was removed before it was made.
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
            // Whoever waited may have given up.
            let _ = waiting.send(answer);
        }
    }

    /// A controller asked about a terminator that is alive: it is known there.
    pub(crate) fn confirm(&self, id: &str) {
        let Some(entry) = self.entry(id) else { return };
        let mut state = entry.state.lock();
        if state.phase == Phase::Unconfirmed {
            state.phase = Phase::Established;
            drop(state);
            entry.asked.notify_one();
        }
    }

    /// A controller is connected again.
    pub(crate) fn on_connected(&self, controller: &ControllerId) {
        let entries: Vec<Arc<Entry>> = self.entries.lock().values().cloned().collect();
        for entry in entries {
            let mut state = entry.state.lock();
            if state.phase == Phase::Established && state.at.as_ref() == Some(controller) {
                state.phase = Phase::Unconfirmed;
                drop(state);
                entry.returned.notify_one();
            }
        }
    }

    /// Whether a terminator is wanted.
    pub(crate) fn wants(&self, id: &str) -> bool {
        self.entries.lock().contains_key(id)
    }

    /// All of them, as they are.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let entries = self.entries.lock();
        let seen = entries.values().map(|entry| {
            let state = entry.state.lock();
            Seen {
                id: state.request.id.clone(),
                tunnel: matches!(state.request.host, Host::Tunnel { .. }),
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

    /// Terminators to be removed at a controller.
    pub(crate) fn remove(&self, ids: impl IntoIterator<Item = String>) {
        let ids: Vec<String> = ids.into_iter().collect();
        for id in &ids {
            let entry = self.entries.lock().remove(id);
            if let Some(entry) = entry {
                entry.stop.cancel();
            }
        }
        self.removals.add(ids);
    }

    fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        self.entries.lock().get(id).cloned()
    }

    /// Whether this is still the entry of its terminator.
    fn is_current(&self, entry: &Arc<Entry>) -> bool {
        let id = entry.state.lock().request.id.clone();
        self.entry(&id).is_some_and(|known| Arc::ptr_eq(&known, entry))
    }

    /// Forgets an entry unless another took its place; true if it was there.
    fn forget(&self, entry: &Arc<Entry>) -> bool {
        let id = entry.state.lock().request.id.clone();
        let mut entries = self.entries.lock();
        let same = entries.get(&id).is_some_and(|known| Arc::ptr_eq(known, entry));
        if same {
            entries.remove(&id);
        }
        same
    }

    /// Waits for a worker and for room in the window; `None` if too many wait already.
    async fn slot(&self) -> Option<Slot<'_>> {
        let worker = match self.workers.try_acquire() {
            Ok(worker) => worker,
            Err(_) => {
                let _waiting = self.queue.try_acquire().ok()?;
                self.workers.acquire().await.ok()?
            }
        };
        loop {
            let room = self.room.notified();
            if let Some(ticket) = self.window.lock().try_start(Instant::now()) {
                return Some(Slot { terminators: self, ticket: Some(ticket), _worker: worker });
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), room).await;
        }
    }
}

/// Room in the window and a worker, given back when dropped.
struct Slot<'a> {
    terminators: &'a Terminators,
    ticket: Option<Ticket>,
    _worker: SemaphorePermit<'a>,
}

impl Slot<'_> {
    fn finish(mut self, load: Load) {
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

/// Has a terminator made and kept.
pub(crate) fn create(
    core: &Arc<Core>,
    request: TerminatorRequest,
) -> BoxFuture<'static, Result<(), Refusal>> {
    let id = request.id.clone();
    let state = State {
        request,
        phase: Phase::Establishing,
        answer: None,
        at: None,
        created: SystemTime::now(),
        last_attempt: None,
    };
    let entry = Arc::new(Entry {
        state: Mutex::new(state),
        returned: Notify::new(),
        asked: Notify::new(),
        stop: CancellationToken::new(),
        untold: Mutex::default(),
    });
    core.terminators.removals.forget(&id);
    let former = core.terminators.entries.lock().insert(id, entry.clone());
    if let Some(former) = former {
        // Another host takes the terminator over: it stays where it is at the controller.
        former.stop.cancel();
    }
    let (sender, receiver) = oneshot::channel();
    core.spawn(keep(core.clone(), entry.clone(), sender));
    let unfinished = Unfinished { core: core.clone(), entry, done: false };
    Box::pin(async move {
        let mut unfinished = unfinished;
        let result = receiver.await;
        unfinished.done = true;
        let stopped = || {
            refusal(ErrorCode::INTERNAL, RetryHint::DEFAULT, "the terminator is no longer wanted")
        };
        result.unwrap_or_else(|_| Err(stopped()))
    })
}

/// Removes a terminator whose maker gave up.
struct Unfinished {
    core: Arc<Core>,
    entry: Arc<Entry>,
    done: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.done && self.core.terminators.forget(&self.entry) {
            self.entry.stop.cancel();
            let id = self.entry.state.lock().request.id.clone();
            self.core.terminators.remove([id]);
        }
    }
}

type Told = oneshot::Sender<Result<(), Refusal>>;

async fn keep(core: Arc<Core>, entry: Arc<Entry>, told: Told) {
    tokio::select! {
        // One that is removed is not asked for any more.
        biased;
        () = entry.stop.cancelled() => {}
        () = core.stop.cancelled() => {}
        () = keep_for_ever(&core, &entry, told) => {}
    }
}

async fn keep_for_ever(core: &Arc<Core>, entry: &Arc<Entry>, told: Told) {
    let mut told = Some(told);
    loop {
        let established = establish(core, entry).await;
        let refused = established.as_ref().err().cloned();
        match told.take() {
            Some(told) => {
                let _ = told.send(established);
            }
            None => {
                if let Some(refusal) = &refused {
                    lost(core, entry, refusal);
                }
            }
        }
        if refused.is_some() {
            core.terminators.forget(entry);
            return;
        }
        loop {
            entry.returned.notified().await;
            if !asked_in_time(core, entry).await {
                break;
            }
        }
    }
}

/// A terminator that was there is not wanted by the controller any more.
fn lost(core: &Core, entry: &Entry, refusal: &Refusal) {
    let state = entry.state.lock();
    tracing::warn!(terminator = %state.request.id, %refusal, "terminator lost");
    if let Host::Sdk { grant, .. } = &state.request.host {
        core.access.end_service_session(&grant.service_session);
    }
}

/// Waits for the controller to ask about a terminator after its return.
async fn asked_in_time(core: &Core, entry: &Entry) -> bool {
    let deadline = tokio::time::Instant::now() + core.options.validation_wait;
    loop {
        let asked = entry.asked.notified();
        if entry.state.lock().phase == Phase::Established {
            return true;
        }
        if tokio::time::timeout_at(deadline, asked).await.is_err() {
            let mut state = entry.state.lock();
            let confirmed = state.phase == Phase::Established;
            if !confirmed {
                state.phase = Phase::Establishing;
            }
            return confirmed;
        }
    }
}

/// Asks until the terminator is there or refused for good.
async fn establish(core: &Arc<Core>, entry: &Arc<Entry>) -> Result<(), Refusal> {
    let mut failures = 0;
    let mut wait = WAITS.0;
    loop {
        let verdict = match attempt(core, entry).await {
            Some(verdict) => verdict,
            None => Verdict::Busy,
        };
        match verdict {
            Verdict::Established => return Ok(()),
            Verdict::Busy => failures = 0,
            Verdict::Failed(refusal) | Verdict::Refused(refusal) if is_tunnel(entry) => {
                let id = entry.state.lock().request.id.clone();
                tracing::warn!(terminator = %id, %refusal, "terminator refused, it is asked for again later");
                failures += 1;
                wait = if failures < MAX_FAILURES { WAITS.0 * 4 } else { REFUSED_WAIT };
            }
            Verdict::Failed(refusal) => {
                failures += 1;
                if failures >= MAX_FAILURES {
                    return Err(refusal);
                }
            }
            Verdict::Refused(refusal) => return Err(refusal),
        }
        tokio::time::sleep(wait.mul_f64(0.5 + rand::random::<f64>())).await;
        wait = (wait * 2).min(WAITS.1.max(wait));
    }
}

fn is_tunnel(entry: &Entry) -> bool {
    matches!(entry.state.lock().request.host, Host::Tunnel { .. })
}

/// One request; `None` if there was no answer.
async fn attempt(core: &Arc<Core>, entry: &Arc<Entry>) -> Option<Verdict> {
    let controller = controller_for(core, entry).await;
    let id = entry.state.lock().request.id.clone();
    core.terminators.removals.settled(&id).await;
    // With too many waiting it is as if the controller were busy.
    let slot = core.terminators.slot().await?;
    let (sender, receiver) = oneshot::channel();
    let (message, sent) = {
        let mut state = entry.state.lock();
        state.answer = Some(sender);
        state.last_attempt = Some(SystemTime::now());
        let request = &state.request;
        (request::creation(request), (request.cost, request.precedence))
    };
    let timeout = core.options.terminator_timeout;
    let answer = tokio::select! {
        reply = controller.channel.request(message, timeout) => match reply {
            Ok(reply) => answer::read(&reply),
            Err(RequestError::Timeout) => None,
            Err(problem) => {
                tracing::debug!(controller = %controller.id, %problem, "terminator not asked for");
                return None;
            }
        },
        Ok(answer) = receiver => Some(answer),
    };
    let Some(answer) = answer else {
        slot.finish(Load::Backoff);
        return None;
    };
    let verdict = answer.verdict();
    let load = if verdict == Verdict::Busy { Load::Backoff } else { Load::Success };
    slot.finish(load);
    if verdict == Verdict::Established {
        let mut state = entry.state.lock();
        state.phase = Phase::Established;
        state.at = Some(controller.id.clone());
        let changed = (state.request.cost, state.request.precedence) != sent;
        drop(state);
        if changed {
            let all = TerminatorUpdate { cost: Some(0), precedence: Some(Precedence::Default) };
            telling::change(core, entry, all);
        }
    }
    Some(verdict)
}

/// The controller to ask; waits until there is one. A legacy session is known to one only.
async fn controller_for(core: &Core, entry: &Entry) -> Arc<Controller> {
    let mut changes = core.controllers.changes();
    loop {
        changes.mark_unchanged();
        if let Some(controller) = controller_now(core, entry) {
            return controller;
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn controller_now(core: &Core, entry: &Entry) -> Option<Arc<Controller>> {
    let owner = match &entry.state.lock().request.host {
        Host::Sdk { session, .. } if session.legacy => session.controller.clone(),
        _ => None,
    };
    match owner {
        Some(owner) => core.controllers.get(&owner),
        None => core.controllers.for_changes(),
    }
}

/// Changes a terminator here, and at the controller if it is there already.
pub(crate) fn update(core: &Arc<Core>, id: &str, update: TerminatorUpdate) {
    let Some(entry) = core.terminators.entry(id) else { return };
    let mut state = entry.state.lock();
    if let Some(cost) = update.cost {
        state.request.cost = cost;
    }
    if let Some(precedence) = update.precedence {
        state.request.precedence = precedence;
    }
    let there = state.phase != Phase::Establishing;
    drop(state);
    if there {
        telling::change(core, &entry, update);
    }
}

/// Forwards the result of a health check.
pub(crate) fn health(core: &Arc<Core>, id: &str, healthy: bool) {
    let Some(entry) = core.terminators.entry(id) else { return };
    telling::health(core, &entry, healthy);
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
        let first = terminators.slot().await.unwrap();
        let _second = terminators.slot().await.unwrap();
        let waiting = terminators.clone();
        let third = tokio::spawn(async move { waiting.slot().await.is_some() });
        while terminators.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // The queue is full.
        assert!(terminators.slot().await.is_none());
        assert!(!third.is_finished());
        first.finish(Load::Success);
        assert!(third.await.unwrap());
    }
}
