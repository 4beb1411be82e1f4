//! Sessions of a network that was moved here from OpenZiti (docs/protocol/auth.md 16.1).
//!
//! OpenZiti's controller kept no row of a session by OpenID Connect: its tokens were all there was. While tokens that it signed
//! may be good, the first one that is shown becomes the session that it names, so that nobody logs in again because the controller
//! is another program. From then on the session is like any other, and ends like any other.
//!
//! | what is shown | the session |
//! |---|---|
//! | a token that was signed before weft first started, by a key that the import noted | is made |
//! | the same, and the session is known | is the known one |
//! | the same, and the session has ended here | stays ended |
//! | a token that says that it was issued later | is not made: only somebody with the old key signs such |
//! | a token without scopes and methods, as the original gives for a refresh token | has the method of its authenticator, and the scopes `openid` and `offline_access` |
//! | a token whose identity, credential, policy or factor is no longer what it was | is not made |

use std::sync::Arc;

use serde::de::DeserializeOwned;
use weft_identity::Certificate;
use weft_kernel::view::View;
use weft_model::entity::{
    ApiSession, Authenticator, Ca, ExtJwtSigner, ExternalFactors, Identity, Mfa, Revocation,
    SessionCertificate, TokenLogin,
};
use weft_model::token::AccessClaims;
use weft_model::{Base, ColdField, Id, Kind, Snapshot, Timestamp, session_list};

use super::issue::{OFFLINE, OPENID};
use crate::factors::{has_mfa, is_complete};
use crate::handle::Auth;
use crate::login::{certificate, env_info, sdk_info};
use crate::sessions::stands::signer_of;
use crate::sessions::{ClientDescription, print_of, stands};
use crate::wanted_configs::WantedConfigs;

/// The login method of a one-time code.
const TOTP: &str = "totp";
/// The login method of a certificate.
const CERT: &str = "cert";

impl Auth {
    /// The session of a token of the original, made of its claims; none if there is no such session or it has ended. The
    /// signature of the token was verified with the key `kid`.
    pub(super) fn adopted(
        &self,
        claims: &AccessClaims,
        kid: &str,
        now: Timestamp,
    ) -> Option<Arc<ApiSession>> {
        let signed_until = self.earlier_token(claims, kid)?;
        // Afterwards all tokens of the original have ended; one that lasts longer was not made by its controller.
        self.last_earlier_token(now)?;
        let snapshot = self.kernel().snapshot();
        let session = self.session_of_claims(&snapshot, claims, signed_until, now)?;
        let is_good = |snapshot: &Snapshot| {
            stands(snapshot, &session, now) && is_complete(snapshot, &session)
        };
        if !is_good(&snapshot) || is_listed(&snapshot, claims) {
            tracing::debug!(session = %session.base.id, "a session of the former controller lacks something by now");
            return None;
        }
        // Judged again with the tables locked. A session that has ended is known to `unrevoked` until its revocation is there.
        let may_begin = || {
            let has_ended = self.sessions().unrevoked().has(&session.base.id);
            let latest = self.kernel().snapshot();
            !has_ended && !is_revoked(&latest, claims) && is_good(&latest)
        };
        let adopted =
            self.sessions().open_once(session.clone(), may_begin, |it| is_complete(&snapshot, it));
        let adopted = adopted
            .inspect_err(|error| tracing::warn!(session = %session.base.id, %error, "a session of the former controller cannot be taken over; its client logs in again"))
            .ok()
            .flatten()?;
        tracing::debug!(session = %adopted.base.id, identity = %adopted.identity_id, "a session of the former controller goes on here");
        Some(adopted)
    }

    /// When the key of a token of the original was last used; none if the token is not one of the original.
    pub(crate) fn earlier_token(&self, claims: &AccessClaims, kid: &str) -> Option<Timestamp> {
        let signed_until = self.token_keys().earlier_program_until(kid)?;
        // Tokens of weft have a number, from 1.
        let is_earlier = claims.z_rn == 0 && Timestamp::from_secs(claims.iat) <= signed_until;
        is_earlier.then_some(signed_until)
    }

    /// The time until which any token of the program that signed before weft first started may be good, if that is ahead.
    pub(crate) fn last_earlier_token(&self, now: Timestamp) -> Option<Timestamp> {
        let longest = self.kernel().settings().durations.longest_token;
        let keys = self.token_keys().of_earlier_program();
        let until = keys.into_iter().map(|(_, until)| until.plus(longest)).max()?;
        (until > now).then_some(until)
    }

