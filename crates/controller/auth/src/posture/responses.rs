//! Reports of clients about their devices: `POST /posture-response`, one or many at once
//! (docs/protocol/auth.md 18).

use std::collections::{BTreeSet, HashSet};

use weft_contract::resource::posture_check::{
    PostureResponseBody, PostureResponseDetail, PostureResponseService, response,
};
use weft_contract::{Api, Body as _, Cause, ErrorCode, Verb, body};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result};
use weft_model::entity::{ApiSession, PolicyType, PostureCheck, PostureCheckType, Service};
use weft_model::posture::{Check, GRACE, OsReport, ProcessReport, plain_hex};
use weft_model::{Choice as _, Id, Snapshot, Timestamp};

use super::PostureReport;
use crate::current::session_of;
use crate::handle::Auth;

/// The operations.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Client, "createPostureResponse", &one),
    (Api::Client, "createPostureResponseBulk", &many),
];

/// Most reports in one request.
const MAX_RESPONSES: usize = 1000;
/// Longest name, version, domain, address, hash or fingerprint, in bytes.
const MAX_WORD: usize = 512;
/// Longest path, in bytes.
const MAX_PATH: usize = 4096;
/// Most hardware addresses of a device, and most signers of a file.
const MAX_ITEMS: usize = 128;

async fn one(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: PostureResponseBody = call.decode(Verb::Create)?;
    let session = session_of(&auth, &caller)?;
    let snapshot = auth.kernel().snapshot();
    let asked = asked_paths(checks(&snapshot), std::slice::from_ref(&body));
    let report = report(&snapshot, &asked, &body, "")?;
    let reports = report.into_iter().map(|report| (body.id.clone().unwrap_or_default(), report));
    Reply::created_with(&take(&auth, &snapshot, &session, reports.collect()))
}

async fn many(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let bodies: Vec<PostureResponseBody> = body::read(&call.body)?;
    if bodies.len() > MAX_RESPONSES {
        let reason = format!("takes at most {MAX_RESPONSES} items");
        return Err(Failure::field("body", reason, bodies.len().to_string()));
    }
    let session = session_of(&auth, &caller)?;
    let snapshot = auth.kernel().snapshot();
    let asked = asked_paths(checks(&snapshot), &bodies);
    let mut reports = Vec::with_capacity(bodies.len());
    for (at, body) in bodies.iter().enumerate() {
        let at = format!("[{at}].");
        if let Some(field) = body.missing(Verb::Create).into_iter().next() {
            let field = format!("{at}{field}");
            return Err(Failure::field(&field, format!("{field} in body is required"), ""));
        }
        let id = body.id.clone().unwrap_or_default();
        reports.extend(report(&snapshot, &asked, body, &at)?.map(|report| (id, report)));
    }
    Reply::detail(&take(&auth, &snapshot, &session, reports))
}

