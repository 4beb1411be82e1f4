//! The work that every path is given, and the server that answers it.
//!
//! A connection begins with one request of nine bytes: what to do, and a count. The server
//!
//! * for [`SINK`] reads that many bytes and answers one;
//! * for [`ECHO`] sends every byte back until the client closes.
//!
//! No step relies on half-close, so that relays that do not pass it on can be compared.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, try_join_all};
use hdrhistogram::Histogram;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads a given number of bytes and answers one.
const SINK: u8 = b'S';
/// Sends back what comes.
const ECHO: u8 = b'E';
/// Largest write and read of either side, bytes.
const BUFFER: usize = 64 * 1024;

/// Any byte stream.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A byte stream whose kind does not matter any more.
pub(crate) type AnyStream = Pin<Box<dyn Stream>>;

/// A way from a client to the server of [`serve`].
pub(crate) trait Path: Send + Sync {
    /// Opens a connection to the server.
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>>;

    /// Processes whose processor time is the relay's: empty when nothing stands between.
    fn relay(&self) -> Vec<u32>;
}

/// Answers one connection until it ends.
pub(crate) async fn serve(mut stream: AnyStream) -> io::Result<()> {
    let what = stream.read_u8().await?;
    let count = stream.read_u64().await?;
    let mut buffer = vec![0; BUFFER];
    match what {
        SINK => {
            let mut left = count;
            while left > 0 {
                let room = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
                let read = stream.read(buffer.get_mut(..room).unwrap_or_default()).await?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                left -= read as u64;
            }
            stream.write_all(b"K").await?;
            stream.flush().await?;
            // The client closes; wait for it so that the answer is not cut off.
            let _ = stream.read(&mut buffer).await;
            Ok(())
        }
        ECHO => loop {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return stream.shutdown().await;
            }
            stream.write_all(buffer.get(..read).unwrap_or_default()).await?;
            stream.flush().await?;
        },
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unknown request")),
    }
}

async fn begin(path: &dyn Path, what: u8, count: u64) -> io::Result<AnyStream> {
    let mut stream = path.connect().await?;
    stream.write_u8(what).await?;
    stream.write_u64(count).await?;
    stream.flush().await?;
    Ok(stream)
}

/// Moves `total` bytes in writes of `payload` bytes over each of `flows` connections at once, and
/// tells how long it took from the first byte to the last confirmation.
pub(crate) async fn bulk(
    path: &Arc<dyn Path>,
    flows: usize,
    payload: usize,
    total: u64,
) -> io::Result<Duration> {
    let each = total / flows as u64;
    let streams = try_join_all((0..flows).map(|_| begin(path.as_ref(), SINK, each))).await?;
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for stream in streams {
        tasks.spawn(push(stream, payload, each));
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(io::Error::other)??;
    }
    Ok(started.elapsed())
}

async fn push(mut stream: AnyStream, payload: usize, total: u64) -> io::Result<()> {
    let data = vec![0x5a; payload];
    let mut left = total;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(payload).min(payload);
        stream.write_all(data.get(..now).unwrap_or_default()).await?;
        left -= now as u64;
    }
    stream.flush().await?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    stream.shutdown().await
}

/// Times `count` round trips of `payload` bytes over one connection; values are nanoseconds.
pub(crate) async fn round_trips(
    path: &Arc<dyn Path>,
    payload: usize,
    count: usize,
) -> io::Result<Histogram<u64>> {
    let mut stream = begin(path.as_ref(), ECHO, 0).await?;
    let mut times = Histogram::new(3).map_err(io::Error::other)?;
    let data = vec![0x5a; payload];
    let mut back = vec![0; payload];
    for turn in 0..count + count / 10 {
        let started = Instant::now();
        stream.write_all(&data).await?;
        stream.flush().await?;
        stream.read_exact(&mut back).await?;
        // The first tenth warms up.
        if turn >= count / 10 {
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            times.record(nanos).map_err(io::Error::other)?;
        }
    }
    stream.shutdown().await?;
    Ok(times)
}

/// Times round trips of 64 bytes, every 5 ms, while as many flows as are wanted send writes of
/// `payload` bytes without end. Also tells how evenly these were served: Jain's index of the bytes
/// that each sent.
pub(crate) async fn ping_beside(
    path: &Arc<dyn Path>,
    flows: usize,
    payload: usize,
    duration: Duration,
) -> io::Result<(Histogram<u64>, f64)> {
    let mut streams =
        try_join_all((0..flows).map(|_| begin(path.as_ref(), SINK, u64::MAX))).await?;
    let mut ping = begin(path.as_ref(), ECHO, 0).await?;
    let mut tasks = tokio::task::JoinSet::new();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for mut stream in streams.drain(..) {
        let stop = Arc::clone(&stop);
        tasks.spawn(async move {
            let (data, mut sent) = (vec![0x5a; payload], 0_u64);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                stream.write_all(&data).await?;
                sent += payload as u64;
            }
            io::Result::Ok(sent)
        });
    }
    let mut times = Histogram::new(3).map_err(io::Error::other)?;
    let (started, mut back) = (Instant::now(), [0; 64]);
    while started.elapsed() < duration {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let sent = Instant::now();
        ping.write_all(&[0x5a; 64]).await?;
        ping.flush().await?;
        ping.read_exact(&mut back).await?;
        // The first fifth warms up.
        if started.elapsed() > duration / 5 {
            let nanos = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
            times.record(nanos).map_err(io::Error::other)?;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let (mut sum, mut squares) = (0.0, 0.0);
    while let Some(done) = tasks.join_next().await {
        let sent = done.map_err(io::Error::other)?? as f64;
        sum += sent;
        squares += sent * sent;
    }
    Ok((times, if squares > 0.0 { sum * sum / (flows as f64 * squares) } else { 0.0 }))
}

/// Opens connections, has one byte echoed on each and closes them, `lanes` at a time, for about
/// `duration`; tells how many per second.
pub(crate) async fn set_ups(
    path: &Arc<dyn Path>,
    lanes: usize,
    duration: Duration,
) -> io::Result<f64> {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..lanes {
        let path = Arc::clone(path);
        tasks.spawn(async move {
            let mut done = 0_u64;
            while started.elapsed() < duration {
                let mut stream = begin(path.as_ref(), ECHO, 0).await?;
                stream.write_all(b"x").await?;
                stream.flush().await?;
                let mut back = [0];
                stream.read_exact(&mut back).await?;
                stream.shutdown().await?;
                done += 1;
            }
            io::Result::Ok(done)
        });
    }
    let mut total = 0;
    while let Some(done) = tasks.join_next().await {
        total += done.map_err(io::Error::other)??;
    }
    Ok(total as f64 / started.elapsed().as_secs_f64())
}
