//! Watching the head of the log.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_store::{LogError, LogHead};
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
pub(crate) fn heads(log: Arc<Log>) -> BoxStream<'static, Result<LogHead, LogError>> {
    let begin = async move {
        match Watch::begin(log).await {
            Ok(watch) => watch.heads().boxed(),
            Err(why) => stream::iter([Err(LogError::Unavailable(why))]).boxed(),
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
        let created = created.map_err(|_| "etcd does not answer".to_owned())?;
        let created = created.map_err(|error| error.to_string())?.unwrap_or_default();
        if !created.created || created.canceled {
            return Err(format!("etcd refuses to tell of changes: {}", created.cancel_reason));
        }
        log.read_checkpoint().await.map_err(|error| error.to_string())?;
        let first = log.read_head().await.map_err(|error| error.to_string())?;
        let first = first.ok_or_else(|| "the log in etcd is gone".to_owned())?;
        let first = Some(first.head);
        Ok(Self { log, requests, answers, first, heard: Instant::now() })
    }

    fn heads(self) -> impl stream::Stream<Item = Result<LogHead, LogError>> + Send {
        stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(head) => Some((Ok(head), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<LogHead, LogError> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let ended = |why: String| LogError::Unavailable(why);
        loop {
            let answer = tokio::time::timeout(ASK, self.answers.next::<WatchResponse>()).await;
            let answer = match answer {
                Ok(answer) => {
                    let lost = |error| ended(format!("the connection to etcd is lost: {error}"));
                    answer.map_err(lost)?.unwrap_or_default()
                }
                Err(_) if self.heard.elapsed() >= SILENT => {
                    return Err(ended("etcd shows no sign of life".to_owned()));
                }
                Err(_) => {
                    let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
                    let progress = WatchRequest { request_union: Some(progress) };
                    let asked = self.requests.try_send(progress);
                    asked.map_err(|error| ended(error.to_string()))?;
                    continue;
                }
            };
            if answer.header.is_none() || answer.canceled {
                let why = format!("etcd has ended the watch of the log: {}", answer.cancel_reason);
                return Err(ended(why));
            }
            self.heard = Instant::now();
            let last = answer.events.into_iter().filter_map(|event| event.kv).next_back();
            if let Some(kv) = last {
                return Ok(self.log.note_head(&kv)?.head);
            }
        }
    }
}
