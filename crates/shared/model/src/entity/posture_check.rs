//! Posture checks: conditions on the device of an identity. [`crate::posture`] evaluates them.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Record};
use crate::choice::Choice;
use crate::role::Semantic;
use crate::row::row;

/// Type of a posture check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(i32)]
pub enum PostureCheckType {
    /// The operating system.
    Os = 0,
    /// One process.
    Process = 1,
    /// The Windows domain.
    Domain = 2,
    /// Hardware addresses.
    Mac = 3,
    /// The second factor.
    Mfa = 4,
    /// Several processes.
    ProcessMulti = 5,
}

impl Choice for PostureCheckType {}

row! {
    /// An operating system that passes.
    pub struct OsSpec {
        /// `Windows`, `Linux`, ...
        1 => pub os_type: String,
        /// Version ranges, one of which must match; empty: any version.
        2 => pub versions: Vec<String>,
    }
}

row! {
    /// A process that must run.
    pub struct ProcessSpec {
        /// `Windows`, `Linux`, ...
        1 => pub os_type: String,
        /// Path of the executable file.
        2 => pub path: String,
        /// SHA-512 of the executable file, one of which must match; empty: any file.
        3 => pub hashes: Vec<String>,
        /// Signers of the executable file, one of which must match; empty: any signer.
        4 => pub signer_fingerprints: Vec<String>,
    }
}

row! {
    /// Processes that must run.
    pub struct ProcessesCheck {
        /// Whether all or one of the processes must run.
        1 => pub semantic: Semantic,
        /// The processes; exactly one for the type `PROCESS`.
        2 => pub processes: Vec<ProcessSpec>,
    }
}

row! {
    /// A second factor that was given recently.
    pub struct MfaCheck {
        /// Seconds for which a code is valid; [`MfaCheck::NO_TIMEOUT`]: for ever.
        1 => pub timeout_seconds: i64,
        /// True if a new code is needed after the device woke.
        2 => pub prompt_on_wake: bool,
        /// True if a new code is needed after the device was unlocked.
        3 => pub prompt_on_unlock: bool,
        /// True if clients that cannot ask for codes pass.
        4 => pub ignore_legacy_endpoints: bool,
    }
}

impl MfaCheck {
    /// A code is valid for ever.
    pub const NO_TIMEOUT: i64 = -1;
}

row! {
    /// A posture check (docs/protocol/management-api.md 7.6). Only the fields of its type are set.
    pub struct PostureCheck {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Type of the check.
        3 => pub check_type: PostureCheckType,
        /// Role attributes, sorted, without repetitions.
        4 => pub role_attributes: Vec<Arc<str>>,
        /// Number of the check's version, from 1.
        5 => pub version: i64,
        /// `OS`: operating systems that pass.
        6 => pub operating_systems: Vec<OsSpec>,
        /// `DOMAIN`: Windows domains that pass.
        7 => pub domains: Vec<String>,
        /// `MAC`: hardware addresses that pass, as [`crate::posture::plain_hex`] writes them.
        8 => pub mac_addresses: Vec<String>,
        /// `PROCESS` and `PROCESS_MULTI`: processes that must run.
        9 => pub processes: ProcessesCheck,
        /// `MFA`: the time for which a code is valid, and the events that need a new one.
        10 => pub mfa: MfaCheck,
    }
}

impl Record for PostureCheck {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn attributes(&self) -> Option<&[Arc<str>]> {
        Some(&self.role_attributes)
    }

    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        Some(&mut self.role_attributes)
    }
}
