//! Requests of this program on a channel: dials, listeners, and accepted dials.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use weft_channel::{Lane, SendError};
use weft_wire::edge::{Bind, Connect, Dial, DialSuccess, StateClosed, Unbind};
use weft_wire::{Message, TraceContext};
use weft_xgress::Role;

use super::{Arrival, ChannelConnection, Dialed, HostEvent, Hosting, RouterChannel};
use crate::circuit::Circuit;
use crate::error::{Failure, Refusal};

/// How long a host waits for the router to be ready for a connection id that the host chose.
const THREE_WAY_TIMEOUT: Duration = Duration::from_secs(5);

impl RouterChannel {
    /// Dials, as part of a trace if there is one; the answer is matched by connection id. Dropping
    /// the future cancels the dial.
    pub(crate) async fn connect(
        &self,
        mut connect: Connect,
        trace: Option<TraceContext>,
    ) -> Result<Dialed, Failure> {
        let (answer, answered) = oneshot::channel();
        let conn_id = self.reserve(ChannelConnection::Dialing(answer))?;
        connect.conn_id = Some(conn_id);
        let mut attempt = Attempt { channel: self, conn_id, decided: false };
        let mut message = connect.to_message();
        if let Some(trace) = trace {
            trace.put(&mut message.headers);
        }
        self.send(message).await?;
        let answer = answered.await;
        attempt.decided = true;
        match answer {
            Ok(Ok(dialed)) => Ok(dialed),
            Ok(Err(refusal)) => Err(Failure::Refused(refusal)),
            Err(_) => Err(self.gone()),
        }
    }

    /// Asks to host. Reports of the router come by the receiver, dials go to `dials`.
    pub(crate) async fn host(
        &self,
        mut bind: Bind,
        dials: mpsc::Sender<Arrival>,
    ) -> Result<ChannelListener<'_>, Failure> {
        // The router sends at most three reports about a listener.
        let (events, receiver) = mpsc::channel(8);
        let conn_id = self.reserve(ChannelConnection::Host(Hosting { events, dials }))?;
        bind.conn_id = conn_id;
        let unbind =
            Unbind { conn_id, token: bind.token.clone(), listener_id: bind.listener_id.clone() };
        let hosted = ChannelListener { channel: self, events: receiver, unbind };
        self.send(bind.to_message()).await?;
        Ok(hosted)
    }

    /// Accepts a dial: the circuit is registered before the router is answered.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        dial: &Dial,
        request: &Message,
        public_key: Option<Bytes>,
    ) -> Result<Arc<Circuit>, Failure> {
        let named = dial.new_conn_id;
        let conn_id = match named {
            Some(id) => id,
            None => self.free_id()?,
        };
        let own = dial.xgress.is_some();
        let circuit = self.circuit(Role::Terminator, conn_id, &dial.circuit_id, own)?;
        let unanswered = Unanswered(Some(Arc::clone(&circuit)));
        let success = DialSuccess { conn_id: dial.conn_id, new_conn_id: conn_id, public_key };
        let success = success.to_message().in_reply_to(request);
        let sent = match named {
            Some(_) => self.send(success).await,
            None => self.three_way(success).await,
        };
        sent?;
        unanswered.keep();
        circuit.begin();
        Ok(circuit)
    }

    /// Accepts a dial at an old router, which does not choose connection ids: it confirms the one that the
    /// host chose.
    async fn three_way(&self, success: Message) -> Result<(), Failure> {
        let answer = self.handle.request_on(Lane::High, success, THREE_WAY_TIMEOUT).await;
        let answer = answer.map_err(|error| Failure::Channel(error.to_string()))?;
        match StateClosed::from_message(&answer) {
            Ok(closed) => Err(Failure::Refused(Refusal::of(&closed))),
            Err(_) => Ok(()),
        }
    }
}

/// A dial under way; cancelled when dropped.
struct Attempt<'a> {
    channel: &'a RouterChannel,
    conn_id: u32,
    decided: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.decided {
            return;
        }
        let entry = {
            let mut conns = self.channel.conns.lock();
            match conns.by_id.get(&self.conn_id) {
                Some(ChannelConnection::Circuit(circuit)) => {
                    Some(ChannelConnection::Circuit(Arc::clone(circuit)))
                }
                Some(ChannelConnection::Dialing(_)) => conns.by_id.remove(&self.conn_id),
                _ => None,
            }
        };
        match entry {
            Some(ChannelConnection::Circuit(circuit)) => circuit.abort(),
            // If the router accepts the dial after all, that connection is closed, too.
            Some(_) => self.channel.give_back(self.conn_id, None),
            None => {}
        }
    }
}

/// The circuit of a dial that is being accepted; removed unless it is kept.
struct Unanswered(Option<Arc<Circuit>>);

impl Unanswered {
    /// The router has been answered.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(circuit) = self.0.take() {
            circuit.lost();
        }
    }
}

/// A listener on a channel; ends when dropped.
pub(crate) struct ChannelListener<'a> {
    channel: &'a RouterChannel,
    /// Reports of the router; they end with the listener or its channel.
    pub(crate) events: mpsc::Receiver<HostEvent>,
    unbind: Unbind,
}

impl ChannelListener<'_> {
    /// The listener's connection id.
    pub(crate) fn conn_id(&self) -> u32 {
        self.unbind.conn_id
    }
}

impl Drop for ChannelListener<'_> {
    fn drop(&mut self) {
        let entry = self.channel.conns.lock().by_id.remove(&self.unbind.conn_id);
        // Without an entry, the router has closed the listener.
        if entry.is_none() {
            return;
        }
        let (handle, unbind) = (self.channel.handle.clone(), self.unbind.to_message());
        let sent = handle.try_send_on(Lane::High, unbind.clone());
        // Many listeners may end at once. The router would keep one whose unbind was lost.
        if let (Err(SendError::Full), Ok(runtime)) = (sent, Handle::try_current()) {
            runtime.spawn(async move {
                let send = async || handle.send_on(Lane::High, unbind.clone()).await;
                while let Err(SendError::Full | SendError::Timeout) = send().await {}
            });
        }
    }
}
