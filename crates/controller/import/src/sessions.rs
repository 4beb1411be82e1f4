//! Sessions with opaque tokens, which go on at the other controller. Sessions by OpenID Connect are in no database.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_bolt::{BoltBucket, BoltContent};
use weft_identity::Certificate;
use weft_model::entity::{
    ApiSession, Authenticator, ExtJwtSigner, Identity, PolicyType, Service, ServiceSession,
    SessionCertificate,
};
use weft_model::{Entity, Id, Kind, Snapshot, Timestamp};

use crate::ImportError;
use crate::fields::{Fields, Stored, Taken, Untaken};
use crate::layout::Layout;
use crate::losses::{Loss, Losses};
use crate::section::Section;
use crate::whole::{Numbered, loss};

/// Most certificates of a session; beyond that those that were issued last are taken.
const MAX_CERTIFICATES: usize = 16;
/// The id of the authenticator of a login by external id.
const BY_EXTERNAL_ID: &str = "internal";
/// What the id of the authenticator of a login by token begins with; the id of the signer follows.
const BY_SIGNER: &str = "extJwtId:";

/// Reads an API session. Its token is in clear; a controller of weft seals it when it first starts.
pub(crate) fn api_session(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let missing =
        |what: &str| Untaken::Entity(format!("it has no {what}: its client logs in again"));
    let identity_id = fields.id("identity").ok_or_else(|| missing("identity"))?;
    let authenticator_id = fields.id("authenticator").ok_or_else(|| missing("authenticator"))?;
    let token = fields.full_text("token").ok_or_else(|| missing("token"))?;
    let mut base = fields.base()?;
    // By a clock that is ahead a session would never be idle.
    let now = now();
    base.created_at = base.created_at.min(now);
    let last_activity_at = fields.time("lastActivityAt").unwrap_or(base.updated_at).min(now);
    let is_mfa_complete = fields.flag("mfaComplete", false);
    Ok(ApiSession {
        former_token: token.into(),
        identity_id,
        authenticator_id,
        config_types: fields.ids("configTypes")?,
        ip_address: fields.text("ipAddress").unwrap_or_default(),
        is_mfa_required: fields.flag("mfaRequired", false),
        is_mfa_complete,
        mfa_passed_at: is_mfa_complete.then_some(base.created_at),
        is_cert_extendable: fields.flag("isCertExtendable", false),
        improper_client_cert_chain: fields.flag("improperClientCertChain", false),
        last_activity_at,
        base,
        ..ApiSession::default()
    }
    .into())
}

fn now() -> Timestamp {
    Timestamp(0).plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Reads a service session. That of its API session is its identity.
pub(crate) fn service_session(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let missing = |what: &str| Untaken::Entity(format!("it has no {what}"));
    let api_session_id = fields.id("apiSession").ok_or_else(|| missing("API session"))?;
    let service_id = fields.id("service").ok_or_else(|| missing("service"))?;
    let token = fields.needed("token")?;
    Ok(ServiceSession {
        api_session_id,
        service_id,
        session_type: fields.choice("type", PolicyType::Dial),
        token: token.into(),
        base: fields.base()?,
        ..ServiceSession::default()
    }
    .into())
}

/// Takes the sessions out of the entities that were read. Only the others belong to the model.
pub(crate) fn take_out(entities: &mut Vec<Numbered>) -> Vec<Numbered> {
    let is_live = |(_, entity): &mut Numbered| {
        matches!(entity.kind(), Kind::ApiSession | Kind::ServiceSession)
    };
    entities.extract_if(.., is_live).collect()
}

/// The sessions whose identities, authenticators and services were taken, with all certificates of each; API sessions
/// come before the service sessions in them.
pub(crate) fn complete(
    sessions: Vec<Numbered>,
    root: &BoltBucket<'_>,
    snapshot: &Snapshot,
    sections: &mut [Section],
    losses: &mut Losses,
) -> Result<Vec<Entity>, ImportError> {
    let mut certificates = certificates(root, losses)?;
    let mut identities: HashMap<Id, Id> = HashMap::new();
    let mut tokens: HashSet<Arc<str>> = HashSet::new();
    let (mut logins, mut inside) = (Vec::new(), Vec::new());
    for (section, entity) in sessions {
        let judged = match &entity {
            Entity::ApiSession(session) => {
                let is_first = tokens.insert(Arc::clone(&session.former_token));
                let lacks = lacking(snapshot, session)
                    .or_else(|| (!is_first).then_some("token of its own"));
                lacks.map_or(Ok(()), |what| {
                    Err(format!("there is no {what}: its client logs in again"))
                })
            }
            Entity::ServiceSession(session) => judge(snapshot, session, &identities),
            _ => Ok(()),
        };
        if let Err(reason) = judged {
            losses.add(loss(&entity, "", reason));
            if let Some(section) = sections.get_mut(section) {
                section.taken = section.taken.saturating_sub(1);
            }
            continue;
        }
        match entity {
            Entity::ApiSession(session) => {
                let mut session = Arc::unwrap_or_clone(session);
                let own = certificates.remove(&session.base.id).unwrap_or_default();
                with_certificates(snapshot, &mut session, own);
                identities.insert(session.base.id.clone(), session.identity_id.clone());
                logins.push(session.into());
            }
            Entity::ServiceSession(session) => {
                let mut session = Arc::unwrap_or_clone(session);
                let identity = identities.get(&session.api_session_id).cloned();
                session.identity_id = identity.unwrap_or_default();
                inside.push(session.into());
            }
            _ => {}
        }
    }
    logins.append(&mut inside);
    Ok(logins)
}

/// What an API session lacks to go on.
fn lacking(snapshot: &Snapshot, session: &ApiSession) -> Option<&'static str> {
    if snapshot.get::<Identity>(&session.identity_id).is_none() {
        return Some("such identity");
    }
    let authenticator = &session.authenticator_id;
    let is_there = match signer_of(session) {
        Some(signer) => snapshot.get::<ExtJwtSigner>(&signer).is_some_and(|it| it.enabled),
        None if *authenticator == BY_EXTERNAL_ID => true,
        None => snapshot
            .get::<Authenticator>(authenticator)
            .is_some_and(|it| it.identity_id == session.identity_id),
    };
    (!is_there).then_some("such authenticator")
}

