//! `POST /authenticate`: sessions with opaque tokens, by password, certificate or token of an external signer
//! (docs/protocol/auth.md 8, 9). `begun` has the session as it begins.

mod begun;

use std::sync::Arc;

pub use begun::certificate;
pub(crate) use begun::{end_key, env_info, new_session, sdk_info};
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;
use weft_contract::resource::session::{AuthenticateBody, method};
use weft_contract::{Api, Cause, ErrorCode, Verb, headers};
use weft_identity::{Certificate, Error, RequiredKeyUsage, TrustBundle, Verify};
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::events::SessionChange;
use weft_kernel::{Call, Caller, Failure, Reply, Result};
use weft_model::entity::{ApiSession, Authenticator, Ca, ExternalFactors, Identity};
use weft_model::{Id, Snapshot, Timestamp};

use super::guesses::PasswordAttempt;
use super::password::{self, Hashed};
use super::sessions::stands;
use super::{external_id, lockout, third_party_ca};
use crate::admission::{LoginPermit, Sender};
use crate::factors::second_factors;
use crate::first_factor::Shown;
use crate::handle::Auth;
use crate::lockout::policy_of;
use crate::rates::Counted;
use crate::sessions::VIRTUAL;
use crate::sessions::stands::{by_signer, print_of, token_print};
use crate::token_login;

/// The operation.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Management, "authenticate", &authenticate),
    (Api::Client, "authenticate", &authenticate),
];

/// Verifies the first factor of a login, in its turn and within the limits. The login counts once it is
/// [kept](Counted::keep).
pub(crate) async fn first_factor(
    auth: &Auth,
    caller: &Caller,
    method: &str,
    (body, bearers): (&AuthenticateBody, &[&str]),
) -> Result<(Shown, Counted)> {
    let found = check_first(auth, caller, method, (body, bearers)).await;
    auth.tell_attempt(caller, method, body, found.as_ref().map(|(shown, _)| shown));
    found
}

async fn check_first(
    auth: &Auth,
    caller: &Caller,
    method: &str,
    (body, bearers): (&AuthenticateBody, &[&str]),
) -> Result<(Shown, Counted)> {
    auth.admits_logins()?;
    let wanted = Wanted { auth, caller, until: auth.patience() };
    let (shown, admitted) = match method {
        method::PASSWORD => {
            let (username, _) = name_and_password(body)?;
            // A password that has to wait for its turn takes no permit meanwhile.
            let attempt = attempt_for(auth, caller, username).await?;
            let named = auth.kernel().snapshot().authenticator_by_username(username).cloned();
            let admitted = match wanted.admit(username, named, attempt.is_of_known()).await {
                Ok(admitted) => admitted,
                Err(busy) => {
                    attempt.neither();
                    return Err(busy);
                }
            };
            (by_password(auth, caller, body, attempt).await?, admitted)
        }
        method::CERT => {
            let print = caller.leaf().map(Certificate::fingerprint).unwrap_or_default();
            // The peer proved in its TLS handshake that it has the key; whether the certificate
            // is still good is not verified yet.
            let named = auth.kernel().snapshot().authenticator_by_fingerprint(print).cloned();
            let admitted = wanted.admit(print, named, false).await?;
            (by_certificate(auth, caller).await?, admitted)
        }
        method::EXT_JWT => {
            // Keys are fetched first: a login that waits for a provider takes no permit meanwhile.
            let tokens = token_login::find(auth, caller, bearers).await?;
            let admitted = wanted.admit(&tokens.name(), None, false).await?;
            (by_token(auth, caller, tokens).await?, admitted)
        }
        _ => return Err(ErrorCode::InvalidAuthMethod.into()),
    };
    let counted = wanted.count(&shown.identity.base.id, admitted).await?;
    Ok((shown, counted))
}

