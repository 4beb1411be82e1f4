//! `/health-checks` of a controller (docs/protocol/operations.md 6).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use weft_config::controller::StoreCheck;
use weft_contract::headers;
use weft_controller::{Controller, Health, QueryParameters};
use weft_web::health::{self, HealthCheck, HealthOutcome};

/// The id under which probes look for the check of the store.
const STORE_CHECK: &str = "bolt.read";
/// The path that also asks whether this controller is the leader.
const LEADER: &str = "/controller/raft";
/// What ails a controller that has stood down.
const OUTDATED: &str =
    "other controllers have made changes that this one cannot read: look whether it reaches etcd";
/// What ails a controller whose clock is wrong.
const WRONG_CLOCK: &str = "the clock of this controller differs from those of the others, so that it signs no tokens and \
                           certificates: have its machine get the time from a time server";
/// Shortest interval of checks, whatever the configuration says.
const LEAST: Duration = Duration::from_millis(10);

/// Checks the store at intervals, until it is stopped.
pub(crate) fn begin(
    controller: &Controller,
    options: StoreCheck,
    stop: CancellationToken,
) -> Arc<HealthCheck> {
    let check = Arc::new(HealthCheck::new(STORE_CHECK, true, now(controller)));
    let (of, controller) = (Arc::clone(&check), controller.clone());
    tokio::spawn(async move {
        let checks = async {
            tokio::time::sleep(options.initial_delay).await;
            loop {
                of.found(look(&controller, options.timeout).await);
                tokio::time::sleep(options.interval.max(LEAST)).await;
            }
        };
        let _ = stop.run_until_cancelled(checks).await;
    });
    check
}

/// The answer for a path below `/health-checks`.
pub(crate) fn answer(
    controller: &Controller,
    check: &HealthCheck,
    path: &str,
    query: &QueryParameters,
) -> Response<Full<Bytes>> {
    let is_short = query.get("type") == Some("short");
    let mut answer = health::answer(&[check.seen()], is_short);
    let mut status = StatusCode::OK;
    if path.ends_with(LEADER) {
        // Every controller writes that reaches what they share.
        let writes = !controller.auth().is_cut_off();
        let is_member = controller.auth().is_member();
        answer["raft"] = json!({"isLeader": writes, "isRaftEnabled": is_member});
        if !writes {
            status = StatusCode::TOO_MANY_REQUESTS;
        }
    }
    let mut response = Response::new(Full::from(health::pretty(&answer)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
    response
}

/// Reads from the model, and reports whether the store can be written.
async fn look(controller: &Controller, limit: Duration) -> HealthOutcome {
    let begun = Instant::now();
    let of = controller.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let _readable = of.kernel().snapshot();
        match of.kernel().health() {
            Health::Fine if of.auth().is_outdated() => Some(OUTDATED.to_owned()),
            Health::Fine => of.auth().is_clock_far_off().then(|| WRONG_CLOCK.to_owned()),
            Health::Failing(cause) | Health::Stopped(cause) => Some(cause),
        }
    });
    let problem = match tokio::time::timeout(limit, looking).await {
        Ok(Ok(problem)) => problem,
        Ok(Err(fault)) => Some(fault.to_string()),
        Err(_) => Some(format!("the store did not answer within {limit:?}")),
    };
    HealthOutcome::new(now(controller), begun.elapsed(), problem, Value::Null)
}

fn now(controller: &Controller) -> SystemTime {
    let millis = u64::try_from(controller.kernel().now().0).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}
