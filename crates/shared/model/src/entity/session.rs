//! Sessions that one controller keeps: API sessions, and service sessions.

use std::sync::Arc;

use bytes::Bytes;

use super::{Base, EnvInfo, Link, OnDelete, PolicyType, Record, SdkInfo};
use crate::row::{Value, row};
use crate::{Id, Kind, RowError, Timestamp};

row! {
    /// A certificate of an API session: it was issued for the session, or shown at its login.
    pub struct SessionCertificate {
        /// Id among the session's certificates.
        1 => pub id: Id,
        /// SHA-1 of the certificate, hex.
        2 => pub fingerprint: Arc<str>,
        /// The certificate and its chain.
        3 => pub cert_pem: String,
        /// Time at which the certificate was issued or first seen.
        4 => pub created_at: Timestamp,
        /// Beginning of the validity.
        5 => pub not_before: Timestamp,
        /// End of the validity.
        6 => pub not_after: Timestamp,
        /// The subject.
        7 => pub subject: String,
    }
}

row! {
    /// The tokens of an API session by OpenID Connect (docs/protocol/auth.md 15.5, 15.6).
    pub struct TokenLogin {
        /// The login client.
        1 => pub client: String,
        /// The issuer: the address that the client connected to.
        2 => pub issuer: String,
        /// Login methods: `password`, `cert`, `ext-jwt`, `totp`, `ejs:<signer>`.
        3 => pub methods: Vec<String>,
        /// Scopes that the client asked for.
        4 => pub scopes: Vec<String>,
        /// Address of the client, host and port.
        5 => pub remote: String,
        /// SHA-1 of the certificate of the login, hex; empty if there was none.
        6 => pub login_fingerprint: String,
        /// SHA-1 of the certificate that was issued for the newest tokens, hex; empty if there is none.
        7 => pub issued_fingerprint: String,
        /// Time at which the newest tokens were issued.
        8 => pub issued_at: Timestamp,
        /// The end of the newest tokens, and of the session with them.
        9 => pub ends_at: Timestamp,
        /// The latest end of the session, however often its tokens are refreshed; none for no limit.
        10 => pub last_end: Option<Timestamp>,
        /// Number of the newest refresh token; the first is 1.
        11 => pub refresh_number: u64,
        /// Time at which a token of the newest refresh was first seen; none until then.
        12 => pub refresh_seen_at: Option<Timestamp>,
        /// Id of the newest refresh token.
        13 => pub refresh_id: String,
        /// The value that ID tokens return to the client.
        14 => pub nonce: String,
        /// Time of the login.
        15 => pub login_at: Timestamp,
        /// Names of the keys that signed the tokens, as far as these keys count: a token by another key is not of this
        /// session.
        16 => pub signed_by: Vec<String>,
    }
}

/// Sessions with opaque tokens are many, and have none.
impl Value for Box<TokenLogin> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        TokenLogin::take(input).map(Box::new)
    }
}

row! {
    /// The tokens of external signers that an API session rests on (docs/protocol/auth.md 13.4).
    pub struct ExternalFactors {
        /// The signer whose token was the login; none for other logins.
        1 => pub signer_id: Option<Id>,
        /// The signer whose token was shown as second factor.
        2 => pub second_signer: Option<Id>,
        /// Time until which that second factor counts for routers.
        3 => pub second_until: Option<Timestamp>,
    }
}

row! {
    /// An API session (docs/protocol/auth.md 9.5), with an opaque token or with signed ones.
    pub struct ApiSession {
        /// Id, times and tags.
        1 => pub base: Base,
        /// The token in clear, in rows of earlier releases; now empty.
        2 => pub former_token: Arc<str>,
        /// Id of the identity.
        3 => pub identity_id: Id,
        /// Id of the authenticator of the login; authenticators that are not stored have ids of
        /// their own.
        4 => pub authenticator_id: Id,
        /// Ids of the config types that the client wants.
        5 => pub config_types: Vec<Id>,
        /// Address of the client, without port.
        6 => pub ip_address: String,
        /// True if a one-time code is required.
        7 => pub is_mfa_required: bool,
        /// True if a one-time code was given.
        8 => pub is_mfa_complete: bool,
        /// Time at which the code was given.
        9 => pub mfa_passed_at: Option<Timestamp>,
        /// True if the network issued the certificate, so that it can be extended.
        10 => pub is_cert_extendable: bool,
        /// True if the client sent an incomplete chain.
        11 => pub improper_client_cert_chain: bool,
        /// Time of the last use.
        12 => pub last_activity_at: Timestamp,
        /// The client's report of its SDK.
        13 => pub sdk_info: Option<SdkInfo>,
        /// The client's report of its machine.
        14 => pub env_info: Option<EnvInfo>,
        /// Certificates that the bearer may show.
        15 => pub certificates: Vec<SessionCertificate>,
        /// The third-party CA that issued the certificate of the login.
        16 => pub ca_id: Option<Id>,
        /// True if the login was at the client API. Routers are told of no other sessions.
        17 => pub is_of_client: bool,
        /// Fingerprint of the credential of the login: the session ends with it. Empty if there was
        /// none.
        18 => pub credential: Arc<str>,
        /// Fingerprint of a new credential that the client of this session is setting for itself: a
        /// password, or a certificate for another key.
        19 => pub next_credential: Arc<str>,
        /// Unique: hash of the token.
        20 => pub token_hash: Arc<str>,
        /// The token, sealed, for telling routers; empty for sessions of which routers are not told.
        21 => pub sealed_token: Bytes,
        /// The key that proves the client to the ends of its connections; empty if the login named none.
        22 => pub end_key: Bytes,
        /// The tokens of external signers that the session rests on.
        23 => pub external: ExternalFactors,
        /// The signed tokens of the session; none for a session with an opaque token.
        24 => pub tokens: Option<Box<TokenLogin>>,
        /// True once a certificate was made for the session: routers may know its token from then on.
        25 => pub had_certificate: bool,
    }
}

impl ApiSession {
    /// Index of the token in [`Record::UNIQUE`].
    pub const TOKEN: usize = 0;
}

impl Record for ApiSession {
    const UNIQUE: &'static [&'static str] = &["token"];
    const LINKS: &'static [Link] = &[Link::new("identityId", Kind::Identity, OnDelete::Cascade)];

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        if !self.token_hash.is_empty() {
            each(Self::TOKEN, &self.token_hash);
        }
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(0, &self.identity_id);
    }
}

row! {
    /// A service session: the permission to dial or bind one service within an API session.
    pub struct ServiceSession {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Id of the API session.
        2 => pub api_session_id: Id,
        /// Id of the identity.
        3 => pub identity_id: Id,
        /// Id of the service.
        4 => pub service_id: Id,
        /// Dial or Bind.
        5 => pub session_type: PolicyType,
        /// The token given to the client.
        6 => pub token: Arc<str>,
    }
}

impl Record for ServiceSession {
    const LINKS: &'static [Link] = &[
        Link::new("apiSessionId", Kind::ApiSession, OnDelete::Cascade),
        Link::new("identityId", Kind::Identity, OnDelete::Cascade),
        Link::new("serviceId", Kind::Service, OnDelete::Cascade),
    ];

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(0, &self.api_session_id);
        each(1, &self.identity_id);
        each(2, &self.service_id);
    }
}
