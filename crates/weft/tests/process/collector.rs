//! A collector of spans: OTLP over HTTP, as Jaeger and others accept it.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as Status;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::TcpListener;

/// Value of the header `x-key`, which programs must send along with spans.
pub(crate) const KEY: &str = "letmein";

/// A span, and the service that sent it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedSpan {
    pub(crate) service: String,
    pub(crate) span: Span,
}

impl ReceivedSpan {
    /// An attribute as text.
    pub(crate) fn says(&self, name: &str) -> Option<String> {
        says(&self.span.attributes, name)
    }

    /// Reason of the failure, if the span failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        let status = self.span.status.as_ref()?;
        (status.code() == Status::Error).then_some(status.message.as_str())
    }
}

fn says(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

/// A collector that listens until it is dropped.
pub(crate) struct Collector {
    pub(crate) port: u16,
    told: Arc<Mutex<Vec<ReceivedSpan>>>,
    requests: Arc<Mutex<usize>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    /// A collector that accepts spans.
    pub(crate) async fn start() -> Self {
        Self::new(true).await
    }

    /// A collector that accepts connections and never answers.
    pub(crate) async fn silent() -> Self {
        Self::new(false).await
    }

    async fn new(answers: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Arc::<Mutex<Vec<ReceivedSpan>>>::default();
        let requests = Arc::<Mutex<usize>>::default();
        let (kept, counted) = (Arc::clone(&told), Arc::clone(&requests));
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (kept, counted) = (Arc::clone(&kept), Arc::clone(&counted));
                let service = service_fn(move |request| {
                    *counted.lock() += 1;
                    take(Arc::clone(&kept), answers, request)
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            }
        });
        Self { port, told, requests, serving }
    }

    /// Environment variables that make a program use this collector.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("OTEL_TRACES_EXPORTER", "otlp".to_owned()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("OTEL_EXPORTER_OTLP_HEADERS", format!("x-key={KEY}")),
            // Milliseconds.
            ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
            ("NO_PROXY", "127.0.0.1".to_owned()),
        ]
    }

    /// Number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        *self.requests.lock()
    }

    /// Every span received.
    pub(crate) fn told(&self) -> Vec<ReceivedSpan> {
        self.told.lock().clone()
    }

    /// The spans of one trace.
    pub(crate) fn trace(&self, id: &[u8]) -> Vec<ReceivedSpan> {
        self.told.lock().iter().filter(|told| told.span.trace_id == id).cloned().collect()
    }
}

async fn take(
    kept: Arc<Mutex<Vec<ReceivedSpan>>>,
    answers: bool,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if !answers {
        return std::future::pending().await;
    }
    let header = |name: &str| request.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
    let is_right = request.uri().path() == "/v1/traces"
        && header("x-key").as_deref() == Some(KEY)
        && header("content-type").as_deref() == Some("application/x-protobuf");
    let mut answer = Response::new(Full::default());
    if !is_right {
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(answer);
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let batch = ExportTraceServiceRequest::decode(body).unwrap();
    for resource in batch.resource_spans {
        let attributes = resource.resource.unwrap().attributes;
        let service = says(&attributes, "service.name").unwrap();
        assert!(says(&attributes, "service.version").is_some());
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        kept.lock().extend(spans.map(|span| ReceivedSpan { service: service.clone(), span }));
    }
    Ok(answer)
}