async fn authenticate(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: AuthenticateBody = call.decode_optional(Verb::Create)?;
    let missing = || Failure::field("method", "method in query is required", "");
    let method = call.query.get("method").ok_or_else(missing)?;
    let bearers: Vec<&str> = call.bearers().collect();
    let (shown, counted) = first_factor(&auth, &caller, method, (&body, &bearers)).await?;
    let token = auth.kernel().ids().token();
    let identity = &shown.identity.base.id;
    let second = auth.second_of_login(identity, &caller, call.bearers()).await;
    let session = open(&auth, &caller, &body, (&shown, second), (call.api, token.as_str()))?;
    counted.keep();
    // The credential may have changed after it was verified and before the session was in the
    // table. The change did not find the session then, and did not end it.
    if !stands(&auth.kernel().snapshot(), &session, auth.kernel().now()) {
        auth.sessions().end(std::slice::from_ref(&session.base.id));
        return Err(refused());
    }
    remember_chain(&auth, &shown).await;
    auth.sessions().begun().await;
    auth.tell_session(&session.base.id, SessionChange::Created, false);
    let bearers: Vec<&str> = call.bearers().collect();
    let holder = Some((token.as_str(), bearers.as_slice(), &caller.origin));
    let detail = super::current::shown(&auth, &session, holder);
    let mut reply = Reply::detail(&detail)?.with_header(headers::SESSION, token.to_string());
    if shown.extend_requested {
        reply = reply.with_header(headers::EXTEND_REQUESTED, "true");
    }
    let snapshot = auth.kernel().snapshot();
    let lacking = second_factors(&snapshot, &session.identity_id).signer.and_then(|signer| {
        let of = (&signer, &session.identity_id);
        auth.challenge_of(&snapshot, of, call.bearers(), &caller)
    });
    if let Some(wanted) = lacking {
        reply = reply.with_header(headers::WWW_AUTHENTICATE, wanted);
    }
    Ok(reply)
}

/// A login that wants in.
struct Wanted<'a> {
    auth: &'a Auth,
    caller: &'a Caller,
    /// The time until which it waits for its turn.
    until: Instant,
}

/// A login that may be checked.
struct Admitted {
    /// None if nobody has the name or certificate that was shown.
    counted: Option<Counted>,
    permit: LoginPermit,
}

impl Wanted<'_> {
    /// Waits for the turn of the identity whose name or certificate is shown, and for a permit. The secret is not
    /// checked yet.
    async fn admit(
        &self,
        shown: &str,
        named: Option<Arc<Authenticator>>,
        is_known: bool,
    ) -> Result<Admitted> {
        let counted = match &named {
            Some(named) => Some(self.turn_of(&named.identity_id).await?),
            None => None,
        };
        let sender = Sender::of(self.caller).known(is_known);
        let is_admin = || is_of_admin(&self.auth.kernel().snapshot(), named.as_deref());
        let permit = self.auth.admission().enter(sender, shown, self.until, is_admin).await?;
        Ok(Admitted { counted, permit })
    }

    /// Frees the permit of a login whose secret was right, and counts the login. Its identity may be another one than
    /// was expected: one with an external id has no authenticator.
    async fn count(&self, identity: &Id, admitted: Admitted) -> Result<Counted> {
        drop(admitted.permit);
        match admitted.counted.filter(|counted| counted.is_of(identity)) {
            Some(counted) => Ok(counted),
            None => self.turn_of(identity).await,
        }
    }

    async fn turn_of(&self, identity: &Id) -> Result<Counted> {
        let is_complete = second_factors(&self.auth.kernel().snapshot(), identity).is_nothing();
        let from = self.caller.origin.remote.map(|remote| remote.ip());
        self.auth.rates().login(identity, is_complete, from, self.until).await
    }
}

fn is_of_admin(snapshot: &Snapshot, authenticator: Option<&Authenticator>) -> bool {
    let identity = authenticator.and_then(|it| snapshot.get::<Identity>(&it.identity_id));
    identity.is_some_and(|identity| identity.is_admin || identity.is_default_admin)
}

