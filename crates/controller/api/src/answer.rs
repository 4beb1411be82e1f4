//! Answers: the envelope, the status, and the headers that every answer has
//! (docs/protocol/auth.md 1.2).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SERVER,
};
use hyper::{Response, StatusCode};
use weft_contract::{ErrorCode, ErrorEnvelope, Timestamp, headers};
use weft_controller::{Caller, Content, Controller, Failure, Reply};

use crate::compress::Manner;
use crate::files::FileBody;

/// An answer with its body in memory.
pub(crate) type BufferedResponse = Response<Full<Bytes>>;
/// An answer with its body in memory or from a file.
pub(crate) type Outgoing = Either<Full<Bytes>, FileBody>;

/// A request that was refused before it ran, with headers for the answer.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) failure: Failure,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refused {
    /// Adds a header for the answer.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { failure, header: None }
    }
}

impl From<ErrorCode> for Refused {
    fn from(code: ErrorCode) -> Self {
        Failure::from(code).into()
    }
}

/// A reply with its envelope, and a line break behind it, so that a shell goes on in a new line.
pub(crate) fn done(reply: Reply) -> Result<BufferedResponse, Failure> {
    let (media, body) = match reply.content {
        Content::Raw { media, body } => (media, body),
        Content::Data { data, meta } => {
            let meta = serde_json::to_string(&meta)
                .map_err(|error| Failure::unhandled(error.to_string()))?;
            let text = [r#"{"data":"#, &data, r#","meta":"#, &meta, "}\n"].concat();
            (headers::JSON, text.into())
        }
    };
    let mut answer = with_body(reply.status, media, body);
    for (name, value) in reply.headers {
        put(answer.headers_mut(), HeaderName::from_static(name), &value);
    }
    Ok(answer)
}

/// A refusal with its envelope.
pub(crate) fn refused(refused: Refused, request_id: &str) -> BufferedResponse {
    let Refused { failure, header } = refused;
    let envelope = ErrorEnvelope::new(failure.body(request_id));
    let mut body = serde_json::to_vec(&envelope).unwrap_or_default();
    body.push(b'\n');
    let mut answer = with_body(failure.status(), headers::JSON, body.into());
    let own = answer.headers_mut();
    if let Some(challenge) = failure.challenge() {
        put(own, HeaderName::from_static(headers::WWW_AUTHENTICATE), &challenge);
    }
    if let Some(wait) = failure.retry_after() {
        own.insert(HeaderName::from_static(headers::RETRY_AFTER), seconds(wait).into());
    }
    own.extend(header);
    answer
}

/// The answer to `OPTIONS`: the methods of a path.
pub(crate) fn options(methods: &str) -> BufferedResponse {
    let mut answer = Response::new(Full::default());
    put(answer.headers_mut(), ALLOW, methods);
    answer
}

/// Adds the end of the caller's session to an answer.
pub(crate) fn session_end(answer: &mut BufferedResponse, controller: &Controller, caller: &Caller) {
    let opened = answer.headers().contains_key(headers::SESSION);
    let has_session = caller.login().is_some_and(|login| login.session.legacy);
    if !(opened && answer.status().is_success() || has_session) {
        return;
    }
    let life = controller.kernel().settings().durations.session;
    let end = Timestamp::from_millis(controller.kernel().now().plus(life).0).to_string();
    // The form in which Go writes a time: `2026-01-02 03:04:05.678 +0000 UTC`.
    let end = end.replacen('T', " ", 1).replacen('Z', " +0000 UTC", 1);
    let own = answer.headers_mut();
    own.insert(HeaderName::from_static(headers::EXPIRATION_SECONDS), seconds(life).into());
    put(own, HeaderName::from_static(headers::EXPIRES_AT), &end);
}

/// Tells a caller who has logged in the revision that the answer is given on, and whether others may have written more.
pub(crate) fn revision(answer: &mut BufferedResponse, controller: &Controller, caller: &Caller) {
    if caller.login().is_none() {
        return;
    }
    let revision = controller.kernel().snapshot().revision().0;
    let own = answer.headers_mut();
    own.insert(HeaderName::from_static(headers::REVISION), revision.into());
    if controller.kernel().is_cut_off() {
        own.insert(HeaderName::from_static(headers::CUT_OFF), HeaderValue::from_static("true"));
    }
}

/// Headers of every answer of this process.
#[derive(Debug)]
pub(crate) struct Signature {
    instance: HeaderValue,
    server: HeaderValue,
}

impl Signature {
    /// The headers of this process, with a new instance id. Clients read `/version` again when the
    /// instance changes.
    pub(crate) fn new(controller: &Controller) -> Self {
        let instance = controller.kernel().ids().ordered(controller.kernel().now());
        let server = format!("ziti-controller/{}", controller.kernel().settings().build.version);
        let value = |text: &str| {
            HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
        };
        Self { instance: value(instance.as_str()), server: value(&server) }
    }

    /// Adds these headers to an answer.
    pub(crate) fn sign(&self, own: &mut HeaderMap) {
        own.insert(HeaderName::from_static(headers::INSTANCE), self.instance.clone());
        own.insert(SERVER, self.server.clone());
    }
}

/// Sets the manner of compressing an answer. Clients may keep an answer that is compressed once for
/// all of them.
pub(crate) fn set_manner(answer: &mut BufferedResponse, manner: Manner) {
    if matches!(manner, Manner::Kept(_)) {
        answer.headers_mut().remove(CACHE_CONTROL);
    }
    answer.extensions_mut().insert(manner);
}

/// An answer with a whole body, which also sets `content-length`. No client keeps it.
fn with_body(status: u16, media: &'static str, body: Bytes) -> BufferedResponse {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let own = answer.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    // Answers contain tokens and other secrets, which no browser shall keep on its disk.
    own.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Adds a header; an invalid value is left out.
fn put(own: &mut HeaderMap, name: HeaderName, value: &str) {
    match HeaderValue::from_str(value) {
        Ok(value) => drop(own.append(name, value)),
        Err(_) => tracing::debug!(%name, "header left out: its value is not printable"),
    }
}

/// A time in whole seconds, rounded up, at least one.
fn seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX)
}
