//! The caller's own session and identity (docs/protocol/auth.md 9.5, 12.3, 17.3, 17.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weft_contract::entity::{Base, Link, links};
use weft_contract::resource::identity::COLLECTION as IDENTITIES;
use weft_contract::resource::session::{
    ApiSessionDetail, AuthQuery, COLLECTION, ServiceUpdates, SessionCertificateBody,
    SessionCertificateCreated, SessionCertificateDetail,
};
use weft_contract::{Api, ErrorCode, Verb};
use weft_identity::{CertificateRequest, Leaf, SpiffeId, to_pem};
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Failure, Login, Origin, Reply, Result, convert, list};
use weft_model::entity::{ApiSession, Authenticator, ExtJwtSigner, Identity, SessionCertificate};
use weft_model::filter::{Column, PageRules, Symbols, Type, Value};
use weft_model::{Id, Meter, Snapshot};

use super::{factors, login};
use crate::handle::Auth;

const CERTIFICATES: &str = "current-api-session/certificates";
/// Life of a certificate of a session (docs/protocol/auth.md 2.4).
const CERTIFICATE_LIFE: Duration = Duration::from_secs(12 * 3600);

/// The operations.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Management, "getCurrentAPISession", &session),
    (Api::Client, "getCurrentAPISession", &session),
    (Api::Management, "deleteCurrentAPISession", &end_session),
    (Api::Client, "deleteCurrentAPISession", &end_session),
    (Api::Client, "listCurrentApiSessionCertificates", &list_certificates),
    (Api::Client, "createCurrentApiSessionCertificate", &create_certificate),
    (Api::Client, "detailCurrentApiSessionCertificate", &detail_certificate),
    (Api::Client, "deleteCurrentApiSessionCertificate", &delete_certificate),
    (Api::Client, "listServiceUpdates", &service_updates),
];

/// The login of a caller. Fails for a caller without one: the gate lets in the controller itself, too.
pub fn login_of(caller: &Caller) -> Result<&Login> {
    caller.login().ok_or_else(|| Failure::unauthorized("the operation needs a session"))
}

/// The stored session of a caller.
pub fn session_of(auth: &Auth, caller: &Caller) -> Result<Arc<ApiSession>> {
    let login = login_of(caller)?;
    let session = auth.sessions().by_id(&login.session.id);
    session.ok_or_else(|| Failure::unauthorized("the session has ended"))
}

/// A session as the API shows it, with its end. To its holder the token is shown, and the factors that the request
/// lacks, with its tokens of external signers; to others the factors that the session lacks.
pub fn shown(
    auth: &Auth,
    session: &ApiSession,
    holder: Option<(&str, &[&str], &Origin)>,
) -> ApiSessionDetail {
    let own = holder.is_some();
    let snapshot = auth.kernel().snapshot();
    let view = View::of(&snapshot);
    let last = auth.sessions().last_activity(session);
    let end = auth.sessions().expires_at(session);
    let authenticator = view.get::<Authenticator>(session.authenticator_id.as_str());
    let cert = authenticator.and_then(|it| it.cert.as_ref());
    let seconds = end.secs() - last.secs();
    ApiSessionDetail {
        base: Base {
            links: links(COLLECTION, session.base.id.as_str(), &["sessions"]),
            ..convert::base(COLLECTION, &session.base, &["sessions"])
        },
        auth_queries: auth_queries(
            &snapshot,
            session,
            match holder {
                Some((_, external, origin)) => {
                    auth.lacking(&snapshot, session, external.iter().copied(), origin)
                }
                None => factors::outstanding(&snapshot, session),
            },
        ),
        authenticator_id: session.authenticator_id.to_string(),
        cached_last_activity_at: convert::time(last),
        config_types: convert::ids(&session.config_types),
        identity: convert::mention::<Identity>(view, IDENTITIES, &session.identity_id),
        identity_id: session.identity_id.to_string(),
        improper_client_cert_chain: session.improper_client_cert_chain,
        ip_address: session.ip_address.clone(),
        is_cert_extend_requested: cert.is_some_and(|cert| cert.is_extend_requested),
        is_cert_extendable: session.is_cert_extendable,
        is_cert_key_roll_requested: cert.is_some_and(|cert| cert.is_key_roll_requested),
        is_mfa_complete: session.is_mfa_complete,
        is_mfa_required: session.is_mfa_required,
        last_activity_at: convert::time(last),
        token: holder.map(|(token, ..)| token.to_owned()).unwrap_or_default(),
        expiration_seconds: own.then_some(seconds),
        expires_at: own.then(|| convert::time(end)),
        login: None,
    }
}