/// The refusal of a certificate, with the reason. The reason is about the certificate alone, and not about
/// identities.
fn refused_certificate(reason: impl Into<String>) -> Failure {
    Failure::because(ErrorCode::InvalidAuth, reason)
}

/// The refusal with 401, the same for an unknown name, a wrong password and a disabled identity.
fn refused() -> Failure {
    ErrorCode::InvalidAuth.into()
}

impl From<password::Error> for Failure {
    fn from(error: password::Error) -> Self {
        match error {
            password::Error::Busy => ErrorCode::ServerTooManyRequests.into(),
            password::Error::Failed => Failure::unhandled(error.to_string()),
        }
    }
}

fn name_and_password(body: &AuthenticateBody) -> Result<(&str, &str)> {
    let required = |field: &str| Failure::field(field, format!("{field} in body is required"), "");
    let username = body.username.as_ref().ok_or_else(|| required("username"))?;
    let password = body.password.as_ref().ok_or_else(|| required("password"))?;
    Ok((username.as_str(), password.expose()))
}

/// Waits until a password for a name may be checked.
pub async fn attempt_for(auth: &Auth, caller: &Caller, username: &str) -> Result<PasswordAttempt> {
    let from = caller.origin.remote.map(|remote| remote.ip());
    auth.guesses().attempt(username, from).await.map_err(|wait| {
        Failure::because(ErrorCode::ServerTooManyRequests, "too many wrong passwords")
            .with_retry_after(wait)
    })
}

async fn by_password(
    auth: &Auth,
    caller: &Caller,
    body: &AuthenticateBody,
    attempt: PasswordAttempt,
) -> Result<Shown> {
    let (username, password) = name_and_password(body)?;
    let snapshot = auth.kernel().snapshot();
    let found = snapshot.authenticator_by_username(username).cloned();
    let stored = found
        .as_ref()
        .and_then(|it| it.updb.as_ref())
        .map(|updb| Hashed { password: updb.password.clone(), salt: updb.salt.clone() });
    let is_right = match auth.hasher().verify(password, stored.as_ref()).await {
        Ok(is_right) => is_right,
        Err(error) => {
            attempt.neither();
            return Err(error.into());
        }
    };
    // The model may have changed during the hash. A right password that is refused for another
    // reason costs as much time as a wrong one: otherwise the time would reveal that it is right.
    let (snapshot, now) = (auth.kernel().snapshot(), auth.kernel().now());
    let authenticator = found
        .and_then(|it| snapshot.get::<Authenticator>(&it.base.id).cloned().filter(|now| *now == it))
        .ok_or_else(refused)?;
    let identity = snapshot.get::<Identity>(&authenticator.identity_id).ok_or_else(refused)?;
    let policy = policy_of(&snapshot, identity);
    let is_locked = authenticator.updb.as_ref().is_some_and(|updb| updb.is_locked(now));
    if identity.is_disabled(now) || !policy.updb.allowed || is_locked {
        return Err(refused());
    }
    if !is_right {
        drop(attempt);
        lockout::wrong_password(auth, caller, &authenticator).await;
        return Err(refused());
    }
    attempt.right();
    auth.lockouts().right(&authenticator.base.id);
    let print = |id: &Id| print_of(&snapshot, &identity.base.id, id).ok_or_else(refused);
    Ok(Shown {
        authenticator: authenticator.base.id.clone(),
        identity: Arc::clone(identity),
        is_cert_extendable: false,
        extend_requested: false,
        improper_chain: false,
        leaf: None,
        ca: None,
        signer: None,
        print: print(&authenticator.base.id)?,
    })
}

