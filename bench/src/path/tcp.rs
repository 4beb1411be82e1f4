//! Plain TCP over loopback: the cost of the kernel alone.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};

use super::wire::{Laid, Wire};
use crate::ends;
use crate::work::{AnyStream, Path, serve};

/// Client and server joined by one TCP connection each.
pub(crate) struct Tcp {
    server: SocketAddr,
    wire: Option<Laid>,
}

impl Tcp {
    /// Starts the server.
    pub(crate) async fn start() -> io::Result<Self> {
        Ok(Self { server: serve_tcp(Ipv4Addr::LOCALHOST).await?, wire: None })
    }

    /// Starts the server at the end of a wire.
    pub(crate) async fn over(wire: Wire) -> io::Result<Self> {
        let wire = wire.lay()?;
        let server = wire.begin(serve_tcp(wire.server).await?);
        Ok(Self { server, wire: Some(wire) })
    }
}

impl Path for Tcp {
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>> {
        async move {
            let stream = TcpStream::connect(self.server).await?;
            stream.set_nodelay(true)?;
            Ok(Box::pin(stream) as AnyStream)
        }
        .boxed()
    }

    fn relay(&self) -> Vec<u32> {
        Vec::new()
    }

    fn carried(&self) -> Option<u64> {
        self.wire.as_ref().map(Laid::carried)
    }
}

/// A server on a free port of an address of this machine, for every path whose far end is plain TCP.
pub(crate) async fn serve_tcp(address: Ipv4Addr) -> io::Result<SocketAddr> {
    let listener = ends::serve(TcpListener::bind((address, 0))).await??;
    let address = listener.local_addr()?;
    ends::serve(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(Box::pin(stream)));
        }
    });
    Ok(address)
}