/// The queries that the client has yet to answer: the code first, then the token
/// (docs/protocol/auth.md 9.5).
fn auth_queries(
    snapshot: &Snapshot,
    session: &ApiSession,
    outstanding: factors::Outstanding,
) -> Vec<AuthQuery> {
    let totp = outstanding.totp.then(|| AuthQuery {
        type_id: "MFA".into(),
        provider: "ziti".into(),
        http_method: "POST".into(),
        http_url: "./authenticate/mfa".into(),
        format: "alphaNumeric".into(),
        min_length: Some(4),
        max_length: Some(6),
        is_totp_enrolled: Some(session.is_mfa_required),
        ..AuthQuery::default()
    });
    let token = outstanding.signer.as_ref().map(|id| token_query(snapshot, id));
    totp.into_iter().chain(token).collect()
}

/// The query for a token of an external signer, with the address at which the client gets one.
fn token_query(snapshot: &Snapshot, id: &Id) -> AuthQuery {
    let query = AuthQuery {
        type_id: "EXT-JWT".into(),
        provider: "url".into(),
        id: id.to_string(),
        ..AuthQuery::default()
    };
    match snapshot.get::<ExtJwtSigner>(id) {
        Some(signer) => AuthQuery {
            http_url: signer.external_auth_url.clone().unwrap_or_default(),
            client_id: signer.client_id.clone().unwrap_or_default(),
            scopes: (!signer.scopes.is_empty()).then(|| signer.scopes.clone()),
            ..query
        },
        None => query,
    }
}

async fn session(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let session = session_of(&auth, &caller)?;
    let token = login_of(&caller)?.session.token.as_str();
    let external: Vec<&str> = caller.origin.tokens.iter().collect();
    let mut detail = shown(&auth, &session, Some((token, &external, &caller.origin)));
    detail.base.links = BTreeMap::from([
        ("self".to_owned(), Link::to("current-api-session")),
        ("current-identity".to_owned(), Link::to("current-identity")),
    ]);
    Reply::detail(&detail)
}

async fn end_session(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let session = session_of(&auth, &caller)?;
    auth.sessions().end(std::slice::from_ref(&session.base.id));
    auth.sessions().kept().await?;
    Reply::empty()
}

fn shown_certificate(certificate: &SessionCertificate) -> SessionCertificateDetail {
    SessionCertificateDetail {
        base: Base {
            links: links(CERTIFICATES, certificate.id.as_str(), &[]),
            created_at: convert::time(certificate.created_at),
            id: certificate.id.to_string(),
            updated_at: convert::time(certificate.created_at),
            ..Base::default()
        },
        certificate: certificate.cert_pem.clone(),
        fingerprint: certificate.fingerprint.to_string(),
        subject: certificate.subject.clone(),
        valid_from: convert::time(certificate.not_before),
        valid_to: convert::time(certificate.not_after),
    }
}

static CERTIFICATE_SYMBOLS: Symbols<(), SessionCertificate> = Symbols {
    kind: "api-session-certificates",
    id: |it| it.id.as_str(),
    shared: &[],
    columns: &[
        CertificateColumn::one("id", Type::String, |(), it| Value::text(it.id.as_str())).public(),
        CertificateColumn::one("createdAt", Type::Time, |(), it| {
            Value::unix_millis(it.created_at.0)
        })
        .public(),
        CertificateColumn::one("fingerprint", Type::String, |(), it| Value::text(&it.fingerprint))
            .public(),
        CertificateColumn::one("subject", Type::String, |(), it| Value::text(&it.subject)).public(),
        CertificateColumn::one("validFrom", Type::Time, |(), it| {
            Value::unix_millis(it.not_before.0)
        })
        .public(),
        CertificateColumn::one("validTo", Type::Time, |(), it| Value::unix_millis(it.not_after.0))
            .public(),
    ],
};

type CertificateColumn = Column<(), SessionCertificate>;

