//! What browsers ask before scripts of one origin may call another (protocol: auth 1.2).
//!
//! The origin is answered with `*` and never repeated: a page of anybody must not be able to log
//! in with the certificate of the browser it runs in.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap,
    HeaderValue, ORIGIN,
};
use hyper::{Method, Request, Response};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue =
    HeaderValue::from_static("content-type, accept, authorization, zt-session");
/// Seconds a browser may remember the answer.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Whether a request asks for leave only.
pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && is_from_browser(request.headers())
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether a request comes from a page of some origin.
pub(crate) fn is_from_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

/// The leave.
pub(crate) fn preflight() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    response
}

/// Lets any page read an answer.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}
