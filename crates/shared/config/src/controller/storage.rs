//! The storage of the model: `db` or `cluster` (docs/protocol/config.md 4.1, 4.4).

use std::path::PathBuf;
use std::time::Duration;

use crate::rate_limiter::RateLimiter;
use crate::section::Section;

/// The storage of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Storage {
    /// `db`: in one file.
    Database(PathBuf),
    /// `cluster`: in a directory, shared with other controllers.
    Cluster(Box<ClusterConfig>),
}

/// A cluster of controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// Directory with the data.
    pub data_dir: PathBuf,
    /// True if this controller prefers to lead.
    pub preferred_leader: bool,
    /// True if the process restarts after receiving a snapshot.
    pub restart_self_on_snapshot: bool,
    /// Time limit for applying a change. Default 5s.
    pub apply_timeout: Duration,
    /// Time without a leader before an election. Default 5s.
    pub election_timeout: Duration,
    /// Time without a heartbeat of the leader before it counts as lost. Default 3s.
    pub heartbeat_timeout: Duration,
    /// Time without a majority after which a leader steps down. Default 3s.
    pub leader_lease_timeout: Duration,
    /// Longest wait before a commit is passed on; none = the engine's default.
    pub commit_timeout: Option<Duration>,
    /// The interval at which a snapshot is considered. Default 2m.
    pub snapshot_interval: Duration,
    /// Changes after which a snapshot is made. Default 500.
    pub snapshot_threshold: u64,
    /// Changes that are kept after a snapshot. Default 500.
    pub trailing_logs: u64,
    /// Most changes in one message; none = the engine's default.
    pub max_append_entries: Option<u32>,
    /// A warning is logged after this long without a leader. At least 10s, default 1m.
    pub warn_when_leaderless_for: Duration,
    /// Level of the engine's log; empty = that of the process.
    pub log_level: String,
    /// File for the engine's log.
    pub log_file: Option<PathBuf>,
    /// Most changes that wait to be applied. Default 250.
    pub command_queue: u32,
    /// Limit on changes under way.
    pub rate_limiter: RateLimiter,
    /// The dials to other controllers.
    pub dialer: ClusterDialer,
    /// How long an address without a member is remembered. Default 1m.
    pub non_member_grace: Duration,
}

/// The dials to other controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterDialer {
    /// Shortest wait between dials. Default 1s.
    pub min_retry_interval: Duration,
    /// Longest wait between dials. Default 1m.
    pub max_retry_interval: Duration,
    /// Factor from one wait to the next. Default 2.
    pub retry_backoff_factor: f64,
    /// A connection that closes within this time counts as failed. Default 30s.
    pub fast_failure_window: Duration,
    /// Time limit of a dial. Default 10s.
    pub dial_timeout: Duration,
    /// The interval at which members without a connection are looked for. Default 30s.
    pub scan_interval: Duration,
    /// The interval at which due dials are looked for. Default 5s.
    pub queue_check_interval: Duration,
}

impl Storage {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let cluster = root.section("cluster");
        if root.has("raft") && !cluster.is_present() {
            root.problem("raft", "the section `raft` is called `cluster` now");
            root.section("raft").allow_unknown();
        }
        let database = root.text("db").filter(|path| !path.is_empty());
        if cluster.is_present() {
            if database.is_some() {
                root.warn("db", "`cluster` is used and `db` ignored");
            }
            return Self::Cluster(Box::new(ClusterConfig::read(&cluster)));
        }
        if database.is_none() && !root.has("raft") {
            root.problem(
                "db",
                "controllerConfig must provide [db] or [cluster]: `db` names a file, `cluster.dataDir` a directory",
            );
        }
        Self::Database(database.unwrap_or_default().into())
    }
}

impl ClusterConfig {
    fn read(section: &Section<'_>) -> Self {
        section.ignore(&["advertiseAddress", "bindAddress", "initialMembers"]);
        let secs = Duration::from_secs;
        let warn_after = section.duration("warnWhenLeaderlessFor", secs(60));
        if warn_after < secs(10) {
            section.warn("warnWhenLeaderlessFor", "below 10s is ignored, 1m is used");
        }
        let level = section.text("logLevel").unwrap_or_default();
        if !["", "trace", "debug", "info", "warn", "error", "off"].contains(&level.as_str()) {
            section.problem("logLevel", format!("invalid value for raft.logLevel [{level}]"));
        }
        Self {
            data_dir: section
                .required_text("dataDir", "cluster dataDir configuration missing")
                .into(),
            preferred_leader: section.flag("preferredLeader", false),
            restart_self_on_snapshot: section.flag("restartSelfOnSnapshot", false),
            apply_timeout: section.duration("applyTimeout", secs(5)),
            election_timeout: section.duration("electionTimeout", secs(5)),
            heartbeat_timeout: section.duration("heartbeatTimeout", secs(3)),
            leader_lease_timeout: section.duration("leaderLeaseTimeout", secs(3)),
            commit_timeout: section.opt_duration("commitTimeout"),
            snapshot_interval: section.duration("snapshotInterval", secs(120)),
            snapshot_threshold: section.int("snapshotThreshold", 500, 1..=i64::MAX),
            trailing_logs: section.int("trailingLogs", 500, 0..=i64::MAX),
            max_append_entries: section
                .has("maxAppendEntries")
                .then(|| section.int("maxAppendEntries", 64, 1..=i64::from(u32::MAX))),
            warn_when_leaderless_for: if warn_after < secs(10) { secs(60) } else { warn_after },
            log_level: level,
            log_file: section.text("logFile").filter(|path| !path.is_empty()).map(PathBuf::from),
            command_queue: section.section("commandHandler").int(
                "maxQueueSize",
                250,
                1..=1_000_000,
            ),
            rate_limiter: RateLimiter::read(
                &section.section("rateLimiter"),
                &RateLimiter::with_sizes(5, 250),
                1,
                1_000_000,
            ),
            dialer: ClusterDialer::read(&section.section("dialer")),
            non_member_grace: section.duration("nonMemberGrace", secs(60)),
        }
    }
}

impl ClusterDialer {
    fn read(section: &Section<'_>) -> Self {
        let secs = Duration::from_secs;
        Self {
            min_retry_interval: section.duration("minRetryInterval", secs(1)),
            max_retry_interval: section.duration("maxRetryInterval", secs(60)),
            retry_backoff_factor: section.number("retryBackoffFactor", 2.0, 1.0..=100.0),
            fast_failure_window: section.duration("fastFailureWindow", secs(30)),
            dial_timeout: section.duration("dialTimeout", secs(10)),
            scan_interval: section.duration("scanInterval", secs(30)),
            queue_check_interval: section.duration("queueCheckInterval", secs(5)),
        }
    }
}
