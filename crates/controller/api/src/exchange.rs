//! One request and its answer.
//!
//! Checks come in the order of their cost: the stated length of the body, the route, a place among
//! the requests in flight, the body itself. Only then the caller is looked up in the model
//! (docs/protocol/management-api.md 1; docs/protocol/auth.md 10). Operations on whole networks look
//! up the caller before the body is read, because only callers that may change networks may send
//! large bodies.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Collected, Either};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use weft_auth::resolve::RequestCredentials;
use weft_contract::resource::change::MAX_DOCUMENT;
use weft_contract::{Api, ErrorCode, Load, Operation, headers, paths as apis};
use weft_controller::{Call, Caller, Failure, Origin, QueryParameters, Reply, Wait};
use weft_web::{ConnectionTerms, Peer, PeerPermit};

use crate::answer::{self, BufferedResponse, Outgoing, Refused};
use crate::body::{self, Held};
use crate::compress::Manner;
use crate::encodings::Encodings;
use crate::files::{FileBody, LEAST_RATE};
use crate::routes::Found;
use crate::site::Site;
use crate::{accept, cors, description, health, oidc, paths};

/// Request headers that operations look at.
const HEADERS: [&str; 4] =
    ["accept", headers::MFA_CODE, headers::SESSION_TOKEN, headers::TOKEN_ISSUER];
/// Bytes that an answer over HTTP/2 counts at least while it is sent. Answers over HTTP/1.1 of up to this many bytes
/// do not count.
const SMALL: usize = 16 * 1024;
/// The longest wait for a revision of another controller, and the time between two looks.
const OTHERS_REVISION: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// Longest trace id that is kept, in characters; the rest is dropped.
const MAX_TRACE_ID: usize = 128;

impl weft_web::Site for Site {
    type ResponseBody = Outgoing;

    fn terms(&self) -> &ConnectionTerms {
        &self.terms
    }

    async fn exchange(&self, peer: &Arc<Peer>, request: Request<Incoming>) -> Response<Outgoing> {
        let _working = peer.begin();
        let begun = Instant::now();
        let mut leave = cors::leave(&self.terms.options.allowed_origins, request.headers());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let request_id = self.shared.controller.kernel().ids().entity();
        let id = request_id.as_str();
        let mut answer = if let Some(files) = self.application(&path) {
            // Pages of other origins may not use an application's files.
            leave = cors::Leave::Same;
            let (head, body) = request.into_parts();
            let answer = self.serve_file(files, peer, &head, id).await;
            tokio::spawn(async move { body::discard(body, &head.headers).await });
            answer
        } else if cors::is_preflight(&request, &leave) {
            let answer = cors::preflight(request.headers());
            answer.unwrap_or_else(|failure| answer::refused(failure.into(), id)).map(Either::Left)
        } else if self.is_metrics(&path) {
            let (head, body) = request.into_parts();
            let answer = self.serve_metrics(peer, &head, id).await;
            tokio::spawn(async move { body::discard(body, &head.headers).await });
            answer
        } else {
            match self.room_for_answer(peer, &request) {
                Some(room) => {
                    let encodings = Encodings::of(request.headers());
                    let answer = self.answer(peer, request, id).await;
                    let answer = self.shared.compressor.answer(answer, &encodings).await;
                    self.until_sent(peer, room, answer, id).await
                }
                None => {
                    let (head, body) = request.into_parts();
                    tokio::spawn(async move { body::discard(body, &head.headers).await });
                    let refused = ErrorCode::ServerTooManyRequests.into();
                    answer::refused(refused, id).map(Either::Left)
                }
            }
        };
        self.shared.signature.sign(answer.headers_mut());
        if let Some(address) = &self.new_address {
            answer.headers_mut().insert("ziti-ctrl-address", address.clone());
        }
        cors::allow(answer.headers_mut(), leave);
        let (status, took) = (answer.status().as_u16(), begun.elapsed());
        // The query may contain tokens, so it is not logged.
        tracing::debug!(peer = %peer.remote, %method, path, status, ?took, "answered");
        answer
    }
}