    fn session_of_claims(
        &self,
        snapshot: &Snapshot,
        claims: &AccessClaims,
        signed_until: Timestamp,
        now: Timestamp,
    ) -> Option<ApiSession> {
        let (id, identity) = (Id::parse(&claims.z_asid).ok()?, Id::parse(&claims.sub).ok()?);
        // Before anything is read from the disk: a program that was disabled asks again and again.
        snapshot.get::<Identity>(&identity).filter(|it| !it.is_disabled(now))?;
        let authenticator = Id::parse(&claims.z_authid).ok()?;
        let credential = print_of(snapshot, &identity, &authenticator)?;
        let durations = &self.kernel().settings().durations;
        let login_at =
            Timestamp::from_secs(if claims.auth_time > 0 { claims.auth_time } else { claims.iat });
        let found = snapshot.get::<Authenticator>(&authenticator);
        // A password that was changed, or a certificate or a signer that was replaced, ends what it began.
        if changed_at(snapshot, &identity, &authenticator).is_none_or(|at| at > signed_until) {
            return None;
        }
        let cert = found.and_then(|found| found.cert.as_ref());
        let signer_id = signer_of(&authenticator);
        let longest = signer_id.as_ref().map(|_| durations.external_session);
        let longest = [longest, durations.longest_session].into_iter().flatten().min();
        let last_end = longest.map(|longest| login_at.plus(longest));
        // A session with refresh tokens lasts as long as its client may still show one of the original.
        let scopes = scopes_of(claims);
        let is_refreshed = scopes.iter().any(|scope| scope == OFFLINE);
        let end = Timestamp::from_secs(claims.exp);
        let horizon = signed_until.plus(durations.longest_token);
        let end = if is_refreshed { horizon } else { end.min(horizon) };
        let named = claims.z_cfs.as_deref().unwrap_or_default();
        let is_by_certificate = cert.is_some() || claims.amr.iter().any(|method| method == CERT);
        let (shown, issued) = match claims.z_acf.as_str() {
            // Before 2.0, the chain that was shown, the leaf first; none was made for a session.
            "" if is_by_certificate => (named.first().map_or("", String::as_str), None),
            // That of a certificate that was made for the session is the last one.
            shown => (shown, named.iter().rfind(|print| !print.eq_ignore_ascii_case(shown))),
        };
        let login = TokenLogin {
            client: claims.client_id.clone(),
            issuer: claims.iss.clone(),
            methods: methods_of(claims, cert.is_some(), signer_id.is_some()),
            scopes,
            remote: claims.z_ra.clone(),
            login_fingerprint: shown.to_ascii_lowercase(),
            issued_fingerprint: issued.map(|print| print.to_ascii_lowercase()).unwrap_or_default(),
            issued_at: Timestamp::from_secs(claims.iat),
            ends_at: last_end.map_or(end, |last| last.min(end)),
            last_end,
            login_at,
            signed_by: self
                .token_keys()
                .of_earlier_program()
                .into_iter()
                .map(|(kid, _)| kid)
                .collect(),
            ..TokenLogin::default()
        };
        let told = ClientDescription {
            sdk: read(claims.z_sdk.as_ref()),
            env: read(claims.z_env.as_ref()),
        };
        // Nobody got a token of the original before all factors were given. When a code was given is not known then.
        let has_code = claims.amr.iter().any(|method| method == TOTP);
        // Nobody gave a factor that was set up later.
        let is_known = second_factor_at(snapshot, &identity).is_none_or(|at| at <= signed_until);
        let is_complete = is_known && (has_code || claims.amr.is_empty());
        let wanted = claims.z_ct.iter().map(String::as_str);
        let address = claims.z_ra.rsplit_once(':').map_or(&*claims.z_ra, |(host, _)| host);
        Some(ApiSession {
            base: Base::new(id, login_at),
            identity_id: identity.clone(),
            config_types: WantedConfigs::of(View::of(snapshot), wanted).into_ids(),
            ip_address: address.trim_matches(['[', ']']).to_owned(),
            is_mfa_required: has_mfa(snapshot, &identity),
            is_mfa_complete: is_complete && has_mfa(snapshot, &identity),
            mfa_passed_at: has_code.then_some(login_at),
            is_cert_extendable: cert.is_some_and(|cert| cert.is_issued_by_network),
            improper_client_cert_chain: claims.z_iccc,
            last_activity_at: now,
            sdk_info: claims.z_sdk.as_ref().map(|_| sdk_info(&told)),
            env_info: claims.z_env.as_ref().map(|_| env_info(&told)),
            certificates: cert
                .and_then(|_| self.certificate_of_login(&authenticator, login_at))
                .into_iter()
                .collect(),
            ca_id: cert.and_then(|cert| cert.ca_id.clone()),
            external: ExternalFactors { signer_id, ..ExternalFactors::default() },
            is_of_client: true,
            credential,
            authenticator_id: authenticator,
            had_certificate: issued.is_some(),
            tokens: Some(Box::new(login)),
            ..ApiSession::default()
        })
    }

