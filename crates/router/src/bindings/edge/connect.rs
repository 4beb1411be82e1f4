//! An SDK dials a service (docs/protocol/sdk.md 7, docs/protocol/edge-control-plane.md 13).

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use weft_spans::{Span, attribute};
use weft_wire::Message;
use weft_wire::ctrl::peer_data_key::{DIALER_IDENTITY_ID, DIALER_IDENTITY_NAME, STICKINESS_TOKEN};
use weft_wire::edge::{Connect, StateConnected, XgressGrant, header};
use weft_xgress::Role;

use super::connection::SdkConnection;
use super::entries::Conn;
use super::refusals::{access_lost, closed_message, no_session};
use super::request::Request;
use super::spans;
use crate::forwarder::{App, SdkCircuit};
use crate::seam::{AccessGrant, ApiSession, CircuitRequest, NewCircuit, PeerData, Refusal, Use};

/// The reason for the failure of a dial whose circuit was taken down before it was complete.
const ENDED: &str = "the circuit ended while it was made";

impl SdkConnection {
    /// Answers a connect, whatever its outcome.
    pub(super) async fn connect(
        self: &Arc<Self>,
        request: &mut Request,
        reserved: Option<Result<CancellationToken, &'static str>>,
    ) {
        let Ok(connect) = Connect::from_message(&request.message) else { return };
        let came = self.binding.came();
        let (conn_id, cancel) = match (connect.conn_id, reserved) {
            (Some(conn_id), Some(Ok(cancel))) => (conn_id, cancel),
            (conn_id, reserved) => {
                let why = reserved.and_then(Result::err).unwrap_or("connId not set, required");
                self.hold_refusal(request, Use::Dial, None).await;
                return self.refuse(request, conn_id.unwrap_or(0), &Refusal::plain(why)).await;
            }
        };
        let message = &request.message;
        let (mut span, made) = match self.judged_session().await.ok_or_else(no_session) {
            Ok(session) => {
                let mut span = self.binding.dial_span(message, &session, came);
                let made =
                    self.make_circuit(message, &connect, conn_id, &cancel, session, &mut span);
                let made = made.await;
                (span, made)
            }
            Err(refusal) => (Span::none(), Err(refusal)),
        };
        if let Err(refusal) = made {
            self.hold_refusal(request, Use::Dial, Some(&cancel)).await;
            let refusal = match (self.ids.release_reserved(conn_id, &cancel), cancel.is_cancelled())
            {
                (_, false) => refusal,
                // This router cancelled the dial: the SDK lost its right meanwhile.
                (true, true) => access_lost(),
                // The SDK cancelled the dial.
                (false, true) => return,
            };
            spans::refused(&mut span, &refusal);
            self.refuse(request, conn_id, &refusal).await;
        }
    }

    async fn refuse(&self, request: &Request, conn_id: u32, refusal: &Refusal) {
        self.send(closed_message(conn_id, refusal).in_reply_to(&request.message)).await;
    }

    async fn make_circuit(
        self: &Arc<Self>,
        message: &Message,
        connect: &Connect,
        conn_id: u32,
        cancel: &CancellationToken,
        session: Arc<ApiSession>,
        span: &mut Span,
    ) -> Result<(), Refusal> {
        let binding = &self.binding;
        let grant = self.judge(conn_id, cancel, &session, &connect.token, Use::Dial)?;
        span.event("session looked up");
        span.set(attribute::SERVICE_ID, &grant.service);
        let mut peer_data = connect.peer_data();
        if let Some(token) = &connect.stickiness {
            peer_data.insert(STICKINESS_TOKEN, token.clone());
        }
        peer_data.insert(DIALER_IDENTITY_ID, Bytes::from(session.identity.clone()));
        if let Some(name) = &session.identity_name {
            peer_data.insert(DIALER_IDENTITY_NAME, Bytes::from(name.clone()));
        }
        let timeout = self.dialed.timeout;
        let request = CircuitRequest {
            session,
            grant: grant.clone(),
            instance: connect.instance.clone(),
            peer_data,
            timeout,
            trace: span.context(),
        };
        let made = tokio::time::timeout(timeout, binding.control.create_circuit(request)).await;
        let circuit = made.map_err(|_| Refusal::plain("no circuit was made in time"))??;
        spans::made(span, &circuit);
        self.attach_dialer(message, connect, conn_id, cancel, circuit, grant).await
    }

