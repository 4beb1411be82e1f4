//! Serves one request for a file, within the limits on files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Either;
use hyper::header::{ALLOW, HeaderValue, LOCATION, RANGE};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use tokio::task::spawn_blocking;
use weft_contract::ErrorCode;
use weft_controller::Failure;
use weft_web::Peer;

use super::reply::{self, Contents, Prepared};
use super::{FileBody, Files, disk, place};
use crate::answer::{self, Outgoing, Refused};
use crate::encodings::Encodings;
use crate::site::Site;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// Bytes per second of a file that extend the time that a client has to accept the file.
pub(crate) const LEAST_RATE: u64 = 16 * 1024;

impl Site {
    /// Answers a request for a file.
    pub(crate) async fn serve_file(
        &self,
        files: &Files,
        peer: &Arc<Peer>,
        head: &Parts,
        request_id: &str,
    ) -> Response<Outgoing> {
        let answer = match head.method {
            Method::GET | Method::HEAD => self.file(files, peer, head).await,
            Method::OPTIONS => {
                let mut answer = Response::new(FileBody::empty());
                answer.headers_mut().insert(ALLOW, METHODS);
                Ok(answer)
            }
            _ => Err(Refused::from(ErrorCode::MethodNotAllowed).with(ALLOW, METHODS)),
        };
        match answer {
            Ok(answer) => answer.map(Either::Right),
            Err(refused) => {
                tracing::debug!(peer = %peer.remote, request_id, failure = %refused.failure, "file refused");
                answer::refused(refused, request_id).map(Either::Left)
            }
        }
    }

    async fn file(
        &self,
        files: &Files,
        peer: &Arc<Peer>,
        head: &Parts,
    ) -> Result<Response<FileBody>, Refused> {
        let path = head.uri.path();
        let place = place::of(files.below(path))?;
        if path.ends_with("/index.html") {
            return Ok(to_directory(head.uri.query()));
        }
        let taken = self.shared.files.take(peer.remote.ip());
        let taken = taken.ok_or(ErrorCode::ServerTooManyRequests)?;
        let work = async {
            // Ranges are of the unencoded file.
            let is_part = head.headers.contains_key(RANGE);
            let encodings =
                if is_part { Encodings::default() } else { Encodings::of(&head.headers) };
            let (location, index) = (files.location.clone(), files.index.clone());
            let policy = Arc::clone(&files.policy);
            let find = move || {
                let Some(mut found) = disk::find(&location, place, &index, &encodings)? else {
                    return Ok(None);
                };
                let hashes = policy.hashes(&found.place, &mut found.plain)?;
                Ok(Some((found, hashes)))
            };
            let found = spawn_blocking(find).await.map_err(io::Error::other);
            let found = found.flatten().map_err(|error| unreadable(&error, files, path))?;
            let (found, hashes) = found.ok_or(ErrorCode::NotFound)?;
            let origins = self.shared.origins.now(&self.shared.controller);
            let policy = files.policy.header(&hashes, &origins);
            reply::prepare((found, policy), files, &encodings, &self.shared.compressor, head).await
        };
        let prepared = tokio::time::timeout(self.shared.limits.handler_timeout, work).await;
        let Prepared { status, headers, contents } =
            prepared.map_err(|_| Refused::from(ErrorCode::Timeout))??;
        let sending = |length: u64| {
            let time = Duration::from_secs(length / LEAST_RATE);
            peer.send(self.terms.options.write_timeout + self.shared.limits.file_time + time)
        };
        let body = match contents {
            Contents::None => FileBody::empty(),
            _ if head.method == Method::HEAD => FileBody::empty(),
            Contents::Bytes(bytes) => {
                let sending = sending(bytes.len() as u64);
                FileBody::bytes(bytes, taken, sending)
            }
            Contents::Stream(source) => {
                let sending = sending(source.length());
                FileBody::stream(source, taken, sending)
            }
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

/// The index has one URL: that of its directory. The redirect is relative, because a proxy may give
/// the application another path.
fn to_directory(query: Option<&str>) -> Response<FileBody> {
    let mut answer = Response::new(FileBody::empty());
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let to = HeaderValue::from_str(&format!("./{query}"));
    answer.headers_mut().insert(LOCATION, to.unwrap_or(HeaderValue::from_static("./")));
    answer
}

/// The answer for a file that cannot be read; the cause is only logged.
fn unreadable(error: &io::Error, files: &Files, path: &str) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let index = files.index.display();
            files.complain(path, &format_args!("the index {index} is missing"));
            ErrorCode::NotFound.into()
        }
        io::ErrorKind::PermissionDenied => {
            let text = "it must not be read by this user, or is outside of the location";
            files.complain(path, &format_args!("{text}: {error}"));
            ErrorCode::NotFound.into()
        }
        _ => {
            files.complain(path, error);
            Failure::unhandled("the file cannot be read; the controller's log says more")
        }
    }
}
