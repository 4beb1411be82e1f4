//! The two applications of a check, one hosting and one dialing, both in this process.
//!
//! The first byte of a connection is its purpose:
//!
//! ```text
//! dialer -> host   'u', length (8 bytes), data, end     host -> dialer   SHA-256 of the data
//! dialer -> host   'd', length (8 bytes), end           host -> dialer   data, SHA-256, end
//! dialer -> host   'p', then blocks of 64 bytes         host -> dialer   each block as it came
//! ```

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use weft_sdk::{Connection, DialOptions, Endpoint, Listener};

use super::scene::Cast;
use crate::failure::{Failure, Result};
use crate::output::counted;
use crate::spans::Export;

const UPLOAD: u8 = b'u';
const DOWNLOAD: u8 = b'd';
const ECHO: u8 = b'p';

/// Bytes of one write or read.
const PIECE: usize = 64 * 1024;
/// Bytes of a block that goes there and back.
const BLOCK: usize = 64;
const CHECKSUM: usize = 32;
/// Round trips before the timed ones.
const WARM_UP: u32 = 10;
/// Pause between two dials: a router may learn of new policies a moment after the controller.
const DIAL_PAUSE: Duration = Duration::from_millis(50);
/// Time for which a failing dial is repeated.
const DIAL_TRIES: Duration = Duration::from_secs(10);

/// Amount of data, and time limits.
#[derive(Clone, Debug)]
pub(crate) struct Amount {
    /// Bytes in each direction.
    pub(crate) bytes: u64,
    /// Number of timed round trips.
    pub(crate) round_trips: u32,
    /// Time limit of a single step.
    pub(crate) patience: Duration,
}

/// The results of a check.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Bytes in each direction.
    pub(crate) bytes: u64,
    /// Time in which all data went from the dialer to the host.
    pub(crate) up: Duration,
    /// Time in which all data went from the host to the dialer.
    pub(crate) down: Duration,
    /// Number of timed round trips.
    pub(crate) round_trips: u32,
    /// Median of the round-trip time.
    pub(crate) p50: Duration,
    /// 99th percentile of the round-trip time.
    pub(crate) p99: Duration,
    /// Time of the first dial.
    pub(crate) dial: Duration,
    /// True if the data was encrypted end to end.
    pub(crate) encrypted: bool,
}

/// Logs both identities in, hosts, dials and measures.
pub(super) async fn run(
    cast: Cast,
    amount: &Amount,
    export: &Export,
    progress: &ProgressBar,
) -> Result<Measured> {
    let patience = amount.patience;
    progress.set_message("logging in and binding");
    let (host, dialer) = within(patience, "logging in", async {
        let (host, dialer) = (endpoint(cast.host, export), endpoint(cast.dialer, export));
        tokio::try_join!(Box::pin(host), Box::pin(dialer))
    })
    .await?;
    let listener = within(patience, "hosting the service", async {
        let listener =
            host.bind(&cast.service).await.map_err(|error| Failure::caused_by(&error))?;
        listener.established(1).await.map_err(|error| Failure::caused_by(&error))?;
        Ok(listener)
    })
    .await?;
    let hosting = JoinSet::from_iter([serve(listener, patience)]);
    let player = Dialer { endpoint: dialer, service: cast.service, patience };
    let measured = player.measure(amount, progress).await;
    drop(hosting);
    // What was measured has arrived: both sides have compared its sums.
    let _ = player.endpoint.close().await;
    let _ = host.close().await;
    measured
}

async fn endpoint(identity: weft_sdk::IdentityFile, export: &Export) -> Result<Endpoint> {
    export
        .of_sdk(Endpoint::builder())
        .application("weft-verify", env!("CARGO_PKG_VERSION"))
        .build(identity)
        .await
        .map_err(|error| Failure::caused_by(&error))
}

struct Dialer {
    endpoint: Endpoint,
    service: String,
    patience: Duration,
}

impl Dialer {
    async fn measure(&self, amount: &Amount, progress: &ProgressBar) -> Result<Measured> {
        progress.set_message("dialing");
        let begun = Instant::now();
        let first = self.dial_patiently().await?;
        let (dial, encrypted) = (begun.elapsed(), first.is_encrypted());
        progress.set_message("timing round trips");
        let times = self.round_trips(first, amount.round_trips).await?;
        let quantile = |share| Duration::from_nanos(times.value_at_quantile(share));
        progress.set_length(amount.bytes);
        progress.set_message("moving data to the host");
        let up = self.upload(amount.bytes, progress).await?;
        progress.set_position(0);
        progress.set_message("moving data to the dialer");
        let down = self.download(amount.bytes, progress).await?;
        Ok(Measured {
            bytes: amount.bytes,
            up,
            down,
            round_trips: amount.round_trips,
            p50: quantile(0.5),
            p99: quantile(0.99),
            dial,
            encrypted,
        })
    }

