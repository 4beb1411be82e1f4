//! How a context behaves.

use crate::context::Context;
use crate::error::Result;
use std::path::Path;
use std::time::Duration;
use weft_client::About;
use weft_contract::resource::identity::{EnvInfo, SdkInfo};
use weft_identity::IdentityFile;
use weft_spans::Spans;
use weft_xgress::Options;

/// Makes a [`Context`] that differs from the usual one.
#[derive(Debug, Clone)]
pub struct ContextBuilder {
    pub(crate) settings: Settings,
}

/// The figures of a context.
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
    pub(crate) spans: Spans,
}

impl Default for ContextBuilder {
    fn default() -> Self {
        Self {
            settings: Settings {
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
                spans: Spans::off(),
            },
        }
    }
}

impl ContextBuilder {
    /// The usual context: 15 s for a dial, 30 s for a bind, services looked at every minute, at
    /// most 512 MiB of buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The most time a dial takes, if it does not say.
    #[must_use]
    pub fn dial_timeout(mut self, limit: Duration) -> Self {
        self.settings.dial_timeout = limit;
        self
    }

    /// The most time until the first router has taken a bind, if it does not say.
    #[must_use]
    pub fn bind_timeout(mut self, limit: Duration) -> Self {
        self.settings.bind_timeout = limit;
        self
    }

    /// The most time for connecting to a router.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// How often the controller is asked whether services changed. At least every 5 minutes, so
    /// that the session stays alive.
    #[must_use]
    pub fn refresh_interval(mut self, interval: Duration) -> Self {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(300));
        self.settings.refresh_interval = interval.clamp(least, most);
        self
    }

    /// What all connections together may buffer. Each can always hold its next payload, so less
    /// memory makes them slow, never stuck.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.settings.memory_limit = bytes;
        self
    }

    /// Config types whose configs are wanted with the services, `all` for every type; instead of
    /// those that the identity file names.
    #[must_use]
    pub fn config_types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.settings.config_types = types.into_iter().map(Into::into).collect();
        self
    }

    /// What the application is called in the network.
    #[must_use]
    pub fn application(mut self, id: impl Into<String>, version: impl Into<String>) -> Self {
        self.settings.app_id = id.into();
        self.settings.app_version = version.into();
        self
    }

    /// Leaves the flow control of connections to the routers, as older SDKs do. For tests: a slow
    /// reader then holds up everything that shares its router.
    #[must_use]
    pub fn router_flow_control(mut self) -> Self {
        self.settings.own_flow_control = false;
        self
    }

    /// Has spans of dials made by this tracer provider, and has routers and controllers told to
    /// which trace a dial belongs: `sdk.dial` of who dials, in the current context of
    /// OpenTelemetry, and `host.accept` of who hosts. Without this nothing is recorded and nobody
    /// is told anything.
    ///
    /// ```
    /// let builder =
    ///     weft_sdk::Context::builder().tracer_provider(&opentelemetry::global::tracer_provider());
    /// # drop(builder);
    /// ```
    #[cfg(feature = "opentelemetry")]
    #[must_use]
    pub fn tracer_provider<P>(mut self, provider: &P) -> Self
    where
        P: opentelemetry::trace::TracerProvider,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as opentelemetry::trace::Tracer>::Span: Send + Sync + 'static,
    {
        self.settings.spans = Spans::of(provider, env!("CARGO_PKG_NAME"));
        self
    }

    /// A context of the identity in this file, logged in.
    ///
    /// # Errors
    /// When the file cannot be read, or no controller lets the identity in.
    pub async fn load(self, path: impl AsRef<Path>) -> Result<Context> {
        self.build(IdentityFile::read(path.as_ref())?).await
    }

    /// A context of this identity, logged in.
    ///
    /// # Errors
    /// When the identity's key or certificates cannot be used, or no controller lets it in.
    pub async fn build(self, identity: IdentityFile) -> Result<Context> {
        Context::start(identity, self.settings).await
    }
}

impl Settings {
    /// What is told about this program and machine at login.
    pub(crate) fn about(&self, file: &IdentityFile) -> About {
        let config_types = match self.config_types.is_empty() {
            true => file.config_types.clone(),
            false => self.config_types.clone(),
        };
        About {
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
