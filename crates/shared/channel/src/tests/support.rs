//! A small network of one authority, and gates for its listeners.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::{TlsConnector, client};
use weft_wire::hello::Hello;
use weft_wire::{Address, Headers, Message, Scheme};

use crate::*;

/// A time limit that no step of a test should reach.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

/// Waits until `done` returns true.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Moves the clock: whatever would have become due in this time is due now. After that it goes on as usual.
pub(crate) async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).unwrap().der().clone();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self { issuer: Issuer::new(params, key), der, provider }
    }

    fn certificate(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let der = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (vec![der], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// Settings of a side of DTLS that trusts every certificate.
    pub(crate) fn dtls(&self) -> weft_dtls::DtlsSettings {
        let (chain, key) = self.certificate();
        let key = self.provider.key_provider.load_private_key(key).unwrap();
        weft_dtls::DtlsSettings {
            certified: vec![Arc::new(rustls::sign::CertifiedKey::new(chain, key))],
            judge: Arc::new(|_| Ok(())),
            provider: self.provider.clone(),
            server_name: None,
        }
    }

    pub(crate) fn server(&self) -> Arc<rustls::ServerConfig> {
        self.server_of(&self.provider, rustls::DEFAULT_VERSIONS)
    }

    /// Settings of both sides with these ciphers.
    pub(crate) fn with_provider(
        &self,
        provider: CryptoProvider,
    ) -> (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>) {
        let provider = Arc::new(provider);
        let versions: &[_] = &[&rustls::version::TLS13];
        let (chain, key) = self.certificate();
        let client = self.client_builder_of(&provider, versions);
        let client = client.with_client_auth_cert(chain, key).unwrap();
        (Arc::new(client), self.server_of(&provider, versions))
    }

    /// Settings of both sides with these versions.
    pub(crate) fn with_versions(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>) {
        let (chain, key) = self.certificate();
        let client = self.client_builder_of(&self.provider, versions);
        let client = client.with_client_auth_cert(chain, key).unwrap();
        (Arc::new(client), self.server_of(&self.provider, versions))
    }

    fn server_of(
        &self,
        provider: &Arc<CryptoProvider>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<rustls::ServerConfig> {
        let (chain, key) = self.certificate();
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone());
        let config = builder
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyCertificate(self.provider.clone())))
            .with_single_cert(chain, key)
            .unwrap();
        Arc::new(config)
    }

    /// Settings of a listener that asks for no certificate.
    pub(crate) fn without_clients(&self) -> TlsSource {
        let (chain, key) = self.certificate();
        let builder = rustls::ServerConfig::builder_with_provider(self.provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let config = Arc::new(config);
        Arc::new(move || Some(config.clone()))
    }

    pub(crate) fn source(&self) -> TlsSource {
        let config = self.server();
        Arc::new(move || Some(config.clone()))
    }

    fn client_builder(
        &self,
    ) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert> {
        self.client_builder_of(&self.provider, rustls::DEFAULT_VERSIONS)
    }

    fn client_builder_of(
        &self,
        provider: &Arc<CryptoProvider>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
    }

    /// A client with a certificate of its own.
    pub(crate) fn client(&self) -> Arc<rustls::ClientConfig> {
        let (chain, key) = self.certificate();
        Arc::new(self.client_builder().with_client_auth_cert(chain, key).unwrap())
    }

    pub(crate) fn anonymous(&self) -> Arc<rustls::ClientConfig> {
        Arc::new(self.client_builder().with_no_client_auth())
    }

    /// A bare TLS stream to a listener.
    pub(crate) async fn raw(
        &self,
        to: SocketAddr,
        alpn: &[&str],
    ) -> std::io::Result<client::TlsStream<TcpStream>> {
        // The listener's deadline runs from the connection on: no slow step comes after it.
        let client = self.client();
        let socket = TcpStream::connect(to).await?;
        let alpn = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(client).with_alpn(alpn).connect(name, socket).await
    }

    pub(crate) fn dial_options(&self, to: SocketAddr, token: &str) -> DialOptions {
        let address = Address::new(Scheme::Tls, to.ip().to_string(), to.port());
        let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control(token) };
        DialOptions::new(address, self.client(), "weft-test", Hello::new(token), channel)
    }
}

/// Demands a client certificate of any issuer, and proof of its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A gate that admits every peer whose token does not begin with `bad`, and hands its channel to
/// the test.
pub(crate) struct Gate {
    pub(crate) channel: ChannelOptions,
    pub(crate) group: Option<GroupPolicy>,
    pub(crate) channels: mpsc::UnboundedSender<Established>,
}

impl HelloGate for Gate {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        assert_eq!(peer.certificates.len(), 1);
        match peer.hello.token.as_str() {
            "bad-silent" => return Err(Refusal::close("silent")),
            "bad-busy" => {
                return Err(Refusal::answer(weft_wire::hello::RejectClass::Busy, "too busy"));
            }
            "slow" => std::future::pending().await,
            _ => {}
        }
        let mut headers = Headers::new();
        headers.set_str(4, "v2.1.0|r|d|linux|amd64").set_bool(1024, true).set_i32(1, 99);
        Ok(Admission {
            listener_id: "listener".into(),
            identity: Vec::new(),
            headers,
            channel: self.channel.clone(),
            group: self.group.clone(),
        })
    }

    async fn established(&self, channel: Established) {
        let _ = self.channels.send(channel);
    }
}

pub(crate) struct Server {
    pub(crate) authority: Authority,
    pub(crate) registration: Registration,
    pub(crate) channels: mpsc::UnboundedReceiver<Established>,
}

impl Server {
    pub(crate) async fn new(group: Option<GroupPolicy>) -> Self {
        let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
        Self::with(channel, group, AcceptOptions::default(), ListenerLimits::default()).await
    }

    pub(crate) async fn with(
        channel: ChannelOptions,
        group: Option<GroupPolicy>,
        accept: AcceptOptions,
        limits: ListenerLimits,
    ) -> Self {
        let authority = Authority::new();
        let (sender, channels) = mpsc::unbounded_channel();
        let gate = Gate { channel, group, channels: sender };
        let acceptor = Arc::new(ChannelAcceptor::new(gate, accept));
        let listener = SharedListener::bind("127.0.0.1:0", limits).await.unwrap();
        let source = authority.source();
        let registration = listener.register(&["weft-test"], source, acceptor).unwrap();
        Self { authority, registration, channels }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.registration.local_addr()
    }

    pub(crate) fn dial_options(&self, token: &str) -> DialOptions {
        self.authority.dial_options(self.addr(), token)
    }

    pub(crate) async fn next(&mut self) -> Established {
        soon(self.channels.recv()).await.unwrap()
    }

    /// A connected pair: dialer, its inbox, listener, its inbox.
    pub(crate) async fn pair(&mut self) -> (ChannelHandle, Inbox, ChannelHandle, Inbox) {
        let options = self.dial_options("dialer");
        self.pair_of(options).await
    }

    pub(crate) async fn pair_of(
        &mut self,
        options: DialOptions,
    ) -> (ChannelHandle, Inbox, ChannelHandle, Inbox) {
        let (ours, our_inbox) = inbox(InboxLimits::default());
        let (theirs, their_inbox) = inbox(InboxLimits::default());
        let dialer = soon(dial(options)).await.unwrap().start(ours);
        let listener = self.next().await.start(theirs);
        (dialer, our_inbox, listener, their_inbox)
    }
}

pub(crate) fn message(content_type: i32, body: &str) -> Message {
    Message::new(content_type, body.to_owned())
}
