//! The `edge:` section of a controller (docs/protocol/config.md 4.6).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use super::external_tokens::ExternalTokensConfig;
use super::logins::LoginsConfig;
use super::router_names::RouterNames;
use crate::address::HostPort;
use crate::rate_limiter::RateLimiter;
use crate::section::Section;

/// Edge APIs, enrollment and sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeConfig {
    /// The address at which clients reach the APIs; also in tokens. None only in a file that is
    /// refused.
    pub api_address: Option<HostPort>,
    /// Life of an unused API session. At least 1m, default 30m.
    pub session_timeout: Duration,
    /// Life of an API session, even if it is used. At least 1m, default none.
    pub session_lifetime: Option<Duration>,
    /// The interval at which the use of sessions is stored. 1ms..=10m, default 90s.
    pub activity_update_interval: Duration,
    /// Most sessions in one such write. 1..=10000, default 250.
    pub activity_update_batch: u32,
    /// True if the OIDC API is added where it is not listed.
    pub(crate) auto_bind_oidc: bool,
    /// Enrollment.
    pub enrollment: EnrollmentConfig,
    /// Life of OIDC tokens, and their revocation.
    pub oidc: OidcTokens,
    /// The time for which a key signs tokens (`tokenKeys.rollEvery`). A key of weft's own; at least 24h, default 720h.
    pub token_key: Duration,
    /// The issuer in the URL for authenticator apps. Default `openziti.io`.
    pub totp_hostname: String,
    /// Limit on logins under way.
    pub auth_rate_limiter: RateLimiter,
    /// Limits on logins with right secrets.
    pub logins: LoginsConfig,
    /// Wrong passwords a minute for a name (`wrongPasswords.perName`); 0 = no limit. Default 10.
    pub wrong_passwords_per_name: u32,
    /// Wrong passwords a minute from an address (`wrongPasswords.perAddress`); 0 = no limit.
    /// Default 100.
    pub wrong_passwords_per_address: u32,
    /// The source of the online status of identities.
    pub identity_status: IdentityStatusConfig,
    /// How tokens of external signers are judged.
    pub external_tokens: ExternalTokensConfig,
    /// Limits on the addresses of key sets of external signers.
    pub jwks_fetch: JwksFetch,
    /// True if no decision uses posture checks.
    pub disable_posture_checks: bool,
}

/// Enrollment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrollmentConfig {
    /// The authority that issues certificates.
    pub signing_cert: SigningCert,
    /// Life of an enrollment of an identity. At least 5m, default 3h.
    pub identity_duration: Duration,
    /// Life of an enrollment of a router. At least 5m, default 3h.
    pub router_duration: Duration,
    /// Names that certificates of routers may have.
    pub router_names: RouterNames,
}

/// The authority that issues certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SigningCert {
    /// Location of the authority's certificate.
    pub cert: String,
    /// Location of the authority's key.
    pub key: String,
    /// Location of the certificates of the authorities above this one.
    pub ca: Option<String>,
}

/// The OIDC provider: its announcement, the life of its tokens, and their revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcTokens {
    /// True if clients are told to log in with the provider. A key of weft's own, default true.
    pub announced: bool,
    /// Longest life of a session that began with the token of an external signer. A key of weft's own; at least 1m,
    /// default 24h.
    pub external_session: Duration,
    /// Life of access tokens. At least 1m, default 30m.
    pub access: Duration,
    /// Life of id tokens. At least 1m, default 30m.
    pub id: Duration,
    /// Life of refresh tokens. At least a minute longer than that of access tokens, default 24h.
    pub refresh: Duration,
    /// Tokens with less time left are not revoked. Below half of `refresh`, default 0.
    pub revocation_min_lifetime: Duration,
    /// The interval at which revocations are written. At least 1s, default 1m.
    pub revocation_bucket_interval: Duration,
    /// Most revocations in one write. Default 200.
    pub revocation_bucket_max: u32,
    /// Most revocations that wait. Default 25000.
    pub revocation_max_queued: u32,
    /// The interval at which expired revocations are removed. At least 10s, default 1m.
    pub revocation_enforcer_frequency: Duration,
}

/// The source of the online status of identities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityStatusConfig {
    /// The interval of checks. At least 1s, default 1m.
    pub scan_interval: Duration,
    /// The status is unknown after this long without a report. Default 5m.
    pub unknown_timeout: Duration,
    /// The reports that count.
    pub source: IdentityStatusSource,
}

/// The reports that determine the status of identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityStatusSource {
    /// Heartbeats of API sessions.
    Heartbeats,
    /// Connect events of routers.
    ConnectEvents,
    /// Both.
    Hybrid,
}

