//! Handles the messages of controllers about the data model and about sessions, in order, and keeps
//! the subscription going (docs/protocol/edge-control-plane.md 6.3, 8, 10).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use weft_channel::Lane;
use weft_channel::clock::time_of_day;
use weft_circuit::now;
use weft_limits::SettledClock;
use weft_wire::edge_ctrl::data_model::{self, ChangeSet, CurrentIndex, DataState, ValidateRequest};
use weft_wire::edge_ctrl::{
    ApiSessionAdded, ApiSessionRemoved, ApiSessionUpdated, RequestClientReSync, SessionRemoved,
    SyncState, content_type,
};
use weft_wire::{Message, ProtoBody, WireError};

use super::compare::compare;
use super::decide;
use super::inner::Inner;
use super::keys::Keys;
use super::live::{self, LiveSessions, Removed};
use super::model::{Fit, Model};
use super::touched::Touched;
use crate::controllers::Controller;
use crate::seam::{AccessEvent, ControllerId};

/// The interval at which the worker looks which checks are due. Checks that cost little are made
/// each time.
const TICK: Duration = Duration::from_secs(1);
/// The interval at which the subscription is checked without a cause.
const LOOK: Duration = Duration::from_secs(30);
/// The interval at which sessions are ended whose tokens are over, and those forgotten that nobody holds any more.
const SWEEP: Duration = Duration::from_secs(5);
/// Revocations that are removed while the model is locked once.
const AT_ONCE: usize = 500;

/// Handles messages and makes the checks that are due, until cancelled.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut times = Times::default();
    loop {
        tokio::select! {
            (from, message) = inner.queue.pop() => inner.on_message(&from, &message),
            () = inner.look.notified() => inner.check_subscription(),
            _ = ticks.tick() => inner.on_tick(&mut times),
        }
    }
}

/// The times of the last checks.
struct Times {
    look: Instant,
    sweep: Instant,
    save: Instant,
    settled: SettledClock,
}

impl Default for Times {
    fn default() -> Self {
        let now = now();
        Self { look: now, sweep: now, save: now, settled: SettledClock::default() }
    }
}

/// True if a check is due; its time is then set to now.
fn due(last: &mut Instant, every: Duration, now: Instant) -> bool {
    let due = now.saturating_duration_since(*last) >= every;
    if due {
        *last = now;
    }
    due
}

impl Inner {
    fn on_tick(self: &Arc<Self>, times: &mut Times) {
        let now = now();
        let late = self.sessions.lock().overdue(now, rand::random());
        for late in late {
            if let Some(controller) = self.controllers.get(&late) {
                ask_sessions(&controller, "the sessions did not come completely");
            }
        }
        if due(&mut times.look, LOOK, now) {
            self.check_subscription();
        }
        if due(&mut times.sweep, SWEEP, now) {
            self.expire_revocations(&mut times.settled, now);
            self.end_sessions(|live| live.sweep(time_of_day()));
        }
        if due(&mut times.save, self.options.save_interval, now) {
            self.begin_save();
        }
    }

    /// Starts to write the model, unless the last write still goes on. Nobody waits for the write,
    /// because a large model takes seconds.
    fn begin_save(self: &Arc<Self>) {
        let mut saving = self.saving.lock();
        if saving.as_ref().is_none_or(JoinHandle::is_finished) {
            let inner = self.clone();
            *saving = Some(tokio::task::spawn_blocking(move || inner.save()));
        }
    }

    fn on_message(&self, from: &Arc<Controller>, message: &Message) {
        let done = match message.content_type {
            content_type::DATA_STATE => self.on_state(from, message),
            content_type::DATA_STATE_CHANGE_SET => self.on_change(from, message),
            content_type::VALIDATE_DATA_STATE_REQUEST => self.on_validate(from, message),
            content_type::API_SESSION_ADDED => self.on_sessions_added(from, message),
            content_type::API_SESSION_UPDATED => self.on_sessions_updated(from, message),
            content_type::API_SESSION_REMOVED => self.on_sessions_removed(message),
            content_type::SESSION_REMOVED => self.on_service_sessions_removed(message),
            content_type::CURRENT_INDEX => self.on_index(from, message),
            _ => Ok(()),
        };
        if let Err(problem) = done {
            from.not_understood(message, &problem);
        }
    }

