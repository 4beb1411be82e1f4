//! The SDK against a hand-made controller and hand-made routers, over loopback TLS.

mod closing;
pub(crate) mod controller;
mod cut;
mod data;
mod ends;
mod face;
mod faults;
mod following;
mod incomplete_lists;
mod posture;
mod renewal;
mod router;
mod second_factor;
mod spans;
mod spy;

use std::future::Future;
use std::time::Duration;

use controller::{Controller, Pki, State};
use router::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_wire::edge::ConnKind;

use crate::{
    BindOptions, Connection, DialOptions, Endpoint, EndpointBuilder, Error, Listener, chain,
};

/// A time limit that no step of a test should reach.
const LONG: Duration = Duration::from_secs(60);

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

/// Waits until `done` returns true.
async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A controller, a router, and the services `plain` and `secret`.
struct Network {
    pki: Pki,
    controller: Controller,
    router: Router,
}

impl Network {
    async fn new() -> Self {
        let pki = Pki::new();
        let controller = Controller::start(&pki).await;
        for (name, encrypted) in [("plain", false), ("secret", true)] {
            let service = (name.to_owned(), encrypted, vec!["Dial", "Bind"]);
            controller.state.lock().services.push(service);
        }
        let router = Router::start(&pki, &controller, "router1").await;
        Self { pki, controller, router }
    }

    /// A look at the state of the controller.
    fn seen<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.controller.state.lock())
    }

    /// Changes the state of the controller.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.controller.state.lock());
    }

    async fn endpoint(&self) -> Endpoint {
        self.endpoint_of(EndpointBuilder::new()).await
    }

    async fn endpoint_of(&self, builder: EndpointBuilder) -> Endpoint {
        let identity = self.pki.identity("tester", self.controller.address);
        soon(builder.build(identity)).await.unwrap()
    }
}

async fn pair_of(endpoint: &Endpoint, listener: &mut Listener) -> (Connection, Connection) {
    let service = listener.service().to_owned();
    let accept = async { listener.accept().await.unwrap().accept().await.unwrap() };
    let (dialed, accepted) = soon(async { tokio::join!(endpoint.dial(&service), accept) }).await;
    (dialed.unwrap(), accepted)
}

#[tokio::test]
async fn a_host_knows_who_dials_and_both_can_speak() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    assert_eq!(endpoint.identity_name(), "tester");
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    assert_eq!((listener.terminators(), endpoint.connected_routers().len()), (1, 1));
    let options = DialOptions::new().app_data(&b"to you"[..]).caller_id("somebody");
    let hosted = tokio::spawn(async move {
        let incoming = listener.accept().await.unwrap();
        assert_eq!(incoming.caller_id().as_deref(), Some("somebody"));
        assert_eq!(incoming.dialer_identity(), Some("i1"));
        assert_eq!(incoming.app_data().unwrap(), "to you");
        let mut connection = incoming.accept().await.unwrap();
        let mut said = [0; 5];
        connection.read_exact(&mut said).await.unwrap();
        connection.write_all(b"you said ").await.unwrap();
        connection.write_all(&said).await.unwrap();
        connection.circuit_id().map(str::to_owned)
    });
    let mut connection = soon(endpoint.dial_with("plain", options)).await.unwrap();
    connection.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    soon(connection.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "you said hello");
    assert!(connection.has_own_flow_control() && !connection.is_encrypted());
    assert_eq!(soon(hosted).await.unwrap().as_deref(), connection.circuit_id());
    drop(connection);
    until(|| network.router.circuits() == 0).await;
}

#[tokio::test]
async fn services_are_seen_with_their_configs() {
    let network = Network::new().await;
    let services = soon(network.endpoint().await.services()).await.unwrap();
    let secret = services.iter().find(|service| service.name == "secret").unwrap();
    assert!(secret.can_dial && secret.can_bind && secret.encrypted);
    assert_eq!(secret.configs["host.v1"]["port"], 80);
}