impl Site {
    async fn answer(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
        request_id: &str,
    ) -> BufferedResponse {
        let (head, mut body) = request.into_parts();
        match self.run(peer, &head, &mut body).await {
            Ok(answer) => answer,
            Err(refused) => {
                let failure = &refused.failure;
                tokio::spawn(async move { body::discard(body, &head.headers).await });
                if failure.status() >= 500 {
                    let peer = peer.remote;
                    let is_fault = failure.status() == 500;
                    let lines = if is_fault { &self.shared.faults } else { &self.shared.failures };
                    match lines.lock().due(Instant::now()) {
                        Some(left_out) => {
                            tracing::warn!(%peer, request_id, %failure, left_out, "request failed");
                        }
                        None => tracing::debug!(%peer, request_id, %failure, "request failed"),
                    }
                } else {
                    tracing::debug!(peer = %peer.remote, request_id, %failure, "request refused");
                }
                answer::refused(refused, request_id)
            }
        }
    }

    /// Room for a usual answer, taken before the request is carried out: a change that was made must not be
    /// answered as if it was refused. `None` if the client has too many answers that it did not take.
    fn room_for_answer(&self, peer: &Peer, request: &Request<Incoming>) -> Option<Room> {
        let permit = self.shared.answers.none(peer.remote.ip());
        // Over HTTP/1.1 a connection sends one answer at a time.
        let bytes = if request.version() == Version::HTTP_2 { SMALL } else { 0 };
        let is_read = request.method() == Method::GET;
        permit.try_grow(bytes).then_some(Room { permit, bytes, is_read })
    }

    /// An answer that counts among the bytes of answers until it is sent, and that its client has to accept in
    /// time. A client of HTTP/2 could otherwise ask for many answers and take none of them, and a client of
    /// HTTP/1.1 a few bytes now and then.
    async fn until_sent(
        &self,
        peer: &Arc<Peer>,
        Room { permit, bytes, is_read }: Room,
        answer: BufferedResponse,
        request_id: &str,
    ) -> Response<Outgoing> {
        let length = usize::try_from(answer.body().size_hint().lower()).unwrap_or(usize::MAX);
        if length == 0 || bytes == 0 && length <= SMALL {
            return answer.map(Either::Left);
        }
        // The answer to a change is sent in any case.
        if !permit.try_grow(length.saturating_sub(bytes)) && is_read {
            let refused = ErrorCode::ServerTooManyRequests.into();
            return answer::refused(refused, request_id).map(Either::Left);
        }
        let time = Duration::from_secs(length as u64 / LEAST_RATE);
        let sending = peer.send(self.terms.options.write_timeout + time);
        let (head, body) = answer.into_parts();
        let Ok(body) = body.collect().await.map(Collected::to_bytes);
        Response::from_parts(head, Either::Right(FileBody::bytes(body, permit, sending)))
    }

