//! The settings with which a controller starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weft_config::RateLimiter;
use weft_config::controller::{ExternalTokensConfig, JwksFetch, LoginsConfig, RouterNames};
use weft_contract::Api;
use weft_identity::{Authority, KeyedChain, SealKey, TrustBundle};
use weft_model::Timestamp;
use weft_store::Store;

use crate::clock::{Clock, SystemClock};
use crate::key_source::{KeySource, NoKeySource};
use crate::random::{Random, SystemRandom};

/// The settings with which a controller starts.
#[derive(Clone)]
pub struct Settings {
    /// Id of this controller: the common name of its certificate.
    pub id: String,
    /// The store of the model.
    pub store: Arc<dyn Store>,
    /// Keys and certificates of the start; `Auth::keys` has the present ones.
    pub first_keys: Keys,
    /// The key that seals tokens of sessions for routers. Without it a random key is made; sessions
    /// then end with the process.
    pub session_key: Option<Arc<SealKey>>,
    /// Whether a controller that is one of several becomes known to the others; not if it only does some work and ends.
    pub joins: bool,
    /// What a controller of several shares with a further one; none for a controller that is alone.
    pub shared: Option<NetworkSecrets>,
    /// How long a controller of several may know less than others have written before it refuses logins and routers.
    pub stale_for: Duration,
    /// Until when the network may go back to the program that it came from, which would know no certificate that is issued
    /// anew; none if it stays.
    pub way_back_until: Option<Timestamp>,
    /// How long after the first start of a network that was moved here tokens are signed with the key of the former program:
    /// routers learn the keys of this one meanwhile.
    pub routers_learn_for: Duration,
    /// The addresses of the controller.
    pub addresses: Addresses,
    /// Time limits.
    pub durations: Durations,
    /// The issuer in provisioning addresses of authenticator apps (docs/protocol/auth.md 11.1).
    pub totp_issuer: String,
    /// The limit on logins in work (docs/protocol/config.md 4.9).
    pub login_limiter: RateLimiter,
    /// The limits on wrong passwords in a minute.
    pub guess_limits: GuessLimits,
    /// The limits on logins with right secrets.
    pub logins: LoginsConfig,
    /// The limits on fetching key sets of external signers (docs/protocol/auth.md 13.3).
    pub jwks_fetch: JwksFetch,
    /// The source of key sets of external signers.
    pub key_source: Arc<dyn KeySource>,
    /// How tokens of external signers are judged.
    pub external_tokens: ExternalTokensConfig,
    /// The names that certificates of routers may have.
    pub router_names: RouterNames,
    /// The folder for snapshots of the database; without it the folder of the database.
    pub snapshot_folder: Option<PathBuf>,
    /// Names or ids of routers whose own bindings may dial and host every service; `*` means all.
    pub unrestricted_bindings: Vec<String>,
    /// Whether decisions take posture checks into account.
    pub posture_checks: bool,
    /// The configuration without secrets, for inspections; null if there is none.
    pub shown: serde_json::Value,
    /// The version of the program.
    pub build: BuildInfo,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random bytes.
    pub random: Arc<dyn Random>,
}