#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let network = Network::new().await;
    let only_dial = ("readonly".to_owned(), false, vec!["Dial"]);
    network.controller.state.lock().services.push(only_dial);
    let endpoint = network.endpoint().await;
    let unknown = soon(endpoint.dial("nothing")).await.unwrap_err();
    assert!(matches!(unknown, Error::ServiceUnknown { .. }) && unknown.is_final());
    let forbidden = soon(endpoint.bind("readonly")).await.unwrap_err();
    assert!(matches!(forbidden, Error::NotPermitted { action: "bind", .. }), "{forbidden}");
    let nobody = soon(endpoint.dial("plain")).await.unwrap_err();
    assert!(matches!(nobody, Error::NoTerminators { .. }), "{nobody}");

    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let reject = async { listener.accept().await.unwrap().reject("not today") };
    let (dialed, ()) = soon(async { tokio::join!(endpoint.dial("plain"), reject) }).await;
    let refused = dialed.unwrap_err();
    assert!(chain(&refused).contains("not today"), "{refused:?}");
    let forget = async { drop(listener.accept().await.unwrap()) };
    let (dialed, ()) = soon(async { tokio::join!(endpoint.dial("plain"), forget) }).await;
    assert!(matches!(dialed.unwrap_err(), Error::Refused { .. }));
}