    /// The certificate of an authenticator, as the session of a login at that time keeps it.
    fn certificate_of_login(
        &self,
        authenticator: &Id,
        login_at: Timestamp,
    ) -> Option<SessionCertificate> {
        let store = &self.kernel().settings().store;
        let read = store.cold(Kind::Authenticator, authenticator, ColdField::CertPem);
        let pem = read
            .inspect_err(|error| tracing::warn!(%authenticator, %error, "the certificate of a login cannot be read"))
            .ok()
            .flatten()?;
        let leaf = Certificate::from_pem(&pem).ok()?.into_iter().next()?;
        Some(certificate(self, &leaf, login_at))
    }
}

/// When what a login rests on was last changed; none if it is not known.
fn changed_at(snapshot: &Snapshot, identity: &Id, authenticator: &Id) -> Option<Timestamp> {
    if let Some(signer) = signer_of(authenticator) {
        let signer = snapshot.get::<ExtJwtSigner>(&signer)?;
        let owner = snapshot.get::<Identity>(identity)?;
        let by_external_id = signer.use_external_id.then_some(owner.base.updated_at);
        return by_external_id.into_iter().chain([signer.base.updated_at]).max();
    }
    match snapshot.get::<Authenticator>(authenticator) {
        Some(found) => {
            let ca = found.cert.as_ref().and_then(|cert| cert.ca_id.as_ref());
            let ca = ca.and_then(|ca| snapshot.get::<Ca>(ca)).map(|ca| ca.base.updated_at);
            ca.into_iter().chain([found.base.updated_at]).max()
        }
        // A login by external id has no authenticator of its own.
        None => snapshot.get::<Identity>(identity).map(|it| it.base.updated_at),
    }
}

/// When the second factor of an identity was set up; none without one.
fn second_factor_at(snapshot: &Snapshot, identity: &Id) -> Option<Timestamp> {
    let mfa = snapshot.by_unique::<Mfa>(Mfa::IDENTITY, identity.as_str());
    mfa.map(|mfa| mfa.base.created_at.max(mfa.base.updated_at))
}

/// Whether a token names no scope, as one that the original gave for a refresh token: its list is null, or has one empty
/// name, which is what Go SDKs ask for.
pub(super) fn names_no_scope(claims: &AccessClaims) -> bool {
    claims.scopes.iter().all(String::is_empty)
}

/// The scopes of a login. A token without any is refreshed like others.
fn scopes_of(claims: &AccessClaims) -> Vec<String> {
    match names_no_scope(claims) {
        true => [OPENID, OFFLINE].map(str::to_owned).to_vec(),
        false => claims.scopes.clone(),
    }
}

/// The methods of a login. A token that the original gave for a refresh token names none; the authenticator tells the first.
fn methods_of(claims: &AccessClaims, by_certificate: bool, by_signer: bool) -> Vec<String> {
    if !claims.amr.is_empty() {
        return claims.amr.clone();
    }
    let method = match (by_certificate, by_signer) {
        (true, _) => CERT,
        (false, true) => "ext-jwt",
        (false, false) => "password",
    };
    vec![method.to_owned()]
}

/// Whether a token, its session or its identity was revoked.
fn is_revoked(snapshot: &Snapshot, claims: &AccessClaims) -> bool {
    claims.is_revoked(|id| snapshot.get::<Revocation>(&Id::new(id)).map(|found| &**found))
}

/// Whether the session of a token was revoked by a list of sessions that ended together.
fn is_listed(snapshot: &Snapshot, claims: &AccessClaims) -> bool {
    let Some(key) = session_list::key(&claims.z_asid) else { return false };
    snapshot.list::<Revocation>().any(|it| session_list::contains(&it.sessions, &key))
}

/// What a client said of itself, within the bounds of a login; nothing if it is beyond them.
fn read<T: DeserializeOwned + Default>(said: Option<&serde_json::Value>) -> T {
    said.and_then(|said| T::deserialize(said).ok()).unwrap_or_default()
}
