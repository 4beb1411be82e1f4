//! How a context behaves.

use crate::context::Context;
use crate::error::Result;
use crate::settings::Settings;
use std::path::Path;
use std::time::Duration;
use weft_identity::IdentityFile;

/// Makes a [`Context`] that differs from the usual one.
#[derive(Debug, Clone, Default)]
pub struct ContextBuilder {
    pub(crate) settings: Settings,
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
        self.settings.spans = weft_spans::Spans::of(provider, env!("CARGO_PKG_NAME"));
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
