//! An SDK hosts a service (docs/protocol/sdk.md 8, docs/protocol/edge-control-plane.md 14).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_wire::Message;
use weft_wire::edge::{
    Bind, BindSuccess, ConnInspect, ConnInspectAnswer, ConnKind, ErrorCode, HealthEvent,
    StateClosed, StateConnected, Unbind, UpdateBind,
};
use weft_wire::edge_ctrl::{MAX_TERMINATOR_DATA, MAX_TERMINATOR_TEXT};

use super::binding::EdgeBinding;
use super::connection::{HOSTING, SdkConnection};
use super::entries::Conn;
use super::hosted::{Hosted, Placement, Why};
use super::patience::Asked;
use super::refusals::{access_lost, closed_message, no_session};
use super::request::Request;
use crate::seam::{AccessGrant, ApiSession, Refusal, RetryHint, TerminatorUpdate, Use};

/// The interval at which a host is asked whether it knows its listener, until it answers.
const INSPECT_INTERVAL: Duration = Duration::from_secs(10);
/// A listener is removed once it has left this many inspections unanswered, and
/// [`INSPECT_PATIENCE`] has passed.
const INSPECT_TRIES: u32 = 3;
/// The time without an answer after which a listener may be removed.
const INSPECT_PATIENCE: Duration = Duration::from_secs(600);
/// A listener that took longer than this to be established is inspected once more.
const SLOW_ESTABLISHMENT: Duration = Duration::from_secs(30);

/// A bind among the listeners of the router.
struct Entered {
    hosted: Arc<Hosted>,
    /// The listener whose terminator the bind has taken over.
    older: Option<Arc<Hosted>>,
    /// The outcome of the request for the terminator.
    made: BoxFuture<'static, Result<(), Refusal>>,
}

impl SdkConnection {
    /// Answers a bind, whatever its outcome.
    pub(super) async fn bind(
        self: &Arc<Self>,
        request: &mut Request,
        reserved: Option<Result<CancellationToken, &'static str>>,
    ) {
        // A bind without a connection id is ignored.
        let Ok(bind) = Bind::from_message(&request.message) else { return };
        let conn_id = bind.conn_id;
        let taken = match reserved {
            Some(Ok(cancel)) => Ok(cancel),
            Some(Err(why)) => Err(why),
            None => return,
        };
        let Some(session) = self.judged_session().await else {
            return self.tell_refused(request, conn_id, &no_session()).await;
        };
        let judged = match &taken {
            Ok(reserved) => self.judge(conn_id, reserved, &session, &bind.token, Use::Bind),
            // The connection id is in use.
            Err(_) => self.binding.access.judge(&session, &bind.token, Use::Bind),
        };
        let grant = match judged {
            Ok(grant) => grant,
            Err(refusal) => {
                return match &taken {
                    Ok(reserved) => self.unmade(request, conn_id, reserved, &refusal).await,
                    Err(_) => self.refuse_bind(request, conn_id, &refusal).await,
                };
            }
        };
        match taken {
            Ok(reserved) => self.host(request, bind, session, grant, &reserved).await,
            Err(why) => {
                let placement = self.binding.hosts.lock().place(self.number, &bind, &session);
                match placement {
                    Placement::Duplicate(hosted) => {
                        self.confirm_again(&request.message, &hosted).await;
                    }
                    _ => self.refuse_bind(request, conn_id, &Refusal::plain(why)).await,
                }
            }
        }
    }

    async fn refuse_bind(&self, request: &mut Request, conn_id: u32, refusal: &Refusal) {
        self.hold_refusal(request, Use::Bind, None).await;
        self.tell_refused(request, conn_id, refusal).await;
    }

    async fn tell_refused(&self, request: &Request, conn_id: u32, refusal: &Refusal) {
        self.send_hosting(closed_message(conn_id, refusal).in_reply_to(&request.message)).await;
    }

    /// Ends a bind that was not made. The SDK is told unless the SDK has taken the bind back: its connection
    /// id may be that of a later bind by then.
    async fn unmade(
        &self,
        request: &mut Request,
        conn_id: u32,
        reserved: &CancellationToken,
        why: &Refusal,
    ) {
        self.hold_refusal(request, Use::Bind, Some(reserved)).await;
        if self.ids.release_reserved(conn_id, reserved) {
            self.tell_refused(request, conn_id, why).await;
        }
    }

    async fn confirm_again(&self, message: &Message, hosted: &Hosted) {
        self.send_hosting(bound(&hosted.bind).in_reply_to(message)).await;
        if hosted.established.load(Ordering::Acquire) && hosted.bind.supports_bind_success {
            self.send_hosting(BindSuccess { conn_id: hosted.conn_id }.to_message()).await;
        }
    }