/// The error of an attempt, whose time limit is raised until the attempt ends for another reason.
async fn refusal(mut attempt: impl AsyncFnMut(Option<Duration>) -> crate::Result<()>) -> Error {
    let mut timeout = Duration::from_millis(300);
    loop {
        match attempt(Some(timeout)).await.unwrap_err() {
            Error::Timeout { .. } => timeout *= 2,
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_service_can_be_hosted_once_a_router_is_named() {
    let network = Network::new().await;
    let routers = std::mem::take(&mut network.controller.state.lock().routers);
    let endpoint = network.endpoint().await;
    let bind = async |timeout| {
        let options = BindOptions { timeout, ..BindOptions::default() };
        endpoint.bind_with("plain", options).await.map(drop)
    };
    let none = soon(refusal(bind)).await;
    assert!(chain(&none).contains("edge router policies"), "{none}");
    network.controller.state.lock().routers = routers;
    let listener = soon(endpoint.bind("plain")).await.unwrap();
    assert_eq!(listener.terminators(), 1);
}

#[tokio::test]
async fn a_service_without_routers_says_so() {
    let mut network = Network::new().await;
    network.router.stop();
    let endpoint = network.endpoint_of(Endpoint::builder()).await;
    let dial = async |endpoint: &Endpoint, timeout| {
        let options = DialOptions { timeout, ..DialOptions::default() };
        endpoint.dial_with("plain", options).await.map(drop)
    };
    let lost = soon(refusal(async |timeout| dial(&endpoint, timeout).await)).await;
    assert!(
        matches!(&lost, Error::NoEdgeRouters { reason, .. } if reason.contains("router1")),
        "{lost}"
    );
    let bind = async |timeout| {
        let options = BindOptions { timeout, ..BindOptions::default() };
        endpoint.bind_with("plain", options).await.map(drop)
    };
    let lost = soon(refusal(bind)).await;
    assert!(matches!(lost, Error::NoEdgeRouters { .. }), "{lost}");
    network.controller.state.lock().routers.clear();
    let other = network.endpoint().await;
    let none = soon(refusal(async |timeout| dial(&other, timeout).await)).await;
    assert!(chain(&none).contains("edge router policies"), "{none}");
}

#[tokio::test]
async fn a_listener_answers_inspections_changes_its_cost_and_unbinds() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let options = BindOptions::new().cost(7);
    let listener = soon(endpoint.bind_with("plain", options)).await.unwrap();
    assert_eq!(soon(network.router.inspect(None)).await, ConnKind::Bind);
    assert_eq!(soon(network.router.inspect(Some(99))).await, ConnKind::Invalid);
    assert_eq!(network.router.log(), ["bind id-plain cost 7"]);
    listener.set_cost(9);
    until(|| network.router.log().contains(&"update".to_owned())).await;
    drop(listener);
    until(|| network.router.hosts() == 0).await;
    assert!(network.router.log().contains(&"unbind".to_owned()));
}

#[tokio::test]
async fn the_newest_of_many_health_reports_reaches_the_router() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let listener = soon(endpoint.bind("plain")).await.unwrap();
    // The task of the bind does not run meanwhile.
    for _ in 0..100 {
        listener.terms().report_health(true);
    }
    listener.terms().report_health(false);
    until(|| network.router.log().contains(&"health false".to_owned())).await;
}

#[tokio::test]
async fn a_listener_is_bound_on_as_many_routers_as_wanted() {
    let network = Network::new().await;
    let mut others = Vec::new();
    for name in ["router2", "router3", "router4"] {
        others.push(Router::start(&network.pki, &network.controller, name).await);
    }
    let endpoint = network.endpoint().await;
    let options = BindOptions::new().max_terminators(2);
    let listener = soon(endpoint.bind_with("plain", options)).await.unwrap();
    soon(listener.established(2)).await.unwrap();
    until(|| endpoint.connected_routers().len() == 4).await;
    let mut routers: Vec<Router> = std::iter::once(network.router).chain(others).collect();
    let hosts = |routers: &[Router]| routers.iter().map(Router::hosts).sum::<usize>();
    assert_eq!(hosts(&routers), 2);
    // The SDK binds at another router in place of one that is lost.
    let lost = routers.iter().position(|router| router.hosts() == 1).unwrap();
    routers[lost].stop();
    until(|| hosts(&routers) == 2 && listener.terminators() == 2).await;
}

#[tokio::test]
async fn listeners_on_all_their_places_ask_the_controller_nothing_and_keep_few_tasks() {
    const SERVICES: usize = 10;
    let network = Network::new().await;
    let mut others = Vec::new();
    for name in ["router2", "router3", "router4"] {
        others.push(Router::start(&network.pki, &network.controller, name).await);
    }
    for number in 0..SERVICES {
        let service = (format!("s{number}"), false, vec!["Bind"]);
        network.controller.state.lock().services.push(service);
    }
    let mut builder = EndpointBuilder::new();
    builder.settings.refresh_interval = Duration::from_millis(20);
    let endpoint = network.endpoint_of(builder).await;
    let first = soon(endpoint.bind("plain")).await.unwrap();
    until(|| endpoint.connected_routers().len() == 4).await;
    soon(first.established(3)).await.unwrap();

    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut listeners = Vec::new();
    for number in 0..SERVICES {
        let options = BindOptions::new().max_terminators(1);
        let listener = soon(endpoint.bind_with(&format!("s{number}"), options)).await.unwrap();
        listeners.push(listener);
    }
    // Two for each listener; a few of the controller's may have come, too.
    let more = tasks().saturating_sub(before);
    assert!(more < 3 * SERVICES, "{more} tasks for {SERVICES} listeners on one place each");

    let asked = || {
        let state = network.controller.state.lock();
        (state.refreshes, state.session_reads)
    };
    let before = asked();
    until(|| asked().0 >= before.0 + 10).await;
    let more = asked().1 - before.1;
    // A question may have been on its way.
    assert!(more <= 2, "{more} questions for sessions");
}

#[tokio::test]
async fn leaving_sends_what_was_written() {
    let network = Network::new().await;
    let (one, other) = (network.endpoint().await, network.endpoint().await);
    let mut listener = soon(other.bind("secret")).await.unwrap();
    let (mut dialed, mut accepted) = pair_of(&one, &mut listener).await;
    dialed.write_all(&[7; 300_000]).await.unwrap();
    drop(dialed);
    let read = tokio::spawn(async move {
        let mut read = Vec::new();
        accepted.read_to_end(&mut read).await.map(|_| read.len())
    });
    // The close of the endpoint does not wait for open connections.
    let (mut open, _accepted) = pair_of(&one, &mut listener).await;
    let since = std::time::Instant::now();
    soon(one.close()).await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(25));
    assert_eq!(soon(read).await.unwrap().unwrap(), 300_000);
    assert!(soon(open.read(&mut [0])).await.is_err());
}
