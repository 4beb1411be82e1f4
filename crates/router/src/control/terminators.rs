//! Terminators: made, kept over reconnects, changed and removed.
//!
//! Each terminator of a binding has a task. The task asks a controller, within a window that shrinks
//! while controllers are busy, until the terminator is established or refused for good. After a lost
//! connection to the controller, the terminator waits for a while: a question of the controller about
//! it shows that the controller still has it. Without a question it is made again, which is harmless if
//! the controller does have it. Removals are collected and repeated until a controller confirms them
//! (docs/protocol/edge-control-plane.md 14, 15; docs/protocol/control-plane.md 15).

mod answer;
mod choice;
pub(super) mod removal;
mod removals;
mod request;
pub(super) mod table;
mod telling;
mod untold;

use std::sync::Arc;

pub(crate) use answer::CreateReply;
use answer::Verdict;
use choice::{WAITS, controller_for, jittered, wait_after};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use table::{Phase, Registration, State};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use weft_channel::RequestError;
use weft_channel::clock::time_of_day;
use weft_limits::WorkOutcome as Load;
use weft_wire::edge_ctrl::ErrorCode;

use super::shared::Core;
use crate::seam::{
    Refusal, RetryHint, TerminatorHost, TerminatorPrecedence, TerminatorRequest, TerminatorUpdate,
};

/// This many failures of unknown cause in a row count as a refusal.
const MAX_FAILURES: u32 = 3;

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
        created: time_of_day(),
        last_attempt: None,
    };
    let entry = Arc::new(Registration {
        state: Mutex::new(state),
        returned: Notify::new(),
        asked: Notify::new(),
        stop: CancellationToken::new(),
        untold: Mutex::default(),
    });
    let former = {
        let mut entries = core.terminators.entries.lock();
        core.terminators.removals.forget(&id);
        entries.insert(id, entry.clone())
    };
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
            Refusal::new(
                ErrorCode::INTERNAL,
                RetryHint::DEFAULT,
                "the terminator is no longer wanted",
            )
        };
        result.unwrap_or_else(|_| Err(stopped()))
    })
}

/// Removes a terminator whose future was dropped.
struct Unfinished {
    core: Arc<Core>,
    entry: Arc<Registration>,
    done: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.done {
            self.core.terminators.remove_entry(&self.entry);
        }
    }
}

/// The sender of the first answer to the binding that asked for a terminator.
type Asker = oneshot::Sender<Result<(), Refusal>>;

async fn keep(core: Arc<Core>, entry: Arc<Registration>, asker: Asker) {
    tokio::select! {
        // A terminator that is removed is not asked for again.
        biased;
        () = entry.stop.cancelled() => {}
        () = core.stop.cancelled() => {}
        () = keep_for_ever(&core, &entry, asker) => {}
    }
}

async fn keep_for_ever(core: &Arc<Core>, entry: &Arc<Registration>, asker: Asker) {
    let mut asker = Some(asker);
    loop {
        let established = establish(core, entry).await;
        let refused = established.as_ref().err().cloned();
        match asker.take() {
            Some(asker) => {
                let _ = asker.send(established);
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
fn lost(core: &Core, entry: &Registration, refusal: &Refusal) {
    let state = entry.state.lock();
    tracing::warn!(
        terminator = %state.request.id, %refusal,
        "the controller no longer accepts the terminator"
    );
    if let TerminatorHost::Sdk { grant, .. } = &state.request.host {
        core.access.end_service_session(&grant.service_session);
    }
}

/// Waits for the controller's question about a terminator after a reconnect.
async fn asked_in_time(core: &Core, entry: &Registration) -> bool {
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
async fn establish(core: &Arc<Core>, entry: &Arc<Registration>) -> Result<(), Refusal> {
    let (mut failures, mut refusals) = (0, 0);
    let mut wait = WAITS.0;
    loop {
        let verdict = match attempt(core, entry).await {
            Some(verdict) => verdict,
            None => Verdict::Busy,
        };
        match verdict {
            Verdict::Established => {
                if refusals > 0 {
                    let terminator = entry.state.lock().request.id.clone();
                    tracing::info!(
                        terminator,
                        "the controller has taken a terminator that it refused"
                    );
                }
                return Ok(());
            }
            Verdict::Busy => failures = 0,
            Verdict::Failed(refusal) | Verdict::Refused(refusal) if is_tunnel(entry) => {
                let id = entry.state.lock().request.id.clone();
                tracing::warn!(
                    terminator = %id, %refusal,
                    "terminator refused; the router asks for it again later"
                );
                refusals += 1;
                tokio::time::sleep(jittered(wait_after(refusals))).await;
                continue;
            }
            Verdict::Failed(refusal) => {
                failures += 1;
                if failures >= MAX_FAILURES {
                    return Err(refusal);
                }
            }
            Verdict::Refused(refusal) => return Err(refusal),
        }
        tokio::time::sleep(jittered(wait)).await;
        wait = (wait * 2).min(WAITS.1);
    }
}

fn is_tunnel(entry: &Registration) -> bool {
    matches!(entry.state.lock().request.host, TerminatorHost::Tunnel { .. })
}

/// Sends one request; `None` without an answer.
async fn attempt(core: &Arc<Core>, entry: &Arc<Registration>) -> Option<Verdict> {
    let controller = controller_for(core, entry).await;
    let id = entry.state.lock().request.id.clone();
    core.terminators.removals.settled(&id).await;
    // Too many waiting requests have the same effect as a busy controller.
    let host = entry.state.lock().request.host.identity().to_owned();
    let slot = core.terminators.slot(&host).await?;
    let (sender, receiver) = oneshot::channel();
    let (message, sent) = {
        let mut state = entry.state.lock();
        state.answer = Some(sender);
        state.last_attempt = Some(time_of_day());
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
            let all =
                TerminatorUpdate { cost: Some(0), precedence: Some(TerminatorPrecedence::Default) };
            telling::change(core, entry, all);
        }
    }
    Some(verdict)
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
