//! `/metrics`: all measurements, in the form for Prometheus (docs/protocol/operations.md 5.3).
//!
//! A client without a certificate may be a stranger. A text is therefore made and compressed once
//! for all clients, is sent to at most 8 at once, and a client that does not read it in time is
//! disconnected.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::Either;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use weft_contract::{Api, ErrorCode, paths as apis};
use weft_web::Peer;

use crate::answer::{self, Outgoing};
use crate::compress::WORTH_IT;
use crate::encodings::{Encoding, Encodings};
use crate::files::FileBody;
use crate::paths;
use crate::site::{MetricsDoor, Site};

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Site {
    /// Whether a path is the one of metrics at this bind point.
    pub(crate) fn is_metrics(&self, path: &str) -> bool {
        apis::dispatch(&paths::normal(path), &self.apis).is_some_and(|(api, _)| api == Api::Metrics)
    }

    /// Answers a request for metrics.
    pub(crate) async fn serve_metrics(
        &self,
        peer: &Arc<Peer>,
        head: &Parts,
        request_id: &str,
    ) -> Response<Outgoing> {
        let MetricsDoor { scraper, with_times } = &self.metrics;
        let leaf = peer.certificates.first();
        if scraper.as_ref().is_some_and(|one| !one.admits(leaf, SystemTime::now())) {
            let mut answer = Response::new(Either::Left(Bytes::new().into()));
            *answer.status_mut() = StatusCode::UNAUTHORIZED;
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
            return answer;
        }
        let Some(scrape) = self.shared.scrapes.begin(peer) else {
            let refused = ErrorCode::ServerTooManyRequests.into();
            return answer::refused(refused, request_id).map(Either::Left);
        };
        let text = self.shared.controller.prometheus(*with_times).await;
        let wanted = Encodings::of(&head.headers).best(&[Encoding::Gzip]);
        let compressed = match wanted.filter(|_| text.len() as u64 >= WORTH_IT) {
            Some(_) => self.shared.texts.of(*with_times, &text, &self.shared.compressor).await,
            None => None,
        };
        let encoding = compressed.as_ref().map(|_| HeaderValue::from_static(Encoding::Gzip.name()));
        let body = compressed.unwrap_or(text);
        let (place, sending) = scrape.send(body.len());
        let mut answer = Response::new(Either::Right(FileBody::bytes(body, place, sending)));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.extend(encoding.map(|encoding| (CONTENT_ENCODING, encoding)));
        answer
    }
}
