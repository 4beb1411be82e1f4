//! `/health-checks` of a controller (protocol: operations 6).

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use weft_contract::headers;
use weft_controller::{Controller, Health, Query};
use weft_web::health::{self, Outcome};

/// The id under which probes look for the check of the store.
const STORE_CHECK: &str = "bolt.read";
/// Asks also whether this controller leads.
const LEADER: &str = "/controller/raft";

/// Answers for a path below `/health-checks`.
pub(crate) fn answer(controller: &Controller, path: &str, query: &Query) -> Response<Full<Bytes>> {
    let is_short = query.get("type") == Some("short");
    let mut answer = health::answer(&[(STORE_CHECK, store_check(controller))], is_short);
    if path.ends_with(LEADER) {
        // A controller alone is the one that writes.
        answer["raft"] = json!({"isLeader": true, "isRaftEnabled": false});
    }
    let mut response = Response::new(Full::from(health::pretty(&answer)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
    response
}

/// Reads from the model, and tells whether it can be written.
fn store_check(controller: &Controller) -> Outcome {
    let begun = Instant::now();
    let _readable = controller.snapshot();
    let problem = match controller.health() {
        Health::Fine => None,
        Health::Failing(cause) | Health::Stopped(cause) => Some(cause),
    };
    let millis = u64::try_from(controller.now().0).unwrap_or_default();
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    Outcome::new(now, begun.elapsed(), problem, Value::Null)
}
