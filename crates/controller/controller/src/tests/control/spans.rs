//! The spans of a new circuit, and the trace context that routers are sent.

use weft_network::NetworkOptions;
use weft_spans::memory::{EndedSpan, SpanMemory};
use weft_wire::ctrl::{self, Route, RouteError, RouteErrorCode};
use weft_wire::{Message, PeerData, ProtoBody as _, TraceContext};

use super::circuits::{dial_request, fine, hosted_with, respond};
use super::support::{LONG, Peer, quick, until};

fn told() -> TraceContext {
    TraceContext { trace_id: [0xab; 16], span_id: [0xcd; 8], is_sampled: true }
}

fn request(trace: Option<TraceContext>) -> Message {
    let mut request = dial_request();
    if let Some(trace) = trace {
        trace.put(&mut request.headers);
    }
    request
}

/// Asks for a circuit; returns the trace of each route.
async fn dial(
    peer: &mut Peer,
    request: Message,
    mut answer: impl FnMut(&Route) -> Option<Result<PeerData, RouteError>>,
) -> (Message, Vec<Option<TraceContext>>) {
    let channel = peer.channel.clone();
    let ask = async move { channel.request(request, LONG).await.unwrap() };
    tokio::pin!(ask);
    let mut traces = Vec::new();
    loop {
        tokio::select! {
            reply = &mut ask => return (reply, traces),
            message = peer.expect(ctrl::content_type::ROUTE) => {
                traces.push(TraceContext::take(&message.headers));
                let route = Route::from_message(&message).unwrap();
                if let Some(result) = answer(&route) {
                    respond(peer, &message, &route, result).await;
                }
            }
        }
    }
}

fn one(memory: &SpanMemory, name: &str) -> EndedSpan {
    let [span] = &memory.named(name)[..] else { panic!("{name}: {:?}", memory.named(name)) };
    span.clone()
}

#[tokio::test]
async fn the_parts_of_a_circuit_belong_to_the_span_of_its_router() {
    let memory = SpanMemory::default();
    let options = NetworkOptions { spans: memory.spans(), ..quick() };
    let (_net, router, mut peer, service) = hosted_with(options).await;
    let (_, traces) = dial(&mut peer, request(Some(told())), |_| fine()).await;
    until(|| memory.named("controller.circuit").len() == 1).await;

    let circuit = one(&memory, "controller.circuit");
    assert_eq!((circuit.context.trace_id, circuit.parent), ([0xab; 16], Some([0xcd; 8])));
    assert_eq!(circuit.says("weft.service.id"), Some(service.as_str()));
    assert_eq!(circuit.says("weft.service.name"), Some("web"));
    assert_eq!(circuit.says("weft.attempts"), Some("1"));
    assert!(circuit.says("weft.circuit.id").is_some() && circuit.failure.is_none());
    let attempt = one(&memory, "controller.attempt");
    assert_eq!(attempt.parent, Some(circuit.context.span_id));
    let select = one(&memory, "controller.select");
    assert_eq!(select.parent, Some(attempt.context.span_id));
    assert_eq!(select.says("weft.path"), Some(router.id.as_str()));
    assert!(select.says("weft.terminator.id").is_some());
    let route = one(&memory, "controller.route");
    assert_eq!(route.parent, Some(attempt.context.span_id));
    assert_eq!(route.says("weft.router.id"), Some(router.id.as_str()));
    // The router is sent the span of its own route.
    assert_eq!(traces, [Some(route.context)]);
}

#[tokio::test]
async fn a_failure_is_told_in_the_words_that_the_user_reads() {
    let memory = SpanMemory::default();
    let options = NetworkOptions { spans: memory.spans(), create_circuit_retries: 2, ..quick() };
    let (_net, _, mut peer, _) = hosted_with(options).await;
    let refuse = |_: &Route| {
        let text = "the application is asleep".to_owned();
        Some(Err(RouteError { code: RouteErrorCode::ConnectionRefused, text }))
    };
    let (reply, traces) = dial(&mut peer, request(None), refuse).await;
    until(|| memory.named("controller.circuit").len() == 1).await;
    assert_eq!(traces.len(), 2);
    let circuit = one(&memory, "controller.circuit");
    assert_eq!(circuit.parent, None);
    assert_eq!(circuit.failure.as_deref(), Some(reply.text().as_str()));
    assert_eq!(circuit.says("error.type"), Some("ROUTER_ERR_CONN_REFUSED"));
    assert_eq!(circuit.says("weft.attempts"), Some("2"));
    let attempts = memory.named("controller.attempt");
    let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.says("weft.attempt")).collect();
    assert_eq!(numbers, [Some("1"), Some("2")]);
    for (at, route) in memory.named("controller.route").iter().enumerate() {
        assert_eq!(route.parent, Some(attempts[at].context.span_id));
        assert_eq!(route.failure.as_deref(), Some("the application is asleep"));
    }
}

#[tokio::test]
async fn without_spans_routers_hear_of_no_trace() {
    let (_net, _, mut peer, _) = hosted_with(quick()).await;
    let (_, traces) = dial(&mut peer, request(Some(told())), |_| fine()).await;
    assert_eq!(traces, [None]);
}

#[tokio::test]
async fn a_trace_that_is_not_recorded_is_told_on_as_such() {
    let memory = SpanMemory::default();
    let options = NetworkOptions { spans: memory.spans(), ..quick() };
    let (_net, _, mut peer, _) = hosted_with(options).await;
    let unsampled = TraceContext { is_sampled: false, ..told() };
    let (_, traces) = dial(&mut peer, request(Some(unsampled)), |_| fine()).await;
    let [Some(trace)] = traces[..] else { panic!("{traces:?}") };
    assert_eq!((trace.trace_id, trace.is_sampled), ([0xab; 16], false));
    assert!(memory.ended().is_empty(), "{memory:?}");
}
