//! The settings of an endpoint.

use std::sync::Arc;
use std::time::Duration;

use weft_client::{
    About, Codes, Credentials, DevicePrompt, ExternalTokens, LoginProtocol, ProviderLogin,
    SecondTokens,
};
use weft_contract::resource::client::{EnvInfo, SdkInfo};
use weft_identity::IdentityFile;
use weft_spans::Spans;
use weft_xgress::Options;

/// How the identity logs in.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoginSettings {
    /// Codes of the second factor.
    pub(crate) codes: Option<Codes>,
    pub(crate) protocol: LoginProtocol,
    /// None for those of the identity file.
    pub(crate) credentials: Option<Credentials>,
    /// Tokens of external signers as second factor.
    pub(crate) second_tokens: SecondTokens,
    /// Shows a person where to log in.
    pub(crate) show: Option<Show>,
}

/// Shows a person where to log in at the identity provider.
#[derive(Clone)]
pub(crate) struct Show(pub(crate) Arc<ShowPrompt>);

pub(crate) type ShowPrompt = dyn Fn(DevicePrompt) -> Result<(), String> + Send + Sync;

impl std::fmt::Debug for Show {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Show(..)")
    }
}

impl LoginSettings {
    /// The credentials of the identity of a file.
    pub(crate) fn credentials(&self, file: &IdentityFile) -> crate::Result<Credentials> {
        if let Some(credentials) = &self.credentials {
            return Ok(credentials.clone());
        }
        if file.has_certificate() {
            return Ok(Credentials::Certificate);
        }
        match self.tokens_of(file) {
            Some(tokens) => Ok(Credentials::ExternalTokens(tokens)),
            None => Err(crate::Error::of_login(no_credentials())),
        }
    }

    /// The tokens that the file of an identity names, or a person gets.
    fn tokens_of(&self, file: &IdentityFile) -> Option<ExternalTokens> {
        let login = file.external_login.clone().unwrap_or_default();
        if let Some(path) = login.token_file {
            return Some(ExternalTokens::of_file(path));
        }
        let Show(show) = self.show.clone()?;
        let person = ProviderLogin::new(move |prompt| show(prompt));
        Some(ExternalTokens::of_provider(person.at_signer(login.signer)))
    }

    /// The tokens that are given as second factor: those of the application, of the file of an identity that logs in with
    /// something else, and of a person.
    pub(crate) fn second_tokens(&self, file: &IdentityFile) -> SecondTokens {
        let tokens = self.second_tokens.clone();
        let is_first = self.credentials.is_none() && !file.has_certificate();
        let nothing = IdentityFile::default();
        match self.tokens_of(if is_first { &nothing } else { file }) {
            Some(others) => tokens.or(others),
            None => tokens,
        }
    }
}

fn no_credentials() -> weft_client::Error {
    let reason = "the identity file has no certificate, and this program neither brings tokens (`external_tokens`) nor shows a \
                  person where to log in (`provider_login`)";
    weft_client::Error::NoToken { reason: reason.to_owned(), may_pass: false }
}

/// The settings of an endpoint.
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
    pub(crate) login: LoginSettings,
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
            login: LoginSettings::default(),
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
