//! The spans of a dial, and the trace context that routers get.

use weft_spans::memory::SpanMemory;

use super::*;

fn traced(memory: &SpanMemory) -> EndpointBuilder {
    let mut builder = EndpointBuilder::new();
    builder.settings.spans = memory.spans();
    builder
}

fn traces(network: &Network) -> Vec<String> {
    let log = network.router.log();
    log.iter().filter_map(|line| line.strip_prefix("trace ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_dial_and_its_accept_are_one_trace() {
    let memory = SpanMemory::default();
    let network = Network::new().await;
    let endpoint = network.endpoint_of(traced(&memory)).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let (dialed, _accepted) = pair_of(&endpoint, &mut listener).await;
    until(|| memory.ended().len() == 2).await;
    let [accept] = &memory.named("host.accept")[..] else { panic!("{memory:?}") };
    let [dial] = &memory.named("sdk.dial")[..] else { panic!("{memory:?}") };
    assert_eq!(traces(&network), [format!("{:?}", dial.context)]);
    assert_eq!(accept.context.trace_id, dial.context.trace_id);
    assert_eq!(accept.parent, Some(dial.context.span_id));
    assert_eq!(dial.says("weft.service.name"), Some("plain"));
    assert_eq!(accept.says("weft.service.name"), Some("plain"));
    assert_eq!(dial.says("weft.attempts"), Some("1"));
    assert_eq!(dial.events, ["session known", "router connected"]);
    assert_eq!(dial.says("weft.circuit.id"), dialed.circuit_id());
    assert_eq!(accept.says("weft.circuit.id"), dialed.circuit_id());
    assert_eq!(accept.says("weft.identity.id"), Some("i1"));
}

#[tokio::test]
async fn refusals_are_told_as_the_application_reads_them() {
    let memory = SpanMemory::default();
    let network = Network::new().await;
    let endpoint = network.endpoint_of(traced(&memory)).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let refuse = async { listener.accept().await.unwrap().reject("not today") };
    let (refused, ()) = soon(async { tokio::join!(endpoint.dial("plain"), refuse) }).await;
    let error = chain(&refused.unwrap_err());
    until(|| memory.ended().len() == 2).await;
    assert_eq!(memory.named("host.accept")[0].failure.as_deref(), Some("not today"));
    assert_eq!(memory.named("sdk.dial")[0].failure, Some(error));

    let error = chain(&soon(endpoint.dial("no such service")).await.unwrap_err());
    until(|| memory.named("sdk.dial").len() == 2).await;
    assert_eq!(memory.named("sdk.dial")[1].failure, Some(error));
}

#[tokio::test]
async fn without_spans_routers_hear_of_no_trace() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let _pair = pair_of(&endpoint, &mut listener).await;
    assert_eq!(traces(&network), [""; 0]);
}
