//! Fields that only the store holds.

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::choice::Choice;

/// A field that only the store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase")]
#[repr(i32)]
pub enum ColdField {
    /// Certificates in PEM.
    CertPem = 0,
    /// A signed ticket.
    Jwt = 1,
    /// A client's report of its SDK.
    SdkInfo = 2,
    /// A client's report of its machine.
    EnvInfo = 3,
    /// Data for applications.
    AppData = 4,
    /// Data of a config.
    Data = 5,
    /// Tags.
    Tags = 6,
}

impl Choice for ColdField {}

impl ColdField {
    /// Code in stored rows.
    pub const fn code(self) -> u16 {
        self as u16
    }
}