    async fn run(
        &self,
        peer: &Peer,
        head: &Parts,
        body: &mut Incoming,
    ) -> Result<BufferedResponse, Refused> {
        let path = paths::normal(head.uri.path());
        let (api, rest) = apis::dispatch(&path, &self.apis).ok_or(ErrorCode::NotFound)?;
        let most = if api == Api::Weft { MAX_DOCUMENT } else { headers::MAX_BODY };
        body::check_length(&head.headers, most)?;
        if api == Api::Oidc {
            return Ok(self.provide(peer, head, rest, body).await?);
        }
        if api == Api::Health {
            let query = paths::query(head.uri.query());
            return Ok(health::answer(&self.shared.controller, &self.shared.health, &path, &query));
        }
        if let Some(reply) = description::find(api, &head.method, rest) {
            let mut answer = answer::done(reply)?;
            answer::set_manner(&mut answer, Manner::Kept(path.into_owned()));
            return Ok(answer);
        }
        let routes = &self.shared.routes;
        if head.method == Method::OPTIONS {
            let is_described = description::find(api, &Method::GET, rest).is_some();
            return Ok(answer::options(&routes.methods(api, rest, is_described)));
        }
        let Found { row, ids } = routes.find(api, &head.method, rest)?;
        accept::check(&head.headers, &row.answer_media())?;
        let permit = self.permit(peer.remote.ip())?;
        let query = paths::query(head.uri.query());
        if head.headers.contains_key(AUTHORIZATION) {
            let shown = credentials(&head.headers, origin(peer));
            self.shared.controller.auth().fetch_keys_for(&shown).await;
        }
        let caller = || self.caller(peer, head, &query);
        let known = match row.load {
            Load::Document => Some(caller().await),
            Load::Usual => None,
        };
        let allowance = Allowance::of(known.as_ref(), self.terms.options.read_timeout);
        body::check_length(&head.headers, allowance.bytes)?;
        let bytes = self.shared.bodies.none(peer.remote.ip());
        let held = body::read(body, allowance.bytes, allowance.time, &permit, bytes).await?;
        let media = media(&head.headers);
        check_media(row, media.as_deref(), &held)?;
        // Looked up again after a long body: meanwhile the caller may have lost rights.
        let mut known = caller().await;
        // It decides about rights on that revision, too.
        if known.login().is_some() && self.until_revision(&head.headers).await? {
            known = caller().await;
        }
        let caller = known;
        let sessions = self.shared.controller.auth().sessions();
        let is_outdated = head.version < Version::HTTP_2 && sessions.is_outdated(&caller);
        let manner = Manner::of(row, &ids);
        let own = HEADERS.iter().filter_map(|name| header(&head.headers, name));
        let call = Call {
            api,
            row,
            path: ids,
            query,
            body: held.bytes.clone(),
            media,
            headers: own.chain(authorizations(&head.headers)).collect(),
            wait: Wait::default(),
        };
        let reply = self.call(caller.clone(), call, (permit, held)).await?;
        let mut answer = answer::done(reply)?;
        answer::session_end(&mut answer, &self.shared.controller, &caller);
        answer::revision(&mut answer, &self.shared.controller, &caller);
        // A client makes its next connection with its new certificate.
        if is_outdated {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(manner) = manner {
            answer::set_manner(&mut answer, manner);
        }
        Ok(answer)
    }

    /// Waits for the revision that a caller who has logged in has from another controller, if the request names one. True if
    /// it was not there yet. The time is short, since a request keeps its place among those of its address meanwhile.
    async fn until_revision(&self, own: &HeaderMap) -> Result<bool, Failure> {
        let Some((name, named)) = header(own, headers::REVISION) else { return Ok(false) };
        let wanted: u64 = named.parse().map_err(|_| {
            let text = format!("the header {name} is no number of a revision");
            Failure::because(ErrorCode::InvalidField, text)
        })?;
        let kernel = self.shared.controller.kernel();
        let known = || kernel.snapshot().revision().0;
        if known() >= wanted {
            return Ok(false);
        }
        let there = async {
            while known() < wanted {
                tokio::time::sleep(LOOK).await;
            }
            true
        };
        let late = |_| {
            let text = format!("revision {wanted} is not known here yet, only {}", known());
            Failure::unwritable(text)
        };
        tokio::time::timeout(OTHERS_REVISION, there).await.map_err(late)
    }

    /// Answers a request to the OIDC provider.
    async fn provide(
        &self,
        peer: &Peer,
        head: &Parts,
        path: &str,
        body: &mut Incoming,
    ) -> Result<BufferedResponse, Failure> {
        let oidc = self.oidc.as_ref().ok_or(ErrorCode::NotFound)?;
        if head.method == Method::OPTIONS {
            return Ok(answer::options("GET, POST, DELETE"));
        }
        let permit = self.permit(peer.remote.ip())?;
        let allowance = Allowance::of(None, self.terms.options.read_timeout);
        let bytes = self.shared.bodies.none(peer.remote.ip());
        let held = body::read(body, allowance.bytes, allowance.time, &permit, bytes).await?;
        // Its session may have begun, or changed, at another controller.
        self.shared.controller.auth().sessions().catch_up().await;
        let caller = Caller::nobody(origin(peer));
        let request = oidc.request(head, path, held.bytes.clone(), caller);
        let controller = self.shared.controller.clone();
        let running = self.shared.operations.token();
        let work = async move {
            let _kept = (permit, held, running);
            Ok(controller.auth().oidc(request).await)
        };
        let limit = self.shared.limits.handler_timeout;
        within(limit, "oidc", &Wait::default(), work).await.map(oidc::answer)
    }

    async fn caller(&self, peer: &Peer, head: &Parts, query: &QueryParameters) -> Caller {
        let trace_id = query.get("traceId").map(|text| text.chars().take(MAX_TRACE_ID).collect());
        let origin = Origin { trace_id, ..origin(peer) };
        self.shared.controller.auth().resolve_latest(credentials(&head.headers, origin)).await
    }

    fn permit(&self, peer: IpAddr) -> Result<PeerPermit, ErrorCode> {
        self.shared.requests.take(peer).ok_or(ErrorCode::ServerTooManyRequests)
    }

    /// Runs an operation, which keeps its place among the requests and its body until it ends.
    async fn call(
        &self,
        caller: Caller,
        call: Call,
        kept: (PeerPermit, Held),
    ) -> Result<Reply, Failure> {
        let controller = self.shared.controller.clone();
        let limits = &self.shared.limits;
        let (operation, limit) = match call.row.load {
            Load::Usual => (call.row.id, limits.handler_timeout),
            Load::Document => (call.row.id, limits.document_timeout),
        };
        let wait = call.wait.clone();
        let running = self.shared.operations.token();
        let work = async move {
            let _kept = (kept, running);
            controller.call(caller, call).await
        };
        within(limit, operation, &wait, work).await
    }
}

/// Room for an answer among those that are being sent.
struct Room {
    permit: PeerPermit,
    bytes: usize,
    /// True if the request changes nothing.
    is_read: bool,
}

/// The size limit and the time limit of a body.
struct Allowance {
    bytes: usize,
    time: Duration,
}

impl Allowance {
    /// The limits for a known caller, if the caller was looked up first.
    fn of(known: Option<&Caller>, usual: Duration) -> Self {
        match known {
            Some(caller) if caller.may_change_networks() => {
                let times = u32::try_from(MAX_DOCUMENT / headers::MAX_BODY).unwrap_or(1);
                Self { bytes: MAX_DOCUMENT, time: usual.saturating_mul(times) }
            }
            _ => Self { bytes: headers::MAX_BODY, time: usual },
        }
    }
}

/// Runs work on a task of its own with a time limit. The work goes on if the caller disconnects or
/// the time is over, and a panic in it becomes an answer instead of closing the connection. Work that has begun
/// a change when the time is over may still make it, which the answer says.
async fn within<T: Send + 'static>(
    limit: Duration,
    operation: &str,
    wait: &Wait,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, tokio::spawn(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            tracing::error!(operation, %error, "an operation panicked; its caller gets an error");
            let text = "the operation ended in a fault; the controller's log says more";
            Err(Failure::unhandled(text))
        }
        Err(_) if wait.end() => Err(Failure::timed_out()),
        Err(_) => {
            let text = "the change was being written when the time was over";
            Err(Failure::because(ErrorCode::OutcomeUnknown, text))
        }
    }
}