    /// Registers the listener, has its terminator made, and answers the SDK at once.
    async fn host(
        self: &Arc<Self>,
        request: &mut Request,
        bind: Bind,
        session: Arc<ApiSession>,
        grant: AccessGrant,
        reserved: &CancellationToken,
    ) {
        let conn_id = bind.conn_id;
        let entered = check_lengths(&bind);
        let entered = entered.and_then(|()| self.enter(bind, session, grant.clone(), reserved));
        let Entered { hosted, older, made } = match entered {
            Ok(entered) => entered,
            Err(why) => return self.unmade(request, conn_id, reserved, &why).await,
        };
        if let Some(older) = older {
            self.binding.tell_replaced(&older);
        }
        if !self.ids.fill(conn_id, reserved, Conn::Host(Arc::clone(&hosted)), grant) {
            self.binding.withdraw(&hosted);
            // Either the SDK took the bind back, or its right was lost meanwhile.
            return self.unmade(request, conn_id, reserved, &access_lost()).await;
        }
        if !self.send_hosting(bound(&hosted.bind).in_reply_to(&request.message)).await {
            // The SDK did not get the answer, and would be dialed for a listener that it does not
            // know.
            self.ids.release_host(&hosted);
            self.binding.withdraw(&hosted);
            return;
        }
        hosted.answered.cancel();
        if let Some(why) = hosted.why.get() {
            // The SDK's close may have been queued before the answer, and the listener's id filled after
            // the listener had ended.
            self.ids.release_host(&hosted);
            self.send_hosting(why.message(conn_id)).await;
            return;
        }
        let this = Arc::clone(self);
        let established = Arc::clone(&hosted);
        let runtime = &self.binding.options.control_runtime;
        runtime.spawn(async move { this.establish(established, made).await });
        if hosted.bind.supports_inspect {
            let this = Arc::clone(self);
            runtime.spawn(async move { this.inspect(hosted).await });
        }
    }

    /// Enters a bind among the listeners and asks for its terminator. The error says why not: a later bind of
    /// the listener has been entered, the SDK has taken the bind back, or its right was lost.
    ///
    /// All under one lock: of two binds of one listener, the terminator's last request is that of the bind
    /// that stays, and a bind that was taken back before a later one came does not take the place of that.
    /// The request also comes before the answer to the SDK, whose next message may change the terminator.
    fn enter(
        &self,
        bind: Bind,
        session: Arc<ApiSession>,
        grant: AccessGrant,
        reserved: &CancellationToken,
    ) -> Result<Entered, Refusal> {
        let mut hosts = self.binding.hosts.lock();
        if reserved.is_cancelled() {
            return Err(access_lost());
        }
        let (terminator, older) = match hosts.place(self.number, &bind, &session) {
            Placement::Stale => {
                return Err(Refusal::plain("a newer bind of this listener came first"));
            }
            Placement::New(terminator) => {
                let most = self.binding.options.per_identity.max_listeners;
                if hosts.count_of(&session.identity) >= most as usize {
                    drop(hosts);
                    return Err(self.binding.full(&session, most, "listeners", "maxListeners"));
                }
                (terminator, None)
            }
            // The connection id of the duplicated listener is free already, because that listener
            // is about to end.
            Placement::Takes(older) | Placement::Duplicate(older) => {
                older.why.get_or_init(|| Why::Replaced);
                older.over.cancel();
                (older.terminator.clone(), Some(older))
            }
        };
        let hosted = Arc::new(Hosted {
            terminator,
            conn_id: bind.conn_id,
            channel: self.number,
            bind,
            session,
            grant,
            over: CancellationToken::new(),
            why: OnceLock::new(),
            established: AtomicBool::new(false),
            answered: CancellationToken::new(),
        });
        hosts.enter(&hosted);
        let made = self.binding.control.create_terminator(hosted.terminator_request());
        Ok(Entered { hosted, older, made })
    }

    /// Reports the outcome of the terminator to the SDK. A terminator that is no longer wanted is
    /// removed by dropping the request.
    async fn establish(&self, hosted: Arc<Hosted>, made: BoxFuture<'static, Result<(), Refusal>>) {
        let begun = Instant::now();
        let made = tokio::select! {
            biased;
            () = hosted.over.cancelled() => return,
            made = made => made,
        };
        match made {
            Ok(()) => {
                hosted.established.store(true, Ordering::Release);
                if hosted.bind.supports_bind_success {
                    self.send_hosting(BindSuccess { conn_id: hosted.conn_id }.to_message()).await;
                }
                if begun.elapsed() > SLOW_ESTABLISHMENT && hosted.bind.supports_inspect {
                    self.inspect(hosted).await;
                }
            }
            Err(refusal) => {
                self.binding.note_refused_terminator(&hosted, &refusal);
                let (patience, sender) = (&self.binding.patience, &hosted.session.identity);
                patience.hold(sender, Asked::Use(Use::Bind), begun, &hosted.over).await;
                let known = self.ids.release_host(&hosted);
                self.binding.forget(&hosted);
                if known {
                    self.send_hosting(closed_message(hosted.conn_id, &refusal)).await;
                }
            }
        }
    }

