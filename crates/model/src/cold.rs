//! Fields that only the store holds.

use crate::row::choice;

choice! {
    /// A field that only the store holds.
    pub enum ColdField {
        /// Certificates in PEM.
        CertPem = 0 "certPem",
        /// A signed ticket.
        Jwt = 1 "jwt",
        /// A client's report of its SDK.
        SdkInfo = 2 "sdkInfo",
        /// A client's report of its machine.
        EnvInfo = 3 "envInfo",
        /// Data for applications.
        AppData = 4 "appData",
        /// Data of a config.
        Data = 5 "data",
        /// Tags.
        Tags = 6 "tags",
    }
}

impl ColdField {
    /// Code in stored rows.
    pub const fn code(self) -> u16 {
        self as u16
    }
}
