//! The trace of a dial, and the SDKs whose claims about it are believed.

use weft_channel::clock::time_of_day;
use weft_spans::memory::SpanMemory;
use weft_wire::{TRACE_PARENT, TraceContext};

use super::*;
use crate::tests::support::later;

fn told() -> TraceContext {
    TraceContext { trace_id: [0xab; 16], span_id: [0xcd; 8], is_sampled: true }
}

impl Sdk {
    /// Dials with this `traceparent`.
    async fn connect_in(&self, conn_id: u32, service: &str, trace: &[u8]) -> Message {
        let token = Bytes::from(service.to_owned());
        let connect = Connect { conn_id: Some(conn_id), token, ..Connect::default() };
        let mut message = connect.to_message();
        message.headers.set(TRACE_PARENT, trace);
        self.channel.request(message, PATIENCE).await.unwrap()
    }

    /// Accepts the next dial and tells to which trace it belongs.
    async fn accept_in(&mut self) -> Option<TraceContext> {
        let message = self.next().await;
        let dial = Dial::from_message(&message).unwrap();
        let new_conn_id = dial.new_conn_id.unwrap();
        let success = DialSuccess { conn_id: dial.conn_id, new_conn_id, public_key: None };
        self.channel.send(success.to_message().in_reply_to(&message)).await.unwrap();
        assert_eq!(message.headers.contains(TRACE_PARENT), {
            TraceContext::take(&message.headers).is_some()
        });
        TraceContext::take(&message.headers)
    }
}

/// Dials once and tells to which trace the host was told that it belongs.
async fn dial_in(router: &Router, trace: &[u8]) -> Option<TraceContext> {
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    // Long headers are taken from a judged SDK only.
    let both_judged = || {
        let live = router.data.edge().live();
        live.iter().filter(|connection| connection.session().is_some()).count() == 2
    };
    router.until("both sessions to be judged", both_judged).await;
    let (answer, heard) = tokio::join!(dialer.connect_in(7, "echo", trace), host.accept_in());
    StateConnected::from_message(&answer).unwrap();
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_spans_no_trace_goes_on() {
    let router = router().await;
    assert_eq!(dial_in(&router, &told().to_text()).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dial_belongs_to_the_trace_of_the_sdk() {
    let memory = SpanMemory::default();
    let router = router_telling(FIN_HOLD, memory.spans()).await;
    let heard = dial_in(&router, &told().to_text()).await.unwrap();
    router.until("the span to end", || memory.named("router.dial").len() == 1).await;
    let dial = memory.named("router.dial").remove(0);
    assert_eq!(heard, dial.context, "what asks the controller is under the span of the dial");
    assert_eq!((dial.context.trace_id, dial.parent), ([0xab; 16], Some([0xcd; 8])));
    assert_eq!(dial.says("weft.service.id"), Some("echo"));
    assert_eq!(dial.says("weft.identity.id"), Some("identity of dialer"));
    assert_eq!(dial.says("weft.circuit.id"), Some("circuit0"));
    assert_eq!(dial.events, ["session looked up", "circuit made"]);
    // No span has a token or data of an application.
    assert!(dial.said.iter().all(|(_, value)| value != "dialer"), "{dial:?}");
}

#[tokio::test]
async fn a_span_begins_when_its_dial_came() {
    let memory = SpanMemory::default();
    let router = router_telling(FIN_HOLD, memory.spans()).await;
    let (before, day) = (time_of_day(), Duration::from_secs(24 * 3600));
    later(day).await;
    dial_in(&router, &told().to_text()).await.unwrap();
    router.until("the span to end", || memory.named("router.dial").len() == 1).await;
    let since = memory.named("router.dial").remove(0).since.unwrap();
    let after = since.duration_since(before).unwrap();
    assert!(after.abs_diff(day) < day / 2, "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_told_as_the_sdk_reads_it() {
    let memory = SpanMemory::default();
    let router = router_telling(FIN_HOLD, memory.spans()).await;
    let dialer = router.sdk("dialer").await;
    let closed = dialer.connect_in(1, "forbidden", &told().to_text()).await;
    router.until("the span to end", || memory.named("router.dial").len() == 1).await;
    let dial = memory.named("router.dial").remove(0);
    assert_eq!(dial.failure.as_deref(), Some(closed.text().as_str()));
    assert_eq!((dial.failure.as_deref(), dial.says("weft.error.code")), {
        (Some("access denied"), Some("14"))
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_traceparent_is_ignored() {
    let good = told().to_text();
    let long = [&good[..], b"-and-more"].concat();
    let wrong = [&b""[..], b"00", &good[..54], &long, &[b'0'; 60_000], &[0xff; 55]];
    for trace in wrong {
        let memory = SpanMemory::default();
        let router = router_telling(FIN_HOLD, memory.spans()).await;
        let heard = dial_in(&router, trace).await.unwrap();
        assert_ne!(heard.trace_id, [0xab; 16]);
        router.until("the span to end", || memory.named("router.dial").len() == 1).await;
        assert_eq!(memory.named("router.dial").remove(0).parent, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sdk_has_few_dials_recorded_by_its_word() {
    let memory = SpanMemory::default();
    let router = router_telling(FIN_HOLD, memory.spans()).await;
    let dialer = router.sdk("mallory").await;
    let begun = Instant::now();
    for conn_id in 1..=100 {
        let trace = TraceContext { span_id: u64::from(conn_id).to_be_bytes(), ..told() };
        let answer = dialer.connect_in(conn_id, "nobody hosts this", &trace.to_text()).await;
        assert_eq!(StateClosed::from_message(&answer).unwrap().reason, "no terminators");
    }
    // Ten at once, and ten more per second.
    let most = 10 + 10 * (begun.elapsed().as_secs() as usize + 1);
    let recorded = memory.named("router.dial").len();
    assert!((10..=most).contains(&recorded), "{recorded} of 100, at most {most}");
}