impl Settings {
    /// Settings with the documented durations and the clock and randomness of the machine.
    pub fn new(
        id: impl Into<String>,
        store: Arc<dyn Store>,
        keys: Keys,
        addresses: Addresses,
    ) -> Self {
        Self {
            id: id.into(),
            store,
            first_keys: keys,
            session_key: None,
            joins: true,
            shared: None,
            stale_for: Duration::from_secs(60),
            way_back_until: None,
            routers_learn_for: Duration::ZERO,
            addresses,
            durations: Durations::default(),
            totp_issuer: "openziti.io".into(),
            login_limiter: RateLimiter::with_sizes(5, 250),
            guess_limits: GuessLimits::default(),
            logins: LoginsConfig::default(),
            jwks_fetch: open_fetch(),
            key_source: Arc::new(NoKeySource),
            external_tokens: ExternalTokensConfig::default(),
            router_names: RouterNames::default(),
            snapshot_folder: None,
            unrestricted_bindings: Vec::new(),
            posture_checks: true,
            shown: serde_json::Value::Null,
            build: BuildInfo::default(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        }
    }
}

/// Allows fetching from everywhere except the addresses that are always refused.
pub fn open_fetch() -> JwksFetch {
    JwksFetch {
        block_private_addresses: false,
        denied_ips: Vec::new(),
        allowed_ips: Vec::new(),
        denied_hostnames: Vec::new(),
        allowed_hostnames: Vec::new(),
        timeout: Duration::from_secs(5),
        max_redirects: 5,
        authorities: BTreeMap::new(),
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("id", &self.id)
            .field("addresses", &self.addresses)
            .field("durations", &self.durations)
            .finish_non_exhaustive()
    }
}

/// Keys and certificates (docs/protocol/auth.md 2.1).
#[derive(Debug, Clone)]
pub struct Keys {
    /// The root identity's server certificate.
    pub session: KeyedChain,
    /// The certificate at the API address. Its key signs enrollment tickets, so that clients can
    /// verify them (docs/protocol/auth.md 4.2).
    pub enrollment: KeyedChain,
    /// The edge signer: issues the certificates of identities, routers and sessions.
    pub authority: Authority,
    /// The CA bundle, which clients and routers are told to trust.
    pub bundle: TrustBundle,
    /// The trust domain of SPIFFE ids, without scheme.
    pub trust_domain: String,
}

/// What controllers of one network share, and a further one gets when it joins.
#[derive(Clone)]
pub struct NetworkSecrets {
    /// The files with the certificate and the key of the network's root, which issues the authorities of controllers.
    pub root: Option<(PathBuf, PathBuf)>,
    /// The file with the keys with which everything in etcd is sealed.
    pub network_key: PathBuf,
    /// The file with the key that seals tokens of sessions.
    pub session_key: Option<PathBuf>,
    /// The URLs of the members of etcd.
    pub etcd: Vec<String>,
    /// What the keys in etcd begin with.
    pub prefix: String,
    /// The file with the authorities of etcd's certificates.
    pub etcd_authorities: Option<PathBuf>,
    /// Whether etcd asks controllers for certificates.
    pub etcd_certificate: bool,
    /// User and password at etcd.
    pub login: Option<(String, String)>,
}

/// The addresses of a controller.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// `host:port` of the client API.
    pub api: String,
    /// Addresses of the control plane, such as `tls:host:port`.
    pub ctrl: Vec<String>,
    /// The served APIs, each with its full addresses.
    pub apis: BTreeMap<Api, Vec<String>>,
}

/// Time limits (docs/protocol/auth.md 4.3, 10.3).
#[derive(Debug, Clone)]
pub struct Durations {
    /// How long an API session may be idle.
    pub session: Duration,
    /// Longest life of an API session in use; none for no limit.
    pub longest_session: Option<Duration>,
    /// Longest life of an API session that began with a token of an external signer.
    pub longest_by_token: Duration,
    /// Life of an enrollment of an identity.
    pub identity_enrollment: Duration,
    /// Life of an enrollment of a router.
    pub router_enrollment: Duration,
    /// The interval at which the last activity of sessions is stored.
    pub activity_flush: Duration,
    /// Longest life of a session that began with the token of an external signer, however often its tokens are
    /// refreshed.
    pub external_session: Duration,
    /// Life of an access token.
    pub access_token: Duration,
    /// Life of an ID token.
    pub id_token: Duration,
    /// Life of a refresh token.
    pub refresh_token: Duration,
    /// Longest life of any token, which is how long revocations are kept.
    pub longest_token: Duration,
    /// The time for which a key signs tokens.
    pub token_key: Duration,
    /// The time for which a key of tokens is published before it signs: an hour for routers that are away and programs
    /// that keep published keys, also when the clock goes from an hour behind to an hour ahead.
    pub token_key_known: Duration,
    /// The state of an identity is unknown this long after the last report of a router about it.
    pub unreported: Duration,
    /// The interval at which expired revocations are deleted.
    pub revocation_purge: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            session: minutes(30),
            longest_session: None,
            longest_by_token: minutes(24 * 60),
            identity_enrollment: minutes(180),
            router_enrollment: minutes(180),
            activity_flush: Duration::from_secs(90),
            external_session: minutes(24 * 60),
            access_token: minutes(30),
            id_token: minutes(30),
            refresh_token: minutes(24 * 60),
            longest_token: minutes(24 * 60),
            token_key: minutes(30 * 24 * 60),
            token_key_known: minutes(3 * 60),
            unreported: minutes(5),
            revocation_purge: minutes(1),
        }
    }
}

/// The version of the program. Clients compare the version to choose features
/// (docs/protocol/auth.md 17.2).
#[derive(Debug, Clone)]
pub struct BuildInfo {
    /// The release `vX.Y.Z` that weft is compatible with.
    pub version: String,
    /// Revision of the source.
    pub revision: String,
    /// The time of the build.
    pub build_date: String,
    /// Version of the language runtime.
    pub runtime: String,
}

impl Default for BuildInfo {
    fn default() -> Self {
        Self {
            version: "v2.0.0".into(),
            revision: "unknown".into(),
            build_date: "1970-01-01T00:00:00Z".into(),
            runtime: "rust".into(),
        }
    }
}

/// Most wrong passwords in any minute; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessLimits {
    /// For each name.
    pub per_name: u32,
    /// For each IPv4 address, and each /64 network of IPv6.
    pub per_address: u32,
}

impl Default for GuessLimits {
    fn default() -> Self {
        Self { per_name: 10, per_address: 100 }
    }
}
