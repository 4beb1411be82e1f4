//! The messages of an SDK, each passed to its handler.

use std::sync::{Arc, Weak};

use weft_channel::{
    Behaviour, ChannelHandle, CloseReason, ConnectionParts, Handler, Reading, UnderlayInfo,
    UnderlayWaker,
};
use weft_circuit::Carries;
use weft_wire::edge::{
    Data, DialSuccess, StateClosed, UpdateToken, UpdateTokenFailure, content_type, header,
    update_token_success,
};
use weft_wire::hello::underlay;
use weft_wire::payload::{self, Flags, PayloadView};
use weft_wire::{Message, WireError};
use weft_xgress::Role;

use super::connection::SdkConnection;
use super::entries::Conn;
use super::outbox::SdkOutbox;
use super::refusals::{GIVEN_UP, structured};
use crate::forwarder::{ConnOwner, Outlet};

/// Most bytes that one SDK channel may have queued.
const CONNECTION_BUDGET: u64 = 16 << 20;

/// The reason for closing a channel that has other connections left.
const NO_CARRIER: &str = "the connection that carries data is gone";

impl SdkConnection {
    /// Takes a data message.
    fn on_data(&self, message: &Message) {
        let data = match Data::from_message(message) {
            Ok(data) => data,
            Err(problem) => return self.malformed(&problem),
        };
        let conn_id = data.conn_id;
        let end = match self.ids.conns.lock().by_id.get(conn_id).map(|entry| &entry.what) {
            Some(Conn::Local(end)) => Some(Arc::clone(end)),
            Some(_) => return,
            None => None,
        };
        match end {
            Some(end) => end.sdk_data(data),
            // Dropped if there is no room: the next data message causes another close.
            None => {
                let closed = StateClosed::new(conn_id, "the connection is not known here");
                let _ = self.channel.try_send(closed.to_message());
            }
        }
    }

    /// Takes a message of a circuit with flow control at the SDK.
    fn on_circuit(&self, message: Message) {
        let circuit = match PayloadView::of(&message) {
            Ok(view) => {
                let hosts = view.flags.has(Flags::ORIGINATOR);
                let role = if hosts { Role::Terminator } else { Role::Initiator };
                let mut conns = self.ids.conns.lock();
                // Control messages have no flags: their connection id says which end they are of.
                let is_control = message.content_type == payload::content_type::CONTROL;
                let id = message.headers.get_u32(header::CONN_ID).filter(|_| is_control);
                id.and_then(|id| conns.sdk_circuit(id))
                    .filter(|circuit| *circuit.circuit().id == *view.circuit_id)
                    .or_else(|| conns.circuits(role).get(view.circuit_id).cloned())
                    .or_else(|| conns.circuits(Role::Terminator).get(view.circuit_id).cloned())
            }
            Err(problem) => return self.malformed(&problem),
        };
        if let Some(circuit) = circuit {
            circuit.forward(message);
        }
    }

    /// The SDK closes a circuit with flow control of its own.
    fn on_circuit_close(&self, message: &Message) {
        let Ok(id) = message.body_str() else { return };
        let ends = {
            let mut conns = self.ids.conns.lock();
            [Role::Initiator, Role::Terminator].map(|role| conns.circuits(role).get(id).cloned())
        };
        let this: Weak<dyn ConnOwner> = self.this.clone();
        for circuit in ends.into_iter().flatten() {
            if circuit.role() == Role::Terminator && circuit.circuit().expected_close(&this) {
                continue;
            }
            self.ids.release(circuit.conn_id());
            circuit.ended_by_sdk();
            // The answer is the same as after every unroute; SDKs ignore it.
            let closed = StateClosed::new(circuit.conn_id(), "xgress unrouted");
            let _ = self.channel.try_send(closed.to_message());
        }
    }

    /// The SDK closes a connection or a listener.
    fn on_closed(&self, message: &Message) {
        let Ok(closed) = StateClosed::from_message(message) else { return };
        match self.ids.release(closed.conn_id) {
            Some(Conn::Pending(cancel)) => cancel.cancel(),
            Some(Conn::Local(end)) if closed.error.is_some() => end.sdk_gave_up(),
            Some(Conn::Local(end)) => end.sdk_closed(),
            Some(Conn::Sdk(circuit)) => circuit.ended_by_sdk(),
            Some(Conn::Host(hosted)) => self.binding.withdraw(&hosted),
            None => {}
        }
    }

    /// A host accepts a dial that has failed: its connection is closed.
    fn on_late_dial_success(&self, message: &Message) {
        if let Ok(late) = DialSuccess::from_message(message) {
            let mut conns = self.ids.conns.lock();
            if let Some(id) = conns.given_up.remove(&late.new_conn_id)
                && let Some(circuit) = conns.circuits(Role::Terminator).get(&id)
            {
                // Another attempt at the circuit may have led to the same host.
                circuit.circuit().expect_close(self.this.clone());
            }
            drop(conns);
            let closed = StateClosed::new(late.new_conn_id, GIVEN_UP);
            let _ = self.channel.try_send(closed.to_message());
        }
    }

    pub(super) async fn update_token(&self, message: &Message) {
        let Ok(update) = UpdateToken::from_message(message) else { return };
        let Some(session) = self.judged_session().await else { return };
        match self.binding.access.renew(&session, update.token) {
            Ok(renewed) => {
                // All channels of the API session share the new token.
                let all = self.binding.connections.lock().of_session(&renewed.id);
                for other in all {
                    other.session.send_if_modified(|known| {
                        let same = known.as_ref().is_some_and(|known| known.id == renewed.id);
                        if same {
                            *known = Some(Arc::clone(&renewed));
                        }
                        same
                    });
                }
                self.send(update_token_success().in_reply_to(message)).await;
            }
            Err(refusal) => {
                let failure = UpdateTokenFailure { error: structured(&refusal) };
                self.send(failure.to_message().in_reply_to(message)).await;
                self.channel.close(refusal.message);
            }
        }
    }

