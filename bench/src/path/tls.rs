//! One TLS connection from client to server: the least cost of any encrypted transport.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::ends;
use crate::work::{AnyStream, Path, serve};

/// A certificate for `localhost` that is signed by itself, with its key.
pub(crate) struct Credentials {
    /// Certificate and key as PEM, in this order, as HAProxy wants them.
    pub(crate) pem: String,
    /// The certificate alone, as PEM.
    pub(crate) certificate: String,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Credentials {
    /// Makes a P-256 key and certifies it.
    pub(crate) fn make() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .map_err(io::Error::other)?;
        let der = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![der.clone()], key)
            .map_err(io::Error::other)?;
        let mut roots = RootCertStore::empty();
        roots.add(der).map_err(io::Error::other)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let certificate = made.cert.pem();
        Ok(Self {
            pem: format!("{certificate}{}", made.signing_key.serialize_pem()),
            certificate,
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }

    /// Opens a TLS connection to a loopback address.
    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<AnyStream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(&self.client)).connect(name, stream).await?;
        Ok(Box::pin(stream))
    }

    /// A TLS server on a free loopback port.
    pub(crate) async fn serve(&self) -> io::Result<SocketAddr> {
        let listener = ends::serve(TcpListener::bind("127.0.0.1:0")).await??;
        let address = listener.local_addr()?;
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server));
        ends::serve(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await?;
                    serve(Box::pin(stream)).await
                });
            }
        });
        Ok(address)
    }
}

/// Client and server joined by one TLS connection each.
pub(crate) struct Tls {
    credentials: Arc<Credentials>,
    server: SocketAddr,
}

impl Tls {
    /// Starts the server.
    pub(crate) async fn start(credentials: Arc<Credentials>) -> io::Result<Self> {
        let server = credentials.serve().await?;
        Ok(Self { credentials, server })
    }
}

impl Path for Tls {
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>> {
        self.credentials.connect(self.server).boxed()
    }

    fn relay(&self) -> Vec<u32> {
        Vec::new()
    }
}
