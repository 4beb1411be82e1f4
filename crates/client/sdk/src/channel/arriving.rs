//! The messages of routers, handled on the task of the channel.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_channel::{
    Behaviour, ChannelHandle, CloseReason, ConnectionParts, Handler, Lane, Reading, UnderlayInfo,
    UnderlayWaker,
};
use weft_wire::edge::{
    BindSuccess, ConnInspect, ConnInspectAnswer, ConnKind, Data, Dial, StateClosed, StateConnected,
    TraceRoute, TraceRouteAnswer, content_type, header,
};
use weft_wire::payload::{self, Ack, CircuitControl, Flags, Payload, PayloadView};
use weft_wire::{Message, WireError};
use weft_xgress::Role;

use super::{Arrival, ChannelConnection, Conns, HostEvent, RouterChannel};
use crate::circuit::Circuit;
use crate::error::{Failure, Refusal};
use crate::outlet::RouterOutlet;
use crate::traces::Trace;

/// The shortest interval between two messages that tell a router that the same connection is unknown.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(1);

impl RouterChannel {
    /// The circuit of a message: by connection id or, without one, by circuit id.
    fn circuit_of(&self, message: &Message) -> Result<Option<Arc<Circuit>>, WireError> {
        let mut conns = self.conns.lock();
        if let Some(id) = message.headers.get_u32(header::CONN_ID)
            && let Some(ChannelConnection::Circuit(circuit)) = conns.by_id.get(&id)
        {
            return Ok(Some(Arc::clone(circuit)));
        }
        let view = PayloadView::of(message)?;
        let to_dialer = view.flags.has(Flags::ORIGINATOR);
        let role = if to_dialer { Role::Initiator } else { Role::Terminator };
        Ok(conns.circuits(role).get(view.circuit_id).cloned())
    }

    fn on_payload(&self, message: &Message) -> Result<(), WireError> {
        if let Some(circuit) = self.circuit_of(message)? {
            circuit.on_payload(Payload::from_message(message)?);
        }
        Ok(())
    }

    fn on_ack(&self, message: &Message) -> Result<(), WireError> {
        if let Some(circuit) = self.circuit_of(message)? {
            circuit.on_ack(&Ack::from_message(message)?);
        }
        Ok(())
    }

    fn on_control(&self, message: &Message) -> Result<(), WireError> {
        if let Some(circuit) = self.circuit_of(message)? {
            circuit.on_trace(Trace::Control(CircuitControl::from_message(message)?));
        }
        Ok(())
    }

    fn on_trace(&self, message: &Message) -> Result<(), WireError> {
        let asked = TraceRoute::from_message(message)?;
        if let Some(circuit) = self.circuit_at(asked.conn_id) {
            circuit.on_trace(Trace::Asked(asked));
        }
        Ok(())
    }

    fn on_trace_answer(&self, message: &Message) -> Result<(), WireError> {
        let answer = TraceRouteAnswer::from_message(message)?;
        if let Some(circuit) = self.circuit_at(answer.conn_id) {
            circuit.on_trace(Trace::Answered(answer));
        }
        Ok(())
    }

    fn circuit_at(&self, conn_id: u32) -> Option<Arc<Circuit>> {
        match self.conns.lock().by_id.get(&conn_id) {
            Some(ChannelConnection::Circuit(circuit)) => Some(Arc::clone(circuit)),
            _ => None,
        }
    }

    fn on_data(&self, message: &Message) -> Result<(), WireError> {
        let data = Data::from_message(message)?;
        let circuit = {
            let mut conns = self.conns.lock();
            match conns.by_id.get(&data.conn_id) {
                Some(ChannelConnection::Circuit(circuit)) => Some(Arc::clone(circuit)),
                Some(_) => None,
                None => {
                    self.tell_unknown(&mut conns, data.conn_id);
                    None
                }
            }
        };
        if let Some(circuit) = circuit {
            circuit.on_data(data);
        }
        Ok(())
    }

    /// Closes the channel after data that does not follow its encoding. The data names no circuit, so
    /// that any stream with flow control at the router may have a hole.
    fn malformed_data(&self, problem: &WireError) {
        tracing::warn!(
            channel = %self.handle, %problem,
            "a router sent malformed data: its connection is closed, and the circuits on it end"
        );
        self.handle.close(format!("malformed data: {problem}"));
    }

