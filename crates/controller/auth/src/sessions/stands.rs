//! Judges whether the credentials and rules that a login depends on still hold.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use weft_model::entity::{
    ApiSession, AuthPolicy, Authenticator, Ca, CertCredential, ExtJwtSigner, Identity,
    UpdbCredential,
};
use weft_model::{Id, Snapshot, Timestamp};

use crate::token_rules::forbidden;

/// Id of the authenticator of a login by external id (docs/protocol/auth.md 7.1).
pub(crate) const VIRTUAL: &str = "internal";
/// What the id of the authenticator of a login by token begins with; the id of the signer follows.
const BY_SIGNER: &str = "extJwtId:";

/// The id of the authenticator of a login by a token of a signer.
pub(crate) fn by_signer(signer: &Id) -> Id {
    Id::new(&format!("{BY_SIGNER}{signer}"))
}

/// The signer of a login by token, by the id of its authenticator; none for other logins.
pub(crate) fn signer_of(authenticator: &Id) -> Option<Id> {
    authenticator.as_str().strip_prefix(BY_SIGNER).map(Id::new)
}

/// The credential of a login.
enum Proof<'s> {
    Password(&'s UpdbCredential),
    Certificate(&'s CertCredential),
    /// A claim of a certificate.
    Claim(&'s str),
    /// A token of a signer.
    Token(&'s ExtJwtSigner, &'s Identity),
}

impl<'s> Proof<'s> {
    fn of(snapshot: &'s Snapshot, identity: &'s Identity, authenticator: &Id) -> Option<Self> {
        if *authenticator == VIRTUAL {
            return Some(Self::Claim(identity.external_id.as_deref().unwrap_or_default()));
        }
        if let Some(signer) = signer_of(authenticator) {
            let signer = snapshot.get::<ExtJwtSigner>(&signer);
            return signer.filter(|signer| signer.enabled).map(|it| Self::Token(it, identity));
        }
        let found = snapshot.get::<Authenticator>(authenticator)?;
        if found.identity_id != identity.base.id {
            return None;
        }
        match &found.updb {
            Some(updb) => Some(Self::Password(updb)),
            None => found.cert.as_ref().map(Self::Certificate),
        }
    }

    /// A fingerprint by which the session recognises the credential; a password cannot be found
    /// from it.
    fn print(&self) -> Arc<str> {
        match self {
            Self::Password(updb) => password_print(&updb.password, &updb.salt),
            Self::Certificate(cert) => key_print(&cert.public_key_print),
            Self::Claim(external) => print(&["claim", external]),
            Self::Token(signer, identity) => token_print(signer, identity),
        }
    }
}

/// The value of [`ApiSession::credential`] of all logins by certificate in rows of earlier releases.
pub(crate) const FORMER_CERTIFICATE: &str = "certificate";

/// The fingerprint of a certificate as a credential: of its key. An extension for the same key ends no
/// session; one for another key ends those that somebody with the old key may have.
pub fn key_print(public_key_print: &str) -> Arc<str> {
    print(&["key", public_key_print])
}

/// The fingerprint of a password, from its stored hash.
pub(crate) fn password_print(hash: &str, salt: &str) -> Arc<str> {
    print(&["password", hash, salt])
}

/// The fingerprint of a login by token: of what decides which tokens name the identity. A signer with another key,
/// URL, issuer, audience or claim ends the sessions that began with it.
pub(crate) fn token_print(signer: &ExtJwtSigner, identity: &Identity) -> Arc<str> {
    let or_none = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
    let external = identity.external_id.as_deref().filter(|_| signer.use_external_id);
    print(&[
        "token",
        signer.base.id.as_str(),
        &or_none(&signer.issuer),
        &or_none(&signer.audience),
        &or_none(&signer.fingerprint),
        &or_none(&signer.kid),
        signer.jwks_endpoint.as_deref().unwrap_or_default(),
        signer.claims_property.as_deref().unwrap_or_default(),
        external.unwrap_or_default(),
        if signer.use_external_id { "external" } else { "id" },
    ])
}

fn print(parts: &[&str]) -> Arc<str> {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    hex::encode(&digest.finalize()[..16]).into()
}

/// The fingerprint of the present credential of an authenticator.
pub fn print_of(snapshot: &Snapshot, identity: &Id, authenticator: &Id) -> Option<Arc<str>> {
    let identity = snapshot.get::<Identity>(identity)?;
    Proof::of(snapshot, identity, authenticator).map(|proof| proof.print())
}

/// Whether a login still holds: the identity exists and is enabled, the authenticator has the
/// credential, the policy allows the method and the age of the certificate, and the CA that issued
/// the certificate may do so. Deleting an authenticator revokes its certificate
/// (docs/protocol/auth.md 16).
pub(crate) fn stands(snapshot: &Snapshot, session: &ApiSession, now: Timestamp) -> bool {
    let identity = snapshot.get::<Identity>(&session.identity_id);
    let Some(identity) = identity.filter(|identity| !identity.is_disabled(now)) else {
        return false;
    };
    let Some(proof) = Proof::of(snapshot, identity, &session.authenticator_id) else {
        return false;
    };
    // A session of the program around the controller has no credential.
    if session.credential.is_empty() {
        return true;
    }
    let print = proof.print();
    let is_same = session.credential == print || session.next_credential == print;
    is_same
        && vouched_for(snapshot, session)
        && is_allowed(snapshot, identity, session, &proof, now)
}

fn vouched_for(snapshot: &Snapshot, session: &ApiSession) -> bool {
    session.ca_id.as_ref().is_none_or(|ca| {
        snapshot.get::<Ca>(ca).is_some_and(|ca| ca.is_verified && ca.is_auth_enabled)
    })
}

fn is_allowed(
    snapshot: &Snapshot,
    identity: &Identity,
    session: &ApiSession,
    proof: &Proof<'_>,
    now: Timestamp,
) -> bool {
    // As at a login, nothing is allowed without a policy.
    let Some(policy) = snapshot.get::<AuthPolicy>(&identity.auth_policy_id) else { return false };
    match proof {
        Proof::Password(_) => policy.updb.allowed,
        Proof::Token(signer, _) => forbidden(snapshot, identity, &signer.base.id).is_none(),
        Proof::Certificate(_) | Proof::Claim(_) => {
            policy.cert.allowed
                && (policy.cert.allow_expired_certs || !has_expired(snapshot, session, now))
        }
    }
}

/// Whether the certificate of a login has expired without a successor.
fn has_expired(snapshot: &Snapshot, session: &ApiSession, now: Timestamp) -> bool {
    let authenticator = snapshot.get::<Authenticator>(&session.authenticator_id);
    let current = authenticator.and_then(|it| Some(&it.cert.as_ref()?.fingerprint));
    let mut shown = session.certificates.iter().filter(|certificate| {
        certificate.created_at <= session.base.created_at
            || Some(&certificate.fingerprint) == current
    });
    !shown.any(|certificate| certificate.not_after > now)
}
