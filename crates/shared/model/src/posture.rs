//! Posture: what a client reports of its device, and whether a posture check passes.
//!
//! A [`Check`] borrows its lists, so that the same code evaluates the controller's entities and a
//! router's copy of the data model without copying. `now` is an argument; a check that passes names
//! the time until which it passes.

mod version;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::entity::{PostureCheck, PostureCheckType};
use crate::{Semantic, Timestamp};

/// Time for a client to give a new code after the device woke or was unlocked: 5 minutes
/// (docs/protocol/edge-control-plane.md 12.3).
pub const GRACE: Duration = Duration::from_secs(300);

/// The operating system that a client reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsReport {
    /// `Windows`, `Linux`, ...
    pub os_type: String,
    /// The version.
    pub version: String,
    /// The build.
    pub build: String,
}

/// A process that a client reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessReport {
    /// True if the process runs.
    pub is_running: bool,
    /// SHA-512 of the executable file.
    pub hash: String,
    /// Signers of the executable file.
    pub signer_fingerprints: Vec<String>,
}

/// The posture of an API session: what its client reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostureData {
    /// Hardware addresses.
    pub mac_addresses: Vec<String>,
    /// The operating system.
    pub os: Option<OsReport>,
    /// The Windows domain.
    pub domain: Option<String>,
    /// Processes by the path of the executable file.
    pub processes: BTreeMap<String, ProcessReport>,
    woken_at: Option<Timestamp>,
    unlocked_at: Option<Timestamp>,
    mfa_passed_at: Option<Timestamp>,
}

impl PostureData {
    /// Notes that the device woke. Times only move forward.
    pub fn woken(&mut self, at: Timestamp) {
        self.woken_at = self.woken_at.max(Some(at));
    }

    /// Notes that the device was unlocked. Times only move forward.
    pub fn unlocked(&mut self, at: Timestamp) {
        self.unlocked_at = self.unlocked_at.max(Some(at));
    }

    /// Notes that a code was given. Times only move forward.
    pub fn mfa_passed(&mut self, at: Timestamp) {
        self.mfa_passed_at = self.mfa_passed_at.max(Some(at));
    }

    /// Time at which a code was last given.
    pub fn mfa_passed_at(&self) -> Option<Timestamp> {
        self.mfa_passed_at
    }

    /// Time at which the device last woke.
    pub fn woken_at(&self) -> Option<Timestamp> {
        self.woken_at
    }

    /// Time at which the device was last unlocked.
    pub fn unlocked_at(&self) -> Option<Timestamp> {
        self.unlocked_at
    }
}

/// An operating system that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsRule<'a> {
    /// `Windows`, `Linux`, ...
    pub os_type: &'a str,
    /// Version ranges, one of which must match; empty: any version.
    pub versions: &'a [String],
}

/// A process that must run. A check's operating system only tells clients which process to look
/// for; the evaluation ignores which system was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessRule<'a> {
    /// Path of the executable file.
    pub path: &'a str,
    /// Hashes, one of which must match; empty: any file.
    pub hashes: &'a [String],
    /// Signers, one of which must match; empty: any signer.
    pub signer_fingerprints: &'a [String],
}

