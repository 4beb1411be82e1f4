//! Long flows whose every byte is compared.
//!
//! A flow goes on until it is told to stop, and then says how much it carried. An *echo* sends pieces and
//! compares what comes back. A *stream* sends as fast as it can, in one direction; the host compares, at times
//! does not read, and answers the end of the stream with the number of bytes.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weft_sdk::{Connection, Endpoint};

use crate::streams::{Manner, Server};
use crate::wait::{PATIENCE, until};

/// Most bytes of a piece of an echo.
const MOST_ECHOED: usize = 24_000;
/// Longest pause between two pieces of an echo, in milliseconds.
const THINKING: u64 = 60;
/// Bytes of one write of a stream.
const PIECE: usize = 32 * 1024;
/// Most bytes that a stream sends between two pauses.
const BURST: usize = 4 << 20;
/// Longest pause of a stream between two bursts, in milliseconds.
const RESTING: u64 = 400;
/// Longest time in which the host of a stream does not read, in milliseconds.
const NOT_READING: u64 = 1_000;
/// Bytes after which the host of a stream may stop reading for a while.
const READING: u64 = 3 << 20;

/// The kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pieces there and back.
    Echo,
    /// One direction, as fast as possible.
    Stream,
}

/// A service for echoes and one for streams, hosted by one endpoint.
pub(super) struct Hosts {
    _echo: Server,
    _sink: AbortOnDropHandle<()>,
}

impl Hosts {
    /// Hosts `echo-NAME` and `sink-NAME`.
    pub(super) async fn of(endpoint: &Endpoint, name: &str) -> Self {
        let echo = Server::sdk(endpoint, &format!("echo-{name}"), Manner::Echo).await;
        let service = format!("sink-{name}");
        let bind = async || endpoint.bind(&service).await;
        let (mut listener, _) = until(&format!("{service} is hosted"), PATIENCE, bind).await;
        let sink = tokio::spawn(async move {
            while let Ok(incoming) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(stream) = incoming.accept().await else { return };
                    // The flow fails, too: it gets no number of bytes from this host.
                    if let Err(problem) = sink(stream).await {
                        println!("the host of a stream: {problem}");
                    }
                });
            }
        });
        Self { _echo: echo, _sink: AbortOnDropHandle::new(sink) }
    }
}

/// Takes a stream, compares it, and answers its end with the number of bytes.
async fn sink(mut stream: Connection) -> io::Result<()> {
    let number = stream.read_u64().await?;
    let (mut pattern, mut whims) = (StdRng::seed_from_u64(number), StdRng::seed_from_u64(!number));
    let (mut wanted, mut came) = (vec![0; PIECE], vec![0; PIECE]);
    let (mut at, mut all, mut pause_at) = (PIECE, 0, READING);
    loop {
        if at == PIECE {
            pattern.fill_bytes(&mut wanted);
            at = 0;
        }
        let read = stream.read(&mut came[..PIECE - at]).await?;
        if read == 0 {
            break;
        }
        if came[..read] != wanted[at..at + read] {
            let text = format!("stream {number} is corrupted after {all} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        at += read;
        all += read as u64;
        if all >= pause_at {
            pause_at = all + READING;
            rest(whims.random_range(0..NOT_READING)).await;
        }
    }
    stream.write_u64(all).await?;
    stream.shutdown().await
}

async fn rest(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Progress of a flow.
struct Progress {
    bytes: AtomicU64,
    last: Mutex<(Instant, Duration)>,
}

impl Progress {
    fn more(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut last = self.last.lock();
        last.1 = last.1.max(last.0.elapsed());
        last.0 = Instant::now();
    }
}

/// A flow that runs.
pub(super) struct Flow {
    pub(super) name: String,
    progress: Arc<Progress>,
    task: AbortOnDropHandle<io::Result<()>>,
}

impl Flow {
    /// Starts a flow over a new connection.
    pub(super) fn start(
        kind: Kind,
        number: u64,
        connection: Connection,
        stop: CancellationToken,
    ) -> Self {
        let circuit = connection.circuit_id().unwrap_or_default();
        let name = format!("{kind:?} {number} (circuit {circuit})");
        let last = Mutex::new((Instant::now(), Duration::ZERO));
        let progress = Arc::new(Progress { bytes: AtomicU64::new(0), last });
        let noting = Arc::clone(&progress);
        let task = tokio::spawn(async move {
            match kind {
                Kind::Echo => echo(connection, number, &stop, &noting).await,
                Kind::Stream => stream(connection, number, &stop, &noting).await,
            }
        });
        Self { name, progress, task: AbortOnDropHandle::new(task) }
    }

    /// Bytes so far: of an echo, those that came back; of a stream, those that the SDK took.
    pub(super) fn bytes(&self) -> u64 {
        self.progress.bytes.load(Ordering::Relaxed)
    }

    /// The longest time without progress so far.
    pub(super) fn longest_stop(&self) -> Duration {
        let last = self.progress.last.lock();
        last.1.max(last.0.elapsed())
    }

    /// True if the flow is over.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for the end of the flow: an error says how it was lost.
    pub(super) async fn end(self) -> io::Result<()> {
        self.task.await.unwrap()
    }
}

async fn echo(
    connection: Connection,
    number: u64,
    stop: &CancellationToken,
    progress: &Progress,
) -> io::Result<()> {
    let (mut reader, mut writer) = connection.into_split();
    let mut random = StdRng::seed_from_u64(number);
    while !stop.is_cancelled() {
        let mut sent = vec![0; random.random_range(1..MOST_ECHOED)];
        random.fill_bytes(&mut sent);
        let mut back = vec![0; sent.len()];
        let writing = async {
            writer.write_all(&sent).await?;
            writer.flush().await
        };
        tokio::try_join!(writing, reader.read_exact(&mut back))?;
        if back != sent {
            return Err(io::Error::new(ErrorKind::InvalidData, "an echo is corrupted"));
        }
        progress.more(sent.len());
        rest(random.random_range(0..THINKING)).await;
    }
    writer.shutdown().await?;
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await?;
    match rest.len() {
        0 => Ok(()),
        more => Err(io::Error::new(ErrorKind::InvalidData, format!("{more} bytes too many"))),
    }
}

async fn stream(
    connection: Connection,
    number: u64,
    stop: &CancellationToken,
    progress: &Progress,
) -> io::Result<()> {
    let (mut reader, mut writer) = connection.into_split();
    let (mut pattern, mut whims) = (StdRng::seed_from_u64(number), StdRng::seed_from_u64(!number));
    writer.write_u64(number).await?;
    let (mut piece, mut all) = (vec![0; PIECE], 0);
    while !stop.is_cancelled() {
        for _ in 0..=whims.random_range(0..BURST / PIECE) {
            pattern.fill_bytes(&mut piece);
            writer.write_all(&piece).await?;
            all += PIECE as u64;
            progress.more(PIECE);
        }
        rest(whims.random_range(0..RESTING)).await;
    }
    writer.shutdown().await?;
    let taken = reader.read_u64().await?;
    if taken != all {
        let text = format!("{all} bytes were sent, the host has {taken}");
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    Ok(())
}
