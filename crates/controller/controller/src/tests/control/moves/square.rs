//! Four routers, of which a test says how they answer routes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use weft_channel::ChannelHandle;
use weft_model::Id;
use weft_network::NetworkOptions;
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::{
    self, CarriedCircuits, CircuitRequest, Fault, FaultSubject, InspectRequest, InspectResponse,
    Route, RouteError, RouteErrorCode, RouteResult, RouterLink, RouterLinks, Unroute,
};
use weft_wire::edge_ctrl::CreateTunnelTerminatorRequestV2;
use weft_wire::metrics::{Histogram, MetricsMessage, link_latency_name};
use weft_wire::{Message, PeerData, ProtoBody};

use super::super::mesh::link;
use super::super::support::{LONG, Net, Peer, TestRouter, quick, soon, until};

/// The reaction of a router to routes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mood {
    Obeys,
    Refuses(RouteErrorCode),
    SaysNothing,
}

/// A command that a router received.
#[derive(Debug, Clone)]
pub(super) enum RouteCommand {
    Route(Box<Route>),
    Unroute(String),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) mood: Mood,
    pub(super) commands: Vec<RouteCommand>,
    /// Routes that the router has not answered.
    pub(super) open: Vec<Message>,
    /// The answers to inspections by name, and how often an inspection was asked for.
    pub(super) shows: HashMap<String, Value>,
    pub(super) asked: usize,
}

/// A router that answers routes by itself, as its mood says.
pub(super) struct Auto {
    pub(super) router: TestRouter,
    pub(super) channel: ChannelHandle,
    pub(super) state: Arc<Mutex<State>>,
}

impl Auto {
    pub(super) fn start(router: TestRouter, mut peer: Peer) -> Self {
        let state = State {
            mood: Mood::Obeys,
            commands: Vec::new(),
            open: Vec::new(),
            shows: HashMap::new(),
            asked: 0,
        };
        let (state, channel) = (Arc::new(Mutex::new(state)), peer.channel.clone());
        let (own, back) = (Arc::clone(&state), channel.clone());
        tokio::spawn(async move {
            while let Some(message) = peer.next().await {
                let reply = own.lock().hear(message);
                if let Some(reply) = reply {
                    let _ = back.send(reply).await;
                }
            }
        });
        Self { router, channel, state }
    }

    pub(super) fn id(&self) -> &Id {
        &self.router.id
    }

    pub(super) fn is(&self, mood: Mood) {
        self.state.lock().mood = mood;
    }

    pub(super) async fn send(&self, message: Message) {
        soon(self.channel.send(message)).await.unwrap();
    }

    pub(super) async fn settled(&self) {
        let ping = Message::new(weft_wire::content_type::PING, "");
        self.channel.request(ping, LONG).await.unwrap();
    }

    pub(super) async fn links(&self, links: Vec<RouterLink>) {
        self.send(RouterLinks { links, full_refresh: false }.to_message()).await;
        self.settled().await;
    }

    pub(super) async fn fault(&self, subject: FaultSubject, ids: &str) {
        let fault = Fault { subject: subject.into(), id: ids.to_owned(), ..Fault::default() };
        self.send(fault.to_message()).await;
        self.settled().await;
    }

    pub(super) async fn carries(&self, last: bool) {
        self.send(CarriedCircuits { routes: Vec::new(), last, ..Default::default() }.to_message())
            .await;
        self.settled().await;
    }

    /// The routes of a circuit that the router has received.
    pub(super) fn routes(&self, circuit: &str) -> Vec<Route> {
        let state = self.state.lock();
        let routes = state.commands.iter().filter_map(|commands| match commands {
            RouteCommand::Route(route) if route.circuit_id == circuit => Some(Route::clone(route)),
            _ => None,
        });
        routes.collect()
    }

    pub(super) fn unroutes(&self, circuit: &str) -> usize {
        let state = self.state.lock();
        state
            .commands
            .iter()
            .filter(|it| matches!(it, RouteCommand::Unroute(id) if id == circuit))
            .count()
    }

    pub(super) fn forget(&self) {
        self.state.lock().commands.clear();
    }

    /// Answers all open routes with success, late.
    pub(super) async fn catch_up(&self) {
        self.answer_open(Mood::Obeys).await;
    }

    pub(super) async fn answer_open(&self, mood: Mood) {
        let open = std::mem::take(&mut self.state.lock().open);
        for message in open {
            self.send(answer(&message, mood)).await;
        }
    }
}

impl State {
    pub(super) fn hear(&mut self, message: Message) -> Option<Message> {
        match message.content_type {
            ctrl::content_type::ROUTE => {
                self.commands
                    .push(RouteCommand::Route(Box::new(Route::from_message(&message).unwrap())));
                if self.mood == Mood::SaysNothing {
                    self.open.push(message);
                    return None;
                }
                Some(answer(&message, self.mood))
            }
            ctrl::content_type::UNROUTE => {
                let unroute = Unroute::from_message(&message).unwrap();
                self.commands.push(RouteCommand::Unroute(unroute.circuit_id));
                None
            }
            ctrl::content_type::INSPECT_REQUEST => {
                let names = InspectRequest::from_message(&message).unwrap().requested_values;
                if self.shows.is_empty() {
                    return None;
                }
                self.asked += 1;
                let value = |name: String| {
                    let value = self.shows.get(&name)?.to_string();
                    Some(InspectValue { name, value })
                };
                let values = names.into_iter().filter_map(value).collect();
                let answer = InspectResponse { success: true, errors: Vec::new(), values };
                Some(answer.to_message().in_reply_to(&message))
            }
            _ => None,
        }
    }
}