/// Limits on the addresses of key sets of external signers, and on fetching them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwksFetch {
    /// True if private and loopback addresses are refused.
    pub block_private_addresses: bool,
    /// Refused addresses.
    pub denied_ips: Vec<Network>,
    /// Private addresses that are allowed nevertheless.
    pub allowed_ips: Vec<Network>,
    /// Refused host names, exact or `*.suffix`, in lower case without final dot.
    pub denied_hostnames: Vec<String>,
    /// If not empty, the only allowed host names.
    pub allowed_hostnames: Vec<String>,
    /// Time limit for the whole fetch. Default 5s.
    pub timeout: Duration,
    /// Most redirects. Default 5.
    pub max_redirects: u32,
    /// Files of authorities (PEM) by host, in lower case: the server of that host is trusted by its file instead of
    /// the roots of the system.
    pub authorities: BTreeMap<String, String>,
}

/// A network: an address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
}

impl Network {
    /// True if the network has this address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let ((own, length), (other, other_length)) = (bits(self.address), bits(address));
        let shift = 128 - u32::from(self.prefix);
        length == other_length && own.checked_shr(shift) == other.checked_shr(shift)
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "not an address or <address>/<bits>";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match bits {
            Some(bits) => bits.parse().map_err(|_| wrong)?,
            None => most,
        };
        if prefix > most { Err(wrong) } else { Ok(Self { address, prefix }) }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

impl EdgeConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let api = section.section("api");
        if !api.is_present() {
            section.problem("api", "required configuration section [edge.api] missing");
        } else if !api.has("address") {
            api.problem("address", "required value [edge.api.address] is required");
        }
        let totp = section.section("totp").text("hostname");
        let totp_hostname = totp.filter(|name| !name.is_empty());
        let totp_hostname = totp_hostname.unwrap_or_else(|| "openziti.io".to_owned());
        if !is_hostname(&totp_hostname) {
            let text = format!("invalid hostname in [edge.totp.hostname]: {totp_hostname}");
            section.problem("totp", text);
        }
        let limiter = section.section("authRateLimiter");
        let wrong = section.section("wrongPasswords");
        let external = section.section("externalJwtSigners");
        Self {
            api_address: api.host_port("address"),
            session_timeout: at_least(&api, "sessionTimeout", MINUTE, 30 * MINUTE),
            session_lifetime: session_lifetime(&api),
            activity_update_interval: api.duration_in(
                "activityUpdateInterval",
                Duration::from_secs(90),
                Duration::from_millis(1)..=10 * MINUTE,
            ),
            activity_update_batch: api.int("activityUpdateBatchSize", 250, 1..=10_000),
            auto_bind_oidc: !api.flag("disableOidcAutoBinding", false),
            enrollment: EnrollmentConfig::read(section),
            oidc: OidcTokens::read(&section.section("oidc")),
            token_key: section.section("tokenKeys").duration_clamped(
                "rollEvery",
                720 * 60 * MINUTE,
                24 * 60 * MINUTE..=Duration::MAX,
            ),
            totp_hostname,
            auth_rate_limiter: RateLimiter::read(
                &limiter,
                &RateLimiter::with_sizes(5, 250),
                5,
                1000,
            ),
            logins: LoginsConfig::read(&section.section("logins")),
            wrong_passwords_per_name: wrong.int("perName", 10, 0..=1_000_000),
            wrong_passwords_per_address: wrong.int("perAddress", 100, 0..=1_000_000),
            identity_status: IdentityStatusConfig::read(&section.section("identityStatusConfig")),
            external_tokens: ExternalTokensConfig::read(&external),
            jwks_fetch: JwksFetch::read(&external.section("jwksFetch")),
            disable_posture_checks: section.flag("disablePostureChecks", false),
        }
    }
}

impl EnrollmentConfig {
    fn read(edge: &Section<'_>) -> Self {
        let section = edge.section("enrollment");
        if !section.is_present() {
            edge.problem("enrollment", "required configuration section [edge.enrollment] missing");
        }
        let cert = section.section("signingCert");
        let signing_cert = if section.is_present() {
            let missing = |key: &str| {
                format!(
                    "required configuration value [edge.enrollment.signingCert.{key}] is missing"
                )
            };
            if cert.is_present() {
                SigningCert {
                    cert: cert.required_text("cert", &missing("cert")),
                    key: cert.required_text("key", &missing("key")),
                    ca: cert.text("ca").filter(|ca| !ca.is_empty()),
                }
            } else {
                section.problem("signingCert", missing("cert"));
                SigningCert::default()
            }
        } else {
            SigningCert::default()
        };
        let (identity, router) = (section.section("edgeIdentity"), section.section("edgeRouter"));
        let life = |key: &'static str, below: &Section<'_>| {
            if section.is_present() && !below.is_present() {
                let text =
                    format!("required configuration section [edge.enrollment.{key}] missing");
                section.problem(key, text);
            }
            at_least(below, "duration", 5 * MINUTE, 180 * MINUTE)
        };
        Self {
            signing_cert,
            identity_duration: life("edgeIdentity", &identity),
            router_duration: life("edgeRouter", &router),
            router_names: RouterNames::read(&router),
        }
    }
}