    fn accepts(&self, from: &Controller, message: &Message, synthetic: bool) -> bool {
        let id = data_model::subscription_id(message);
        self.subscription.lock().accepts(&from.id, id, synthetic)
    }

    fn on_state(&self, from: &Arc<Controller>, message: &Message) -> Result<(), WireError> {
        if !self.accepts(from, message, false) {
            return Ok(());
        }
        // A full state always has a timeline: an empty message is one that its sender could not
        // encode. The present model stays in use, and the next check asks for it again.
        if message.body.is_empty() {
            tracing::error!(
                controller = %from.id,
                "the controller sent an empty data model; the present one stays in use"
            );
            self.subscription.lock().begin_anew();
            return Ok(());
        }
        let state = DataState::from_message(message)?;
        let mut fresh = Model::from_state(state);
        fresh.forget_unmanaged(&self.options.router_id);
        let (index, timeline) = (fresh.index, fresh.timeline.clone());
        let former = {
            let mut model = self.model.write();
            fresh.caches = std::mem::take(&mut model.caches);
            self.taken.fetch_add(1, Ordering::Release);
            std::mem::replace(&mut *model, fresh)
        };
        // Not under the lock, because a large model takes long to be freed.
        drop(former);
        tracing::info!(controller = %from.id, index, timeline, "data model received");
        let is_other = self.timeline.send_if_modified(|known| {
            let changed = *known != timeline;
            *known = timeline;
            changed
        });
        if is_other {
            self.indexes.lock().begin_anew();
        }
        self.after(&Touched::all());
        self.refresh_online();
        Ok(())
    }

    /// Compares the indexes of the controllers, and hands the highest one on to those that are behind.
    fn on_index(&self, from: &Arc<Controller>, message: &Message) -> Result<(), WireError> {
        let told = CurrentIndex::from_message(message)?;
        let mut indexes = self.indexes.lock();
        // The message may have waited while its channel was closed.
        let known = self.controllers.get(&from.id);
        if !known.is_some_and(|one| Arc::ptr_eq(&one, from)) {
            return Ok(());
        }
        indexes.hear(&from.id, told, from.takes_indexes(), now());
        for (id, index) in indexes.to_tell() {
            let controller = self.controllers.get(id).filter(|one| one.takes_indexes());
            let Some(controller) = controller else { continue };
            if let Err(problem) = controller.channel.try_send(index.to_message()) {
                tracing::debug!(controller = %id, %problem, "an index is not handed on");
            }
        }
        Ok(())
    }

    /// The controller to take the model from: the one for changes, unless another one has known more than that for long.
    fn source(&self) -> Option<ControllerId> {
        let best = self.controllers.for_changes()?.id.clone();
        let indexes = self.indexes.lock();
        let ahead = indexes.is_behind(&best, now()).then(|| indexes.most_advanced()).flatten();
        let ahead = ahead.and_then(|id| self.controllers.get(id));
        let ahead = ahead.filter(|one| self.controllers.is_responsive(one));
        Some(ahead.map_or(best, |one| one.id.clone()))
    }

    fn on_change(&self, from: &Arc<Controller>, message: &Message) -> Result<(), WireError> {
        // A message that is not for this router is not parsed, because it may be long.
        let wanted = self.accepts(from, message, true)
            && self.accepts(from, message, ChangeSet::is_outside_the_chain(message)?);
        if !wanted {
            return Ok(());
        }
        let change = ChangeSet::from_message(message)?;
        let fit = self.model.read().fits(&change);
        match fit {
            Fit::Next => {
                let touched = self.model.write().apply(change);
                self.after(&touched);
            }
            Fit::Old => tracing::debug!(
                index = change.index,
                "a change of the data model was known already"
            ),
            Fit::Gap => {
                let (index, previous) = (change.index, change.previous_index);
                tracing::warn!(
                    index,
                    previous,
                    "changes of the data model are missing; the router asks for them"
                );
                self.subscription.lock().begin_anew();
                self.check_subscription();
            }
        }
        Ok(())
    }

