//! One SDK channel: its session, and its messages to the SDK.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_channel::{ChannelHandle, Lane, SendError};
use weft_circuit::{Pause, now};
use weft_limits::Budget;
use weft_wire::Message;

use super::binding::{Dialed, EdgeBinding};
use super::ids::Ids;
use super::live::OpenChannels;
use super::nudge::{Nudge, meaningless};
use crate::forwarder::{ConnOwner, Outlet};
use crate::seam::{ApiSession, Refusal};

/// Most requests of one SDK in work at the same time; more are refused.
const MAX_REQUESTS: usize = 1024;
/// Most bytes of these requests. A token, a key and the application data take a few KiB.
const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Most refusals of one SDK that wait beside its requests in work; those of more requests wait in the place of their
/// request.
const MAX_HELD: usize = 256;
/// Most bytes of requests that are read before the session of an SDK is judged; the rest is read
/// later.
const EARLY_BYTES: usize = 256 << 10;
/// The interval of messages to an SDK that is not read, so that it does not take the connection for
/// dead (docs/protocol/sdk.md 11.4).
const PAUSED_KEEPALIVE: Duration = Duration::from_secs(5);

/// The lane of all messages about a listener: answers to binds, dials, inspections, closes. An SDK
/// knows a listener only after the answer to its bind.
pub(super) const HOSTING: Lane = Lane::High;

/// The share of the memory of all circuits that the ends of one identity may hold, as a divisor.
const CLIENT_SHARE: u64 = 4;

/// Bytes that may wait for all circuits of one SDK before it is no longer read; half the share of its identity if that is
/// less.
const BACKLOG_BUDGET: u64 = 64 << 20;

/// The bytes that were read before the session was judged.
enum Early {
    /// The number of bytes so far.
    Bytes(usize),
    /// More than [`EARLY_BYTES`]: the rest waits in the connections.
    Full,
    /// The session is judged.
    Over,
}

/// The budgets of the data of one SDK.
struct Memory {
    /// For what the ends of circuits of the SDK's identity hold.
    ends: Budget,
    /// For what waits for circuits of this channel without room; a part of `ends`, because it may stay for minutes
    /// when the SDK has gone, while its identity connects again.
    backlog: Budget,
}

/// One SDK channel.
pub(crate) struct SdkConnection {
    pub(super) binding: Arc<EdgeBinding>,
    pub(super) channel: ChannelHandle,
    /// The options of the SDK's listener for circuits that the SDK dials.
    pub(super) dialed: Arc<Dialed>,
    /// The number of the channel within the binding.
    pub(super) number: u64,
    /// The budgets of the SDK's data. Set once the session is judged.
    memory: OnceLock<Memory>,
    pub(super) outlet: OnceLock<Arc<Outlet>>,
    pub(super) session: watch::Sender<Option<Arc<ApiSession>>>,
    pub(super) ids: Ids,
    /// The pause in reading while circuits have no room for the SDK's data.
    pub(super) pause: Pause,
    early: Mutex<Early>,
    /// Cancelled when the session is refused, before the channel is closed.
    refused: CancellationToken,
    pub(super) requests: Arc<Semaphore>,
    pub(super) request_bytes: Arc<Semaphore>,
    pub(super) held_refusals: Semaphore,
    /// Counts written messages, for native SDKs.
    pub(super) nudge: Option<Arc<Nudge>>,
    pub(super) this: Weak<Self>,
}