pub(super) fn answer(message: &Message, mood: Mood) -> Message {
    let Route { circuit_id, attempt, .. } = Route::from_message(message).unwrap();
    let result = match mood {
        Mood::Refuses(code) => Err(RouteError { code, text: "no luck".into() }),
        _ => Ok(PeerData::new()),
    };
    RouteResult { circuit_id, attempt, result }.to_message().in_reply_to(message)
}

/// Four routers: the first dials a service that the last hosts, directly, over the second or over
/// the third.
pub(super) struct Square {
    pub(super) net: Net,
    pub(super) dialer: Auto,
    pub(super) two: Auto,
    pub(super) three: Auto,
    pub(super) host: Auto,
}

impl Square {
    pub(super) async fn new(options: NetworkOptions) -> Self {
        // Circuits without a path are kept for long, because a busy machine may need the time.
        Self::keeping(LONG, options).await
    }

    /// The same, with circuits that are kept for a time without a path.
    pub(super) async fn keeping(without_path: Duration, options: NetworkOptions) -> Self {
        let latency_interval = Duration::ZERO;
        let options = NetworkOptions { latency_interval, without_path, ..options };
        let net = Net::with(options).await;
        let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
        let mut routers = Vec::new();
        for name in ["er1", "er2", "er3", "er4"] {
            let router = net.router(name).await;
            let peer = net.connect(&router).await;
            routers.push(Auto::start(router, peer));
        }
        let [dialer, two, three, host] = routers.try_into().ok().unwrap();
        let terminator = CreateTunnelTerminatorRequestV2 {
            service_id: service.to_string(),
            address: "t1".into(),
            ..CreateTunnelTerminatorRequestV2::default()
        };
        host.channel.request(terminator.to_message(), LONG).await.unwrap();
        let own = [("direct", &host), ("to2", &two), ("to3", &three)];
        dialer.links(own.map(|(id, to)| link(id, &to.router)).to_vec()).await;
        two.links(vec![link("from2", &host.router)]).await;
        three.links(vec![link("from3", &host.router)]).await;
        let square = Self { net, dialer, two, three, host };
        square.measure(&[("direct", 10), ("to2", 10), ("from2", 10)]).await;
        square.measure(&[("to3", 20), ("from3", 20)]).await;
        square
    }

    /// Both ends of each link measured its latency, in milliseconds.
    pub(super) async fn measure(&self, latencies: &[(&str, u64)]) {
        for router in [&self.dialer, &self.two, &self.three, &self.host] {
            let links = self.net.network.links();
            let own = latencies
                .iter()
                .filter(|(id, _)| links.get(id).is_some_and(|it| it.has_end(router.id().as_str())));
            let histograms = own.map(|(link, millis)| {
                let mean = *millis as f64 * 1e6;
                (link_latency_name(link), Histogram { mean, ..Histogram::default() })
            });
            let report =
                MetricsMessage { histograms: histograms.collect(), ..MetricsMessage::default() };
            router.send(report.to_message()).await;
            router.settled().await;
        }
    }

    /// A circuit over the direct link.
    pub(super) async fn circuit(&self) -> String {
        self.circuit_over(&["direct"]).await
    }

    /// A circuit that is made over these links. There is no other circuit.
    pub(super) async fn circuit_over(&self, links: &[&str]) -> String {
        let request = CircuitRequest { service: "web".into(), ..CircuitRequest::default() };
        let reply = self.dialer.channel.request(request.to_message(), LONG).await.unwrap();
        assert_eq!(reply.content_type, ctrl::content_type::CIRCUIT_SUCCESS, "{}", reply.text());
        let circuits = self.net.network.circuits().all();
        assert_eq!(circuits.len(), 1);
        assert_eq!(circuits[0].path.links, links);
        circuits[0].id.clone()
    }

    pub(super) fn path(&self, circuit: &str) -> Option<Vec<String>> {
        self.net.network.circuits().get(circuit).map(|it| it.path.links.clone())
    }

    pub(super) async fn has_path(&self, circuit: &str, links: &[&str]) {
        until(|| self.path(circuit).is_some_and(|path| path == links)).await;
    }

    pub(super) fn set_cost(&self, link: &str, cost: i32) {
        assert!(self.net.network.change_link(link, Some(cost), None));
    }

    /// The controller does not hear a router any more.
    pub(super) async fn cut(&self, router: &Auto) {
        router.channel.close("test");
        until(|| self.net.network.routers().get(router.id().as_str()).is_none()).await;
    }

    /// The same router is heard again.
    pub(super) async fn heard_again(&self, router: &Auto) -> Auto {
        let peer = self.net.connect(&router.router).await;
        let router = TestRouter { id: router.id().clone(), chain: router.router.chain.clone() };
        Auto::start(router, peer)
    }

    /// The second router restarts, and has lost its circuits. The links that it dialed break.
    pub(super) async fn two_starts_again(&mut self) {
        self.net.bed.clock.advance(Duration::from_secs(5));
        self.cut(&self.two).await;
        let links = self.net.network.links().at(self.two.id());
        for link in links.iter().filter(|link| link.source == *self.two.id()) {
            let others = [&self.dialer, &self.three, &self.host];
            let other = others.into_iter().find(|other| *other.id() == link.destination).unwrap();
            other.fault(FaultSubject::Link, &link.id).await;
        }
        self.two = self.heard_again(&self.two).await;
    }
}

/// Options with a short time limit for routers that do not answer.
pub(super) fn impatient() -> NetworkOptions {
    NetworkOptions { route_timeout: Duration::from_millis(500), ..quick() }
}
