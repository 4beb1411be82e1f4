//! Watching the head of the log.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_store::LogHead;
use weft_wire::etcd::watch_request::RequestUnion;
use weft_wire::etcd::{WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};

use crate::grpc::{self, Answers};
use crate::log::Log;

/// The time after which etcd is asked for a sign of life, and after which the watch is given up without one.
const ASK: Duration = Duration::from_secs(5);
const SILENT: Duration = Duration::from_secs(10);
/// Requests of one watch that may wait.
const REQUESTS: usize = 4;

/// The heads of the log, from one that is read after the watch has begun.
pub(crate) fn heads(log: Arc<Log>) -> BoxStream<'static, LogHead> {
    let begin = async move {
        match Watch::begin(log).await {
            Ok(watch) => watch.heads().boxed(),
            Err(why) => {
                tracing::debug!(why, "the log in etcd cannot be watched");
                stream::empty().boxed()
            }
        }
    };
    stream::once(begin).flatten().boxed()
}

struct Watch {
    log: Arc<Log>,
    requests: mpsc::Sender<WatchRequest>,
    answers: Answers,
    /// The head that was read when the watch had begun.
    first: Option<LogHead>,
    heard: Instant,
}

impl Watch {
    async fn begin(log: Arc<Log>) -> Result<Self, String> {
        let (requests, queue) = mpsc::channel::<WatchRequest>(REQUESTS);
        let framed = stream::unfold(queue, |mut queue| async move {
            let request = queue.recv().await?;
            Some((Ok(Frame::data(grpc::frame(&request))), queue))
        });
        let key = log.keys.head();
        let create = WatchCreateRequest { key, progress_notify: true, ..Default::default() };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        requests.send(create).await.map_err(|error| error.to_string())?;
        let body = grpc::Body::new(StreamBody::new(framed));
        let answers = log.channel.stream("Watch/Watch", body).await;
        let mut answers = answers.map_err(|error| error.to_string())?;
        let created = tokio::time::timeout(ASK, answers.next::<WatchResponse>()).await;
        let created = created.map_err(|_| "it does not answer".to_owned())?;
        let created = created.map_err(|error| error.to_string())?.unwrap_or_default();
        if !created.created || created.canceled {
            return Err(format!("it refuses: {}", created.cancel_reason));
        }
        log.read_checkpoint().await.map_err(|error| error.to_string())?;
        let first = log.read_head().await.map_err(|error| error.to_string())?;
        let first = first.map(|stored| stored.head);
        Ok(Self { log, requests, answers, first, heard: Instant::now() })
    }

    fn heads(self) -> impl stream::Stream<Item = LogHead> + Send {
        stream::unfold(self, |mut watch| async move {
            let head = watch.next().await;
            head.map(|head| (head, watch))
        })
    }

    async fn next(&mut self) -> Option<LogHead> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let answer = tokio::time::timeout(ASK, self.answers.next::<WatchResponse>()).await;
            let answer = match answer {
                Ok(Ok(Some(answer))) if !answer.canceled => answer,
                Ok(ended) => {
                    let why = ended.map(|answer| answer.unwrap_or_default().cancel_reason);
                    tracing::debug!(?why, "the watch of the log in etcd has ended");
                    return None;
                }
                Err(_) if self.heard.elapsed() >= SILENT => return None,
                Err(_) => {
                    let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
                    let progress = WatchRequest { request_union: Some(progress) };
                    self.requests.try_send(progress).ok()?;
                    continue;
                }
            };
            self.heard = Instant::now();
            let last = answer.events.into_iter().filter_map(|event| event.kv).next_back();
            match last.map(|kv| self.log.note_head(&kv)) {
                Some(Ok(head)) => return Some(head.head),
                // The head was deleted by hand, or is not weft's.
                Some(Err(_)) => return None,
                None => {}
            }
        }
    }
}
