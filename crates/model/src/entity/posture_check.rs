//! Posture checks: conditions on the device of an identity. How they are evaluated is the subject
//! of [`crate::posture`].

use std::sync::Arc;

use super::{Base, Record, named, record};
use crate::{
    role::Semantic,
    row::{choice, row},
};

choice! {
    /// What a posture check looks at.
    pub enum PostureCheckType {
        /// The operating system.
        Os = 0 "OS",
        /// One process.
        Process = 1 "PROCESS",
        /// The Windows domain.
        Domain = 2 "DOMAIN",
        /// Hardware addresses.
        Mac = 3 "MAC",
        /// The second factor.
        Mfa = 4 "MFA",
        /// Several processes.
        ProcessMulti = 5 "PROCESS_MULTI",
    }
}

row! {
    /// An operating system that passes.
    pub struct OsSpec {
        /// `Windows`, `Linux`, ...
        1 => pub os_type: String,
        /// Version ranges, one of which must hold; none means every version.
        2 => pub versions: Vec<String>,
    }
}

row! {
    /// A process that must run.
    pub struct ProcessSpec {
        /// `Windows`, `Linux`, ...
        1 => pub os_type: String,
        /// Its path.
        2 => pub path: String,
        /// SHA-512 of its file, one of which must hold; none means every file.
        3 => pub hashes: Vec<String>,
        /// Signers of its file, one of which must hold; none means every signer.
        4 => pub signer_fingerprints: Vec<String>,
    }
}

row! {
    /// Processes that must run.
    pub struct ProcessesCheck {
        /// Whether all or one of them must.
        1 => pub semantic: Semantic,
        /// The processes; exactly one for the type `PROCESS`.
        2 => pub processes: Vec<ProcessSpec>,
    }
}

row! {
    /// A second factor given recently.
    pub struct MfaCheck {
        /// For how long a code lasts; [`MfaCheck::NO_TIMEOUT`] means for ever.
        1 => pub timeout_seconds: i64,
        /// Whether a code is needed after the device woke.
        2 => pub prompt_on_wake: bool,
        /// Whether a code is needed after the device was unlocked.
        3 => pub prompt_on_unlock: bool,
        /// Whether clients that cannot ask for codes are let through.
        4 => pub ignore_legacy_endpoints: bool,
    }
}

impl MfaCheck {
    /// A code lasts for ever.
    pub const NO_TIMEOUT: i64 = -1;
}

row! {
    /// A posture check (protocol: management-api 7.6). Only the part of its type is set.
    pub struct PostureCheck {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// What it looks at.
        3 => pub check_type: PostureCheckType,
        /// Sorted and unique.
        4 => pub role_attributes: Vec<Arc<str>>,
        /// How often it was changed, from 1.
        5 => pub version: i64,
        /// `OS`: systems that pass.
        6 => pub operating_systems: Vec<OsSpec>,
        /// `DOMAIN`: domains that pass.
        7 => pub domains: Vec<String>,
        /// `MAC`: addresses that pass, as [`crate::posture::plain_hex`] writes them.
        8 => pub mac_addresses: Vec<String>,
        /// `PROCESS` and `PROCESS_MULTI`: processes that must run.
        9 => pub processes: ProcessesCheck,
        /// `MFA`: how recent the code must be.
        10 => pub mfa: MfaCheck,
    }
}

impl Record for PostureCheck {
    record!(PostureCheck);
    named!();

    fn attributes(&self) -> Option<&[Arc<str>]> {
        Some(&self.role_attributes)
    }

    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        Some(&mut self.role_attributes)
    }
}
