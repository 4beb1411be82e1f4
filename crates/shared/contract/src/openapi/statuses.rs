//! The statuses of an operation's answers, with their meanings.

use serde_json::{Value, json};

use super::schemas::reference;
use crate::headers;
use crate::operation::{Access, Operation, Request};
use crate::paths::Api;
use crate::resource::service::NEVER_BUILT;

/// A status that is not a success.
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The name among the shared responses.
    pub(super) name: &'static str,
    about: &'static str,
}

const fn refusal(status: u16, name: &'static str, about: &'static str) -> Refusal {
    Refusal { status, name, about }
}

/// Every refusal that rows may declare.
pub(super) const REFUSALS: &[Refusal] = &[
    refusal(
        400,
        "invalid",
        "The body, a parameter or the filter is wrong; `error.cause` names the wrong part.",
    ),
    refusal(
        401,
        "unauthorized",
        "There is no valid session, the credentials are wrong, or the session lacks a permission.",
    ),
    refusal(403, "forbidden", "The operation is not allowed on this entity."),
    refusal(404, "notFound", "No entity has this id."),
    refusal(
        406,
        "notAcceptable",
        "`Accept` names none of the media types that the answer can have.",
    ),
    refusal(
        409,
        "conflict",
        "The entity is in use, or exists already; `error.cause` names the obstacle.",
    ),
    refusal(410, "gone", "The operation was done before and cannot be done again."),
    refusal(413, "tooLarge", "The body is over the limit of 1 MiB."),
    refusal(
        415,
        "unsupportedMediaType",
        "The body has no media type, or one that the operation does not take.",
    ),
    refusal(
        429,
        "tooManyRequests",
        "The controller is too busy; `Retry-After` says after how many seconds to try again.",
    ),
    refusal(500, "failed", "The operation failed because of a fault of the controller."),
    refusal(501, "notBuilt", "The operation is described, and no controller has it."),
    refusal(
        503,
        "unavailable",
        "Nothing can be written at the moment, or the operation took too long.",
    ),
];

/// Statuses that operations answer with beyond those that their rows declare.
const ALSO: &[(Api, u16, &[&str])] = &[
    // The identity of `asIdentity`.
    (Api::Management, 404, &["listServices"]),
    // Routers that the fabric API made, or that have an edge.
    (
        Api::Management,
        409,
        &["updateRouter", "patchRouter", "updateTransitRouter", "patchTransitRouter"],
    ),
    // Policies and signers that others name; a CA that is verified already; an authenticator whose
    // identity has an enrollment already.
    (
        Api::Management,
        409,
        &["deleteAuthPolicy", "deleteExternalJwtSigner", "verifyCa", "reEnrollAuthenticator"],
    ),
    // Posture checks that are not passed; certificates and identities that are known already.
    (Api::Client, 409, &["createSession", "enrollCa", "enrollOttCa"]),
    // An identity without one-time codes.
    (Api::Management, 409, &["createTotpToken"]),
    (Api::Client, 409, &["createTotpToken"]),
    // Authenticators of another kind.
    (Api::Management, 409, EXTENSION),
    (Api::Client, 409, EXTENSION),
    (Api::Client, 501, NEVER_BUILT),
];

const EXTENSION: &[&str] =
    &["extendCurrentIdentityAuthenticator", "extendVerifyCurrentIdentityAuthenticator"];

/// The statuses of an operation: those of its row, and those that the server gives on its own.
pub(super) fn of(api: Api, row: &Operation) -> Vec<u16> {
    let takes_body = !matches!(row.request, Request::None);
    let validates = takes_body || row.paged || !row.query.is_empty();
    let more = [
        (validates, 400),
        (row.access != Access::Public, 401),
        (row.places() > 0, 404),
        (true, 406),
        (takes_body, 413),
        (takes_body, 415),
        (true, 429),
        (true, 503),
    ];
    let more = more.into_iter().filter(|(applies, _)| *applies).map(|(_, status)| status);
    let also = ALSO.iter().filter(|(own, _, ids)| *own == api && ids.contains(&row.id));
    let also = also.map(|(_, status, _)| *status);
    let mut statuses: Vec<_> = row.statuses.iter().copied().chain(more).chain(also).collect();
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

/// The shared response of a status.
pub(super) fn shared(refusal: &Refusal) -> Value {
    let mut response = json!({
        "description": refusal.about,
        "content": {headers::JSON: {"schema": reference("errorEnvelope")}},
    });
    let header = match refusal.status {
        401 => Some(("WWW-Authenticate", "string", "The credentials that are missing or wrong.")),
        429 => Some(("Retry-After", "integer", "The time to wait, in seconds.")),
        _ => None,
    };
    if let Some((name, of, about)) = header {
        response["headers"] = json!({name: {"description": about, "schema": {"type": of}}});
    }
    response
}
