//! What browsers ask before scripts of one origin may call another (protocol: auth 1.2).
//!
//! The origin is answered with `*` and never repeated: a page of anybody must not be able to log
//! in with the certificate of the browser it runs in.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use hyper::{Method, Request, Response};
use weft_contract::ErrorCode;
use weft_controller::Failure;

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "content-type, accept, authorization, zt-session";
/// Headers that scripts may set without leave.
const FREE: &str = "accept-language, content-language, origin";
/// Seconds a browser may remember the answer.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Characters of a header that its refusal repeats.
const SHOWN: usize = 200;

/// Whether a browser asks for leave and nothing else.
pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS && is_from_browser(request.headers())
}

/// Whether a request comes from a page of some origin.
pub(crate) fn is_from_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

/// The leave, if what it is asked for is allowed to anybody.
pub(crate) fn preflight(asked: &HeaderMap) -> Result<Response<Full<Bytes>>, Failure> {
    let refused = |name: HeaderName, reason: &str, value: &str| {
        let value: String = value.chars().take(SHOWN).collect();
        Failure::field(name.as_str(), reason, value)
    };
    let Some(method) = asked.get(ACCESS_CONTROL_REQUEST_METHOD) else {
        let reason = "OPTIONS of a page must say for which method it asks";
        return Err(refused(ACCESS_CONTROL_REQUEST_METHOD, reason, ""));
    };
    if !METHODS.split(", ").any(|own| own.as_bytes() == method.as_bytes()) {
        return Err(ErrorCode::MethodNotAllowed.into());
    }
    for value in asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        let is_own = |name: &str| {
            let mut own = HEADERS.split(", ").chain(FREE.split(", "));
            name.is_empty() || own.any(|own| own.eq_ignore_ascii_case(name))
        };
        if !value.to_str().is_ok_and(|value| value.split(',').map(str::trim).all(is_own)) {
            let value = String::from_utf8_lossy(value.as_bytes());
            let failure = refused(ACCESS_CONTROL_REQUEST_HEADERS, "not all may be sent", &value);
            return Err(failure.with_status(403));
        }
    }
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    Ok(response)
}

/// Lets any page read an answer.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}
