//! A simulated router, which answers routes and asks for circuits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_channel::{
    Behaviour, ChannelHandle, ConnectionParts, Handler, Lane, Reading, UnderlayInfo, UnderlayWaker,
};
use weft_identity::TrustBundle;
use weft_wire::ctrl::{CircuitRequest, Route, RouteResult, content_type};
use weft_wire::{Message, PeerData, ProtoBody as _};

use crate::router::{Credentials, PATIENCE, connect};

/// Counts of the work of all routers together.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) routes: AtomicU64,
    pub(crate) unroutes: AtomicU64,
}

/// A connected router.
#[derive(Clone)]
pub(crate) struct SimulatedRouter {
    channel: ChannelHandle,
}

impl SimulatedRouter {
    pub(crate) async fn connect(
        who: &Credentials,
        bundle: &TrustBundle,
        port: u16,
        done: &Arc<Done>,
    ) -> io::Result<Self> {
        let established = connect(who, bundle, port, None).await?;
        Ok(Self { channel: established.start(Arc::new(RouteAcceptor(Arc::clone(done)))) })
    }

    pub(crate) async fn send(&self, message: Message) -> io::Result<()> {
        self.channel.send(message).await.map_err(io::Error::other)
    }

    /// Returns when the controller has handled all earlier messages.
    pub(crate) async fn settled(&self) -> io::Result<()> {
        let ping = Message::new(weft_wire::content_type::PING, "");
        self.channel.request(ping, PATIENCE).await.map(drop).map_err(io::Error::other)
    }

    /// Asks for a circuit and waits for the answer.
    pub(crate) async fn dial(&self, service: &str) -> io::Result<()> {
        let request = CircuitRequest {
            ingress_id: "bench".into(),
            service: service.to_owned(),
            peer_data: PeerData::new(),
        };
        let answer = self.channel.request_on(Lane::High, request.to_message(), PATIENCE).await;
        let answer = answer.map_err(io::Error::other)?;
        match answer.content_type {
            content_type::CIRCUIT_SUCCESS => Ok(()),
            _ => Err(io::Error::other(format!("no circuit: {}", answer.text()))),
        }
    }
}

/// Answers every route at once as set up.
struct RouteAcceptor(Arc<Done>);

impl Behaviour for RouteAcceptor {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        ConnectionParts { handler: Box::new(Self(Arc::clone(&self.0))), outbox: None }
    }
}

impl Handler for RouteAcceptor {
    fn on_message(&mut self, message: Message, channel: &ChannelHandle) -> Reading {
        match message.content_type {
            content_type::ROUTE => {
                let Ok(route) = Route::from_message(&message) else { return Reading::Continue };
                let (circuit_id, attempt) = (route.circuit_id, route.attempt);
                let result = RouteResult { circuit_id, attempt, result: Ok(PeerData::new()) };
                let reply = result.to_message().in_reply_to(&message);
                if let Err(problem) = channel.try_send_on(Lane::High, reply) {
                    eprintln!("a simulated router cannot answer: {problem}");
                }
                self.0.routes.fetch_add(1, Ordering::Relaxed);
            }
            content_type::UNROUTE => {
                self.0.unroutes.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Reading::Continue
    }
}
