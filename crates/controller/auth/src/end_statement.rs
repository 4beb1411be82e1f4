//! Statements about the ends of connections (docs/protocol/sdk.md 14.6).
//!
//! The key is the one that the login named, over the client's own TLS connection and before any router knew of the
//! session: a router that a session is shown to can ask for the statement, but not for one about another key.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use weft_contract::resource::service_session::{END_AUDIENCE, EndClaims, EndStatement};
use weft_identity::KeySet;
use weft_kernel::{Failure, Result, convert};
use weft_model::entity::{ApiSession, Identity, PolicyType, Service, ServiceSession, Terminator};
use weft_model::{Id, Snapshot};

use crate::handle::Auth;
use crate::members;
use crate::tokens::sign_with;

/// How long a statement is good.
const LIFE: Duration = Duration::from_secs(600);

/// Whether this is the form of an end's key: an uncompressed point of P-256.
pub fn is_key(key: &[u8]) -> bool {
    key.len() == 65 && key.first() == Some(&4)
}

/// Whether a service demands that its ends prove themselves, and this login cannot.
pub fn lacks_proof(service: &Service, login: &ApiSession) -> bool {
    service.authenticated_ends && login.end_key.is_empty()
}

/// Why an end that cannot prove itself is refused, and what helps.
pub fn refusal(service: &Service) -> String {
    format!(
        "service {} demands that both ends prove who they are (authenticatedEnds), and this login named no key of an \
         end: use an SDK or a tunneler of weft that does, or have the service not demand it",
        service.name
    )
}

/// What a statement says.
#[derive(Debug, Clone, Copy)]
pub struct StatementClaims<'a> {
    /// The identity.
    pub identity: &'a Id,
    /// The service session, or what stands for it.
    pub session: &'a str,
    /// The service.
    pub service: &'a Id,
    /// Whether the end dials or hosts.
    pub role: PolicyType,
    /// The instance that it hosts; empty for none.
    pub instance: &'a str,
    /// The public key of the end.
    pub key: &'a [u8],
}

/// Whether the identity offers the instance. All terminators of an instance have the same host.
fn hosts(snapshot: &Snapshot, stated: &StatementClaims<'_>) -> bool {
    let key = Terminator::instance_key(stated.service, stated.instance);
    let mut offered = snapshot.referring::<Terminator>(Terminator::INSTANCE, &key);
    stated.role == PolicyType::Bind && offered.any(|it| it.host_id == *stated.identity)
}

impl Auth {
    /// The statement about the end of a login for a service session of it, and for the instance that it hosts; empty for
    /// none.
    pub fn end_statement(
        &self,
        login: &ApiSession,
        session: &ServiceSession,
        instance: &str,
    ) -> Result<EndStatement> {
        if login.end_key.is_empty() {
            return Err(Failure::field("endKey", "the login of this session named none", ""));
        }
        self.state(&StatementClaims {
            identity: &login.identity_id,
            session: session.base.id.as_str(),
            service: &session.service_id,
            role: session.session_type,
            instance,
            key: &login.end_key,
        })
    }

    /// Signs a statement.
    pub fn state(&self, stated: &StatementClaims<'_>) -> Result<EndStatement> {
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let identity = snapshot.get::<Identity>(stated.identity);
        let identity =
            identity.ok_or_else(|| Failure::not_found("identity", stated.identity.as_str()))?;
        if !stated.instance.is_empty() && !hosts(&snapshot, stated) {
            let reason = "no terminator of this identity offers this instance of the service";
            return Err(Failure::field("instance", reason, stated.instance));
        }
        let claims = EndClaims {
            iss: self.issuer(),
            aud: END_AUDIENCE.to_owned(),
            iat: now.secs(),
            exp: now.plus(LIFE).secs(),
            sub: identity.base.id.to_string(),
            name: identity.name.to_string(),
            session: stated.session.to_owned(),
            service: stated.service.to_string(),
            role: convert::word(stated.role),
            instance: stated.instance.to_owned(),
            key: hex::encode(Sha256::digest(stated.key)),
        };
        // Programs of weft read it, which learn the key with it.
        let statement = sign_with(&self.token_keys().signer(), &claims)?;
        Ok(EndStatement { statement, keys: self.published_token_keys()? })
    }

    /// The keys that sign tokens and statements, as a published set.
    pub(crate) fn published_token_keys(&self) -> Result<serde_json::Value> {
        let failed = |error: weft_identity::Error| Failure::unhandled(error.to_string());
        let mut keys = KeySet::new();
        for (kid, public) in &self.token_keys().ring.load().public {
            keys.insert(kid.clone(), public.key.clone());
        }
        let snapshot = self.kernel().snapshot();
        for key in self.other_members(&snapshot).flat_map(|member| &member.token_keys) {
            if let Some(public) = members::public_of(key) {
                keys.insert(&*key.kid, public);
            }
        }
        keys.to_json().map_err(failed)
    }
}