async fn by_token(auth: &Auth, caller: &Caller, tokens: token_login::Waiting<'_>) -> Result<Shown> {
    let token_login::Shown { signer, identity } = tokens.verify(auth, caller).await?;
    // Of the signer whose key was right: one that was changed meanwhile is another credential.
    let print = token_print(&signer, &identity);
    let signer = signer.base.id.clone();
    let authenticator = by_signer(&signer);
    Ok(Shown {
        print,
        authenticator,
        identity,
        is_cert_extendable: false,
        extend_requested: false,
        improper_chain: false,
        leaf: None,
        ca: None,
        signer: Some(signer),
    })
}

async fn by_certificate(auth: &Auth, caller: &Caller) -> Result<Shown> {
    let chain = &caller.origin.certificates;
    let leaf = chain.first().ok_or_else(|| {
        refused_certificate("no client certificate was shown, or it cannot be read")
    })?;
    let (looking, shown) = (auth.clone(), chain.clone());
    let vouched = auth
        .hasher()
        .work(move || vouched_for(&looking, &looking.kernel().snapshot(), &shown))
        .await?;
    let now = auth.kernel().now();
    let snapshot = auth.kernel().snapshot();
    let no = |error: Error| {
        auth.refusals().write(caller, "a login", &error);
        refused_certificate(error.to_string())
    };
    let vouched = vouched.map_err(no)?;
    let claimed = vouched.ca.as_ref().and_then(|ca| claimed_id(ca, leaf));
    // An identity with a claimed external id has no authenticator.
    let (identity, authenticator) = match claimed {
        Some(external) => {
            let found = snapshot.by_unique::<Identity>(Identity::EXTERNAL_ID, &external);
            // Another signer or CA may give the same name to somebody else.
            let ca = vouched.ca.as_ref().map(|ca| &ca.base.id);
            let is_its =
                |it: &&Arc<Identity>| it.enrolled_by.as_ref().is_none_or(|by| Some(by) == ca);
            (found.filter(is_its).ok_or_else(refused)?, None)
        }
        None => {
            let found = snapshot.authenticator_by_fingerprint(leaf.fingerprint());
            let found = found.ok_or_else(refused)?;
            (snapshot.get::<Identity>(&found.identity_id).ok_or_else(refused)?, Some(found))
        }
    };
    let policy = policy_of(&snapshot, identity);
    if identity.is_disabled(now) || !policy.cert.allowed {
        return Err(refused());
    }
    if !policy.cert.allow_expired_certs {
        leaf.check_valid_at(system_time(now)).map_err(no)?;
    }
    let cert = authenticator.and_then(|it| it.cert.as_ref());
    let authenticator = authenticator.map_or(Id::new(VIRTUAL), |it| it.base.id.clone());
    Ok(Shown {
        print: print_of(&snapshot, &identity.base.id, &authenticator).ok_or_else(refused)?,
        authenticator,
        identity: Arc::clone(identity),
        is_cert_extendable: cert.is_some_and(|cert| cert.is_issued_by_network),
        extend_requested: cert.is_some_and(|cert| cert.is_extend_requested),
        improper_chain: vouched.is_improper,
        leaf: Some(leaf.clone()),
        ca: vouched.ca.as_ref().map(|ca| ca.base.id.clone()),
        signer: None,
    })
}

/// Notes in the authenticator whether its certificate came with the chain to a root
/// (docs/protocol/auth.md 9.6); certificates of other issuers are not noted. A failure does not
/// make the login fail.
pub(crate) async fn remember_chain(auth: &Auth, shown: &Shown) {
    let (id, is_complete) = (shown.authenticator.clone(), !shown.improper_chain);
    let noted = move |snapshot: &Snapshot| {
        let known = snapshot.get::<Authenticator>(&id)?;
        let mut noted = (**known).clone();
        let cert = noted.cert.as_mut().filter(|cert| cert.is_issued_by_network)?;
        let was_complete = std::mem::replace(&mut cert.last_auth_resolved_to_root, is_complete);
        (was_complete != is_complete).then_some(noted)
    };
    if noted(&auth.kernel().snapshot()).is_none() {
        return;
    }
    let own = Caller::own("login");
    let done = auth.kernel().decide(&own, move |decision| {
        if let Some(noted) = noted(decision.tip()) {
            decision.put(noted);
        }
        Ok(())
    });
    if let Err(error) = done.await {
        tracing::warn!(authenticator = %shown.authenticator, %error, "the note whether the certificate came with its chain was not stored; the next login tries again");
    }
}

