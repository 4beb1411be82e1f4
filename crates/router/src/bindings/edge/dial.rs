//! Dials to services that SDKs host (docs/protocol/sdk.md 9,
//! docs/protocol/edge-control-plane.md 13.5).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use weft_channel::RequestError;
use weft_wire::Message;
use weft_wire::edge::{
    Dial, DialFailed, DialSuccess, StateClosed, StateConnected, XgressGrant, content_type, header,
};
use weft_xgress::Role;

use super::binding::EdgeBinding;
use super::connection::{HOSTING, SdkConnection};
use super::entries::Conn;
use super::hosted::Hosted;
use super::refusals::GIVEN_UP;
use crate::forwarder::{App, Circuit, SdkCircuit};
use crate::seam::{Egress, NotObeyed, PeerData, RouteError, RouteErrorCode};

/// How long a host may take to answer, unless the route sets a shorter time.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Prefix of terminator ids in routes for very old routers.
const OLD_PREFIX: &str = "hosted:";
/// Peer data: identity id and name of the dialer.
const DIALER: [u32; 2] = [1115, 1116];

impl EdgeBinding {
    /// Dials the host of a terminator and registers the host's end of the circuit. After a failure, also because the
    /// dial was given up, nothing is left behind.
    pub(crate) async fn dial(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
        given_up: &CancellationToken,
    ) -> Result<PeerData, RouteError> {
        let id = egress.destination.strip_prefix(OLD_PREFIX).unwrap_or(&egress.destination);
        let host = self.host_of(id);
        let unknown = || {
            failure(
                RouteErrorCode::InvalidTerminator,
                format!("terminator {id} is not hosted here"),
            )
        };
        let hosted = host.ok_or_else(unknown)?;
        let connection = self.connection(hosted.channel).ok_or_else(unknown)?;
        let timeout = timeout.min(ANSWER_TIME);
        if hosted.bind.router_conn_ids {
            self.dial_named(&hosted, &connection, circuit, egress, timeout, given_up).await
        } else {
            self.dial_unnamed(&hosted, &connection, circuit, egress, timeout, given_up).await
        }
    }

    /// Dials a host for which the router chooses the connection id: the end of the circuit is ready
    /// before the host gets the dial.
    async fn dial_named(
        &self,
        hosted: &Arc<Hosted>,
        connection: &Arc<SdkConnection>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
        given_up: &CancellationToken,
    ) -> Result<PeerData, RouteError> {
        let conn_id = connection.ids.new_conn_id();
        let end = self.attach_host(hosted, connection, circuit, egress, conn_id)?;
        end.begin();
        let dial = dial_message(hosted, circuit, egress, Some(conn_id));
        match ask(hosted, connection, dial, timeout, given_up).await {
            Ok((success, _)) => Ok(success.public_key.map(public_key).into_iter().collect()),
            Err(unanswered) => {
                connection.ids.release(conn_id);
                end.discard();
                if unanswered.may_accept {
                    if hosted.bind.use_xgress {
                        connection.ids.note_given_up(conn_id, &circuit.id);
                    }
                    // The host may just have accepted.
                    let closed = StateClosed::new(conn_id, GIVEN_UP).to_message();
                    connection.tell_hosting(closed);
                }
                Err(unanswered.failure)
            }
        }
    }

    /// Dials a host that chooses the connection id, and that sends nothing before it is told that
    /// the end is ready.
    async fn dial_unnamed(
        &self,
        hosted: &Arc<Hosted>,
        connection: &Arc<SdkConnection>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
        given_up: &CancellationToken,
    ) -> Result<PeerData, RouteError> {
        let dial = dial_message(hosted, circuit, egress, None);
        let asked = ask(hosted, connection, dial, timeout, given_up).await;
        let (success, answer) = asked.map_err(|unanswered| unanswered.failure)?;
        let conn_id = success.new_conn_id;
        let end = match self.attach_host(hosted, connection, circuit, egress, conn_id) {
            Ok(end) => end,
            Err(error) => {
                let closed = StateClosed::new(conn_id, error.text.clone()).to_message();
                connection.send(closed.in_reply_to(&answer)).await;
                return Err(error);
            }
        };
        let ready = StateConnected { conn_id: hosted.conn_id, ..StateConnected::default() };
        if !connection.send(ready.to_message().in_reply_to(&answer)).await {
            connection.ids.release(conn_id);
            end.discard();
            let text = "the host could not be told that it is connected".to_owned();
            return Err(failure(RouteErrorCode::Generic, text));
        }
        end.begin();
        Ok(success.public_key.map(public_key).into_iter().collect())
    }

    /// Puts the end of the circuit behind the host's connection id. The caller begins the end.
    fn attach_host(
        &self,
        hosted: &Arc<Hosted>,
        connection: &Arc<SdkConnection>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        conn_id: u32,
    ) -> Result<Conn, RouteError> {
        let refused = |why: &str| failure(RouteErrorCode::Generic, why.to_owned());
        let outlet = connection.outlet().ok_or_else(|| refused("the host's channel is closed"))?;
        let reserved = connection.ids.reserve(conn_id).map_err(refused)?;
        let owner = connection.this.clone();
        let (forwarder, address) = (&self.forwarder, &egress.address);
        let circuit = Arc::clone(circuit);
        let end = if hosted.bind.use_xgress {
            let role = Role::Terminator;
            Conn::Sdk(SdkCircuit::start(forwarder, circuit, address, role, conn_id, outlet, owner))
        } else {
            let (fin_hold, backlog) = (connection.fin_hold(), connection.backlog_memory());
            let memory = connection.memory();
            let app = App::Sdk { outlet, conn_id, fin_hold, owner, backlog, memory };
            let (role, options) = (Role::Terminator, &self.options.end);
            Conn::Local(forwarder.start_end(circuit, address, role, options, app))
        };
        if connection.ids.fill(conn_id, &reserved, end.clone(), hosted.grant.clone()) {
            if !hosted.is_revoked() {
                return Ok(end);
            }
            // The host lost its right before the end of the circuit was entered, where the loss
            // would have closed it.
            connection.ids.release(conn_id);
        }
        end.discard();
        Err(refused("the host's channel is closed"))
    }
}