    fn on_validate(&self, from: &Arc<Controller>, message: &Message) -> Result<(), WireError> {
        let request = ValidateRequest::from_message(message)?;
        let mut wanted = Model::from_state(request.state.unwrap_or_default());
        let found = self.model.read().clone();
        let response = compare(&wanted, &found);
        let wrong = !response.diffs.is_empty();
        let reply = response.to_message().in_reply_to(message);
        if let Err(problem) = from.channel.try_send_on(Lane::Low, reply) {
            tracing::debug!(controller = %from.id, %problem, "answer not sent");
        }
        if wrong && request.fix {
            tracing::warn!(controller = %from.id, "data model replaced, as the controller asked");
            wanted.forget_unmanaged(&self.options.router_id);
            let former = {
                let mut model = self.model.write();
                wanted.caches = std::mem::take(&mut model.caches);
                self.taken.fetch_add(1, Ordering::Release);
                std::mem::replace(&mut *model, wanted)
            };
            drop(former);
            self.subscription.lock().begin_anew();
            self.after(&Touched::all());
            self.check_subscription();
        }
        Ok(())
    }

    /// Subscribes, or renews or moves the subscription, if that is due.
    fn check_subscription(&self) {
        if self.options.required {
            let best = self.source();
            let position = {
                let model = self.model.read();
                (model.timeline.clone(), model.index)
            };
            let mut subscription = self.subscription.lock();
            let current = subscription.controller().and_then(|id| self.controllers.get(id));
            let alive = current.is_some_and(|one| {
                self.controllers.is_responsive(&one)
                    && !self.indexes.lock().is_behind(&one.id, now())
            });
            let id = || uuid::Uuid::new_v4().to_string();
            let position = (position.0.as_str(), position.1);
            let to_send = subscription.check(best.as_ref(), alive, position, now(), id);
            if let Some(to_send) = to_send {
                let controller = self.controllers.get(&to_send.controller);
                let message = to_send.request.to_message();
                let sent = controller.is_some_and(|one| one.channel.try_send(message).is_ok());
                if !sent {
                    subscription.not_sent();
                }
            }
        }
        self.refresh_online();
    }

    /// Applies the effects of a change of the model.
    fn after(&self, touched: &Touched) {
        if touched.keys {
            let keys = Arc::new(Keys::of(&self.model.read()));
            let before = self.keys.swap(Arc::clone(&keys));
            self.arrivals.send_modify(|count| *count += 1);
            // A key goes when its last token has ended, or when it was stolen.
            if before.tokens.iter().any(|(kid, _)| keys.tokens.get(kid).is_none()) {
                self.end_sessions(|live| {
                    live.end_without_key(|kid| keys.tokens.get(kid).is_some())
                });
            }
        }
        for identity in self.gone(touched) {
            self.tell(AccessEvent::IdentityGone { identity });
        }
        if touched.access() {
            self.judge_anew(touched);
            let mut own = self.own_services.lock();
            if own.follow(&self.model.read(), touched) {
                self.tunneled.send_replace(own.list());
            }
        }
        if touched.all {
            let model = self.model.read();
            let sessions = self.sessions.lock();
            self.end_sessions(|live| live.judge_all(&model, &sessions, time_of_day()));
        } else if !touched.revocations.is_empty() {
            let model = self.model.read();
            self.end_sessions(|live| live.end_revoked(&model, &touched.revocations));
        }
        if touched.all || touched.routers || touched.config_types || !touched.configs.is_empty() {
            self.tell_managed();
        }
    }

    /// Publishes the settings that controllers keep for this router, if they have changed.
    fn tell_managed(&self) {
        let own = &self.options.router_id;
        let (managed, lost) = {
            let model = self.model.read();
            let mut had = self.managed_ids.lock();
            let lost = model.no_longer_managed(own, &had);
            // A router that is unknown for now keeps what it had, until its next event.
            if model.routers.contains_key(own) {
                *had = model.managed_ids(own);
            }
            (model.managed(own), lost)
        };
        if !lost.is_empty() {
            self.model.write().forget_configs(&lost);
        }
        self.managed.send_if_modified(|known| {
            let other = **known != managed;
            if other {
                *known = Arc::new(managed);
            }
            other
        });
    }