    /// Tells the router that a connection is unknown, at most once in the interval.
    fn tell_unknown(&self, conns: &mut Conns, conn_id: u32) {
        let now = Instant::now();
        let told = conns.unknown.is_some_and(|(id, when)| {
            id == conn_id && now.saturating_duration_since(when) < UNKNOWN_INTERVAL
        });
        if !told {
            conns.unknown = Some((conn_id, now));
            let closed = StateClosed::new(conn_id, "the connection is not known here");
            let _ = self.handle.try_send(closed.to_message());
        }
    }

    /// The router accepted a dial or a bind.
    fn on_connected(&self, message: &Message) -> Result<(), WireError> {
        let connected = StateConnected::from_message(message)?;
        let conn_id = connected.conn_id;
        let dialing = {
            let mut conns = self.conns.lock();
            match conns.by_id.get(&conn_id) {
                Some(ChannelConnection::Host(hosting)) => {
                    let _ = hosting.events.try_send(HostEvent::Accepted);
                    return Ok(());
                }
                Some(ChannelConnection::Circuit(_)) => return Ok(()),
                // The dial was cancelled: the connection has to be closed.
                None => None,
                Some(ChannelConnection::Dialing(_)) => match conns.by_id.remove(&conn_id) {
                    Some(ChannelConnection::Dialing(answer)) => Some(answer),
                    _ => None,
                },
            }
        };
        let Some(answer) = dialing else {
            self.give_back(conn_id, connected.circuit_id.as_deref());
            return Ok(());
        };
        let own = connected.xgress.is_some();
        let circuit_id = connected.circuit_id.clone().unwrap_or_default();
        let made = if own && circuit_id.is_empty() {
            Err(Failure::Channel("the router named no circuit".to_owned()))
        } else {
            self.circuit(Role::Initiator, conn_id, &circuit_id, own)
        };
        match made {
            Ok(circuit) => {
                circuit.begin();
                if let Err(Ok((circuit, _))) = answer.send(Ok((circuit, connected))) {
                    circuit.abort();
                }
            }
            Err(failure) => {
                self.give_back(conn_id, connected.circuit_id.as_deref());
                let _ = answer.send(Err(Refusal::plain(failure.to_string())));
            }
        }
        Ok(())
    }

    /// The router closes a connection, or refuses a dial or a bind.
    fn on_closed(&self, message: &Message) -> Result<(), WireError> {
        let closed = StateClosed::from_message(message)?;
        let entry = {
            let mut conns = self.conns.lock();
            match conns.by_id.get(&closed.conn_id) {
                Some(ChannelConnection::Circuit(circuit)) => {
                    Some(ChannelConnection::Circuit(Arc::clone(circuit)))
                }
                Some(_) => conns.by_id.remove(&closed.conn_id),
                None => None,
            }
        };
        match entry {
            Some(ChannelConnection::Circuit(circuit)) => {
                circuit.closed_by_router(closed.error.is_none())
            }
            Some(ChannelConnection::Dialing(answer)) => {
                let _ = answer.send(Err(Refusal::of(&closed)));
            }
            Some(ChannelConnection::Host(hosting)) => {
                // Without room, the end of the event channel tells the same.
                let _ = hosting.events.try_send(HostEvent::Closed(Refusal::of(&closed)));
            }
            None => {}
        }
        Ok(())
    }

    /// The router closes a circuit by its id.
    fn on_circuit_close(&self, message: &Message) -> Result<(), WireError> {
        let id = message.body_str()?;
        let ends = {
            let mut conns = self.conns.lock();
            [Role::Initiator, Role::Terminator].map(|role| conns.circuits(role).get(id).cloned())
        };
        ends.iter().flatten().for_each(|circuit| circuit.closed_by_router(true));
        Ok(())
    }

