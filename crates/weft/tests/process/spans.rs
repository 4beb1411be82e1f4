//! Spans of dials reach a collector: one trace over all programs, nothing unless it is asked for,
//! and a silent collector delays nothing.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_contract::resource;
use weft_sdk::{Endpoint, EndpointBuilder};

use crate::collector::{Collector, ReceivedSpan};
use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::Operator;
use crate::program::{Program, text, weft_in};
use crate::wait::{PATIENCE, until};

/// Spans of the programs in this process.
#[derive(Debug, Clone, Default)]
struct Own(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Own {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}

impl Own {
    fn named(&self, name: &str) -> Vec<SpanData> {
        self.0.lock().iter().filter(|span| span.name == name).cloned().collect()
    }
}

/// A builder of endpoints with a tracer provider, and the spans that they end.
fn traced() -> (Own, EndpointBuilder) {
    let own = Own::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(own.clone()).build();
    (own, EndpointBuilder::new().tracer_provider(&provider))
}

impl NetworkFolder {
    /// Starts routers, each in its own process, with these environment variables.
    fn routers_in(&self, environment: &[(&'static str, String)], routers: &str) -> Program {
        let (home, control) = (self.home(), self.control.to_string());
        let home = home.to_str().unwrap();
        let args = ["quickstart", "--home", home, "--username", USER, "--password", PASSWORD];
        let ports = ["--ctrl-port", &control, "--router-port", "0", "--link-port", "0"];
        let args = [&args[..], &ports, &["--routers", routers]].concat();
        Program::start_in(environment, &self.folder().join("quickstart.log"), &args)
    }
}

/// Hosts over the second router and dials over the first.
async fn apart(operator: &Operator, how: EndpointBuilder) -> (Endpoint, Endpoint) {
    let all: Vec<Value> = operator.list(&resource::edge_router_policy::KIND).await;
    let quickstart = all.iter().find(|policy| policy["name"] == "quickstart").unwrap();
    let routers = operator.list(&resource::edge_router::KIND).await;
    let id = |router: &str| {
        let found = routers.iter().find(|it| it["name"] == router).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    let delete = resource::edge_router_policy::KIND.delete().unwrap();
    let policy = quickstart["id"].as_str().unwrap();
    let _: Value = operator.client.call(delete, &[policy], &[], None).await.unwrap();
    let mut endpoints = Vec::new();
    for (name, router) in [("dialer", "quickstart-router"), ("host", "quickstart-router-2")] {
        let identity = operator.identity(name).await;
        let known = operator.list(&resource::identity::KIND).await;
        let known = known.iter().find(|it| it["name"] == name).unwrap();
        let policy = json!({"name": name, "semantic": "AnyOf",
            "identityRoles": [format!("@{}", known["id"].as_str().unwrap())],
            "edgeRouterRoles": [format!("@{}", id(router))]});
        operator.create(&resource::edge_router_policy::KIND, &policy).await;
        endpoints.push(how.clone().build(identity).await.unwrap());
    }
    let host = endpoints.pop().unwrap();
    (endpoints.pop().unwrap(), host)
}

fn one(told: &[ReceivedSpan], name: &str) -> ReceivedSpan {
    let found: Vec<&ReceivedSpan> = told.iter().filter(|told| told.span.name == name).collect();
    let [one] = found[..] else { panic!("{name}: {told:#?}") };
    one.clone()
}

fn all(told: &[ReceivedSpan], name: &str) -> Vec<ReceivedSpan> {
    told.iter().filter(|told| told.span.name == name).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dial_over_two_routers_is_one_trace() {
    let collector = Collector::start().await;
    let place = NetworkFolder::empty();
    let mut network = place.routers_in(&collector.environment(), "2");
    network.says("The network is up", PATIENCE * 2).await;
    let operator = Operator::log_in(place.control).await;
    operator.service("greeter", true).await;
    operator.allow_everybody().await;
    let (own, builder) = traced();
    let (dialer, host) = apart(&operator, builder).await;
    let mut listener = host.bind("greeter").await.unwrap();
    let accepting = tokio::spawn(async move {
        let mut accepted = listener.accept().await.unwrap().accept().await.unwrap();
        accepted.write_all(b"welcome").await.unwrap();
        accepted.shutdown().await.unwrap();
        listener
    });
    let mut dialed = dialer.dial("greeter").await.unwrap();
    let mut read = String::new();
    dialed.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "welcome");
    let mut listener = accepting.await.unwrap();

    let sdk = own.named("sdk.dial").remove(0);
    let trace = sdk.span_context.trace_id().to_bytes();
    let look = async || {
        let told = collector.trace(&trace);
        let routes = all(&told, "router.route").len();
        let is_whole = all(&told, "router.dial").len() == 1
            && all(&told, "controller.circuit").len() == 1
            && routes == 2;
        if is_whole { Ok(told) } else { Err(format!("{told:#?}")) }
    };
    let (told, _) = until("the trace is whole", PATIENCE, look).await;

    // Parents of the spans.
    let dial = one(&told, "router.dial");
    assert_eq!(dial.span.parent_span_id, sdk.span_context.span_id().to_bytes());
    let circuit = one(&told, "controller.circuit");
    assert_eq!(circuit.span.parent_span_id, dial.span.span_id);
    let attempt = one(&told, "controller.attempt");
    assert_eq!(attempt.span.parent_span_id, circuit.span.span_id);
    let select = one(&told, "controller.select");
    assert_eq!(select.span.parent_span_id, attempt.span.span_id);
    let asked = all(&told, "controller.route");
    assert_eq!(asked.len(), 2, "{asked:#?}");
    let routes = all(&told, "router.route");
    for route in &routes {
        let parent = asked.iter().find(|asked| asked.span.span_id == route.span.parent_span_id);
        let parent = parent.unwrap_or_else(|| panic!("{route:#?}"));
        assert_eq!(parent.span.parent_span_id, attempt.span.span_id);
        assert_eq!(parent.says("weft.router.id"), route.says("weft.router.id"));
    }
    let egress = routes.iter().find(|it| it.says("weft.terminator.binding").is_some()).unwrap();
    let accept = own.named("host.accept").remove(0);
    assert_eq!(accept.parent_span_id.to_bytes()[..], egress.span.span_id);
    assert_eq!(accept.span_context.trace_id(), sdk.span_context.trace_id());

    // Attributes of the spans.
    let services: Vec<&str> = told.iter().map(|told| told.service.as_str()).collect();
    assert!(services.iter().all(|it| ["weft-router", "weft-controller"].contains(it)));
    for told in [&dial, &circuit, egress] {
        assert_eq!(told.says("weft.circuit.id").as_deref(), dialed.circuit_id());
        assert_eq!(told.failure(), None);
    }
    assert_eq!(circuit.says("weft.service.name").as_deref(), Some("greeter"));
    assert_eq!(egress.says("weft.terminator.binding").as_deref(), Some("edge"));
    assert_eq!(egress.says("weft.terminator.address"), select.says("weft.terminator.id"));
    let path = select.says("weft.path").unwrap();
    let ends = format!(
        "{} {}",
        dial.says("weft.router.id").unwrap(),
        egress.says("weft.router.id").unwrap()
    );
    assert_eq!(path, ends);
    for told in &told {
        assert!(told.span.end_time_unix_nano >= told.span.start_time_unix_nano, "{told:#?}");
    }

    // A failure, with the message that the application gets.
    tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            incoming.reject("no more greetings");
        }
    });
    let error = weft_sdk::chain(&dialer.dial("greeter").await.unwrap_err());
    assert!(error.contains("no more greetings"), "{error}");
    let sdk = own.named("sdk.dial").remove(1);
    assert_eq!(sdk.status, opentelemetry::trace::Status::error(error.clone()));
    let trace = sdk.span_context.trace_id().to_bytes();
    let look = async || {
        let told = collector.trace(&trace);
        match &all(&told, "router.dial")[..] {
            [dial] => dial.failure().map(str::to_owned).ok_or("it did not fail"),
            _ => Err("not there yet"),
        }
    };
    let (failure, _) = until("the failure is told", PATIENCE, look).await;
    assert!(error.contains(&failure) && !failure.is_empty(), "{failure} {error}");
    assert!(network.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_tells_its_dials_when_it_ends() {
    let collector = Collector::start().await;
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let url = format!("https://localhost:{}", place.control);
    let login = ["login", &url, "--username", USER, "--password", PASSWORD, "--yes"];
    let done = weft_in(place.folder(), &[], &login).await;
    assert!(done.status.success(), "{}", text(&done));

    let mut environment = collector.environment();
    // Spans that are exported only at the program's end.
    environment.retain(|(name, _)| *name != "OTEL_BSP_SCHEDULE_DELAY");
    environment.push(("OTEL_SERVICE_NAME", "mine".to_owned()));
    let verify = ["verify", "traffic", "--size", "1", "--output", "json"];
    let done = weft_in(place.folder(), &environment, &verify).await;
    assert!(done.status.success(), "{}", text(&done));
    let told = collector.told();
    assert!(all(&told, "sdk.dial").iter().any(|dial| dial.failure().is_none()), "{told:#?}");
    // The routers got the context and do not trace: the host's span has no parent.
    let accepted = all(&told, "host.accept");
    assert!(!accepted.is_empty(), "{told:#?}");
    assert!(accepted.iter().all(|told| told.span.parent_span_id.is_empty()), "{accepted:#?}");
    assert!(told.iter().all(|told| told.service == "mine"), "{told:#?}");

    // With the exporter `none`, nothing is exported, even if an endpoint is set.
    let before = collector.requests();
    let mut environment = collector.environment();
    environment.retain(|(name, _)| *name != "OTEL_TRACES_EXPORTER");
    environment.push(("OTEL_TRACES_EXPORTER", "none".to_owned()));
    let done = weft_in(place.folder(), &environment, &verify).await;
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(collector.requests(), before);

    // Invalid settings are reported, and the command works anyway.
    environment.pop();
    environment.push(("OTEL_TRACES_EXPORTER", "zipkin".to_owned()));
    let done = weft_in(place.folder(), &environment, &verify).await;
    let said = text(&done);
    assert!(done.status.success() && said.contains("`zipkin`"), "{said}");
    assert_eq!(collector.requests(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_holds_up_neither_dials_nor_the_end() {
    let collector = Collector::silent().await;
    let place = NetworkFolder::empty();
    let mut network = place.routers_in(&collector.environment(), "1");
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    operator.service("greeter", false).await;
    operator.allow_everybody().await;
    let endpoint = operator.endpoint("both").await;
    let mut listener = endpoint.bind("greeter").await.unwrap();
    let accepting = tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            drop(incoming.accept().await);
        }
    });
    drop(endpoint.dial("greeter").await.unwrap());
    let asked = async || if collector.requests() > 0 { Ok(()) } else { Err("nothing yet") };
    until("the collector is asked", PATIENCE, asked).await;

    // Far more spans than the queue holds: a few for each dial.
    let begun = Instant::now();
    for _ in 0..1500 {
        drop(endpoint.dial("greeter").await.unwrap());
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    accepting.abort();
    let lost = || network.said().matches("spans are lost").count();
    let said = async || if lost() == 2 { Ok(()) } else { Err(lost()) };
    until("router and controller say that spans are lost", PATIENCE, said).await;

    let begun = Instant::now();
    assert!(network.stop().await.success());
    // Two seconds for the collector, which has ten for an answer, plus the usual time for stopping.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let said = fs::read_to_string(place.folder().join("quickstart.log")).unwrap();
    assert_eq!(said.matches("spans are lost").count(), 2, "once each\n{said}");
    assert_eq!(said.matches("spans did not reach the collector").count(), 2, "{said}");
}
