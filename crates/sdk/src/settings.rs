//! The settings of a context.

use std::time::Duration;
use weft_client::{About, Codes};
use weft_contract::resource::client::{EnvInfo, SdkInfo};
use weft_identity::IdentityFile;
use weft_spans::Spans;
use weft_xgress::Options;

/// The settings of a context.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) dial_timeout: Duration,
    pub(crate) bind_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) refresh_interval: Duration,
    pub(crate) memory_limit: u64,
    pub(crate) config_types: Vec<String>,
    pub(crate) app_id: String,
    pub(crate) app_version: String,
    pub(crate) options: Options,
    pub(crate) own_flow_control: bool,
    pub(crate) proves_end: bool,
    pub(crate) codes: Option<Codes>,
    pub(crate) renews_certificate: bool,
    pub(crate) spans: Spans,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dial_timeout: Duration::from_secs(15),
            bind_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            refresh_interval: Duration::from_secs(60),
            memory_limit: 512 << 20,
            config_types: Vec::new(),
            app_id: String::new(),
            app_version: String::new(),
            options: Options::default(),
            own_flow_control: true,
            proves_end: true,
            codes: None,
            renews_certificate: true,
            spans: Spans::off(),
        }
    }
}

impl Settings {
    /// The description of this program and of the machine, which the login sends to the controller, with the
    /// public key that proves this program to other ends, if it has one.
    pub(crate) fn about(&self, file: &IdentityFile, end_key: Option<String>) -> About {
        let config_types = match self.config_types.is_empty() {
            true => file.config_types.clone(),
            false => self.config_types.clone(),
        };
        About {
            end_key,
            sdk: SdkInfo {
                app_id: self.app_id.clone(),
                app_version: self.app_version.clone(),
                r#type: "weft-sdk-rust".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..SdkInfo::default()
            },
            env: EnvInfo {
                arch: std::env::consts::ARCH.to_owned(),
                os: std::env::consts::OS.to_owned(),
                ..EnvInfo::default()
            },
            config_types,
        }
    }
}
