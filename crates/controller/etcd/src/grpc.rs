//! Calls of gRPC: one request and one answer, or a stream in each direction, over one HTTP/2 connection.
//!
//! A message is five bytes, of which the first says that it is not compressed and the others are its length, and the
//! message as protocol buffers (the gRPC documentation, "gRPC over HTTP2").

use std::convert::Infallible;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use hyper::{Method, Request, Response, StatusCode};
use prost::Message;

/// Largest message that is read, in bytes.
const MAX_MESSAGE: usize = 64 << 20;

/// The body of a request.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The request was not sent.
    #[error("{0}")]
    Unsent(String),
    /// The request was sent, and it is not known whether it was carried out.
    #[error("{0}")]
    Unanswered(String),
    /// etcd has answered with an error.
    #[error("etcd answers: {message} (gRPC code {code})")]
    Status {
        /// The code of gRPC.
        code: u32,
        /// The text.
        message: String,
    },
}

/// Codes of gRPC.
pub(crate) mod code {
    pub(crate) const INVALID_ARGUMENT: u32 = 3;
    pub(crate) const PERMISSION_DENIED: u32 = 7;
    pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(crate) const UNAVAILABLE: u32 = 14;
    pub(crate) const UNAUTHENTICATED: u32 = 16;
}

/// A message as gRPC frames it.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(5 + length);
    framed.put_u8(0);
    framed.put_u32(length as u32);
    framed.extend_from_slice(&message.encode_to_vec());
    framed.freeze()
}

/// A request with one message.
pub(crate) fn body(message: &impl Message) -> Body {
    Full::new(frame(message)).boxed()
}

/// The HTTP request of a call of `<origin>/etcdserverpb.<service>/<call>`. With `needs_leader`, a member without a leader
/// answers with an error at once.
pub(crate) fn request(
    origin: &str,
    path: &str,
    (token, needs_leader): (Option<HeaderValue>, bool),
    body: Body,
) -> Result<Request<Body>, CallError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{origin}/etcdserverpb.{path}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .body(body);
    let mut request = request.map_err(|error| CallError::Unsent(error.to_string()))?;
    if let Some(token) = token {
        request.headers_mut().insert("token", token);
    }
    if needs_leader {
        request.headers_mut().insert("hasleader", HeaderValue::from_static("true"));
    }
    Ok(request)
}

/// Checks the head of an answer, which may hold the error already.
pub(crate) fn check_head(response: Response<Incoming>) -> Result<Answers, CallError> {
    if response.status() != StatusCode::OK {
        return Err(CallError::Unanswered(format!("it answers with HTTP {}", response.status())));
    }
    check_status(response.headers())?;
    Ok(Answers { body: response.into_body(), read: BytesMut::new() })
}

/// The error that headers or trailers hold.
fn check_status(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(code) = text("grpc-status") else { return Ok(()) };
    match code.parse().unwrap_or(2) {
        0 => Ok(()),
        code => {
            let message = text("grpc-message").unwrap_or("no reason").replace("%20", " ");
            Err(CallError::Status { code, message })
        }
    }
}

/// The messages of an answer.
pub(crate) struct Answers {
    body: Incoming,
    read: BytesMut,
}

impl Answers {
    /// The next message; none after the last one. A caller that gives up loses nothing.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, CallError> {
        let lost = |why: String| CallError::Unanswered(why);
        loop {
            if let Some(message) = self.take()? {
                let message = M::decode(message).map_err(|error| lost(error.to_string()))?;
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else {
                return match self.read.is_empty() {
                    true => Ok(None),
                    false => Err(lost("its answer is cut short".to_owned())),
                };
            };
            let frame = frame.map_err(|error| lost(error.to_string()))?;
            match frame.into_data() {
                Ok(data) => self.read.extend_from_slice(&data),
                Err(frame) => {
                    if let Some(trailers) = frame.trailers_ref() {
                        check_status(trailers)?;
                    }
                }
            }
        }
    }

    /// Takes a message that was read whole.
    fn take(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some((head, _)) = self.read.split_first_chunk::<5>() else { return Ok(None) };
        let [compressed, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 || length > MAX_MESSAGE {
            return Err(CallError::Unanswered("its answer is compressed, or too long".to_owned()));
        }
        if self.read.len() < 5 + length {
            return Ok(None);
        }
        self.read.advance(5);
        Ok(Some(self.read.split_to(length).freeze()))
    }
}