    /// Identities that were deleted or disabled.
    fn gone(&self, touched: &Touched) -> Vec<String> {
        if !touched.all {
            return touched.gone.clone();
        }
        let model = self.model.read();
        let live = self.live.lock();
        let gone = |id: &&str| model.identities.get(*id).is_none_or(|known| known.disabled);
        let mut gone: Vec<String> = live.identities().filter(gone).map(str::to_owned).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    /// Judges the grants of this router again.
    fn judge_anew(&self, touched: &Touched) {
        let lost = {
            let posture = self.posture_of_clients();
            let model = self.model.read();
            let still = |identity: &str, service: &str, purpose| {
                decide::decide(&model, identity, service, purpose, posture).is_ok()
            };
            self.grants.lock().judge_anew(touched, still)
        };
        for (identity, service, purpose) in lost {
            tracing::info!(%identity, %service, ?purpose, "access lost");
            self.tell(AccessEvent::Lost { identity, service, purpose });
        }
    }

    /// Removes revocations whose time is over. The time is the settled one, which no jump of the
    /// clock moves: a revocation that is removed too early would make its token valid again once
    /// the clock is right.
    fn expire_revocations(&self, settled: &mut SettledClock, now: Instant) {
        let shown = (live::seconds(time_of_day()) * 1000.0) as i64;
        let Some(settled) = settled.read(shown, now).map(|millis| millis / 1000) else { return };
        let mut more = self.model.read().revocations.has_ended(settled);
        while more {
            more = self.model.write().revocations.expire(settled, AT_ONCE);
        }
    }

    /// Removes sessions of open connections, with the grants and service sessions that only they used, and tells the
    /// bindings of those that have ended.
    fn end_sessions(&self, remove: impl FnOnce(&mut LiveSessions) -> Removed) {
        let ended = {
            let mut live = self.live.lock();
            let removed = remove(&mut live);
            // Under the lock of the sessions, under which grants are made: a session that begins now gets its own.
            let mut grants = self.grants.lock();
            removed.identities.iter().for_each(|identity| grants.forget(identity));
            let mut service_sessions = self.service_sessions.lock();
            let gone = removed.ended.iter().chain(&removed.left);
            gone.for_each(|session| service_sessions.forget(session));
            removed.ended
        };
        for session in ended {
            self.tell(AccessEvent::SessionEnded { session });
        }
    }

    fn on_sessions_added(
        &self,
        from: &Arc<Controller>,
        message: &Message,
    ) -> Result<(), WireError> {
        let added = ApiSessionAdded::from_message(message)?;
        let mut sessions = self.sessions.lock();
        if added.is_full_state {
            let state = SyncState::from_message(message)?;
            let gone = sessions.add_part(&from.id, state, added.api_sessions, now());
            drop(sessions);
            let complete = gone.is_some();
            let gone = gone.unwrap_or_default();
            self.end_sessions(|live| live.end_opaque(&gone));
            if complete {
                self.tell(AccessEvent::SessionsTold { controller: from.id.clone() });
            }
        } else {
            added.api_sessions.into_iter().for_each(|one| sessions.add(&from.id, one));
            drop(sessions);
        }
        self.arrivals.send_modify(|count| *count += 1);
        Ok(())
    }

    fn on_sessions_updated(
        &self,
        from: &Arc<Controller>,
        message: &Message,
    ) -> Result<(), WireError> {
        let updated = ApiSessionUpdated::from_message(message)?;
        let mut sessions = self.sessions.lock();
        updated.api_sessions.into_iter().for_each(|one| sessions.add(&from.id, one));
        drop(sessions);
        self.arrivals.send_modify(|count| *count += 1);
        Ok(())
    }

    fn on_sessions_removed(&self, message: &Message) -> Result<(), WireError> {
        let removed = ApiSessionRemoved::from_message(message)?;
        let mut ended: HashSet<String> = HashSet::new();
        {
            let mut sessions = self.sessions.lock();
            ended.extend(removed.tokens.iter().filter_map(|token| sessions.remove_token(token)));
            ended.extend(removed.ids.into_iter().filter(|id| sessions.remove(id)));
        }
        let ended: Vec<String> = ended.into_iter().collect();
        self.end_sessions(|live| live.end_opaque(&ended));
        Ok(())
    }

    /// The message has ids and tokens, which belong together if both lists are equally long; the ids
    /// count.
    fn on_service_sessions_removed(&self, message: &Message) -> Result<(), WireError> {
        let removed = SessionRemoved::from_message(message)?;
        let ids = if removed.ids.is_empty() { removed.tokens } else { removed.ids };
        self.end_service_sessions(ids.iter().map(String::as_str));
        Ok(())
    }
}

/// Asks a controller for all its opaque sessions.
fn ask_sessions(controller: &Controller, reason: &str) {
    let request = RequestClientReSync { reason: reason.to_owned() };
    if let Err(problem) = controller.channel.try_send(request.to_message()) {
        tracing::debug!(controller = %controller.id, %problem, "sessions not asked for");
    }
}