    /// Puts the end of a new circuit behind the connection id and answers the SDK.
    async fn attach_dialer(
        self: &Arc<Self>,
        message: &Message,
        connect: &Connect,
        conn_id: u32,
        cancel: &CancellationToken,
        circuit: NewCircuit,
        grant: AccessGrant,
    ) -> Result<(), Refusal> {
        let forwarder = &self.binding.forwarder;
        let give_up = |why: &str| {
            forwarder.end_gone(&circuit.controller, &circuit.id, Role::Initiator);
            Refusal { circuit: Some(circuit.id.clone()), ..Refusal::plain(why) }
        };
        let Some(outlet) = self.outlet().filter(|_| !cancel.is_cancelled()) else {
            return Err(give_up("the connection was given up"));
        };
        // The route was complete before the controller answered; it may have been taken down since.
        let Some(known) = forwarder.circuit(&circuit.id) else { return Err(give_up(ENDED)) };
        let answer = connected(connect, conn_id, &circuit);
        let owner = self.this.clone();
        let end = if connect.use_xgress {
            let (address, role) = (&circuit.address, Role::Initiator);
            let end = SdkCircuit::start(
                forwarder,
                Arc::clone(&known),
                address,
                role,
                conn_id,
                outlet,
                owner,
            );
            Conn::Sdk(end)
        } else {
            let (fin_hold, backlog) = (self.fin_hold(), self.backlog_memory());
            let memory = self.memory();
            let app = App::Sdk { outlet, conn_id, fin_hold, owner, backlog, memory };
            let options = &self.dialed.end;
            let role = Role::Initiator;
            let (known, address) = (Arc::clone(&known), &circuit.address);
            Conn::Local(forwarder.start_end(known, address, role, options, app))
        };
        if !self.ids.fill(conn_id, cancel, end.clone(), grant) {
            end.discard();
            return Err(give_up("the connection was given up"));
        }
        if known.has_ended() {
            // An unroute meanwhile may not have found the new end.
            self.ids.release(conn_id);
            end.discard();
            return Err(give_up(ENDED));
        }
        // The answer is queued on the data connection before the end is listed, so that it is
        // written before any data.
        if !self.send(answer.in_reply_to(message)).await {
            // Without the answer, the SDK would get data of a connection that it takes for refused.
            self.ids.release(conn_id);
            end.discard();
            return Err(give_up("the answer to the dial could not be sent"));
        }
        end.begin();
        Ok(())
    }
}

/// The answer to a dial that succeeded.
fn connected(connect: &Connect, conn_id: u32, circuit: &NewCircuit) -> Message {
    let mut peer_data: PeerData = circuit.peer_data.clone();
    let public_key = peer_data.remove(&header::PUBLIC_KEY.cast_unsigned());
    let stickiness = peer_data.remove(&STICKINESS_TOKEN);
    // Each SDK spells the method of encryption in its own way and refuses the other's.
    peer_data.remove(&header::CRYPTO_METHOD.cast_unsigned());
    // Lower header numbers belong to the channel.
    peer_data.retain(|key, _| *key >= header::CONN_ID.cast_unsigned());
    let xgress = connect.use_xgress.then(|| XgressGrant {
        controller: circuit.controller.to_string(),
        address: circuit.address.clone(),
    });
    StateConnected {
        conn_id,
        circuit_id: Some(circuit.id.clone()),
        public_key,
        stickiness,
        router_conn_ids: connect.router_conn_ids,
        xgress,
        peer_data,
    }
    .to_message()
}
