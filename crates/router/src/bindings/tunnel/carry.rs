//! Carries clients that this machine accepted over circuits of the router's own identity
//! (docs/protocol/tunnel.md 5.1).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use weft_channel::Threads;
use weft_tunnel::{Call, Carrier, Client, Refusal, Service};
use weft_wire::ctrl::peer_data_key::{INITIATOR_LOCAL_ADDRESS, INITIATOR_REMOTE_ADDRESS};
use weft_wire::edge::header;
use weft_wire::payload::hop_type;
use weft_xgress::{Options, Role};

use super::super::ends::{Purpose, TunnelEnds};
use super::super::keys::{Offer, Shown};
use super::super::socket::{self, Crypto, Stream};
use crate::forwarder::{App, Forwarder, LocalEnd};
use crate::seam::{Control, NewCircuit, PeerData, TunnelCircuitRequest};

/// Time limit for a dial, unless the service's config sets one.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const APP_DATA: u32 = header::APP_DATA.cast_unsigned();

/// Carries clients over circuits of the router's own identity.
pub(crate) struct CircuitCarrier {
    forwarder: Arc<Forwarder>,
    control: Arc<dyn Control>,
    /// The router as an end that proves itself.
    ends: Option<Arc<TunnelEnds>>,
    options: Options,
    /// The threads on which clients are carried.
    threads: Threads,
}

impl CircuitCarrier {
    pub(super) fn new(
        forwarder: Arc<Forwarder>,
        control: Arc<dyn Control>,
        ends: Option<Arc<TunnelEnds>>,
        options: Options,
        threads: Threads,
    ) -> Arc<Self> {
        Arc::new(Self { forwarder, control, ends, options, threads })
    }
}

impl Carrier for CircuitCarrier {
    fn carry(&self, call: Call) -> BoxFuture<'static, Result<(), Refusal>> {
        let (forwarder, control) = (Arc::clone(&self.forwarder), Arc::clone(&self.control));
        let (options, threads) = (self.options.clone(), self.threads.clone());
        let ends = self.ends.clone();
        async move {
            let (call, runtime) = bring(&threads, call)?;
            let carrying = runtime.spawn(carry(forwarder, control, ends, options, call));
            // If the call is dropped, the task that carries its client ends.
            let carried = AbortOnDropHandle::new(carrying).await;
            carried.unwrap_or_else(|_| Err(Refusal::other("the router is shutting down")))
        }
        .boxed()
    }
}

/// Takes a call to the thread on which it is carried.
fn bring(threads: &Threads, call: Call) -> Result<(Call, Handle), Refusal> {
    let Client::Tcp(stream) = call.client else { return Ok((call, threads.pick())) };
    let (stream, runtime) =
        threads.bring(stream).map_err(|error| Refusal::other(error.to_string()))?;
    Ok((Call { client: Client::Tcp(stream), ..call }, runtime))
}

async fn carry(
    forwarder: Arc<Forwarder>,
    control: Arc<dyn Control>,
    ends: Option<Arc<TunnelEnds>>,
    options: Options,
    call: Call,
) -> Result<(), Refusal> {
    let datagrams = matches!(call.client, Client::Udp(_));
    let options = Options { datagrams, ..options };
    let (end, crypto) = dial(&forwarder, &control, ends.as_ref(), options, &call).await?;
    match call.client {
        Client::Tcp(stream) => {
            socket::carry(end, Stream::Tcp(stream), Bytes::new(), crypto).await;
        }
        Client::Udp(client) => socket::carry_client(end, client, crypto).await,
    }
    Ok(())
}

/// Has a circuit made for a client, and begins its end on this router.
async fn dial(
    forwarder: &Arc<Forwarder>,
    control: &Arc<dyn Control>,
    ends: Option<&Arc<TunnelEnds>>,
    options: Options,
    call: &Call,
) -> Result<(Arc<LocalEnd>, Option<Crypto>), Refusal> {
    let is_stream = matches!(call.client, Client::Tcp(_));
    let keys = offer(ends, is_stream, call).await?;
    let timeout = call.timeout.unwrap_or(DIAL_TIMEOUT);
    let request = TunnelCircuitRequest {
        service: call.service.name.clone(),
        instance: call.instance.clone(),
        peer_data: peer_data(call, keys.as_ref()),
        end_key: ends.filter(|_| keys.is_some()).map(|ends| ends.key()).unwrap_or_default(),
        timeout,
    };
    let made = tokio::time::timeout(timeout, control.create_tunnel_circuit(request)).await;
    let made = made.map_err(|_| Refusal::other("no circuit was made in time"))?;
    let circuit = made.map_err(|refusal| Refusal::other(refusal.to_string()))?;
    let give_up = |why: String| {
        forwarder.end_gone(&circuit.controller, &circuit.id, Role::Initiator);
        Refusal::other(why)
    };
    let crypto = keys.map(|keys| encryption(keys, &circuit)).transpose().map_err(give_up)?;
    if call.service.authenticated_ends && !crypto.as_ref().is_some_and(Crypto::proves) {
        return Err(give_up(unproved(
            &call.service,
            "the host has announced no proof: its program has none, or a router on the way has removed the announcement",
        )));
    }
    let ended = || give_up("the circuit was ended before it was used".to_owned());
    // The route was complete before the controller answered; it may have been taken down since.
    let known = forwarder.circuit(&circuit.id).ok_or_else(ended)?;
    let (address, app) = (&circuit.address, App::Socket { hop_type: hop_type::TUNNEL });
    let end = forwarder.start_end(Arc::clone(&known), address, Role::Initiator, &options, app);
    if known.has_ended() {
        // An unroute meanwhile may not have found the new end.
        end.discard();
        return Err(ended());
    }
    end.begin();
    Ok((end, crypto))
}

/// The headers for the host.
fn peer_data(call: &Call, keys: Option<&Offer>) -> PeerData {
    let mut data = PeerData::from([
        (INITIATOR_LOCAL_ADDRESS, Bytes::from(call.local.to_string())),
        (INITIATOR_REMOTE_ADDRESS, Bytes::from(call.remote.to_string())),
        (APP_DATA, call.app_data.clone()),
    ]);
    if let Some(keys) = keys {
        data.extend(keys.peer_data());
    }
    data
}

fn encryption(keys: Offer, circuit: &NewCircuit) -> Result<Crypto, String> {
    let accepted = keys.accepted(&circuit.peer_data)?;
    accepted.ok_or_else(|| "the service is encrypted, but the host sent no key".to_owned())
}

/// The keys for the connection, if the service is encrypted, with what proves this end.
async fn offer(
    ends: Option<&Arc<TunnelEnds>>,
    is_stream: bool,
    call: &Call,
) -> Result<Option<Offer>, Refusal> {
    let service = &call.service;
    if !service.encryption_required {
        return Ok(None);
    }
    let offer = Offer::new(is_stream).map_err(|error| Refusal::other(error.to_string()))?;
    let shown = Shown::of(ends, Purpose::dials(&service.id)).await;
    if service.authenticated_ends && shown.is_none() {
        let what = "the controller has stated nothing about this router's tunneler, without which it cannot prove itself";
        return Err(Refusal::other(unproved(service, what)));
    }
    Ok(Some(offer.proving(shown, &call.instance)))
}

fn unproved(service: &Service, what: &str) -> String {
    format!("service {} demands that both ends prove who they are: {what}", service.name)
}
