//! Connections: TCP, or TLS over it.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::{TlsAcceptor, TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    Addresses, Ingress, Opened,
    request::{Line, Request, answer},
};
use crate::bindings::socket::{self, Stream};

/// What a listener takes upon itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    /// Most connections at once. More are closed.
    pub(crate) connections: usize,
    /// How long a client may take for TLS and for saying what it wants.
    pub(crate) patience: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { connections: 65_536, patience: Duration::from_secs(10) }
    }
}

/// Accepts connections until cancelled; those there are go on. A connection that has no circuit yet
/// waits for its turn while too many are being made.
pub(crate) async fn serve_streams(
    ingress: Arc<Ingress>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: StreamLimits,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                    let most = limits.connections;
                    ingress.complain(remote, &format!("{most} connections are open, the most"));
                    continue;
                };
                let (ingress, tls) = (Arc::clone(&ingress), tls.clone());
                tokio::spawn(async move {
                    let served = serve(&ingress, stream, remote, tls, limits.patience, permit);
                    if let Err(why) = served.await {
                        ingress.complain(remote, &why);
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, or the client is gone already: go on, but not in a hot loop.
                tracing::warn!(listener = %ingress.options.name, %error, "cannot accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(
    ingress: &Ingress,
    stream: TcpStream,
    remote: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    patience: Duration,
    _permit: OwnedSemaphorePermit,
) -> Result<(), String> {
    weft_channel::prepare(&stream, ingress.options.peer_timeout)
        .map_err(|error| error.to_string())?;
    let begun = tokio::time::timeout(patience, async {
        let mut stream = match tls {
            None => Stream::Tcp(stream),
            Some(tls) => {
                let stream = TlsAcceptor::from(tls).accept(stream).await;
                Stream::Tls(Box::new(TlsStream::from(stream.map_err(|error| error.to_string())?)))
            }
        };
        let wanted = match &ingress.options.service {
            Some(service) => Ok((String::new(), service.clone(), Bytes::new())),
            None => ask(&mut stream).await,
        };
        Ok::<_, String>((stream, wanted))
    });
    let (mut stream, wanted) =
        begun.await.map_err(|_| "it did not say in time what it wants")??;
    let opened = match wanted {
        Ok((client, service, rest)) => {
            let addresses = Addresses { local: stream.socket().local_addr().ok(), remote };
            let opened = ingress.open(client, service, addresses, false).await;
            opened.map(|opened| (opened, rest)).map_err(|refusal| refusal.message)
        }
        Err(why) => Err(why),
    };
    let answers = ingress.options.service.is_none();
    let (Opened { id, end, crypto }, first) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            if answers {
                // It may be gone, and hears nothing then.
                let _ = tell(&mut stream, Err(&why), patience).await;
            }
            return Err(why);
        }
    };
    if answers && tell(&mut stream, Ok(&id), patience).await.is_err() {
        end.abort();
        return Ok(());
    }
    tracing::debug!(listener = %ingress.options.name, client = %remote, circuit = %id, "connected");
    socket::carry(end, stream, first, crypto).await;
    Ok(())
}

/// Reads what a client wants: who it is, the service, and the data that came behind it.
async fn ask(stream: &mut Stream) -> Result<(String, String, Bytes), String> {
    let mut line = Line::default();
    let mut buffer = [0; 1024];
    loop {
        let count = match stream {
            Stream::Tcp(stream) => stream.read(&mut buffer).await,
            Stream::Tls(stream) => stream.read(&mut buffer).await,
        };
        let data = match count {
            Ok(0) => return Err("it left without saying what it wants".to_owned()),
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(error) => return Err(error.to_string()),
        };
        if let Some((line, rest)) = line.take(data)? {
            let request = Request::parse(&line)?;
            return Ok((request.id, request.service, rest));
        }
    }
}

/// Tells a client what became of its request.
async fn tell(stream: &mut Stream, made: Result<&str, &str>, patience: Duration) -> io::Result<()> {
    let line = answer(made);
    let is_over = made.is_err();
    let telling = async {
        match stream {
            Stream::Tcp(stream) => write(stream, &line, is_over).await,
            Stream::Tls(stream) => write(stream, &line, is_over).await,
        }
    };
    tokio::time::timeout(patience, telling).await.map_err(|_| io::ErrorKind::TimedOut)?
}

async fn write(
    stream: &mut (impl AsyncWriteExt + Unpin),
    line: &[u8],
    is_over: bool,
) -> io::Result<()> {
    stream.write_all(line).await?;
    stream.flush().await?;
    if is_over { stream.shutdown().await } else { Ok(()) }
}
