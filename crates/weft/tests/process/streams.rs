//! Streams through a network, and the servers at their end.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weft_sdk::{Connection, Endpoint, Listener};

use crate::wait::{PATIENCE, until, within};

/// Bytes of one write; as many as a payload has at most.
const PIECE: usize = 32 * 1024;

/// Any stream of bytes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Bytes by which a position in the stream can be recognised.
pub(crate) fn pattern(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16).wrapping_mul(31)) as u8)
        .collect()
}

/// Writes `length` bytes of the pattern.
pub(crate) async fn send(writer: &mut (impl AsyncWrite + Unpin), length: u64) -> io::Result<()> {
    let mut at = 0;
    while at < length {
        let piece = pattern(at, PIECE.min((length - at) as usize));
        writer.write_all(&piece).await?;
        at += piece.len() as u64;
    }
    writer.flush().await
}

/// Reads to the end and compares with the pattern; returns the number of bytes.
pub(crate) async fn check(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    loop {
        let read = reader.read(&mut buffer).await?;
        if read == 0 {
            return Ok(at);
        }
        if buffer[..read] != pattern(at, read)[..] {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("wrong data after {at} bytes"),
            ));
        }
        at += read as u64;
    }
}

/// Sends a word and reads it back.
pub(crate) async fn round_trip(stream: &mut (impl Stream + ?Sized), word: &str) -> io::Result<()> {
    stream.write_all(word.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = vec![0; word.len()];
    stream.read_exact(&mut answer).await?;
    assert_eq!(String::from_utf8_lossy(&answer), word);
    Ok(())
}

/// Behaviour of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// Sends back everything at once.
    Echo,
    /// Sends this many bytes of the pattern after the peer has ended, and checks the peer's bytes.
    Last(u64),
    /// Sends this many bytes of the pattern, ends, and only then reads; checks the peer's bytes.
    First(u64),
    /// Sends this many zero bytes.
    Pour(u64),
    /// Sends this many zero bytes once it has received a byte.
    PourWhenAsked(u64),
}

/// Serves one stream; returns the number of bytes read.
async fn answer(mut stream: impl Stream, manner: Manner, poured: &AtomicU64) -> io::Result<u64> {
    match manner {
        Manner::Echo => {
            let (mut reader, mut writer) = split(stream);
            let copied = tokio::io::copy(&mut reader, &mut writer).await?;
            writer.shutdown().await?;
            Ok(copied)
        }
        Manner::Last(length) => {
            let heard = check(&mut stream).await?;
            send(&mut stream, length).await?;
            stream.shutdown().await?;
            Ok(heard)
        }
        Manner::First(length) => {
            send(&mut stream, length).await?;
            stream.shutdown().await?;
            check(&mut stream).await
        }
        Manner::Pour(length) => pour(stream, length, poured).await,
        Manner::PourWhenAsked(length) => {
            stream.read_u8().await?;
            pour(stream, length, poured).await
        }
    }
}

async fn pour(mut stream: impl Stream, length: u64, poured: &AtomicU64) -> io::Result<u64> {
    let piece = vec![0; 64 * 1024];
    let mut left = length;
    while left > 0 {
        let most = left.min(piece.len() as u64) as usize;
        let written = stream.write(&piece[..most]).await? as u64;
        poured.fetch_add(written, Ordering::Relaxed);
        left -= written;
    }
    stream.shutdown().await?;
    Ok(0)
}

/// A server, until it is dropped.
pub(crate) struct Server {
    heard: mpsc::UnboundedReceiver<io::Result<u64>>,
    poured: Arc<AtomicU64>,
    port: u16,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    /// A TCP server on loopback.
    pub(crate) async fn tcp(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, heard) = mpsc::unbounded_channel();
        let poured = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&poured);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tell, poured) = (tell.clone(), Arc::clone(&counter));
                tokio::spawn(async move {
                    let _ = tell.send(answer(stream, manner, &poured).await);
                });
            }
        });
        Self { heard, poured, port, _task: AbortOnDropHandle::new(task) }
    }

    /// A server that hosts this service with the SDK.
    pub(crate) async fn sdk(endpoint: &Endpoint, service: &str, manner: Manner) -> Self {
        let bind = async || endpoint.bind(service).await;
        let (listener, _) = until(&format!("{service} is hosted"), PATIENCE, bind).await;
        Self::accept(listener, manner)
    }

    fn accept(mut listener: Listener, manner: Manner) -> Self {
        let (tell, heard) = mpsc::unbounded_channel();
        let poured = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&poured);
        let task = tokio::spawn(async move {
            while let Ok(incoming) = listener.accept().await {
                let (tell, poured) = (tell.clone(), Arc::clone(&counter));
                tokio::spawn(async move {
                    let answered = async {
                        let stream = incoming.accept().await.map_err(io::Error::other)?;
                        answer(stream, manner, &poured).await
                    };
                    let _ = tell.send(answered.await);
                });
            }
        });
        Self { heard, poured, port: 0, _task: AbortOnDropHandle::new(task) }
    }

    /// Port of the TCP server.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Number of bytes sent by pouring.
    pub(crate) fn poured(&self) -> u64 {
        self.poured.load(Ordering::Relaxed)
    }

    /// Number of bytes received on the next stream that ends.
    pub(crate) async fn heard(&mut self) -> u64 {
        within("a stream is over", PATIENCE, self.heard.recv()).await.unwrap().unwrap()
    }
}

/// Dials until it succeeds, because a new service takes a moment to be hosted.
pub(crate) async fn dial(endpoint: &Endpoint, service: &str) -> Connection {
    let dial = async || endpoint.dial(service).await;
    until(&format!("{service} can be dialed"), PATIENCE, dial).await.0
}

/// A circuit that is never idle.
pub(crate) struct Busy {
    trips: Arc<AtomicU64>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Busy {
    pub(crate) fn start(mut stream: Connection) -> Self {
        let (trips, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (count, stopped) = (Arc::clone(&trips), stop.clone());
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                round_trip(&mut stream, "busy").await?;
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        });
        Self { trips, stop, task }
    }

    /// Waits for some more round trips.
    pub(crate) async fn goes_on(&self) {
        let wanted = self.trips.load(Ordering::Relaxed) + 20;
        let look = async || match self.trips.load(Ordering::Relaxed) {
            trips if trips >= wanted => Ok(()),
            trips => Err(format!("{trips} of {wanted}, finished: {}", self.task.is_finished())),
        };
        until("a busy circuit goes on", PATIENCE, look).await;
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}
