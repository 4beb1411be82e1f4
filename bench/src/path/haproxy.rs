//! HAProxy as a relay from TLS to TLS: the program that a router is compared with, which also ends one TLS
//! connection and begins another.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tempfile::TempDir;

use super::chain::WiredPart;
use super::tls::Credentials;
use super::wire::{Laid, Wire};
use crate::apart::start_relay;
use crate::work::{AnyStream, Path};

/// HAProxy between a TLS client and a TLS server.
pub(crate) struct Haproxy {
    credentials: Arc<Credentials>,
    address: SocketAddr,
    process: Child,
    wire: Option<Laid>,
    _folder: TempDir,
}

impl Haproxy {
    /// Starts the server and HAProxy before it; `Ok(None)` when HAProxy is not installed.
    pub(crate) async fn start(credentials: Arc<Credentials>) -> io::Result<Option<Self>> {
        let server = credentials.serve().await?;
        Self::before(server, credentials, None).await
    }

    /// Starts this number of relays in a row before a server, each connection of the given place over a wire
    /// of its own, if there is one; `Ok(None)` when HAProxy is not installed.
    pub(crate) async fn chain(
        credentials: Arc<Credentials>,
        length: usize,
        wire: Option<(Wire, WiredPart)>,
    ) -> io::Result<Option<HaproxyChain>> {
        let mut server = credentials.serve().await?;
        let mut relays = Vec::new();
        // The relay next to the server starts first, because each relay connects to the next one.
        for place in (0..length).rev() {
            let laid = WiredPart::lay(wire, place)?;
            let Some(relay) = Self::before(server, Arc::clone(&credentials), laid).await? else {
                return Ok(None);
            };
            server = relay.address;
            relays.push(relay);
        }
        Ok(Some(HaproxyChain { relays }))
    }

    /// Starts HAProxy before a server, at the end of a wire, if there is one.
    async fn before(
        server: SocketAddr,
        credentials: Arc<Credentials>,
        wire: Option<Laid>,
    ) -> io::Result<Option<Self>> {
        let bind = free_address(wire.as_ref().map_or(Ipv4Addr::LOCALHOST, |wire| wire.server))?;
        let address = wire.as_ref().map_or(bind, |wire| wire.begin(bind));
        let folder = tempfile::tempdir()?;
        let pem = folder.path().join("relay.pem");
        let ca = folder.path().join("ca.pem");
        std::fs::write(&pem, &credentials.pem)?;
        std::fs::write(&ca, &credentials.certificate)?;
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(
            &file,
            format!(
                "global\n  maxconn 4000\n\
                 defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n\
                 frontend in\n  bind {bind} ssl crt {pem}\n  default_backend out\n\
                 backend out\n  server one {server} ssl verify required ca-file {ca} verifyhost localhost sni str(localhost)\n",
                pem = pem.display(),
                ca = ca.display(),
            ),
        )?;
        let mut haproxy = Command::new("haproxy");
        haproxy
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = match start_relay(&mut haproxy) {
            Ok(process) => process,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut relay = Self { credentials, address, process, wire, _folder: folder };
        relay.wait_until_up().await?;
        Ok(Some(relay))
    }

    async fn wait_until_up(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Err(io::Error::other(format!("haproxy ended at once: {status}")));
            }
            match self.credentials.connect(self.address).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// Several HAProxies in a row.
pub(crate) struct HaproxyChain {
    /// The relays; clients connect to the last one.
    relays: Vec<Haproxy>,
}

impl Path for HaproxyChain {
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>> {
        async move {
            let first = self.relays.last().ok_or_else(|| io::Error::other("an empty chain"))?;
            first.connect().await
        }
        .boxed()
    }

    fn relay(&self) -> Vec<u32> {
        self.relays.iter().map(|relay| relay.process.id()).collect()
    }

    fn carried(&self) -> Option<u64> {
        Laid::sum(self.relays.iter().filter_map(|relay| relay.wire.as_ref()))
    }
}

impl Path for Haproxy {
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>> {
        self.credentials.connect(self.address).boxed()
    }

    fn relay(&self) -> Vec<u32> {
        vec![self.process.id()]
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address(of: Ipv4Addr) -> io::Result<SocketAddr> {
    std::net::TcpListener::bind((of, 0))?.local_addr()
}