    /// A dial reaches a listener.
    fn on_dial(&self, message: Message) -> Result<(), WireError> {
        let dial = Dial::from_message(&message)?;
        let Some(this) = self.this.upgrade() else { return Ok(()) };
        let dials = match self.conns.lock().by_id.get(&dial.conn_id) {
            Some(ChannelConnection::Host(hosting)) => Some(hosting.dials.clone()),
            _ => None,
        };
        let conn_id = dial.conn_id;
        let arrival = Arrival::new(dial, message, this, &self.figures.spans);
        let Some(dials) = dials else {
            arrival.refuse(&format!("no listener for conn id [{conn_id}]"));
            return Ok(());
        };
        match dials.try_send(arrival) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(arrival)) => {
                arrival.refuse("too many connections wait to be accepted");
            }
            Err(mpsc::error::TrySendError::Closed(arrival)) => {
                arrival.refuse("the listener is closed");
            }
        }
        Ok(())
    }

    fn on_bind_success(&self, message: &Message) -> Result<(), WireError> {
        let success = BindSuccess::from_message(message)?;
        if let Some(ChannelConnection::Host(hosting)) =
            self.conns.lock().by_id.get(&success.conn_id)
        {
            let _ = hosting.events.try_send(HostEvent::Established);
        }
        Ok(())
    }

    /// The router asks if a connection is alive (docs/protocol/sdk.md 8.7).
    fn on_inspect(&self, message: &Message) -> Result<(), WireError> {
        let conn_id = ConnInspect::from_message(message)?.conn_id;
        let (kind, detail) = match self.conns.lock().by_id.get(&conn_id) {
            Some(ChannelConnection::Host(_)) => (ConnKind::Bind, String::new()),
            Some(ChannelConnection::Dialing(_) | ChannelConnection::Circuit(_)) => {
                (ConnKind::Dial, String::new())
            }
            None => (ConnKind::Invalid, format!("invalid conn id [{conn_id}]")),
        };
        let answer = ConnInspectAnswer { conn_id, kind, detail }.to_message();
        // Without room for the answer, the router asks again.
        let _ = self.handle.try_send_on(Lane::High, answer.in_reply_to(message));
        Ok(())
    }

    fn on_message(&self, message: Message) -> Result<(), WireError> {
        match message.content_type {
            payload::content_type::PAYLOAD => return self.on_payload(&message),
            payload::content_type::ACK => return self.on_ack(&message),
            content_type::DATA => {
                return self.on_data(&message).inspect_err(|problem| self.malformed_data(problem));
            }
            _ => {}
        }
        self.proved.store(true, Ordering::Relaxed);
        match message.content_type {
            content_type::STATE_CONNECTED => self.on_connected(&message),
            content_type::STATE_CLOSED => self.on_closed(&message),
            content_type::DIAL => self.on_dial(message),
            content_type::BIND_SUCCESS => self.on_bind_success(&message),
            content_type::CONN_INSPECT_REQUEST => self.on_inspect(&message),
            payload::content_type::CLOSE => self.on_circuit_close(&message),
            payload::content_type::CONTROL => self.on_control(&message),
            content_type::TRACE_ROUTE => self.on_trace(&message),
            content_type::TRACE_ROUTE_ANSWER => self.on_trace_answer(&message),
            other => {
                tracing::trace!(content_type = other, "ignored a message of a router");
                Ok(())
            }
        }
    }
}

/// The events that `start` connects to the channel.
impl Behaviour for RouterChannel {
    fn attach(
        &self,
        _: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        let mut outbox = None;
        if self.outlet.get().is_none() {
            let (outlet, serving) = RouterOutlet::new(waker.clone());
            outbox = Some(Box::new(serving) as Box<dyn weft_channel::Outbox>);
            let _ = self.outlet.set(outlet);
        }
        ConnectionParts { handler: Box::new(RouterHandler { channel: self.this.clone() }), outbox }
    }

    fn closed(&self, reason: &CloseReason) {
        tracing::debug!(channel = %self.handle, %reason, "the channel to a router has closed");
        let entries: Vec<ChannelConnection> = {
            let mut conns = self.conns.lock();
            conns.closed = true;
            conns.by_circuit = Default::default();
            conns.by_id.drain().map(|(_, entry)| entry).collect()
        };
        for entry in entries {
            // The senders of dials and listeners are dropped, which tells their tasks.
            if let ChannelConnection::Circuit(circuit) = entry {
                circuit.lost();
            }
        }
        if let Some(outlet) = self.outlet.get() {
            outlet.clear();
        }
        self.idle.notify_waiters();
    }
}

/// Handles the messages of one connection of the channel.
struct RouterHandler {
    channel: Weak<RouterChannel>,
}

impl RouterHandler {
    fn flow(channel: &RouterChannel) -> Reading {
        if channel.is_held_back() { Reading::Pause } else { Reading::Continue }
    }
}

impl Handler for RouterHandler {
    fn on_message(&mut self, message: Message, handle: &ChannelHandle) -> Reading {
        let Some(channel) = self.channel.upgrade() else { return Reading::Continue };
        if let Err(problem) = channel.on_message(message) {
            tracing::debug!(channel = %handle, %problem, "a message of a router cannot be decoded and is dropped");
        }
        Self::flow(&channel)
    }

    fn on_resume(&mut self, _: &ChannelHandle) -> Reading {
        self.channel.upgrade().map_or(Reading::Continue, |channel| Self::flow(&channel))
    }
}