/// The source of a request.
fn origin(peer: &Peer) -> Origin {
    let (remote, certificates) = (Some(peer.remote), peer.certificates.clone());
    Origin { remote, certificates, connected: Some(peer.since), ..Origin::default() }
}

/// The credentials in a request.
fn credentials(own: &HeaderMap, origin: Origin) -> RequestCredentials {
    let session = own.get(headers::SESSION).and_then(|value| value.to_str().ok());
    let bearers = own.get_all(AUTHORIZATION).iter();
    let bearers = bearers.filter_map(|value| headers::bearer(value.to_str().ok()?));
    RequestCredentials {
        session: session.map(str::to_owned),
        bearers: bearers.take(headers::MAX_BEARERS).map(str::to_owned).collect(),
        origin,
    }
}

/// The values of the first `Authorization` headers, split into scheme and value.
fn authorizations(own: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    let values = own.get_all(AUTHORIZATION).iter().take(headers::MAX_BEARERS);
    values.filter_map(|it| Some((headers::AUTHORIZATION.to_owned(), it.to_str().ok()?.to_owned())))
}

fn header(own: &HeaderMap, name: &str) -> Option<(String, String)> {
    let value = own.get(name)?.to_str().ok()?;
    Some((name.to_owned(), value.to_owned()))
}

/// The media type of the body, in lower case, without parameters.
fn media(own: &HeaderMap) -> Option<String> {
    let value = own.get(CONTENT_TYPE)?.to_str().ok()?;
    let media = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (!media.is_empty()).then_some(media)
}