    /// Dials until it succeeds, or has failed for [`DIAL_TRIES`].
    async fn dial_patiently(&self) -> Result<Connection> {
        let deadline = Instant::now() + DIAL_TRIES.min(self.patience);
        loop {
            match self.dial().await {
                Err(_) if Instant::now() < deadline => tokio::time::sleep(DIAL_PAUSE).await,
                done => return done,
            }
        }
    }

    async fn dial(&self) -> Result<Connection> {
        let options = DialOptions::new().timeout(self.patience);
        let dialed = self.endpoint.dial_with(&self.service, options).await;
        dialed.map_err(|error| Failure::caused_by(&error).during("dialing the service"))
    }

    async fn round_trips(&self, mut connection: Connection, count: u32) -> Result<Histogram<u64>> {
        // Nanoseconds up to an hour; a longer round trip counts as an hour.
        let mut times = Histogram::new_with_max(3_600_000_000_000, 3).map_err(Failure::new)?;
        let doing = "a round trip";
        within_io(self.patience, doing, connection.write_all(&[ECHO])).await?;
        let mut block = [0; BLOCK];
        for number in 0..count.saturating_add(WARM_UP) {
            let sent = block_of(number);
            let begun = Instant::now();
            within_io(self.patience, doing, async {
                connection.write_all(&sent).await?;
                connection.flush().await?;
                connection.read_exact(&mut block).await
            })
            .await?;
            if block != sent {
                return Err(Failure::new("a block came back changed: data is damaged on its way"));
            }
            if number >= WARM_UP {
                let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                times.saturating_record(nanos);
            }
        }
        within_io(self.patience, doing, connection.close()).await?;
        Ok(times)
    }

    async fn upload(&self, bytes: u64, progress: &ProgressBar) -> Result<Duration> {
        let doing = "moving data to the host";
        let mut connection = self.dial().await?;
        let begun = Instant::now();
        let sent = within_io(self.patience, doing, begin(&mut connection, UPLOAD, bytes)).await;
        sent?;
        let own = send(&mut connection, bytes, self.patience, |count| progress.inc(count))
            .await
            .map_err(|error| Failure::new(error).during(doing))?;
        within_io(self.patience, doing, connection.shutdown()).await?;
        let mut seen = [0; CHECKSUM];
        within_io(self.patience, doing, connection.read_exact(&mut seen)).await?;
        let taken = begun.elapsed();
        within_io(self.patience, doing, connection.close()).await?;
        check(&own, &seen, doing)?;
        Ok(taken)
    }

    async fn download(&self, bytes: u64, progress: &ProgressBar) -> Result<Duration> {
        let doing = "moving data to the dialer";
        let mut connection = self.dial().await?;
        let begun = Instant::now();
        within_io(self.patience, doing, async {
            begin(&mut connection, DOWNLOAD, bytes).await?;
            connection.shutdown().await
        })
        .await?;
        let own = receive(&mut connection, bytes, self.patience, |count| progress.inc(count))
            .await
            .map_err(|error| Failure::new(error).during(doing))?;
        let mut told = [0; CHECKSUM];
        within_io(self.patience, doing, connection.read_exact(&mut told)).await?;
        let taken = begun.elapsed();
        within_io(self.patience, doing, connection.close()).await?;
        check(&own, &told, doing)?;
        Ok(taken)
    }
}

