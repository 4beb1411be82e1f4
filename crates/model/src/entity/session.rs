//! Sessions kept by one controller: API sessions with opaque tokens, and service sessions.

use std::sync::Arc;

use bytes::Bytes;

use super::{Base, EnvInfo, Link, OnDelete, PolicyType, Record, SdkInfo, record};
use crate::{Id, Kind, Timestamp, row::row};

row! {
    /// A certificate made for an API session, or the one it was opened with.
    pub struct SessionCertificate {
        /// Its id among the session's certificates.
        1 => pub id: Id,
        /// Hex SHA-1.
        2 => pub fingerprint: Arc<str>,
        /// The chain.
        3 => pub cert_pem: String,
        /// When it was made or first seen.
        4 => pub created_at: Timestamp,
        /// Beginning of validity.
        5 => pub not_before: Timestamp,
        /// End of validity.
        6 => pub not_after: Timestamp,
        /// The subject.
        7 => pub subject: String,
    }
}

row! {
    /// An API session with an opaque token (protocol: auth 9.5).
    pub struct ApiSession {
        /// Id, times and tags.
        1 => pub base: Base,
        /// The secret in clear, as earlier releases stored it; empty since.
        2 => pub former_token: Arc<str>,
        /// Who is logged in.
        3 => pub identity_id: Id,
        /// With which authenticator; virtual ones have ids of their own.
        4 => pub authenticator_id: Id,
        /// Ids of the config types the client wants.
        5 => pub config_types: Vec<Id>,
        /// The client's address, without port.
        6 => pub ip_address: String,
        /// Whether a one-time code is required.
        7 => pub is_mfa_required: bool,
        /// Whether it was given.
        8 => pub is_mfa_complete: bool,
        /// When that was.
        9 => pub mfa_passed_at: Option<Timestamp>,
        /// Whether the certificate was issued by the network.
        10 => pub is_cert_extendable: bool,
        /// Whether the client sent an incomplete chain.
        11 => pub improper_client_cert_chain: bool,
        /// Last use.
        12 => pub last_activity_at: Timestamp,
        /// What the client said about its SDK.
        13 => pub sdk_info: Option<SdkInfo>,
        /// What the client said about its machine.
        14 => pub env_info: Option<EnvInfo>,
        /// Certificates that prove possession.
        15 => pub certificates: Vec<SessionCertificate>,
        /// The third-party CA that vouched for the certificate of the login.
        16 => pub ca_id: Option<Id>,
        /// Whether it was opened at the client API: routers are never told of others.
        17 => pub is_of_client: bool,
        /// What it rests on: a print of what was shown at the login. Empty if nothing was.
        18 => pub credential: Arc<str>,
        /// The print of a new password that the client of this session gives itself.
        19 => pub next_credential: Arc<str>,
        /// Unique: a hash of the secret.
        20 => pub token_hash: Arc<str>,
        /// The secret, sealed, where routers have to be told of it.
        21 => pub sealed_token: Bytes,
    }
}

impl ApiSession {
    /// Index of the token in [`Record::UNIQUE`].
    pub const TOKEN: usize = 0;
}

impl Record for ApiSession {
    record!(ApiSession);

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
    /// A service session: leave to dial or bind one service within an API session.
    pub struct Session {
        /// Id, times and tags.
        1 => pub base: Base,
        /// The API session it belongs to.
        2 => pub api_session_id: Id,
        /// Whose it is.
        3 => pub identity_id: Id,
        /// For which service.
        4 => pub service_id: Id,
        /// To dial or to bind.
        5 => pub session_type: PolicyType,
        /// The token given to the client.
        6 => pub token: Arc<str>,
    }
}

impl Record for Session {
    record!(Session);

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