/// The report in a body; none if it is about a process that no check names.
fn report(
    snapshot: &Snapshot,
    asked: &HashSet<&str>,
    body: &PostureResponseBody,
    at: &str,
) -> Result<Option<PostureReport>> {
    let text = |name: &str, text: &Option<String>, most: usize| {
        let text = text.as_deref().unwrap_or_default().replace(char::is_control, " ");
        short(&format!("{at}{name}"), &text, most).map(|()| text)
    };
    let required = |name: &str, given: &Option<String>| match given {
        Some(_) => text(name, given, MAX_WORD),
        None => Err(missing(at, name)),
    };
    let texts = |name: &str, texts: &[String]| {
        let field = format!("{at}{name}");
        if texts.len() > MAX_ITEMS {
            let reason = format!("takes at most {MAX_ITEMS} items");
            return Err(Failure::field(&field, reason, texts.len().to_string()));
        }
        let mut all = texts.iter().enumerate();
        all.try_for_each(|(at, text)| short(&format!("{field}[{at}]"), text, MAX_WORD))?;
        Ok(texts.iter().map(|text| text.replace(char::is_control, " ")).collect())
    };
    let word = body.type_id.as_deref().unwrap_or_default();
    text("id", &body.id, MAX_WORD)?;
    Ok(Some(match word {
        response::OS => PostureReport::Os(OsReport {
            os_type: required("type", &body.os_type)?,
            version: required("version", &body.version)?,
            build: text("build", &body.build, MAX_WORD)?,
        }),
        response::MAC => {
            // A native SDK on a device without such an address leaves the member out.
            let addresses = body.mac_addresses.as_deref().unwrap_or_default();
            PostureReport::Mac(plain(texts("macAddresses", addresses)?))
        }
        response::DOMAIN => PostureReport::Domain(required("domain", &body.domain)?),
        response::PROCESS => {
            let said = text("path", &body.path, MAX_PATH)?;
            let report = ProcessReport {
                is_running: body.is_running.unwrap_or(false),
                hash: plain_hex(&text("hash", &body.hash, MAX_WORD)?),
                signer_fingerprints: plain(texts(
                    "signerFingerprints",
                    body.signer_fingerprints.as_deref().unwrap_or_default(),
                )?),
            };
            let check = Id::new(body.id.as_deref().unwrap_or_default());
            match path(snapshot, asked, &check, said) {
                Some(path) => PostureReport::Process(path, report),
                None => return Ok(None),
            }
        }
        response::ENDPOINT_STATE => PostureReport::EndpointState {
            woken: body.woken.unwrap_or(false),
            unlocked: body.unlocked.unwrap_or(false),
        },
        other => {
            let reason = format!("must be one of {}", response::ALL.join(", "));
            let cause = Cause::field(&format!("{at}typeId"), reason, other);
            return Err(Failure::new(ErrorCode::CouldNotParseBody).with_cause(cause));
        }
    }))
}

/// Addresses or fingerprints in the spelling of the model; other texts are left out.
fn plain(texts: Vec<String>) -> Vec<String> {
    texts.iter().map(|text| plain_hex(text)).filter(|text| !text.is_empty()).collect()
}

fn missing(at: &str, name: &str) -> Failure {
    let field = format!("{at}{name}");
    Failure::field(&field, format!("{field} in body is required"), "")
}

fn short(field: &str, text: &str, most: usize) -> Result<()> {
    if text.len() <= most {
        return Ok(());
    }
    let reason = format!("must be at most {most} bytes long");
    Err(Failure::field(field, reason, text.len().to_string()))
}

fn checks(snapshot: &Snapshot) -> impl Iterator<Item = &PostureCheck> {
    snapshot.list::<PostureCheck>().map(|check| &**check)
}

/// The paths in reports about processes that some check names. Each check is read once, however
/// many reports there are.
fn asked_paths<'a, 'c>(
    checks: impl Iterator<Item = &'c PostureCheck>,
    bodies: &'a [PostureResponseBody],
) -> HashSet<&'a str> {
    let about = bodies.iter().filter(|body| body.type_id.as_deref() == Some(response::PROCESS));
    let said = about.filter_map(|body| body.path.as_deref()).filter(|path| !path.is_empty());
    let said: HashSet<&str> = said.collect();
    if said.is_empty() {
        return said;
    }
    let named = checks.flat_map(|check| &check.processes.processes);
    named.filter_map(|process| said.get(process.path.as_str()).copied()).collect()
}

/// The path of the process that a report is about. Old clients name only the check. A process that
/// no check names is not kept.
fn path(snapshot: &Snapshot, asked: &HashSet<&str>, check: &Id, said: String) -> Option<String> {
    if said.is_empty() {
        let answered = snapshot.get::<PostureCheck>(check);
        let only = answered.filter(|check| check.check_type == PostureCheckType::Process)?;
        return only.processes.processes.first().map(|process| process.path.clone());
    }
    asked.contains(said.as_str()).then_some(said)
}

