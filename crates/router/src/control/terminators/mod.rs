//! Terminators: made, kept over reconnects, changed and removed.
//!
//! Each terminator of a binding has a task. The task asks a controller, within a window that shrinks
//! while controllers are busy, until the terminator is established or refused for good. After a lost
//! connection to the controller, the terminator waits for a while: a question of the controller about
//! it shows that the controller still has it. Without a question it is made again, which is harmless if
//! the controller does have it. Removals are collected and repeated until a controller confirms them
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

/// This many failures of unknown cause in a row count as a refusal.
const MAX_FAILURES: u32 = 3;
/// Most terminators in one removal.
const REMOVAL_BATCH: usize = 50;
/// First and longest wait after a controller was busy or away.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Wait after a terminator of the router itself was refused, because policies may change.
const REFUSED_WAIT: Duration = Duration::from_secs(120);

/// The terminators of this router.
pub(crate) struct Terminators {
    entries: Mutex<HashMap<String, Arc<Entry>>>,
    window: Mutex<AdaptiveWindow>,
    /// Places of requests under way (`forwarder.rateLimitedWorkerCount`).
    workers: Semaphore,
    /// Places of requests that wait (`forwarder.rateLimitedQueueLength`).
    queue: Semaphore,
    /// Notified when a request has left the window.
    room: Notify,
    removals: Removals,
}

/// One terminator.
pub(crate) struct Entry {
    state: Mutex<State>,
    /// Notified when its controller is connected again.
    returned: Notify,
    /// Notified when a controller asked about the terminator.
    asked: Notify,
    stop: CancellationToken,
    untold: Mutex<Untold>,
}

struct State {
    request: TerminatorRequest,
    phase: Phase,
    /// Takes the answer to the request under way.
    answer: Option<oneshot::Sender<Answer>>,
    /// The controller at which the terminator was made.
    at: Option<ControllerId>,
    created: SystemTime,
    last_attempt: Option<SystemTime>,
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

    /// The number of terminators whose removal no controller has confirmed.
    pub(super) fn removals(&self) -> usize {
        self.removals.len()
    }

    /// The number of requests under way, and the most that may be.
    pub(super) fn window(&self) -> (usize, usize) {
        let window = self.window.lock();
        (window.in_flight(), window.size() as usize)
    }

    /// Handles an answer that is no reply to a waiting request. Some controllers do not name the
    /// request; their answers are matched by terminator. An answer that does name its request is
    /// late (`is_late`).
    pub(crate) fn on_answer(&self, answer: Answer, is_late: bool) {
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

    /// Queues terminators for removal at a controller.
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

    /// True if this is still the entry of its terminator.
    fn is_current(&self, entry: &Arc<Entry>) -> bool {
        let id = entry.state.lock().request.id.clone();
        self.entry(&id).is_some_and(|known| Arc::ptr_eq(&known, entry))
    }

    /// Removes an entry unless another one took its place; true if it was removed.
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

/// Room in the window and a worker, released when dropped.
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

/// Asks for a terminator and keeps it established.
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
        // Another host takes over the terminator: it stays at the controller.
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

/// Removes a terminator whose future was dropped.
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
        // A terminator that is removed is not asked for again.
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

/// The controller refuses a terminator that was established.
fn lost(core: &Core, entry: &Entry, refusal: &Refusal) {
    let state = entry.state.lock();
    tracing::warn!(
        terminator = %state.request.id, %refusal,
        "the controller no longer accepts the terminator"
    );
    if let Host::Sdk { grant, .. } = &state.request.host {
        core.access.end_service_session(&grant.service_session);
    }
}

/// Waits for the controller's question about a terminator after a reconnect.
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

/// Asks until the terminator is established or refused for good.
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
                tracing::warn!(
                    terminator = %id, %refusal,
                    "terminator refused; the router asks for it again later"
                );
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

/// Sends one request; `None` without an answer.
async fn attempt(core: &Arc<Core>, entry: &Arc<Entry>) -> Option<Verdict> {
    let controller = controller_for(core, entry).await;
    let id = entry.state.lock().request.id.clone();
    core.terminators.removals.settled(&id).await;
    // Too many waiting requests have the same effect as a busy controller.
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

/// The controller to ask, once there is one. An opaque session is known to one controller only.
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

/// Changes a terminator here, and at the controller if it is established.
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