/// The hosting application: serves connections until it is dropped.
async fn serve(mut listener: Listener, patience: Duration) {
    let mut connections = JoinSet::new();
    while let Ok(incoming) = listener.accept().await {
        connections.spawn(async move {
            let served = match incoming.accept().await {
                Ok(connection) => answer(connection, patience).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = served {
                tracing::debug!(
                    error = weft_sdk::chain(&error),
                    "a connection of the check ended early"
                );
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer<S>(mut connection: S, patience: Duration) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match connection.read_u8().await? {
        ECHO => {
            let mut block = [0; BLOCK];
            while connection.read_exact(&mut block).await.is_ok() {
                connection.write_all(&block).await?;
                connection.flush().await?;
            }
        }
        UPLOAD => {
            let length = connection.read_u64().await?;
            let checksum = receive(&mut connection, length, patience, |_| {}).await?;
            connection.write_all(&checksum).await?;
        }
        DOWNLOAD => {
            let length = connection.read_u64().await?;
            let checksum = send(&mut connection, length, patience, |_| {}).await?;
            connection.write_all(&checksum).await?;
        }
        other => {
            let text = format!("a connection began with {other}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    connection.shutdown().await
}

async fn begin<S: AsyncWrite + Unpin>(to: &mut S, what: u8, length: u64) -> io::Result<()> {
    to.write_u8(what).await?;
    to.write_u64(length).await
}

/// Writes `bytes` bytes in pieces that all differ, and returns their checksum.
async fn send<S: AsyncWrite + Unpin>(
    to: &mut S,
    bytes: u64,
    patience: Duration,
    told: impl Fn(u64),
) -> io::Result<[u8; CHECKSUM]> {
    let mut piece = vec![0; PIECE];
    rand::fill(piece.as_mut_slice());
    let mut digest = Sha256::new();
    let mut left = bytes;
    while left > 0 {
        let size = left.min(PIECE as u64);
        let part = &mut piece[..size as usize];
        // Numbered, so that a piece that is lost, repeated or moved changes the checksum.
        if let Some(head) = part.first_chunk_mut::<8>() {
            *head = left.to_le_bytes();
        }
        digest.update(&*part);
        patiently(patience, to.write_all(part)).await?;
        told(size);
        left -= size;
    }
    patiently(patience, to.flush()).await?;
    Ok(digest.finalize().into())
}

/// Reads `bytes` bytes and returns their checksum.
async fn receive<S: AsyncRead + Unpin>(
    from: &mut S,
    bytes: u64,
    patience: Duration,
    told: impl Fn(u64),
) -> io::Result<[u8; CHECKSUM]> {
    let mut piece = vec![0; PIECE];
    let mut digest = Sha256::new();
    let mut left = bytes;
    while left > 0 {
        let size = left.min(PIECE as u64) as usize;
        let count = patiently(patience, from.read(&mut piece[..size])).await?;
        if count == 0 {
            let text = format!("the data ended {} early", counted(left, "byte", "bytes"));
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        digest.update(&piece[..count]);
        told(count as u64);
        left -= count as u64;
    }
    Ok(digest.finalize().into())
}

fn block_of(number: u32) -> [u8; BLOCK] {
    let mut block = [0x5a; BLOCK];
    if let Some(head) = block.first_chunk_mut::<4>() {
        *head = number.to_le_bytes();
    }
    block
}

fn check(sent: &[u8], seen: &[u8], doing: &str) -> Result<()> {
    if sent == seen {
        return Ok(());
    }
    Err(Failure::new("the checksums differ: data is damaged on its way").during(doing))
}

async fn patiently<T>(
    patience: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| {
        let text = format!("nothing moved for {} s", patience.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

async fn within_io<T>(
    patience: Duration,
    doing: &str,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T> {
    patiently(patience, work).await.map_err(|error| Failure::new(error).during(doing))
}

async fn within<T>(
    patience: Duration,
    doing: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(patience, work).await {
        Ok(done) => done.map_err(|failure| failure.during(doing)),
        Err(_) => Err(Failure::new(format!("{doing} took longer than {} s", patience.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn what_is_sent_is_received_with_the_same_checksum() {
        for bytes in [0, 1, 7, PIECE as u64, 3 * PIECE as u64 + 5] {
            let (mut near, mut far) = tokio::io::duplex(10_000);
            let sent = async {
                let sent = send(&mut near, bytes, PATIENCE, |_| {}).await;
                drop(near);
                sent
            };
            let (sent, seen) = tokio::join!(sent, receive(&mut far, bytes, PATIENCE, |_| {}));
            assert_eq!(sent.unwrap(), seen.unwrap(), "{bytes} bytes");
        }
    }

    #[tokio::test]
    async fn an_early_end_is_noticed() {
        let (mut near, mut far) = tokio::io::duplex(100);
        near.write_all(b"abc").await.unwrap();
        drop(near);
        let error = receive(&mut far, 10, PATIENCE, |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("7 bytes early"), "{error}");
    }

    #[tokio::test]
    async fn the_host_echoes_takes_and_gives() {
        let (mut near, far) = tokio::io::duplex(PIECE);
        let host = tokio::spawn(answer(far, PATIENCE));
        near.write_all(&[ECHO]).await.unwrap();
        near.write_all(&block_of(7)).await.unwrap();
        let mut block = [0; BLOCK];
        near.read_exact(&mut block).await.unwrap();
        assert_eq!(block, block_of(7));
        drop(near);
        let _ = host.await.unwrap();

        let (mut near, far) = tokio::io::duplex(PIECE);
        let host = tokio::spawn(answer(far, PATIENCE));
        begin(&mut near, DOWNLOAD, 100_000).await.unwrap();
        let own = receive(&mut near, 100_000, PATIENCE, |_| {}).await.unwrap();
        let mut told = [0; CHECKSUM];
        near.read_exact(&mut told).await.unwrap();
        assert_eq!(own, told);
        host.await.unwrap().unwrap();

        let (mut near, far) = tokio::io::duplex(PIECE);
        let host = tokio::spawn(answer(far, PATIENCE));
        begin(&mut near, UPLOAD, 100_000).await.unwrap();
        let own = send(&mut near, 100_000, PATIENCE, |_| {}).await.unwrap();
        let mut seen = [0; CHECKSUM];
        near.read_exact(&mut seen).await.unwrap();
        assert_eq!(own, seen);
        host.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_stall_is_an_error() {
        let (_near, mut far) = tokio::io::duplex(10);
        let error = receive(&mut far, 10, Duration::from_millis(5), |_| {}).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