/// A posture check, ready to be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check<'a> {
    /// One of these hardware addresses is present.
    Mac(&'a [String]),
    /// The Windows domain is one of these.
    Domain(&'a [String]),
    /// The operating system is one of these; of two with the same type the last applies.
    Os(Vec<OsRule<'a>>),
    /// All or one of these processes run.
    Processes(Semantic, Vec<ProcessRule<'a>>),
    /// A second factor was given recently.
    Mfa {
        /// Time for which a code is valid; `None`: for ever.
        timeout: Option<Duration>,
        /// True if a new code is needed after the device woke.
        prompt_on_wake: bool,
        /// True if a new code is needed after the device was unlocked.
        prompt_on_unlock: bool,
    },
}

/// Why a check failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckFailure {
    /// The client has not reported anything.
    #[error("no posture data was given")]
    NoData,
    /// The check does not exist here.
    #[error("the check does not exist")]
    Missing,
    /// No reported hardware address is listed.
    #[error("no hardware address of the device is listed")]
    Mac,
    /// The reported domain is not listed.
    #[error("the domain of the device is not listed")]
    Domain,
    /// The reported operating system is not listed.
    #[error("the operating system of the device is not listed")]
    Os,
    /// The version of the operating system is in no range.
    #[error("the version of the operating system is not allowed")]
    OsVersion,
    /// A required process does not run, or is another file.
    #[error("a required process is not running, or is another file")]
    Process,
    /// No code was given.
    #[error("no second factor was given")]
    MfaNotPassed,
    /// The last code is too old.
    #[error("the second factor has timed out")]
    MfaTimedOut,
    /// No code was given since the device woke or was unlocked.
    #[error("no second factor was given since the device woke or was unlocked")]
    MfaPrompted,
}

impl CheckFailure {
    /// Whether it is a matter of the device, and not of a code that its user gives.
    pub fn is_of_device(&self) -> bool {
        !matches!(self, Self::MfaNotPassed | Self::MfaTimedOut | Self::MfaPrompted)
    }
}

impl<'a> Check<'a> {
    /// Evaluates the check. If it passes, the value is the time until which it passes without a new
    /// report; `None`: for ever.
    pub fn evaluate(
        &self,
        data: &PostureData,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, CheckFailure> {
        let holds = |passes: bool, failure| if passes { Ok(None) } else { Err(failure) };
        match self {
            Self::Mac(listed) => {
                let listed: Vec<_> = listed.iter().map(|mac| plain_hex(mac)).collect();
                let mut reported = data.mac_addresses.iter().map(|mac| plain_hex(mac));
                holds(
                    reported.any(|mac| !mac.is_empty() && listed.contains(&mac)),
                    CheckFailure::Mac,
                )
            }
            Self::Domain(listed) => {
                let domain = data.domain.as_deref().filter(|domain| !domain.is_empty());
                let is_listed =
                    |domain: &str| listed.iter().any(|one| one.eq_ignore_ascii_case(domain));
                holds(domain.is_some_and(is_listed), CheckFailure::Domain)
            }
            Self::Os(rules) => evaluate_os(rules, data.os.as_ref()).map(|()| None),
            Self::Processes(semantic, rules) => {
                let mut passes = rules.iter().map(|rule| rule.passes(data));
                let all = match semantic {
                    Semantic::AllOf => passes.all(|passes| passes),
                    Semantic::AnyOf => passes.any(|passes| passes),
                };
                holds(all, CheckFailure::Process)
            }
            Self::Mfa { timeout, prompt_on_wake, prompt_on_unlock } => {
                let passed = data.mfa_passed_at.ok_or(CheckFailure::MfaNotPassed)?;
                let prompted = |wanted: &bool, at: Option<Timestamp>| {
                    at.filter(|at| *wanted && *at > passed).map(|at| at.plus(GRACE))
                };
                let times_out = timeout.map(|timeout| passed.plus(timeout));
                let woken = prompted(prompt_on_wake, data.woken_at);
                let unlocked = prompted(prompt_on_unlock, data.unlocked_at);
                if times_out.is_some_and(|at| now > at) {
                    return Err(CheckFailure::MfaTimedOut);
                }
                if woken.into_iter().chain(unlocked).any(|at| now > at) {
                    return Err(CheckFailure::MfaPrompted);
                }
                Ok([times_out, woken, unlocked].into_iter().flatten().min())
            }
        }
    }
}

fn evaluate_os(rules: &[OsRule<'_>], os: Option<&OsReport>) -> Result<(), CheckFailure> {
    let os = os.ok_or(CheckFailure::Os)?;
    let mut rules = rules.iter().rev();
    let rule = rules.find(|rule| rule.os_type.eq_ignore_ascii_case(&os.os_type));
    let versions = rule.ok_or(CheckFailure::Os)?.versions;
    let in_range = |range: &String| version::is_in_range(&os.version, range);
    if versions.is_empty() || versions.iter().any(in_range) {
        return Ok(());
    }
    Err(CheckFailure::OsVersion)
}

impl ProcessRule<'_> {
    fn passes(&self, data: &PostureData) -> bool {
        let Some(process) = data.processes.get(self.path) else { return false };
        process.is_running
            && one_of(self.hashes, std::slice::from_ref(&process.hash))
            && one_of(self.signer_fingerprints, &process.signer_fingerprints)
    }
}

/// True if one of the found fingerprints is wanted. Empty texts are ignored, because other
/// controllers send one for a missing signer.
fn one_of(wanted: &[String], found: &[String]) -> bool {
    let mut wanted = wanted.iter().filter(|text| !text.is_empty()).peekable();
    let is_found = |wanted: &String| {
        let wanted = plain_hex(wanted);
        !wanted.is_empty() && found.iter().any(|found| plain_hex(found) == wanted)
    };
    wanted.peek().is_none() || wanted.any(is_found)
}

/// The hexadecimal digits of a text in lower case: one spelling for hardware addresses, hashes and
/// fingerprints, which are written with all kinds of separators.
pub fn plain_hex(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect()
}

/// True if the text is a version range that checks of operating systems can read.
pub fn is_version_range(text: &str) -> bool {
    version::is_range(text)
}

impl PostureCheck {
    /// Time for which a code is valid; `None`, for 0 and negative numbers, means for ever
    /// (docs/protocol/management-api.md 7.6).
    pub fn mfa_timeout(&self) -> Option<Duration> {
        u64::try_from(self.mfa.timeout_seconds)
            .ok()
            .filter(|secs| *secs > 0)
            .map(Duration::from_secs)
    }

    /// The check for evaluation.
    pub fn check(&self) -> Check<'_> {
        match self.check_type {
            PostureCheckType::Mac => Check::Mac(&self.mac_addresses),
            PostureCheckType::Domain => Check::Domain(&self.domains),
            PostureCheckType::Os => {
                let rules = self.operating_systems.iter();
                Check::Os(
                    rules
                        .map(|os| OsRule { os_type: &os.os_type, versions: &os.versions })
                        .collect(),
                )
            }
            PostureCheckType::Process | PostureCheckType::ProcessMulti => {
                let semantic = match self.check_type {
                    PostureCheckType::Process => Semantic::AllOf,
                    _ => self.processes.semantic,
                };
                let rules = self.processes.processes.iter().map(|process| ProcessRule {
                    path: &process.path,
                    hashes: &process.hashes,
                    signer_fingerprints: &process.signer_fingerprints,
                });
                Check::Processes(semantic, rules.collect())
            }
            PostureCheckType::Mfa => Check::Mfa {
                timeout: self.mfa_timeout(),
                prompt_on_wake: self.mfa.prompt_on_wake,
                prompt_on_unlock: self.mfa.prompt_on_unlock,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mfa(timeout: Option<u64>, wake: bool) -> Check<'static> {
        let timeout = timeout.map(Duration::from_secs);
        Check::Mfa { timeout, prompt_on_wake: wake, prompt_on_unlock: false }
    }

    /// GHSA-354c-gpg9-j988: a device that never said that it woke or was unlocked crashed whoever judged it.
    #[test]
    fn ghsa_354c_gpg9_j988_a_missing_time_of_a_wake_or_unlock_means_that_none_happened() {
        let times =
            [None, Some(Timestamp(i64::MIN)), Some(Timestamp(0)), Some(Timestamp(i64::MAX))];
        let timeouts = [None, Some(Duration::ZERO), Some(Duration::MAX)];
        for (wake, unlock) in [(false, false), (true, false), (false, true), (true, true)] {
            for timeout in timeouts {
                let check = Check::Mfa { timeout, prompt_on_wake: wake, prompt_on_unlock: unlock };
                for (passed, woken) in times.iter().flat_map(|it| times.map(|other| (*it, other))) {
                    for (unlocked, now) in
                        times.iter().flat_map(|it| times.map(|other| (*it, other)))
                    {
                        let data = PostureData {
                            mfa_passed_at: passed,
                            woken_at: woken,
                            unlocked_at: unlocked,
                            ..PostureData::default()
                        };
                        let judged = check.evaluate(&data, now.unwrap_or(Timestamp(1)));
                        assert_eq!(judged == Err(CheckFailure::MfaNotPassed), passed.is_none());
                    }
                }
                let data =
                    PostureData { mfa_passed_at: Some(Timestamp(5)), ..PostureData::default() };
                assert!(check.evaluate(&data, Timestamp(5)).is_ok(), "{check:?}");
            }
        }
    }

    #[test]
    fn second_factors_follow_the_table_of_the_protocol() {
        let t0 = Timestamp::from_secs(1_000_000);
        let at = |secs: u64| t0.plus(Duration::from_secs(secs));
        let mut data = PostureData::default();
        assert_eq!(mfa(None, false).evaluate(&data, t0), Err(CheckFailure::MfaNotPassed));
        data.mfa_passed(t0);
        assert_eq!(mfa(None, false).evaluate(&data, at(1 << 40)), Ok(None));
        assert_eq!(mfa(Some(60), false).evaluate(&data, at(60)), Ok(Some(at(60))));
        let late = mfa(Some(60), false).evaluate(&data, at(61));
        assert_eq!(late, Err(CheckFailure::MfaTimedOut));

        data.woken(Timestamp(t0.0 - 1000));
        assert_eq!(mfa(None, true).evaluate(&data, at(9999)), Ok(None));
        data.woken(at(10));
        data.woken(at(5));
        assert_eq!(mfa(None, true).evaluate(&data, at(310)), Ok(Some(at(310))));
        assert_eq!(mfa(None, true).evaluate(&data, at(311)), Err(CheckFailure::MfaPrompted));
        assert_eq!(mfa(None, false).evaluate(&data, at(311)), Ok(None));
        data.mfa_passed(at(200));
        assert_eq!(mfa(None, true).evaluate(&data, at(9999)), Ok(None));
    }

    #[test]
    fn addresses_and_domains_are_compared_without_case_and_separators() {
        let macs = ["AA-BB-CC-00-11-22".to_owned()];
        let domains = ["Corp.Example".to_owned()];
        let mut data = PostureData::default();
        let now = Timestamp(0);
        assert_eq!(Check::Mac(&macs).evaluate(&data, now), Err(CheckFailure::Mac));
        assert_eq!(Check::Domain(&domains).evaluate(&data, now), Err(CheckFailure::Domain));
        data.mac_addresses = vec!["".into(), "aa:bb:cc:00:11:22".into()];
        data.domain = Some("corp.example".into());
        assert_eq!(Check::Mac(&macs).evaluate(&data, now), Ok(None));
        assert_eq!(Check::Domain(&domains).evaluate(&data, now), Ok(None));
        assert!(Check::Mac(&[String::new()]).evaluate(&data, now).is_err());
    }

    #[test]
    fn systems_need_a_listed_type_and_version() {
        let ranges = [">=10.0.0 <11.0.0".to_owned(), "12.x".to_owned()];
        let rule = |os_type, versions| OsRule { os_type, versions };
        let check =
            Check::Os(vec![rule("Windows", &[]), rule("Linux", &[]), rule("windows", &ranges)]);
        let evaluate = |os_type: &str, version: &str| {
            let os =
                OsReport { os_type: os_type.into(), version: version.into(), ..Default::default() };
            let data = PostureData { os: Some(os), ..PostureData::default() };
            check.evaluate(&data, Timestamp(0))
        };
        assert_eq!(evaluate("WINDOWS", "10.0.19041"), Ok(None));
        assert_eq!(evaluate("Windows", "12.9.1"), Ok(None));
        assert_eq!(evaluate("Windows", "11.0.0"), Err(CheckFailure::OsVersion));
        assert_eq!(evaluate("Windows", "ten"), Err(CheckFailure::OsVersion));
        assert_eq!(evaluate("Linux", ""), Ok(None));
        assert_eq!(evaluate("macOS", "13.0.0"), Err(CheckFailure::Os));
    }

    #[test]
    fn processes_need_path_hash_and_signer() {
        let hashes = ["A-B".to_owned()];
        let no_signer = [String::new()];
        let rule = |path| ProcessRule { path, hashes: &hashes, signer_fingerprints: &no_signer };
        let mut data = PostureData::default();
        let running =
            ProcessReport { is_running: true, hash: "ab".into(), ..ProcessReport::default() };
        data.processes.insert("/a".into(), running.clone());
        // Whichever operating system was reported, or none.
        for os_type in [None, Some("Linux"), Some("Windows")] {
            data.os = os_type.map(|os| OsReport { os_type: os.into(), ..OsReport::default() });
            let evaluate =
                |semantic, rules| Check::Processes(semantic, rules).evaluate(&data, Timestamp(0));
            assert!(evaluate(Semantic::AllOf, vec![rule("/a")]).is_ok());
            assert!(evaluate(Semantic::AllOf, vec![rule("/a"), rule("/b")]).is_err());
            assert!(evaluate(Semantic::AnyOf, vec![rule("/b"), rule("/a")]).is_ok());
        }
        let other = ["ac".to_owned(), "no hash".to_owned()];
        let check =
            Check::Processes(Semantic::AllOf, vec![ProcessRule { hashes: &other, ..rule("/a") }]);
        assert!(check.evaluate(&data, Timestamp(0)).is_err());
        data.processes.insert("/a".into(), ProcessReport { is_running: false, ..running });
        let check = Check::Processes(Semantic::AllOf, vec![rule("/a")]);
        assert!(check.evaluate(&data, Timestamp(0)).is_err());
    }
}
