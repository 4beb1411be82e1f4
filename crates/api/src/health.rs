//! `/health-checks`: how the controller does, for load balancers and probes (protocol: operations
//! 6). The status is 200 even when it does badly; who asks reads `data.healthy`.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Value, json};
use weft_contract::{Timestamp, headers};
use weft_controller::{Controller, Health, Query};

/// The id under which probes look for the check of the store.
const STORE_CHECK: &str = "bolt.read";
/// Asks also whether this controller leads.
const LEADER: &str = "/controller/raft";

/// Answers for a path below `/health-checks`.
pub(crate) fn answer(controller: &Controller, path: &str, query: &Query) -> Response<Full<Bytes>> {
    let is_short = query.get("type") == Some("short");
    let check = store_check(controller, is_short);
    let is_healthy = check["healthy"] == true;
    let mut answer = json!({"data": {"checks": [check], "healthy": is_healthy}, "meta": {}});
    if path.ends_with(LEADER) {
        // A controller alone is the one that writes.
        answer["raft"] = json!({"isLeader": true, "isRaftEnabled": false});
    }
    let mut response = Response::new(Full::from(pretty(&answer)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
    response
}

/// Reads from the model, and tells whether it can be written.
fn store_check(controller: &Controller, is_short: bool) -> Value {
    let begun = Instant::now();
    let _readable = controller.snapshot();
    let problem = match controller.health() {
        Health::Fine => None,
        Health::Failing(cause) | Health::Stopped(cause) => Some(cause),
    };
    let mut check = json!({"healthy": problem.is_none(), "id": STORE_CHECK});
    if is_short {
        return check;
    }
    let took = begun.elapsed();
    check["details"] = Value::Null;
    check["lastCheckDuration"] = json!(format!("{}µs", took.as_nanos() as f64 / 1000.0));
    check["lastCheckTime"] = json!(Timestamp::from_millis(controller.now().0));
    if let Some(message) = problem {
        check["err"] = json!({"message": message});
    }
    check
}

/// JSON with four spaces, as people read it in a terminal.
fn pretty(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    let format = PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, format);
    match value.serialize(&mut writer) {
        Ok(()) => text,
        Err(_) => Vec::new(),
    }
}