impl SdkConnection {
    pub(super) fn new(
        binding: Arc<EdgeBinding>,
        channel: ChannelHandle,
        dialed: Arc<Dialed>,
        number: u64,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            binding,
            dialed,
            number,
            memory: OnceLock::new(),
            outlet: OnceLock::new(),
            session: watch::Sender::new(None),
            ids: Ids::default(),
            pause: Pause::default(),
            early: Mutex::new(Early::Bytes(0)),
            refused: CancellationToken::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            request_bytes: Arc::new(Semaphore::new(MAX_REQUEST_BYTES)),
            held_refusals: Semaphore::new(MAX_HELD),
            nudge: Nudge::of(channel.peer()),
            channel,
            this: this.clone(),
        })
    }

    /// Judges the session in the background; closes the channel if the session is refused.
    pub(super) fn authenticate(self: &Arc<Self>, token: Bytes) {
        let (this, came) = (Arc::clone(self), Instant::now());
        self.binding.options.control_runtime.spawn(async move {
            let certificates = this.channel.peer().certificates.iter();
            let certificates = certificates.map(|der| Bytes::copy_from_slice(der)).collect();
            let judged = tokio::select! {
                judged = this.binding.access.authenticate(token, certificates) => judged,
                _ = this.channel.closed() => return,
            };
            let measures = &this.binding.forwarder.measures().edge;
            let refusal = match judged {
                Ok(session) => match this.adopt_session(session) {
                    Ok(()) => return,
                    Err(full) => full,
                },
                Err(refusal) => {
                    measures.bad_sessions.one();
                    this.note_refused(&refusal);
                    refusal
                }
            };
            measures.refused.one();
            // What came is answered, and nothing more is read until the channel is closed.
            this.refused.cancel();
            this.note_early(usize::MAX);
            tokio::select! {
                () = this.refused_channel(came) => this.channel.close(refusal.message),
                _ = this.channel.closed() => {}
            }
        });
    }

    /// Logs that the SDK is refused, unless there are many such lines already.
    fn note_refused(&self, refusal: &Refusal) {
        let peer = self.channel.peer().remote;
        let due = self.binding.refusals.lock().due(now());
        match due {
            Some(left_out) => tracing::info!(
                %peer, %refusal,
                "SDK refused; {left_out} more were refused since the last such line"
            ),
            None => tracing::debug!(%peer, %refusal, "SDK refused"),
        }
    }

    /// Notes the session of the channel, which was found valid, and counts the channel for its
    /// identity. Refused if the identity has as many channels as it may have.
    fn adopt_session(&self, session: Arc<ApiSession>) -> Result<(), Refusal> {
        // The channel is counted before its session can end.
        let share = self.binding.budget.whole();
        let share = || share.child(share.limit() / CLIENT_SHARE);
        let most = self.binding.options.per_identity.max_channels;
        let count = |live: &mut OpenChannels<Self>| {
            if live.count_of(&session.identity) >= most as usize {
                return Err(());
            }
            let (count, memory) = live.attach(self.number, &session, share);
            let backlog = memory.child(BACKLOG_BUDGET.min(memory.limit() / 2));
            let _ = self.memory.set(Memory { ends: memory, backlog });
            Ok(count)
        };
        let counted = self.binding.count(count, &session);
        counted.map_err(|()| self.binding.full(&session, most, "channels", "maxChannels"))?;
        self.channel.judged();
        self.binding.forwarder.measures().edge.let_in.one();
        if let Early::Full = std::mem::replace(&mut *self.early.lock(), Early::Over) {
            self.backlog(false);
        }
        self.session.send_replace(Some(Arc::clone(&session)));
        // An event that ends the session, or the channel, may have come before the session was
        // noted here.
        if !self.binding.access.stands(&session) {
            self.channel.close("the API session ended");
        }
        if self.channel.is_closed() {
            self.release_session();
        }
        Ok(())
    }

    /// Takes a closed channel out of the counts of its identity. Of several calls only the first
    /// has an effect: it takes the session out of the channel.
    pub(super) fn release_session(&self) {
        if let Some(session) = self.session.send_replace(None) {
            self.binding.forwarder.measures().edge.ended.one();
            let left = |live: &mut OpenChannels<Self>| {
                Ok::<_, Infallible>(live.was_of(self.number, &session))
            };
            let Ok(()) = self.binding.count(left, &session);
        }
    }

    /// The budget for the data that the ends of the client's circuits hold. A client without flow
    /// control of its own has the budget of its identity, because it dials and hosts only once its
    /// session is judged.
    pub(super) fn memory(&self) -> Budget {
        self.memory.get().map_or(&self.binding.budget, |memory| &memory.ends).clone()
    }

    /// The budget for data of the client that waits for circuits without room.
    pub(super) fn backlog_memory(&self) -> Budget {
        self.memory.get().map_or(&self.binding.budget, |memory| &memory.backlog).clone()
    }

    /// The session, once judged.
    pub(super) fn session(&self) -> Option<Arc<ApiSession>> {
        self.session.borrow().clone()
    }

    /// Waits for the session to be judged; `None` if it is refused, or the channel closed.
    pub(super) async fn judged_session(&self) -> Option<Arc<ApiSession>> {
        let mut session = self.session.subscribe();
        tokio::select! {
            known = session.wait_for(Option::is_some) => known.ok()?.clone(),
            () = self.refused.cancelled() => None,
            _ = self.channel.closed() => None,
        }
    }

    pub(super) fn close(&self, reason: &str) {
        self.channel.close(reason);
    }

    /// The outlet for data to the SDK; there is one from the first connection on.
    pub(super) fn outlet(&self) -> Option<Arc<Outlet>> {
        self.outlet.get().cloned()
    }

    /// How long ends of directions wait for a close, for native SDKs before 0.36.0.
    pub(super) fn fin_hold(&self) -> Option<Duration> {
        let old = self.nudge.as_ref().is_some_and(|nudge| nudge.is_old());
        old.then_some(self.binding.options.fin_hold)
    }

    /// A message that the SDK accepts and ignores.
    fn meaningless(&self) -> Message {
        self.nudge.as_ref().map_or_else(meaningless, |nudge| nudge.message())
    }

    /// Counts a message that is about to be written to a native SDK.
    pub(super) fn count_written(&self) {
        if let Some(nudge) = &self.nudge {
            nudge.wrote(1, now());
        }
    }

    /// Queues an answer or a notice about a connection for the SDK, and waits for room. False if it
    /// cannot be sent.
    pub(super) async fn send(&self, message: Message) -> bool {
        self.send_on(Lane::Default, message).await
    }

    /// Queues a message about a listener for the SDK, and waits for room. Such messages share a lane
    /// with the dials and inspections of the listener, so that none of these overtakes the answer to
    /// the bind.
    pub(super) async fn send_hosting(&self, message: Message) -> bool {
        self.send_on(HOSTING, message).await
    }

    /// Queues a message about a listener without waiting; if there is no room, a task waits for it.
    pub(super) fn tell_hosting(&self, message: Message) {
        self.count_written();
        let sent = self.channel.try_send_on(HOSTING, message.clone());
        if matches!(sent, Err(SendError::Full))
            && let Some(this) = self.this.upgrade()
        {
            let waiting = async move { this.send_hosting(message).await };
            self.binding.options.control_runtime.spawn(waiting);
        }
    }

    async fn send_on(&self, lane: Lane, message: Message) -> bool {
        self.count_written();
        let sent = self.channel.send_on(lane, message).await;
        if let Err(problem) = &sent {
            tracing::debug!(channel = %self.channel, %problem, "a message for an SDK was not sent");
        }
        sent.is_ok()
    }

    /// Counts a request that came before the session is judged, when only [`EARLY_BYTES`] are read.
    pub(super) fn note_early(&self, bytes: usize) {
        let mut early = self.early.lock();
        let Early::Bytes(before) = *early else { return };
        let now = before.saturating_add(bytes);
        *early = if now > EARLY_BYTES { Early::Full } else { Early::Bytes(now) };
        if now > EARLY_BYTES {
            self.backlog(true);
        }
    }

    /// The number of requests in work.
    #[cfg(test)]
    pub(super) fn requests_in_work(&self) -> usize {
        MAX_REQUESTS - self.requests.available_permits()
    }

    /// Sends a message at intervals while the SDK is not read.
    fn keep_alive_while_paused(&self) {
        let Some(this) = self.this.upgrade() else { return };
        self.binding.options.control_runtime.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(PAUSED_KEEPALIVE) => {}
                    _ = this.channel.closed() => return,
                }
                if !this.pause.keep_alive_goes_on() {
                    return;
                }
                let _ = this.channel.try_send(this.meaningless());
            }
        });
    }
}

impl ConnOwner for SdkConnection {
    fn conn_closed(&self, conn_id: u32) {
        self.ids.release(conn_id);
    }

    /// Native SDKs only log the request (docs/protocol/sdk.md 11.3).
    fn answers_traces(&self) -> bool {
        self.nudge.is_none()
    }

    fn backlog(&self, over: bool) {
        if over {
            if self.pause.went_over() {
                self.keep_alive_while_paused();
            }
        } else {
            self.pause.came_back();
        }
    }
}

impl std::fmt::Debug for SdkConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkConnection").field("channel", &self.channel).finish_non_exhaustive()
    }
}