async fn list_certificates(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let session = session_of(&auth, &caller)?;
    let (symbols, rules) = (&CERTIFICATE_SYMBOLS, &PageRules::LIST);
    let selection = list::selection(&caller, &call.query, symbols, rules)?;
    let request = auth.kernel().scans().asked_by(&caller);
    let effort = selection.effort_of(session.certificates.len());
    let page = move |meter: &Meter| {
        let mut found: Vec<_> = session.certificates.iter().collect();
        found.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let rows = found.into_iter().map(|it| symbols.row(&(), it));
        list::answer(&selection, symbols, rows, meter, |it| Ok(shown_certificate(it)))
    };
    request.counted(effort, page).await
}

async fn detail_certificate(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let session = session_of(&auth, &caller)?;
    let found = session.certificates.iter().find(|it| it.id == call.id(0));
    let found = found.ok_or_else(|| Failure::not_found("API session certificate", call.id(0)))?;
    Reply::detail(&shown_certificate(found))
}

/// Issues a certificate that names a session and its identity (docs/protocol/auth.md 2.4).
pub(crate) async fn session_certificate(
    auth: &Auth,
    caller: &Caller,
    (session, identity): (&Id, &Id),
    csr: &str,
    life: Duration,
) -> Result<SessionCertificate> {
    let (now, keys) = (auth.kernel().now(), auth.keys());
    let refused = |error: weft_identity::Error| {
        Failure::because(ErrorCode::CouldNotProcessCsr, error.to_string())
    };
    let request = CertificateRequest::from_pem(csr).map_err(refused)?;
    auth.rates().change_certificate(identity)?;
    let (id, identity) = (auth.kernel().ids().entity(), identity.as_str());
    let name = SpiffeId::api_session(&keys.trust_domain, identity, session.as_str(), id.as_str());
    let leaf = Leaf::for_session(&request, identity, &name, life, system_time(now));
    let leaf = leaf.map_err(refused)?;
    let authority = Arc::clone(&keys);
    let sign = move |_: &Auth| authority.authority.issue(&leaf).map_err(refused);
    let leaf = auth.sign_in_turn(caller, keys.authority.key().algorithm(), sign).await?;
    let cert_pem = to_pem(keys.bundle.chain_of(&leaf).iter());
    Ok(SessionCertificate { id, cert_pem, ..login::certificate(auth, &leaf, now) })
}

/// A certificate that proves the session to routers for twelve hours (docs/protocol/auth.md 12.3).
async fn create_certificate(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: SessionCertificateBody = call.decode(Verb::Create)?;
    let session = session_of(&auth, &caller)?;
    let csr = body.csr.unwrap_or_default();
    let (id, identity) = (&session.base.id, &session.identity_id);
    let kept = session_certificate(&auth, &caller, (id, identity), &csr, CERTIFICATE_LIFE).await?;
    let (id, chain) = (kept.id.clone(), kept.cert_pem.clone());
    caller.begin()?;
    auth.sessions().add_certificate(&session.base.id, kept, auth.kernel().now());
    auth.sessions().begun().await;
    Reply::created_with(&SessionCertificateCreated {
        links: links(CERTIFICATES, id.as_str(), &[]),
        id: id.to_string(),
        certificate: chain,
        cas: auth.keys().bundle.to_pem(),
    })
}

async fn delete_certificate(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let session = session_of(&auth, &caller)?;
    let id = Id::new(call.id(0));
    if !session.certificates.iter().any(|it| it.id == id) {
        return Err(Failure::not_found("API session certificate", call.id(0)));
    }
    auth.rates().change_certificate(&session.identity_id)?;
    auth.sessions().change(&session.base.id, auth.kernel().now(), |session| {
        session.certificates.retain(|it| it.id != id);
    });
    auth.sessions().kept().await?;
    Reply::empty()
}

/// Handles the question when the caller's services last changed (docs/protocol/auth.md 17.3).
async fn service_updates(auth: Auth, caller: Caller, _call: Call) -> Result<Reply> {
    let login = login_of(&caller)?;
    let created = auth.sessions().by_id(&login.session.id);
    let created = created.map_or(auth.kernel().started(), |it| it.base.created_at);
    let snapshot = auth.kernel().snapshot();
    let ordinal = snapshot.ordinal_of::<Identity>(&Id::new(&login.identity));
    let changed = ordinal.and_then(|ordinal| auth.service_changes().last(ordinal));
    let at = changed.unwrap_or_else(|| created.max(auth.kernel().started()));
    Reply::detail(&ServiceUpdates { last_change_at: convert::time(at) })
}
