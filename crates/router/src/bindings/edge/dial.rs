//! A circuit reaches a service that an SDK hosts (protocol: sdk 9, edge-control-plane 13.5).

use std::{sync::Arc, time::Duration};

use weft_channel::{Lane, RequestError};
use weft_wire::{
    Message,
    edge::{
        Dial, DialFailed, DialSuccess, StateClosed, StateConnected, XgressGrant, content_type,
        header,
    },
};
use weft_xgress::Role;

use super::{
    EdgeBinding,
    bind::Hosted,
    connection::{Conn, SdkConnection},
};
use crate::{
    forwarder::{App, Circuit, LocalEnd, SdkCircuit},
    seam::{Egress, End, PeerData, RouteErrorCode, RouteFailure},
};

/// How long a host may take to answer, unless the route allows less.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Terminator ids of very old routers carry this in front.
const OLD_PREFIX: &str = "hosted:";
/// Peer data: identity id and name of the dialer.
const DIALER: [u32; 2] = [1115, 1116];

impl EdgeBinding {
    /// Dials the host of a terminator and registers its end of the circuit. On failure nothing is
    /// left behind.
    pub(crate) async fn dial(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteFailure> {
        let id = egress.destination.strip_prefix(OLD_PREFIX).unwrap_or(&egress.destination);
        let host = self.host_of(id);
        let unknown = || {
            failure(
                RouteErrorCode::InvalidTerminator,
                format!("terminator {id} is not hosted here"),
            )
        };
        let hosted = host.ok_or_else(unknown)?;
        let connection = hosted.connection.upgrade().ok_or_else(unknown)?;
        let timeout = timeout.min(ANSWER_TIME);
        if hosted.bind.router_conn_ids {
            self.dial_named(&hosted, &connection, circuit, egress, timeout).await
        } else {
            self.dial_unnamed(&hosted, &connection, circuit, egress, timeout).await
        }
    }

    /// The router names the connection, and so it is ready before the host hears of it.
    async fn dial_named(
        &self,
        hosted: &Arc<Hosted>,
        connection: &Arc<SdkConnection>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteFailure> {
        let conn_id = connection.new_conn_id();
        let end = self.attach_host(hosted, connection, circuit, egress, conn_id)?;
        end.begin();
        let dial = dial_message(hosted, circuit, egress, Some(conn_id));
        match ask(hosted, connection, dial, timeout).await {
            Ok((success, _)) => Ok(success.public_key.map(public_key).into_iter().collect()),
            Err(error) => {
                connection.release(conn_id);
                end.discard();
                Err(error)
            }
        }
    }

    /// The host names the connection, and sends nothing on it before it is told that it is ready.
    async fn dial_unnamed(
        &self,
        hosted: &Arc<Hosted>,
        connection: &Arc<SdkConnection>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteFailure> {
        let dial = dial_message(hosted, circuit, egress, None);
        let (success, answer) = ask(hosted, connection, dial, timeout).await?;
        let conn_id = success.new_conn_id;
        let end = match self.attach_host(hosted, connection, circuit, egress, conn_id) {
            Ok(end) => end,
            Err(error) => {
                let closed = StateClosed::new(conn_id, error.message.clone()).to_message();
                connection.send(closed.in_reply_to(&answer)).await;
                return Err(error);
            }
        };
        let ready = StateConnected { conn_id: hosted.conn_id, ..StateConnected::default() };
        connection.send(ready.to_message().in_reply_to(&answer)).await;
        end.begin();
        Ok(success.public_key.map(public_key).into_iter().collect())
    }

    /// Puts the end of the circuit behind the host's connection id. Its caller begins it.
    fn attach_host(
        &self,
        hosted: &Arc<Hosted>,
        connection: &Arc<SdkConnection>,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        conn_id: u32,
    ) -> Result<Conn, RouteFailure> {
        let refused = |why: &str| failure(RouteErrorCode::Generic, why.to_owned());
        let outlet = connection.outlet().ok_or_else(|| refused("the host's channel is closed"))?;
        let reserved = connection.reserve(conn_id).map_err(refused)?;
        let owner = connection.this.clone();
        let (forwarder, address) = (&self.forwarder, &egress.address);
        let circuit = Arc::clone(circuit);
        let end = if hosted.bind.use_xgress {
            let role = End::Terminator;
            Conn::Sdk(SdkCircuit::start(forwarder, circuit, address, role, conn_id, outlet, owner))
        } else {
            let app = App::Sdk { outlet, conn_id, fin_hold: connection.fin_hold(), owner };
            let (role, options) = (Role::Terminator, &self.options.end);
            Conn::Local(LocalEnd::start(forwarder, circuit, address, role, options, app))
        };
        if connection.fill(conn_id, &reserved, end.clone(), hosted.grant.clone()) {
            if !hosted.over.is_cancelled() {
                return Ok(end);
            }
            // What is closed with the listener was looked for before this was there.
            connection.release(conn_id);
        }
        end.discard();
        Err(refused("the host's channel is closed"))
    }
}

/// Asks the host, as long as its listener lives.
async fn ask(
    hosted: &Hosted,
    connection: &SdkConnection,
    dial: Message,
    timeout: Duration,
) -> Result<(DialSuccess, Message), RouteFailure> {
    connection.count_written();
    let answer = tokio::select! {
        answer = connection.channel.request_on(Lane::High, dial, timeout) => answer,
        () = hosted.over.cancelled() => {
            let text = format!("terminator {} was removed", hosted.terminator);
            return Err(failure(RouteErrorCode::InvalidTerminator, text));
        }
    };
    let answer = answer.map_err(|error| match error {
        RequestError::Timeout => {
            failure(RouteErrorCode::DialTimedOut, "the host did not answer in time".to_owned())
        }
        other => failure(RouteErrorCode::Generic, format!("the host was not reached: {other}")),
    })?;
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
    Dial {
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
            controller: circuit.owner.to_string(),
            address: egress.address.clone(),
        }),
    }
    .to_message()
}

fn public_key(key: bytes::Bytes) -> (u32, bytes::Bytes) {
    (header::PUBLIC_KEY.cast_unsigned(), key)
}

fn failure(code: RouteErrorCode, message: String) -> RouteFailure {
    RouteFailure { code, message }
}