/// The signer of the token that began a session.
fn signer_of(session: &ApiSession) -> Option<Id> {
    session.authenticator_id.as_str().strip_prefix(BY_SIGNER).map(Id::new)
}

fn judge(
    snapshot: &Snapshot,
    session: &ServiceSession,
    identities: &HashMap<Id, Id>,
) -> Result<(), String> {
    if !identities.contains_key(&session.api_session_id) {
        return Err("its API session is not taken".to_owned());
    }
    match snapshot.get::<Service>(&session.service_id) {
        Some(_) => Ok(()),
        None => Err("there is no such service".to_owned()),
    }
}

/// The certificates of all sessions, by session.
fn certificates(
    root: &BoltBucket<'_>,
    losses: &mut Losses,
) -> Result<BTreeMap<Id, Vec<SessionCertificate>>, ImportError> {
    let mut found = BTreeMap::<Id, Vec<SessionCertificate>>::new();
    let bucket = root.bucket(b"apiSessionCertificates")?;
    for entry in bucket.iter().flat_map(BoltBucket::entries) {
        let entry = entry?;
        let BoltContent::Bucket(stored) = entry.content else { continue };
        let read = Stored::read("certificate of an API session", &entry.key, &stored);
        let read = read.and_then(|stored| certificate(&mut Fields { stored, losses }));
        match read {
            Ok((session, certificate)) => {
                let own = found.entry(session).or_default();
                own.push(certificate);
                own.sort_by_key(|it| std::cmp::Reverse(it.created_at));
                own.truncate(MAX_CERTIFICATES);
            }
            Err(Untaken::Damaged(error)) => return Err(error.into()),
            // The session may be taken without it, and its client asks for another one.
            Err(Untaken::Entity(reason)) => {
                let id = String::from_utf8_lossy(&entry.key).into_owned();
                let (kind, name) = ("certificate of an API session", String::new());
                losses.add(Loss { kind, id, name, field: "", reason });
            }
        }
    }
    Ok(found)
}

/// Reads a certificate that was made for a session; and the id of that.
fn certificate(fields: &mut Fields<'_, '_>) -> Taken<(Id, SessionCertificate)> {
    let no_session = || Untaken::Entity("it belongs to no session".to_owned());
    let session = fields.id("apiSession").ok_or_else(no_session)?;
    let base = fields.base()?;
    let pem = fields.needed("pem")?;
    let unread = || Untaken::Entity("its certificate cannot be read".to_owned());
    let kept = kept(pem, base.id, base.created_at).ok_or_else(unread)?;
    Ok((session, kept))
}

/// A certificate as a session keeps it.
fn kept(pem: String, id: Id, created_at: Timestamp) -> Option<SessionCertificate> {
    let leaf = Certificate::from_pem(pem.as_bytes()).ok()?.into_iter().next()?;
    let at =
        |time: SystemTime| Timestamp(0).plus(time.duration_since(UNIX_EPOCH).unwrap_or_default());
    Some(SessionCertificate {
        id,
        fingerprint: leaf.fingerprint().into(),
        created_at,
        not_before: at(leaf.not_before()),
        not_after: at(leaf.not_after()),
        subject: leaf.subject().to_owned(),
        cert_pem: pem,
    })
}

/// Gives a session its certificates, and that of its login. A session with one is a program's, and routers know it.
fn with_certificates(snapshot: &Snapshot, session: &mut ApiSession, own: Vec<SessionCertificate>) {
    session.had_certificate = !own.is_empty();
    let authenticator = snapshot.get::<Authenticator>(&session.authenticator_id);
    let cert = authenticator.and_then(|it| it.cert.as_ref());
    let of_login = cert.and_then(|cert| {
        let id = Id::new(&cert.fingerprint);
        kept(cert.cert_pem.clone(), id, session.base.created_at)
    });
    session.ca_id = cert.and_then(|cert| cert.ca_id.clone());
    session.external.signer_id = signer_of(session);
    session.is_of_client = cert.is_some() || session.had_certificate;
    session.certificates = own;
    session.certificates.truncate(MAX_CERTIFICATES - 1);
    session.certificates.extend(of_login);
}