    /// Closes the channel after data that does not follow its encoding: a stream on it would have a
    /// hole.
    pub(super) fn malformed(&self, problem: &WireError) {
        let peer = self.channel.peer().remote;
        tracing::info!(
            %peer, channel = %self.channel, %problem,
            "an SDK is disconnected: it sent a malformed message"
        );
        self.channel.close(format!("malformed message: {problem}"));
    }
}

/// The events that `start` connects to the channel.
impl Behaviour for SdkConnection {
    fn attach(
        &self,
        info: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        let Some(this) = self.this.upgrade() else {
            return ConnectionParts { handler: Box::new(Deaf), outbox: None };
        };
        // Data leaves by the first data connection; the others carry messages of the lanes.
        let mut outbox = None;
        if info.kind != underlay::EDGE_CONTROL && self.outlet.get().is_none() {
            let budget = self.binding.budget.child(CONNECTION_BUDGET);
            let outlet = Outlet::new(budget);
            let data = outlet.open(Carries::Payloads, waker.clone());
            let serving = SdkOutbox::new(data, self.nudge.clone());
            outbox = Some(Box::new(serving) as Box<dyn weft_channel::Outbox>);
            if let Some(nudge) = &self.nudge {
                let runtime = &self.binding.options.control_runtime;
                let (nudge, channel) = (|| Arc::clone(nudge), || self.channel.clone());
                runtime.spawn(nudge().run(channel()));
                if !nudge().is_old() {
                    runtime.spawn(nudge().keep_pace(channel(), waker.clone()));
                    runtime.spawn(nudge().keep_turns(channel(), waker.clone()));
                }
            }
            let _ = self.outlet.set(outlet);
        }
        let carries_data = outbox.is_some();
        if self.outlet.get().is_some_and(|outlet| outlet.is_closed()) {
            // The connection that carried data has closed, and no other one can take over.
            self.channel.close(NO_CARRIER);
        }
        let handler = EdgeHandler { connection: this, waker: waker.clone(), carries_data };
        ConnectionParts { handler: Box::new(handler), outbox }
    }

    fn closed(&self, reason: &CloseReason) {
        tracing::debug!(channel = %self.channel, %reason, "the channel of an SDK has closed");
        let entries: Vec<Conn> = {
            let mut conns = self.ids.conns.lock();
            conns.closed = true;
            conns.circuits = Default::default();
            conns.by_id.take()
        };
        for conn in entries {
            match conn {
                Conn::Pending(cancel) => cancel.cancel(),
                Conn::Local(end) => end.sdk_lost(),
                Conn::Sdk(circuit) => circuit.ended_by_sdk(),
                Conn::Host(hosted) => self.binding.withdraw(&hosted),
            }
        }
        if let Some(outlet) = self.outlet.get() {
            outlet.close();
        }
        self.release_session();
        self.binding.connections.lock().remove(self.number);
    }
}

/// Takes the messages of one connection of the channel.
struct EdgeHandler {
    connection: Arc<SdkConnection>,
    waker: UnderlayWaker,
    /// True if data for the SDK leaves by this connection.
    carries_data: bool,
}

impl Handler for EdgeHandler {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        let connection = &self.connection;
        match message.content_type {
            payload::content_type::PAYLOAD
            | payload::content_type::ACK
            | payload::content_type::CONTROL => connection.on_circuit(message),
            content_type::DATA => connection.on_data(&message),
            payload::content_type::CLOSE => connection.on_circuit_close(&message),
            content_type::STATE_CLOSED => connection.on_closed(&message),
            content_type::DIAL_SUCCESS => connection.on_late_dial_success(&message),
            content_type::CONNECT
            | content_type::BIND
            | content_type::UNBIND
            | content_type::UPDATE_TOKEN => connection.request(message),
            // These messages are handled at once, because the last of several counts.
            content_type::UPDATE_BIND => connection.update_bind(&message),
            content_type::HEALTH_EVENT => connection.health_event(&message),
            content_type::TRACE_ROUTE => connection.on_trace(&message),
            content_type::TRACE_ROUTE_ANSWER => connection.on_trace_answer(&message),
            other => tracing::trace!(content_type = other, "ignored a message of an SDK"),
        }
        connection.pause.flow(&self.waker)
    }

    // Native SDKs mean to turn Nagle's algorithm off, and do so before they have a socket.
    fn acknowledges_at_once(&self) -> bool {
        self.connection.nudge.is_some()
    }

    fn on_resume(&mut self, _: &ChannelHandle) -> Reading {
        self.connection.pause.flow(&self.waker)
    }

    fn on_detach(&mut self, _: &CloseReason) {
        let (connection, channel) = (&self.connection, &self.connection.channel);
        if !self.carries_data {
            return;
        }
        // Messages that the connection had taken and not written are lost, so that no circuit can
        // go on over another connection. A connection that joins at this moment is either seen
        // here, or sees the closed outlet.
        if let Some(outlet) = connection.outlet.get() {
            outlet.close();
        }
        if channel.underlays().len() > 1 {
            channel.close(NO_CARRIER);
        }
    }
}

/// A handler that ignores messages, for a channel that has closed already.
struct Deaf;

impl Handler for Deaf {
    fn on_message(&mut self, _: Message, _: &ChannelHandle) -> Reading {
        Reading::Continue
    }
}