/// Keeps reports, applies their effects, and returns the services that ask for a code because of
/// them.
fn take(
    auth: &Auth,
    snapshot: &Snapshot,
    session: &ApiSession,
    reports: Vec<(String, PostureReport)>,
) -> PostureResponseDetail {
    let now = auth.kernel().now();
    let states = reports.iter().filter_map(|(_, report)| match report {
        PostureReport::EndpointState { woken, unlocked } => Some((*woken, *unlocked)),
        _ => None,
    });
    let (woken, unlocked) = states.fold((false, false), |all, it| (all.0 | it.0, all.1 | it.1));
    // Clients repeat themselves; a repeated report has no effects.
    if auth.postures().record(session, reports, now) {
        auth.posture_changed(&session.identity_id);
    }
    let services = match woken || unlocked {
        true => asking(auth, snapshot, session, (woken, unlocked), now),
        false => Vec::new(),
    };
    PostureResponseDetail { services }
}

/// The services whose checks ask for a code because the device woke or was unlocked.
fn asking(
    auth: &Auth,
    snapshot: &Snapshot,
    session: &ApiSession,
    (woken, unlocked): (bool, bool),
    now: Timestamp,
) -> Vec<PostureResponseService> {
    let viewer = auth.viewer(session);
    let mut seen = BTreeSet::new();
    let mut services = Vec::new();
    for action in [PolicyType::Dial, PolicyType::Bind] {
        let of_identity = snapshot.services_of(&session.identity_id, action);
        for service in snapshot.entities::<Service>(&of_identity) {
            let between = viewer.policies_with(snapshot, &service.base.id);
            let checks = between
                .iter()
                .flat_map(|(ordinal, _)| super::queries::checks_of(snapshot, *ordinal));
            let asking = checks.filter(|check| {
                matches!(viewer.check(check), Check::Mfa { prompt_on_wake, prompt_on_unlock, .. }
                    if (woken && prompt_on_wake) || (unlocked && prompt_on_unlock))
            });
            let left = asking.filter_map(|check| left(&viewer, check, now)).min();
            let Some((left, timeout)) = left else { continue };
            if seen.insert(service.base.id.clone()) {
                services.push(PostureResponseService {
                    id: service.base.id.to_string(),
                    name: service.name.to_string(),
                    posture_query_type: PostureCheckType::Mfa.as_str().to_owned(),
                    timeout,
                    timeout_remaining: left,
                });
            }
        }
    }
    services.sort_by(|one, other| one.id.cmp(&other.id));
    services
}

/// For a check that passes: the seconds left to give a code, and the seconds for which a code
/// lasts.
fn left(
    viewer: &crate::posture::viewer::Viewer,
    check: &PostureCheck,
    now: Timestamp,
) -> Option<(i64, i64)> {
    let until = viewer.check(check).evaluate(viewer.data(), now).ok()?;
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let left = until.map_or(GRACE, |until| until.since(now).min(GRACE));
    let timeout = check.mfa_timeout().map_or(-1, seconds);
    Some((seconds(left), timeout))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use weft_model::entity::ProcessSpec;

    use super::*;

    fn check(number: usize) -> PostureCheck {
        let named = |process| format!("/bin/{number}-{process}");
        let process = |at| ProcessSpec { path: named(at), ..ProcessSpec::default() };
        let mut check = PostureCheck::default();
        check.processes.processes = (0..3).map(process).collect();
        check
    }

    fn about(path: &str) -> PostureResponseBody {
        PostureResponseBody {
            type_id: Some(response::PROCESS.to_owned()),
            path: Some(path.to_owned()),
            ..PostureResponseBody::default()
        }
    }

    #[test]
    fn many_reports_read_each_check_once() {
        let all: Vec<PostureCheck> = (0..50).map(check).collect();
        let bodies: Vec<_> = (0..200).map(|number| about(&format!("/bin/{number}-2"))).collect();
        let read = Cell::new(0);
        let checks = all.iter().inspect(|_| read.set(read.get() + 1));
        let asked = asked_paths(checks, &bodies);
        assert_eq!((asked.len(), read.get()), (50, 50));
        assert!(asked.contains("/bin/49-2") && !asked.contains("/bin/50-2"));
        let unread = all.iter().inspect(|_| panic!("no report is about a process"));
        assert!(asked_paths(unread, &[about("")]).is_empty());
    }
}