/// Why a host did not accept a dial.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) failure: RouteError,
    /// The host gave no answer, and may still accept the dial.
    may_accept: bool,
}

impl From<RouteError> for Unanswered {
    fn from(failure: RouteError) -> Self {
        Self { failure, may_accept: false }
    }
}

/// Sends the dial and waits for the answer while the listener lives and the dial is wanted. An answer counts even if the
/// host has closed the listener since.
pub(super) async fn ask(
    hosted: &Hosted,
    connection: &SdkConnection,
    dial: Message,
    timeout: Duration,
    given_up: &CancellationToken,
) -> Result<(DialSuccess, Message), Unanswered> {
    // A listener that takes over a terminator may be dialed before its bind is answered.
    let answered = tokio::time::timeout(timeout, hosted.answered.cancelled());
    tokio::select! {
        biased;
        () = hosted.over.cancelled() => return Err(listener_ended(hosted).into()),
        () = given_up.cancelled() => return Err(RouteError::from(NotObeyed::TakenDown).into()),
        answered = answered => if answered.is_err() {
            let text = "the host's bind is not answered yet".to_owned();
            return Err(failure(RouteErrorCode::DialTimedOut, text).into());
        }
    }
    let unanswered = |failure| Unanswered { failure, may_accept: true };
    connection.count_written();
    let answer = connection.channel.request_on(HOSTING, dial, timeout);
    tokio::pin!(answer);
    let answered = tokio::select! {
        biased;
        answer = &mut answer => Some(answer),
        () = hosted.over.cancelled() => answer.now_or_never(),
        () = given_up.cancelled() => return Err(unanswered(NotObeyed::TakenDown.into())),
    };
    let answer = match answered {
        Some(Ok(answer)) => answer,
        None => return Err(unanswered(listener_ended(hosted))),
        Some(Err(RequestError::Timeout)) => {
            let text = "the host did not answer in time".to_owned();
            return Err(unanswered(failure(RouteErrorCode::DialTimedOut, text)));
        }
        Some(Err(other)) => {
            let text = format!("the host was not reached: {other}");
            return Err(failure(RouteErrorCode::Generic, text).into());
        }
    };
    Ok(verdict(answer)?)
}

/// The failure of a dial whose listener has ended. The controller removes a terminator after
/// `InvalidTerminator`, so the code is another one if a newer listener has taken the terminator
/// over.
fn listener_ended(hosted: &Hosted) -> RouteError {
    let code = match hosted.is_replaced() {
        true => RouteErrorCode::Generic,
        false => RouteErrorCode::InvalidTerminator,
    };
    failure(code, format!("the listener of terminator {} is over", hosted.terminator))
}

fn verdict(answer: Message) -> Result<(DialSuccess, Message), RouteError> {
    match answer.content_type {
        content_type::DIAL_SUCCESS => DialSuccess::from_message(&answer)
            .map(|success| (success, answer))
            .map_err(|problem| failure(RouteErrorCode::Generic, problem.to_string())),
        content_type::DIAL_FAILED => {
            let reason = DialFailed::from_message(&answer).map(|failed| failed.reason);
            let text = format!("rejected by application: {}", reason.unwrap_or_default());
            Err(failure(RouteErrorCode::RejectedByApplication, text))
        }
        other => {
            let text = format!("the host answered with {other}: {}", answer.text());
            Err(failure(RouteErrorCode::Generic, text))
        }
    }
}

fn dial_message(
    hosted: &Hosted,
    circuit: &Circuit,
    egress: &Egress,
    new_conn_id: Option<u32>,
) -> Message {
    let data = |key: u32| egress.peer_data.get(&key).cloned();
    let header_data = |key: i32| data(key.cast_unsigned());
    let [dialer_id, dialer_name] = DIALER;
    let mut message = Dial {
        conn_id: hosted.conn_id,
        token: hosted.bind.token.clone(),
        caller_id: header_data(header::CALLER_ID).unwrap_or_default(),
        public_key: header_data(header::PUBLIC_KEY),
        marker: header_data(header::CONNECTION_MARKER),
        circuit_id: circuit.id.to_string(),
        app_data: header_data(header::APP_DATA),
        dialer_id: data(dialer_id),
        dialer_name: data(dialer_name),
        new_conn_id,
        xgress: hosted.bind.use_xgress.then(|| XgressGrant {
            controller: circuit.made_by.to_string(),
            address: egress.address.clone(),
        }),
    }
    .to_message();
    if let Some(trace) = egress.trace {
        trace.put(&mut message.headers);
    }
    message
}

fn public_key(key: bytes::Bytes) -> (u32, bytes::Bytes) {
    (header::PUBLIC_KEY.cast_unsigned(), key)
}

fn failure(code: RouteErrorCode, message: String) -> RouteError {
    RouteError { code, text: message }
}
