//! The options of an endpoint.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weft_client::{
    CodeRequest, Codes, Credentials, DevicePrompt, ExternalTokens, LoginProtocol, TotpSecret,
};
use weft_identity::{IdentityFile, RenewableFile};

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::settings::{Settings, Show};

/// Makes an [`Endpoint`] with options other than the defaults.
#[derive(Debug, Clone, Default)]
pub struct EndpointBuilder {
    pub(crate) settings: Settings,
}

impl EndpointBuilder {
    /// The defaults: 15 s for a dial, 30 s for a bind, services checked every minute, at most 512
    /// MiB of buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The time limit of dials without one of their own.
    #[must_use]
    pub fn dial_timeout(mut self, limit: Duration) -> Self {
        self.settings.dial_timeout = limit;
        self
    }

    /// The time limit until the first router has accepted a bind, for binds without one of their
    /// own.
    #[must_use]
    pub fn bind_timeout(mut self, limit: Duration) -> Self {
        self.settings.bind_timeout = limit;
        self
    }

    /// The time limit for connecting to a router.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// The interval at which the controller is asked if services have changed: 1 s to 5 minutes. It
    /// is shorter if the API session would end meanwhile: half of the time that the controller keeps
    /// a session without requests.
    #[must_use]
    pub fn refresh_interval(mut self, interval: Duration) -> Self {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(300));
        self.settings.refresh_interval = interval.clamp(least, most);
        self
    }

    /// Most bytes that all connections together may buffer. Each connection can always hold its
    /// next payload, so that less memory makes connections slow, but never stops them.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.settings.memory_limit = bytes;
        self
    }

    /// The types of the configs that are read with the services, `all` for every type; in place of
    /// those that the identity file names.
    #[must_use]
    pub fn config_types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.settings.config_types = types.into_iter().map(Into::into).collect();
        self
    }

    /// The name and the version of the application, as controllers are told.
    #[must_use]
    pub fn application(mut self, id: impl Into<String>, version: impl Into<String>) -> Self {
        self.settings.app_id = id.into();
        self.settings.app_version = version.into();
        self
    }

    /// Leaves the flow control of connections to the routers, as older SDKs do: a slow reader then
    /// holds up all connections over its router. For tests, and for programs that only ask for
    /// [hops](crate::Connection::hop): OpenZiti's routers up to 2.0 answer such requests only from
    /// SDKs without flow control of their own.
    #[must_use]
    pub fn router_flow_control(mut self) -> Self {
        self.settings.own_flow_control = false;
        self
    }

    /// Makes no key that proves this program to the other ends of its encrypted connections: who is at the other end then
    /// is the word of the routers in between, as with SDKs of OpenZiti. For comparisons of both.
    #[must_use]
    pub fn without_proof(mut self) -> Self {
        self.settings.proves_end = false;
        self
    }

    /// Asks this function for codes of the identity's second factor (TOTP): whenever a login needs one, which is
    /// also the case after the API session has ended, and when a posture check of a service asks for a new one.
    /// `None` if there is no code now. A person may take their time: a question stays open although the dial
    /// that needed it is given up, and later dials get its answer.
    ///
    /// ```
    /// let builder = weft_sdk::Endpoint::builder().second_factor(|asked| async move {
    ///     eprintln!("code of {}:", asked.identity.unwrap_or_default());
    ///     tokio::task::spawn_blocking(|| std::io::stdin().lines().next()?.ok()).await.ok()?
    /// });
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn second_factor<F, A>(mut self, supply: F) -> Self
    where
        F: Fn(CodeRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Option<String>> + Send + 'static,
    {
        self.settings.login.codes = Some(Codes::new(supply));
        self
    }

    /// Gives this code of the identity's second factor when the first one is asked for, and none after that. A code
    /// is good for about a minute.
    #[must_use]
    pub fn second_factor_code(mut self, code: impl Into<String>) -> Self {
        self.settings.login.codes = Some(Codes::once(code));
        self
    }

    /// Gives codes that this secret makes, whenever one is asked for: for programs that run without a person. A
    /// secret that lies beside the identity file is no second factor against somebody who reads both.
    ///
    /// ```no_run
    /// # fn of_file() -> Result<weft_sdk::EndpointBuilder, Box<dyn std::error::Error>> {
    /// let secret = weft_sdk::TotpSecret::read("/etc/weft/server.totp".as_ref())?;
    /// let builder = weft_sdk::Endpoint::builder().second_factor_secret(secret);
    /// # Ok(builder)
    /// # }
    /// ```
    #[must_use]
    pub fn second_factor_secret(mut self, secret: TotpSecret) -> Self {
        self.settings.login.codes = Some(Codes::of_secret(Arc::new(secret)));
        self
    }

    /// Answers the controller from this source when it asks for a token of this external JWT signer (by name or id) beside
    /// the login: as second factor. One is asked for at every login, and whenever the former one has ended while the
    /// controller wants to see it with each request, as it does in sessions without OpenID Connect.
    ///
    /// For signers without a source, the token file that the identity file names (`externalLogin`) is read, if the identity
    /// logs in with something else; without that, a person logs in ([`provider_login`](Self::provider_login)).
    ///
    /// ```
    /// use weft_sdk::{Endpoint, ExternalTokens};
    ///
    /// let tokens = ExternalTokens::of_file("/var/run/secrets/tokens/weft");
    /// let builder = Endpoint::builder().second_factor_tokens("company", tokens);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn second_factor_tokens(
        mut self,
        signer: impl Into<String>,
        tokens: ExternalTokens,
    ) -> Self {
        let login = &mut self.settings.login;
        login.second_tokens = std::mem::take(&mut login.second_tokens).with(signer, tokens);
        self
    }

    /// The protocol of logins: OpenID Connect if the controller announces it, by default. Its sessions have tokens for some
    /// minutes that routers judge by themselves, and that are worth nothing without the key of this program.
    #[must_use]
    pub fn login_protocol(mut self, protocol: LoginProtocol) -> Self {
        self.settings.login.protocol = protocol;
        self
    }

    /// Logs in with a name and a password instead of a certificate, so that the identity file needs none. A key for the
    /// connections to routers is made by this program.
    ///
    /// # Errors
    /// When one of them is shorter or longer than a controller takes.
    pub fn password(
        mut self,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Result<Self> {
        self.settings.login.credentials = Some(Credentials::password(username, password)?);
        Ok(self)
    }

    /// Logs in with tokens of a company's identity provider instead of a certificate, so that the identity file needs none.
    /// One is asked for at every login: at first, when the longest life of the session has ended (24 h unless the controller
    /// says otherwise), and when the controller has refused the one before.
    ///
    /// ```
    /// use weft_sdk::{Endpoint, ExternalTokens};
    ///
    /// // Kubernetes writes a new token there from time to time.
    /// let robot = Endpoint::builder()
    ///     .external_tokens(ExternalTokens::of_file("/var/run/secrets/tokens/weft"));
    /// let other = Endpoint::builder().external_tokens(ExternalTokens::new(|_| async {
    ///     tokio::fs::read_to_string("token.jwt").await
    /// }));
    /// # drop((robot, other));
    /// ```
    #[must_use]
    pub fn external_tokens(mut self, tokens: ExternalTokens) -> Self {
        self.settings.login.credentials = Some(Credentials::ExternalTokens(tokens));
        self
    }

    /// Lets a person log in at the identity provider of their company if the identity file has no certificate, or the
    /// controller asks for a token as second factor: this function shows them an address and a code. The provider needs an endpoint for devices (RFC 8628), and an external JWT signer of
    /// the controller has to name its address and a client. If the provider gives a refresh token, the person is asked once,
    /// and otherwise whenever the longest life of the session has ended. An error, such as that nobody is there, ends the
    /// login.
    #[must_use]
    pub fn provider_login(
        mut self,
        show: impl Fn(DevicePrompt) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.login.show = Some(Show(Arc::new(show)));
        self
    }

    /// Whether the certificate of the identity is renewed by itself, as is the default: 30 days before its end or in
    /// the last third of its time, whichever is later, when an administrator asks for it, and when the file lacks
    /// certificates behind it that other controllers need. The new certificate,
    /// and a new key if that was asked for, replace those in the file that the identity was
    /// [loaded](EndpointBuilder::load) from, so that the file has to be writable. Only certificates that the
    /// network issued can be renewed.
    #[must_use]
    pub fn renew_certificate(mut self, is_wanted: bool) -> Self {
        self.settings.renews_certificate = is_wanted;
        self
    }

    /// Makes spans of dials with this tracer provider, and tells routers and controllers the trace
    /// of each dial: `sdk.dial` at the dialer, in the current context of OpenTelemetry, and
    /// `host.accept` at the host. Without a provider nothing is recorded or told.
    ///
    /// ```
    /// let builder =
    ///     weft_sdk::Endpoint::builder().tracer_provider(&opentelemetry::global::tracer_provider());
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

    /// Logs in with the identity of this file, and makes its endpoint.
    ///
    /// # Errors
    /// When the file cannot be read, or no controller accepts the identity.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is given up leaves nothing in this program. A session that the controller has made for it
    /// ends by itself.
    pub async fn load(self, path: impl AsRef<Path>) -> Result<Endpoint> {
        let identity = IdentityFile::read_to_use(path.as_ref())?;
        let file = RenewableFile::new(path.as_ref());
        Endpoint::start(identity, Some(file), self.settings).await
    }

    /// Logs in with this identity, and makes its endpoint. Its certificate is not renewed, because there is no file
    /// for a new one.
    ///
    /// # Errors
    /// When the identity's key or certificates cannot be used, or no controller accepts it.
    ///
    /// # Cancel safety
    /// As [`EndpointBuilder::load`].
    pub async fn build(self, identity: IdentityFile) -> Result<Endpoint> {
        Endpoint::start(identity, None, self.settings).await
    }
}
