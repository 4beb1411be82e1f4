//! Plain TCP over loopback: the cost of the kernel alone.

use std::{io, net::SocketAddr};

use futures::{FutureExt, future::BoxFuture};
use tokio::net::{TcpListener, TcpStream};

use super::wire::Wire;
use crate::{
    ends,
    work::{AnyStream, Path, serve},
};

/// Client and server joined by one TCP connection each.
pub(crate) struct Tcp {
    server: SocketAddr,
}

impl Tcp {
    /// Starts the server.
    pub(crate) async fn start() -> io::Result<Self> {
        Ok(Self { server: serve_tcp().await? })
    }

    /// Starts the server at the end of a wire.
    pub(crate) async fn over(wire: Wire) -> io::Result<Self> {
        Ok(Self { server: wire.to(serve_tcp().await?).await? })
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
}

/// A server on a free loopback port, for every path whose far end is plain TCP.
pub(crate) async fn serve_tcp() -> io::Result<SocketAddr> {
    let listener = ends::serve(TcpListener::bind("127.0.0.1:0")).await??;
    let address = listener.local_addr()?;
    ends::serve(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(Box::pin(stream)));
        }
    });
    Ok(address)
}
