//! Rules for scripts of other origins: browsers ask before such a script may call the API
//! (docs/protocol/auth.md 1.2).
//!
//! Only origins in the configuration are allowed. If the configuration allows all origins, the
//! answer is `*` and not the request's origin: a page of any origin must not log in with the
//! certificate of its browser.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Request, Response};
use weft_config::web::AllowedOrigins;
use weft_contract::ErrorCode;
use weft_controller::Failure;

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "content-type, accept, authorization, zt-session";
/// Headers that scripts may set without permission.
const FREE: &str = "accept-language, content-language, origin";
/// Seconds for which a browser may remember the permission.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Most characters of a header that a refusal repeats.
const SHOWN: usize = 200;

/// The permission for the origin of a page.
#[derive(Debug, Clone)]
pub(crate) enum Leave {
    /// The answer does not depend on the origin.
    Same,
    /// The origin is missing, or is not among the configured ones.
    No,
    /// The origin may call the API.
    Yes(HeaderValue),
}

/// The permission for the origin of a request.
pub(crate) fn leave(allowed: &AllowedOrigins, headers: &HeaderMap) -> Leave {
    let origin = headers.get(ORIGIN);
    match (allowed, origin) {
        (AllowedOrigins::Any, Some(_)) => Leave::Yes(HeaderValue::from_static("*")),
        (AllowedOrigins::Any, None) => Leave::Same,
        (AllowedOrigins::Named(named), _) if named.is_empty() => Leave::Same,
        (AllowedOrigins::Named(named), Some(origin)) => {
            let is_own = |own: &String| own.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
            if named.iter().any(is_own) { Leave::Yes(origin.clone()) } else { Leave::No }
        }
        (AllowedOrigins::Named(_), None) => Leave::No,
    }
}

/// Whether a request of a permitted page is a preflight.
pub(crate) fn is_preflight<B>(request: &Request<B>, leave: &Leave) -> bool {
    request.method() == Method::OPTIONS && matches!(leave, Leave::Yes(_))
}

/// The answer to a preflight; refused if its method or headers are never allowed to pages.
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

/// Lets a permitted page read an answer.
pub(crate) fn allow(headers: &mut HeaderMap, leave: Leave) {
    let depends = match leave {
        Leave::Same => false,
        Leave::No => true,
        Leave::Yes(origin) => {
            let depends = origin != "*";
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            depends
        }
    };
    if depends {
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}
