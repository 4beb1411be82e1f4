//! Where the model is: `db`, and `cluster` if several controllers share it.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::HostPort;
use crate::section::Section;

/// Keys of a cluster of the original, which this one does not need.
const OF_THE_ORIGINAL: [&str; 21] = [
    "dataDir",
    "advertiseAddress",
    "bindAddress",
    "initialMembers",
    "preferredLeader",
    "restartSelfOnSnapshot",
    "applyTimeout",
    "electionTimeout",
    "heartbeatTimeout",
    "leaderLeaseTimeout",
    "commitTimeout",
    "snapshotInterval",
    "snapshotThreshold",
    "trailingLogs",
    "maxAppendEntries",
    "warnWhenLeaderlessFor",
    "logLevel",
    "logFile",
    "commandHandler",
    "rateLimiter",
    "dialer",
];
/// What to write in their place.
const INSTEAD: &str = "controllers of weft share a model in etcd: name a file for this controller's copy with `db`, the \
                       members of etcd with `cluster.etcd`, and the network's key with `cluster.key` (docs/cluster.md)";

/// The time for which a controller may know less than others have written.
const STALE_FOR: Duration = Duration::from_secs(60);
const STALE_FOR_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(10)..=Duration::from_secs(3600);

/// Where the model is.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// `db`: the file of this controller.
    pub database: PathBuf,
    /// `cluster`: what it shares with others; none if it is alone.
    pub cluster: Option<ClusterConfig>,
}

/// What several controllers share.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// `etcd`: the members of etcd.
    pub members: Vec<HostPort>,
    /// Whether they are reached with TLS, by the scheme of their URLs.
    pub has_tls: bool,
    /// What the keys in etcd begin with. Default `/weft/`.
    pub prefix: String,
    /// The file with the key of the network, with which everything in etcd is sealed. It is the same at all controllers.
    pub key: PathBuf,
    /// The file with the authorities of etcd's certificates. Default: those of the system.
    pub authorities: Option<PathBuf>,
    /// The files with the certificate and the key that this controller shows etcd.
    pub client: Option<(PathBuf, PathBuf)>,
    /// User and password at etcd.
    pub login: Option<EtcdLogin>,
    /// The files with the certificate and the key of the network's root, with which this controller lets further ones
    /// in.
    pub root: Option<(PathBuf, PathBuf)>,
    /// `staleFor`: how long this controller may know less than others have written before it refuses logins and routers.
    /// Default 60 s, from 10 s to 1 h.
    pub stale_for: Duration,
}

/// User and password at etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdLogin {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for EtcdLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Storage {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let cluster = root.section("cluster");
        if root.has("raft") {
            root.problem("raft", INSTEAD);
            root.section("raft").allow_unknown();
        }
        let database = root.text("db").filter(|path| !path.is_empty());
        let is_of_the_original = cluster.has("dataDir");
        if database.is_none() && !root.has("raft") && !is_of_the_original {
            root.problem("db", "[db] is required: it names the file of this controller");
        }
        let cluster = cluster.is_present().then(|| ClusterConfig::read(&cluster));
        Self { database: database.unwrap_or_default().into(), cluster }
    }
}

impl ClusterConfig {
    fn read(section: &Section<'_>) -> Self {
        section.ignore(&OF_THE_ORIGINAL);
        if section.has("dataDir") {
            section.problem("dataDir", INSTEAD);
        }
        let (members, has_tls) = members(section);
        let file = |key| section.text(key).filter(|path| !path.is_empty()).map(PathBuf::from);
        let both = |one, other, missing: &str| match (file(one), file(other)) {
            (Some(one), Some(other)) => Some((one, other)),
            (None, None) => None,
            (Some(_), None) => {
                section.problem(one, missing);
                None
            }
            (None, Some(_)) => {
                section.problem(other, missing);
                None
            }
        };
        let client = both("clientCert", "clientKey", "clientCert and clientKey belong together");
        let root = both("rootCert", "rootKey", "rootCert and rootKey belong together");
        let (user, password) = (section.text("username"), section.text("password"));
        let login = user.zip(password).map(|(user, password)| EtcdLogin { user, password });
        if login.is_none() && (section.has("username") || section.has("password")) {
            section.problem("username", "username and password belong together");
        }
        let authorities = file("ca");
        if !has_tls && (authorities.is_some() || client.is_some()) {
            section.problem(
                "etcd",
                "its members have http:// addresses, and certificates are named: write https://",
            );
        }
        let prefix = section.text("prefix").unwrap_or_else(|| "/weft/".to_owned());
        if !prefix.ends_with('/') || prefix.len() > 256 {
            section.problem("prefix", "must end with / and have 256 bytes at most");
        }
        let key = match section.has("dataDir") {
            true => String::new(),
            false => section.required_text(
                "key",
                "name the file with the key of the network, such as /etc/weft/network.key",
            ),
        };
        let stale_for = section.duration_in("staleFor", STALE_FOR, STALE_FOR_RANGE);
        let key = key.into();
        Self { members, has_tls, prefix, key, authorities, client, login, root, stale_for }
    }
}

/// The members of etcd, and whether they have TLS.
fn members(section: &Section<'_>) -> (Vec<HostPort>, bool) {
    let mut members = Vec::new();
    let mut schemes = Vec::new();
    for url in section.texts("etcd") {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
        let member = rest.trim_end_matches('/').parse::<HostPort>();
        match (scheme, member) {
            ("http" | "https", Ok(member)) => {
                members.push(member);
                schemes.push(scheme == "https");
            }
            _ => section.problem(
                "etcd",
                format!("{url} is no URL of etcd, such as https://etcd1.example:2379"),
            ),
        }
    }
    let has_tls = schemes.iter().any(|has_tls| *has_tls);
    if has_tls && schemes.iter().any(|has_tls| !has_tls) {
        section.problem("etcd", "some addresses have https:// and some http://: use one of them");
    }
    if members.is_empty() && !section.has("etcd") && !section.has("dataDir") {
        section.problem("etcd", "name the members of etcd, such as [https://etcd1.example:2379]");
    }
    (members, has_tls)
}