    /// Asks the host whether it knows the listener, until it answers.
    async fn inspect(&self, hosted: Arc<Hosted>) {
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            let question = ConnInspect { conn_id: hosted.conn_id }.to_message();
            let answer = tokio::select! {
                biased;
                () = hosted.over.cancelled() => return,
                answer = self.channel.request_on(HOSTING, question, INSPECT_INTERVAL) => answer,
            };
            tries += 1;
            match answer {
                Ok(answer) => {
                    if ConnInspectAnswer::from_message(&answer).kind != ConnKind::Bind {
                        self.give_up(&hosted, "the host does not know the listener").await;
                    }
                    return;
                }
                Err(_) if self.channel.is_closed() => return,
                Err(_) if tries >= INSPECT_TRIES && begun.elapsed() > INSPECT_PATIENCE => {
                    return self.give_up(&hosted, "the host does not answer").await;
                }
                Err(_) => {}
            }
        }
    }

    /// Removes a listener that its host does not know, or about which the host does not answer,
    /// together with its terminator. The host is sent a close; a host that does know the listener
    /// then binds it again.
    async fn give_up(&self, hosted: &Arc<Hosted>, why: &str) {
        tracing::info!(terminator = %hosted.terminator, why, "a terminator is removed");
        let known = self.ids.release_host(hosted);
        self.binding.withdraw(hosted);
        if known {
            self.send_hosting(closed_message(hosted.conn_id, &Refusal::plain(why))).await;
        }
    }

    /// Ends a listener on request; returns the answer.
    pub(super) fn unbind(&self, message: &Message) -> Option<Message> {
        let unbind = Unbind::from_message(message).ok()?;
        match self.ids.release_listener(unbind.conn_id) {
            Some(Conn::Host(hosted)) => self.binding.withdraw(&hosted),
            Some(Conn::Pending(cancel)) => cancel.cancel(),
            _ => {}
        }
        // C SDKs wait for an answer of any type; Go SDKs have forgotten the listener by then.
        let done = StateClosed::new(unbind.conn_id, "unbound").to_message();
        Some(done.in_reply_to(message))
    }

    pub(super) fn update_bind(&self, message: &Message) {
        let Ok(update) = UpdateBind::from_message(message) else { return };
        let Some(hosted) = self.ids.hosted(update.conn_id) else { return };
        let change = TerminatorUpdate { cost: update.cost, precedence: update.precedence };
        self.binding.control.update_terminator(&hosted.terminator, change);
    }

    pub(super) fn health_event(&self, message: &Message) {
        let Ok(event) = HealthEvent::from_message(message) else { return };
        if let Some(hosted) = self.ids.hosted(event.conn_id) {
            self.binding.control.health_event(&hosted.terminator, event.passed);
        }
    }
}

/// Refuses what no controller takes, before it is kept.
fn check_lengths(bind: &Bind) -> Result<(), Refusal> {
    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let lengths = [
        ("instance", bind.instance.len(), MAX_TERMINATOR_TEXT),
        ("instance secret", length(&bind.instance_secret), MAX_TERMINATOR_TEXT),
        ("listener id", length(&bind.listener_id), MAX_TERMINATOR_TEXT),
        ("public key", length(&bind.public_key), MAX_TERMINATOR_DATA),
    ];
    match lengths.into_iter().find(|(_, length, most)| length > most) {
        Some((what, _, most)) => {
            let text = format!("the {what} of a listener has at most {most} bytes");
            Err(Refusal::new(ErrorCode::INTERNAL, RetryHint::NOT_RETRIABLE, text))
        }
        None => Ok(()),
    }
}

impl EdgeBinding {
    /// The listener of this terminator.
    pub(super) fn host_of(&self, terminator: &str) -> Option<Arc<Hosted>> {
        self.hosts.lock().of(terminator)
    }

    /// Ends a listener: dials that wait for it fail, and its terminator is removed.
    pub(super) fn withdraw(&self, hosted: &Arc<Hosted>) {
        hosted.over.cancel();
        if hosted.is_replaced() {
            return;
        }
        // The lock is held until the removal is queued. A newer listener that takes the terminator
        // over is entered and asks for the terminator under the same lock, so that its request
        // never comes before the removal.
        let mut hosts = self.hosts.lock();
        if hosts.forget(hosted) {
            self.control.remove_terminators(vec![hosted.terminator.clone()]);
        }
    }

    /// Ends a listener whose SDK has lost the right to host.
    pub(super) fn revoke(&self, hosted: &Arc<Hosted>) {
        hosted.why.get_or_init(|| Why::Revoked);
        self.withdraw(hosted);
    }

    /// Ends a listener whose terminator was refused.
    fn forget(&self, hosted: &Arc<Hosted>) {
        hosted.over.cancel();
        if !hosted.is_replaced() {
            self.hosts.lock().forget(hosted);
        }
    }

    /// Tells the SDK of an older listener that a newer one has taken over its terminator.
    fn tell_replaced(&self, older: &Arc<Hosted>) {
        let Some(connection) = self.connection(older.channel) else { return };
        if connection.ids.release_host(older) {
            connection.tell_hosting(Why::Replaced.message(older.conn_id));
        }
    }
}

fn bound(bind: &Bind) -> Message {
    StateConnected {
        conn_id: bind.conn_id,
        router_conn_ids: bind.router_conn_ids,
        ..StateConnected::default()
    }
    .to_message()
}
