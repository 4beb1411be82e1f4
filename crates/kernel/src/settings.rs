//! What a controller is started with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weft_config::RateLimiter;
use weft_config::controller::{JwksFetch, RouterNames};
use weft_contract::Api;
use weft_identity::{Authority, KeyedChain, SealKey, TrustBundle};
use weft_store::Store;

use crate::clock::{Clock, SystemClock};
use crate::random::{Random, SystemRandom};

/// What a controller is started with.
#[derive(Clone)]
pub struct Settings {
    /// Id of this controller: the common name of its certificate.
    pub id: String,
    /// Where the model is kept.
    pub store: Arc<dyn Store>,
    /// Keys and certificates of the start; later ones are told by `Auth::keys`.
    pub first_keys: Keys,
    /// Seals the tokens of sessions that routers are told. Without one a key is made that ends with
    /// the process, and these sessions with it.
    pub session_key: Option<Arc<SealKey>>,
    /// Where it can be reached.
    pub addresses: Addresses,
    /// How long things last.
    pub durations: Durations,
    /// Issuer in the addresses that authenticator apps are set up with
    /// (docs/protocol/auth.md 11.1).
    pub totp_issuer: String,
    /// How many logins are worked on at once (docs/protocol/config.md 4.9).
    pub login_limiter: RateLimiter,
    /// How many wrong passwords may come in a minute.
    pub guess_limits: GuessLimits,
    /// How key sets of external signers are fetched (docs/protocol/auth.md 13.3).
    pub jwks_fetch: JwksFetch,
    /// Names that certificates of routers may carry.
    pub router_names: RouterNames,
    /// Where snapshots of the database may be written; none is where the database lies.
    pub snapshot_folder: Option<PathBuf>,
    /// Names or ids of routers whose own bindings may dial and host every service; `*` is all.
    pub unrestricted_bindings: Vec<String>,
    /// Whether posture checks take part in decisions.
    pub posture_checks: bool,
    /// What the configuration says, without secrets, for whoever looks inside; null if nothing.
    pub shown: serde_json::Value,
    /// Which program this is.
    pub build: Build,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where random bytes come from.
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
            addresses,
            durations: Durations::default(),
            totp_issuer: "openziti.io".into(),
            login_limiter: RateLimiter::with_sizes(5, 250),
            guess_limits: GuessLimits::default(),
            jwks_fetch: open_fetch(),
            router_names: RouterNames::default(),
            snapshot_folder: None,
            unrestricted_bindings: Vec::new(),
            posture_checks: true,
            shown: serde_json::Value::Null,
            build: Build::default(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        }
    }
}

/// Fetches from everywhere but the places that are never fetched from.
pub fn open_fetch() -> JwksFetch {
    JwksFetch {
        block_private_addresses: false,
        denied_ips: Vec::new(),
        allowed_ips: Vec::new(),
        denied_hostnames: Vec::new(),
        allowed_hostnames: Vec::new(),
        timeout: Duration::from_secs(5),
        max_redirects: 5,
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
    /// The root identity's server certificate. Routers verify tokens with its public key.
    pub session: KeyedChain,
    /// Signs tokens of service sessions in place of `session`, for root identities whose key is
    /// slow: an RSA signature takes ten times as long as one with P-256.
    pub tokens: Option<KeyedChain>,
    /// The certificate that a client meets at the API address: signs enrollment tickets, which
    /// clients verify with it (docs/protocol/auth.md 4.2).
    pub enrollment: KeyedChain,
    /// The edge signer: issues the certificates of identities, routers and sessions.
    pub authority: Authority,
    /// The CA bundle: what clients and routers are told to trust.
    pub bundle: TrustBundle,
    /// The trust domain of SPIFFE ids, without scheme.
    pub trust_domain: String,
}

impl Keys {
    /// The key that signs tokens of service sessions.
    pub fn of_tokens(&self) -> &KeyedChain {
        self.tokens.as_ref().unwrap_or(&self.session)
    }
}

/// Where a controller can be reached.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// `host:port` of the client API.
    pub api: String,
    /// Addresses of the control plane, such as `tls:host:port`.
    pub ctrl: Vec<String>,
    /// The APIs that are served, each with its full addresses.
    pub apis: BTreeMap<Api, Vec<String>>,
}

/// How long things last (docs/protocol/auth.md 4.3, 10.3).
#[derive(Debug, Clone)]
pub struct Durations {
    /// An API session without activity.
    pub session: Duration,
    /// An API session, however much it is used; none for as long as it is used.
    pub longest_session: Option<Duration>,
    /// Enrollment of an identity.
    pub identity_enrollment: Duration,
    /// Enrollment of a router.
    pub router_enrollment: Duration,
    /// How often the last activity of sessions is stored.
    pub activity_flush: Duration,
    /// The longest life of any token: how long revocations are kept.
    pub longest_token: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            session: minutes(30),
            longest_session: None,
            identity_enrollment: minutes(180),
            router_enrollment: minutes(180),
            activity_flush: Duration::from_secs(90),
            longest_token: minutes(24 * 60),
        }
    }
}

/// Which program this is. Clients compare the version to choose features
/// (docs/protocol/auth.md 17.2).
#[derive(Debug, Clone)]
pub struct Build {
    /// `vX.Y.Z` of the line that weft is compatible with.
    pub version: String,
    /// Revision of the source.
    pub revision: String,
    /// When it was built.
    pub build_date: String,
    /// Version of the language runtime.
    pub runtime: String,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            version: "v2.0.0".into(),
            revision: "unknown".into(),
            build_date: "1970-01-01T00:00:00Z".into(),
            runtime: "rust".into(),
        }
    }
}

/// Wrong passwords that may come in any minute; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessLimits {
    /// For a name.
    pub per_name: u32,
    /// From an IPv4 address, or from the /64 of an IPv6 one.
    pub per_address: u32,
}

impl Default for GuessLimits {
    fn default() -> Self {
        Self { per_name: 10, per_address: 100 }
    }
}