impl OidcTokens {
    fn read(section: &Section<'_>) -> Self {
        let low = |key: &'static str, low: Duration, default: Duration| {
            section.duration_clamped(key, default, low..=Duration::MAX)
        };
        let access = low("accessTokenDuration", MINUTE, 30 * MINUTE);
        let tokens = Self {
            announced: section.flag("announced", true),
            external_session: low("sessionMaxDuration", MINUTE, 24 * 60 * MINUTE),
            access,
            id: low("idTokenDuration", MINUTE, 30 * MINUTE),
            refresh: low("refreshTokenDuration", access + MINUTE, 24 * 60 * MINUTE),
            revocation_min_lifetime: section.duration("revocationMinTokenLifetime", Duration::ZERO),
            revocation_bucket_interval: low(
                "revocationBucketInterval",
                Duration::from_secs(1),
                MINUTE,
            ),
            revocation_bucket_max: section.int("revocationBucketMaxSize", 200, 1..=1_000_000),
            revocation_max_queued: section.int("revocationMaxQueued", 25_000, 1..=100_000_000),
            revocation_enforcer_frequency: low(
                "revocationEnforcerFrequency",
                Duration::from_secs(10),
                MINUTE,
            ),
        };
        if tokens.revocation_min_lifetime >= tokens.refresh / 2 {
            section.problem(
                "revocationMinTokenLifetime",
                "must be below half of refreshTokenDuration",
            );
        }
        tokens
    }
}

impl IdentityStatusConfig {
    fn read(section: &Section<'_>) -> Self {
        const SOURCES: [(&str, IdentityStatusSource); 3] = [
            ("heartbeats", IdentityStatusSource::Heartbeats),
            ("connect-events", IdentityStatusSource::ConnectEvents),
            ("hybrid", IdentityStatusSource::Hybrid),
        ];
        Self {
            scan_interval: section.duration_clamped(
                "scanInterval",
                MINUTE,
                Duration::from_secs(1)..=Duration::MAX,
            ),
            unknown_timeout: section.duration("unknownTimeout", 5 * MINUTE),
            source: section.choice("source", &SOURCES, IdentityStatusSource::Hybrid),
        }
    }
}

impl JwksFetch {
    fn read(section: &Section<'_>) -> Self {
        let timeout = section.duration("timeout", Duration::from_secs(5));
        if timeout.is_zero() {
            section.problem("timeout", "must be above 0");
        }
        Self {
            block_private_addresses: section.flag("blockPrivateAddresses", false),
            denied_ips: networks(section, "deniedIPs"),
            allowed_ips: networks(section, "allowedIPs"),
            denied_hostnames: host_patterns(section, "deniedHostnames"),
            allowed_hostnames: host_patterns(section, "allowedHostnames"),
            timeout,
            max_redirects: section.int("maxRedirects", 5, 0..=100),
            authorities: authorities(section),
        }
    }
}

/// Files of authorities by host.
fn authorities(section: &Section<'_>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (host, file) in section.section("authorities").named() {
        let name = host.trim_end_matches('.').to_lowercase();
        if !is_hostname(&name) && name.parse::<IpAddr>().is_err() {
            file.problem("the key must be a host name or an address, without port");
        } else if let Some(file) = file.text() {
            out.insert(name, file);
        }
    }
    out
}

fn networks(section: &Section<'_>, key: &'static str) -> Vec<Network> {
    let mut out = Vec::new();
    for text in section.texts(key) {
        match text.parse() {
            Ok(network) => out.push(network),
            Err(_) => section.problem(
                key,
                format!(
                    "invalid value {text:?} in [{}]: must be a CIDR (e.g. 10.0.0.0/8) or an IP \
                     address, hostnames are not supported",
                    section.path_of(key)
                ),
            ),
        }
    }
    out
}

fn host_patterns(section: &Section<'_>, key: &'static str) -> Vec<String> {
    let mut out = Vec::new();
    for text in section.texts(key) {
        let name = text.trim_end_matches('.').to_lowercase();
        if is_hostname(name.strip_prefix("*.").unwrap_or(&name)) {
            out.push(name);
        } else {
            let path = section.path_of(key);
            section.problem(
                key,
                format!("invalid value {text:?} in [{path}]: must be a host name or *.<suffix>"),
            );
        }
    }
    out
}

pub(super) fn is_hostname(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        })
}

/// A setting of weft only: a time limit for all sessions, beside the one for unused sessions.
fn session_lifetime(api: &Section<'_>) -> Option<Duration> {
    const KEY: &str = "sessionLifetime";
    let lifetime = api.has(KEY).then(|| api.duration(KEY, Duration::ZERO))?;
    if lifetime < MINUTE {
        api.problem(KEY, "must be at least 1m; without it sessions last as long as they are used");
    }
    Some(lifetime)
}

/// A duration with a lower bound; the default replaces a smaller one.
fn at_least(
    section: &Section<'_>,
    key: &'static str,
    low: Duration,
    default: Duration,
) -> Duration {
    let duration = section.duration(key, default);
    if duration >= low {
        return duration;
    }
    let show = crate::duration::show_duration;
    section.warn(key, format!("below {}, {} is used", show(low), show(default)));
    default
}