/// The external id that a certificate claims, if its CA defines a claim; a claim that cannot be
/// read counts as none.
fn claimed_id(ca: &Ca, leaf: &Certificate) -> Option<String> {
    let claim = ca.external_id_claim.as_ref()?;
    external_id::of(claim, leaf)
        .inspect_err(
            |error| tracing::debug!(ca = %ca.name, %error, "the certificate has no external id"),
        )
        .ok()
}

/// The issuer of a certificate.
struct Vouched {
    /// Whether the client left out intermediates.
    is_improper: bool,
    /// The third-party CA, if it is one.
    ca: Option<Arc<Ca>>,
}

/// The issuer that a leaf leads to, dates of the leaf aside (docs/protocol/auth.md 9.2): a root of
/// the CA bundle; an intermediate of the bundle, if the client left intermediates out; or a
/// verified third-party CA. The error is the reason of the refusal that says most.
fn vouched_for(auth: &Auth, snapshot: &Snapshot, chain: &[Certificate]) -> Result<Vouched, Error> {
    let der: Vec<CertificateDer<'_>> = chain.iter().map(|it| it.der().clone()).collect();
    let how =
        Verify { usage: RequiredKeyUsage::Any, ignore_leaf_validity: true, intermediates: &[] };
    let now = system_time(auth.kernel().now());
    let bundle = auth.keys().bundle.clone();
    if TrustBundle::new(bundle.roots().cloned()).verify(&der, how, now).is_ok() {
        return Ok(Vouched { is_improper: false, ca: None });
    }
    let Err(refused) = bundle.verify(&der, how, now) else {
        return Ok(Vouched { is_improper: true, ca: None });
    };
    let may_log_in = |ca: &Ca| ca.is_verified && ca.is_auth_enabled;
    if !snapshot.list::<Ca>().any(|ca| may_log_in(ca)) {
        return Err(refused);
    }
    // The certificate of a server is no login, whatever its authority is: others may have its key.
    let how = Verify { usage: RequiredKeyUsage::Client, ..how };
    match third_party_ca::issuer(auth, snapshot, chain, how, may_log_in) {
        Ok((ca, _)) => Ok(Vouched { is_improper: false, ca: Some(Arc::clone(ca)) }),
        Err(error) => Err(refused.or(error)),
    }
}

/// Opens the session of a login with an opaque token.
fn open(
    auth: &Auth,
    caller: &Caller,
    body: &AuthenticateBody,
    (shown, second): (&Shown, Option<(Id, Timestamp)>),
    (api, token): (Api, &str),
) -> Result<Arc<ApiSession>> {
    let (snapshot, id) =
        (auth.kernel().snapshot(), auth.kernel().ids().ordered(auth.kernel().now()));
    let made = new_session(auth, caller, body, shown, id)?;
    let (second_signer, second_until) = second.unzip();
    let session = ApiSession {
        external: ExternalFactors { second_signer, second_until, ..made.external.clone() },
        is_of_client: api == Api::Client,
        ..made
    };
    caller.begin()?;
    auth.sessions().open(session, token, |it| crate::factors::is_complete(&snapshot, it))
}

/// A refused certificate, for operations that name the reason.
pub fn certificate_refused(reason: &str) -> Failure {
    Failure::new(ErrorCode::Unauthorized).with_cause(Cause::error(ErrorCode::Unhandled, reason))
}