/// Refuses with 415 a body whose media type the operation does not accept. A body without a media
/// type counts as bytes.
fn check_media(row: &Operation, media: Option<&str>, held: &Held) -> Result<(), Failure> {
    let (taken, given) = (row.body_media(), media.unwrap_or(headers::BYTES));
    if held.bytes.is_empty() || taken.contains(&given) {
        return Ok(());
    }
    let reason = match media {
        Some(given) => format!("`{given}` is not taken here, send {}", taken.join(" or ")),
        None => format!("the request has no media type for its body, send {}", taken.join(" or ")),
    };
    Err(Failure::field("Content-Type", reason, media.unwrap_or_default()).with_status(415))
}

#[cfg(test)]
mod tests {
    use weft_contract::resource;
    use weft_web::PeerQuota;

    use super::*;

    fn with(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut own = HeaderMap::new();
        for (name, value) in pairs {
            own.append(*name, HeaderValue::from_static(value));
        }
        own
    }

    #[test]
    fn tokens_are_found_in_every_header_line() {
        let own = with(&[
            ("authorization", "Basic abc"),
            ("authorization", "Bearer one"),
            ("authorization", "bearer  two "),
            ("authorization", "Bearer three"),
            ("authorization", "Bearer four"),
            ("zt-session", "token"),
        ]);
        let found = credentials(&own, Origin::default());
        assert_eq!(found.bearers, ["one", "two", "three"]);
        assert_eq!(found.session.as_deref(), Some("token"));
    }

    #[tokio::test]
    async fn faults_and_delays_are_answers() {
        let wait = Wait::default();
        let fault: Result<(), _> =
            within(Duration::from_secs(30), "x", &wait, async { panic!("a fault") }).await;
        let failure = fault.unwrap_err();
        assert_eq!((failure.status(), failure.code()), (500, ErrorCode::Unhandled));
        let delay = || std::future::pending::<Result<(), Failure>>();
        let delayed = within(Duration::ZERO, "x", &wait, delay()).await;
        assert_eq!(delayed.unwrap_err().code(), ErrorCode::Timeout);
        assert!(!wait.begin(), "the client was told that nothing is changed");
        let wait = Wait::default();
        assert!(wait.begin());
        let delayed = within(Duration::ZERO, "x", &wait, delay()).await;
        assert_eq!(delayed.unwrap_err().code(), ErrorCode::OutcomeUnknown);
    }

    #[test]
    fn media_types_lose_their_parameters() {
        assert_eq!(
            media(&with(&[("content-type", "Application/JSON; charset=utf-8")])).as_deref(),
            Some("application/json")
        );
        assert_eq!(media(&with(&[("content-type", "")])), None);
    }

    #[test]
    fn bodies_must_be_of_a_type_that_is_taken() {
        let quota = PeerQuota::new(0, 0, Duration::ZERO);
        let none = || quota.none(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
        let held = |text: &'static str| Held { bytes: text.into(), _taken: none() };
        let check = |api, id, media, text| {
            let row = resource::operation(api, id).unwrap();
            check_media(row, media, &held(text)).map_err(|failure| {
                (failure.status(), failure.code(), failure.field_name().map(str::to_owned))
            })
        };
        let refused = Err((415, ErrorCode::CouldNotValidate, Some("Content-Type".to_owned())));
        let own = Api::Management;
        assert_eq!(check(own, "createService", Some("application/json"), "{}"), Ok(()));
        for other in [None, Some("application/x-www-form-urlencoded"), Some("text/plain")] {
            assert_eq!(check(own, "createService", other, "{}"), refused);
            assert_eq!(check(own, "createService", other, ""), Ok(()));
        }
        // A body for an operation without body is ignored.
        assert_eq!(check(own, "deleteService", Some("application/json"), "x"), Ok(()));
        assert_eq!(check(own, "deleteService", Some("text/plain"), "x"), refused);
        for media in [None, Some("text/plain"), Some("application/x-pem-file")] {
            assert_eq!(check(own, "verifyCa", media, "x"), Ok(()));
        }
        assert_eq!(check(own, "verifyCa", Some("application/json"), "x"), refused);
        for media in ["application/json", "application/pkcs7", "text/plain"] {
            assert_eq!(check(Api::Client, "enroll", Some(media), "x"), Ok(()));
        }
        assert_eq!(check(Api::Client, "enroll", None, "x"), refused);
    }
}
