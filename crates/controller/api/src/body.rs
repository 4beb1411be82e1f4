//! Request bodies, with limits on the size and the time of each and on the size of all together
//! (docs/protocol/management-api.md 1; docs/protocol/auth.md 19). The body is read before a session is
//! looked up, except for documents of whole networks.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderMap};
use tokio::time::Instant;
use weft_contract::ErrorCode;
use weft_contract::headers::MAX_BODY;
use weft_controller::Failure;
use weft_web::PeerPermit;

/// Most bytes of a refused body that are read and dropped, so that the refusal reaches a client that is
/// still sending: a connection that is closed with unread bytes is reset, and the answer may be
/// lost.
const DISCARD_BYTES: usize = 4 * MAX_BODY;
/// Longest time for reading a refused body.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// A body in memory, and the bytes that it takes from the budget.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    pub(crate) _taken: PeerPermit,
}

/// Refuses a body whose stated length is above the limit.
pub(crate) fn check_length(headers: &HeaderMap, most: usize) -> Result<(), Failure> {
    let text = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match text.map(str::parse::<u64>) {
        Some(Ok(length)) if length <= most as u64 => Ok(()),
        Some(_) => Err(too_large(most)),
        None => Ok(()),
    }
}

/// Reads a whole body into the budget of its source. Meanwhile the request's place and bytes may be
/// taken back for other requests.
pub(crate) async fn read(
    body: &mut Incoming,
    most: usize,
    within: Duration,
    permit: &PeerPermit,
    taken: PeerPermit,
) -> Result<Held, Failure> {
    if body.is_end_stream() {
        return Ok(Held { bytes: Bytes::new(), _taken: taken });
    }
    let bytes = {
        let ((of_request, permit_gone), (of_bytes, bytes_gone)) = (permit.waits(), taken.waits());
        let reading = read_frames(body, most, within, |length| {
            of_request.came(length);
            of_bytes.came(length);
            taken.try_grow(length)
        });
        tokio::select! {
            bytes = reading => bytes?,
            _ = permit_gone => return Err(made_room()),
            _ = bytes_gone => return Err(made_room()),
        }
    };
    Ok(Held { bytes, _taken: taken })
}

async fn read_frames(
    body: &mut Incoming,
    most: usize,
    within: Duration,
    has_room: impl Fn(usize) -> bool,
) -> Result<Bytes, Failure> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let deadline = Instant::now() + within;
    while !body.is_end_stream() {
        let frame =
            tokio::time::timeout_at(deadline, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > most {
            return Err(too_large(most));
        }
        if !has_room(data.len()) {
            return Err(ErrorCode::ServerTooManyRequests.into());
        }
        // Most bodies arrive in one piece, which is kept without a copy.
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads and drops a refused body, at most [`DISCARD_BYTES`] in [`DISCARD_TIME`]. A client that waits
/// for `100 Continue` has not sent its body, so that nothing is read.
pub(crate) async fn discard(mut body: Incoming, headers: &HeaderMap) {
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let mut seen = 0;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > DISCARD_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, all).await;
}

fn too_large(most: usize) -> Failure {
    Failure::because(
        ErrorCode::RequestEntityTooLarge,
        format!("the body is larger than {most} bytes"),
    )
}

fn too_slow() -> Failure {
    Failure::because(ErrorCode::CouldNotReadBody, "the body did not arrive in time")
        .with_status(408)
}

fn made_room() -> Failure {
    let text = "the body did not arrive in time, and others waited for its place";
    Failure::because(ErrorCode::CouldNotReadBody, text).with_status(408)
}

/// The failure for a body that could not be read; it is the client's mistake.
fn broken(error: &hyper::Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let text = format!("{error}{}", cause.unwrap_or_default());
    Failure::because(ErrorCode::CouldNotReadBody, text).with_status(400)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn stated_lengths_are_believed_when_they_are_too_large() {
        let check = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static(text));
            check_length(&headers, MAX_BODY)
        };
        assert!(check("1048576").is_ok());
        for text in ["1048577", "99999999999999999999999"] {
            let failure = check(text).unwrap_err();
            assert_eq!((failure.status(), failure.code()), (413, ErrorCode::RequestEntityTooLarge));
        }
        assert!(check_length(&HeaderMap::new(), MAX_BODY).is_ok());
    }
}
