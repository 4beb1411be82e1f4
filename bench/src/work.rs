//! The work that every path is given, and the server that answers it.
//!
//! A connection begins with one request of nine bytes: the kind of work, and a count. The server
//!
//! * for [`SINK`] reads that many bytes and answers one;
//! * for [`ECHO`] sends every byte back until the client closes.
//!
//! No step relies on half-close, so that relays that do not pass it on can be compared.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, try_join_all};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::cpu;
use crate::options::Writes;

/// Reads a given number of bytes and answers one.
const SINK: u8 = b'S';
/// Sends received bytes back.
const ECHO: u8 = b'E';
/// Largest write and read of either side, bytes.
const BUFFER: usize = 64 * 1024;
/// Buffer of a connection whose small requests are echoed: zeroing a larger one would count as set-up time.
const ECHO_BUFFER: usize = 4 * 1024;
/// Bytes that a first run moves.
const PROBE: u64 = 16 << 20;
/// Round trips behind each percentile, at most.
const ROUND_TRIPS: usize = 2000;
/// Bytes of a MiB.
pub(crate) const MIB: f64 = 1_048_576.0;

/// A byte stream in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A byte stream of any type.
pub(crate) type AnyStream = Pin<Box<dyn Stream>>;

/// A path from a client to the server of [`serve`].
pub(crate) trait Path: Send + Sync {
    /// Opens a connection to the server.
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>>;

    /// Processes whose processor time counts for the relay: none if there is no relay.
    fn relay(&self) -> Vec<u32>;

    /// Bytes that the wires of the path carried so far, both directions together; `None` without wires.
    fn carried(&self) -> Option<u64> {
        None
    }
}

/// Answers one connection until it ends.
pub(crate) async fn serve(mut stream: AnyStream) -> io::Result<()> {
    let what = stream.read_u8().await?;
    let count = stream.read_u64().await?;
    let mut buffer = vec![0; if what == ECHO { ECHO_BUFFER } else { BUFFER }];
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

/// The values measured on every path, with one size of writes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Basics {
    /// Throughput of one flow, MiB per second.
    pub(crate) single: f64,
    /// Throughput of many flows together, MiB per second.
    pub(crate) many: f64,
    /// Median round trip, microseconds.
    pub(crate) p50: f64,
    /// 99th percentile of the round trip, microseconds.
    pub(crate) p99: f64,
    /// Connections opened, used and closed per second.
    pub(crate) set_ups: f64,
    /// Processor seconds of the relay per GiB, one flow.
    pub(crate) cpu: Option<f64>,
    /// Processor microseconds of the relay per write, one flow.
    pub(crate) per_payload: Option<f64>,
    /// Bytes of packets on the wires for each byte of data, many flows: heads, answers and what was sent again.
    pub(crate) carried: Option<f64>,
}

/// Measures [`Basics`].
pub(crate) async fn basics(
    path: &Arc<dyn Path>,
    payload: usize,
    writes: &Writes,
) -> io::Result<Basics> {
    let duration = Duration::from_secs_f64(writes.seconds);
    let total = total(path, payload, writes).await?;
    let before = relay_cpu(path.as_ref());
    let single = bulk(path, 1, payload, total).await?.as_secs_f64();
    let used = relay_cpu(path.as_ref()).saturating_sub(before).as_secs_f64();
    let carried = path.carried();
    let many = bulk(path, writes.flows, payload, total).await?.as_secs_f64();
    let carried = path.carried().zip(carried).map(|(now, then)| (now - then) as f64 / total as f64);
    let times = round_trips(path, 64, ROUND_TRIPS, duration * 4).await?;
    let set_ups = set_ups(path, writes.dials, duration).await?;
    let relayed = !path.relay().is_empty();
    let mib = total as f64 / MIB;
    Ok(Basics {
        single: mib / single,
        many: mib / many,
        p50: micros(&times, 0.50),
        p99: micros(&times, 0.99),
        set_ups,
        cpu: relayed.then(|| used / (mib / 1024.0)),
        per_payload: relayed.then(|| used * 1e6 / (total as f64 / payload as f64)),
        carried,
    })
}

/// Moves data over one flow for about the wanted time; returns the bytes and the time that they took.
pub(crate) async fn one_flow(
    path: &Arc<dyn Path>,
    payload: usize,
    writes: &Writes,
) -> io::Result<(u64, Duration)> {
    let total = total(path, payload, writes).await?;
    Ok((total, bulk(path, 1, payload, total).await?))
}

/// The bytes that one flow moves in the time that is wanted, found by a first short run.
async fn total(path: &Arc<dyn Path>, payload: usize, writes: &Writes) -> io::Result<u64> {
    let took = bulk(path, 1, payload, PROBE).await?.as_secs_f64().max(0.001);
    Ok(((PROBE as f64 / took * writes.seconds) as u64).clamp(PROBE, 64 << 30))
}

/// A quantile of times in nanoseconds, in microseconds.
pub(crate) fn micros(times: &Histogram<u64>, quantile: f64) -> f64 {
    times.value_at_quantile(quantile) as f64 / 1000.0
}

fn relay_cpu(path: &dyn Path) -> Duration {
    path.relay().into_iter().filter_map(cpu::cpu_time).sum()
}

async fn begin(path: &dyn Path, what: u8, count: u64) -> io::Result<AnyStream> {
    let mut stream = path.connect().await?;
    ask(&mut stream, what, count).await?;
    Ok(stream)
}

async fn ask(stream: &mut (impl AsyncWrite + Unpin), what: u8, count: u64) -> io::Result<()> {
    stream.write_u8(what).await?;
    stream.write_u64(count).await?;
    stream.flush().await
}

/// Has one byte echoed on a new connection, and ends it.
pub(crate) async fn use_once(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    ask(stream, ECHO, 0).await?;
    stream.write_all(b"x").await?;
    stream.flush().await?;
    let mut back = [0];
    stream.read_exact(&mut back).await?;
    stream.shutdown().await
}

/// Moves `total` bytes in writes of `payload` bytes over each of `flows` connections at once, and
/// returns the time from the first byte to the last confirmation.
async fn bulk(
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

/// Times `count` round trips of `payload` bytes over one connection, fewer if they take longer than
/// the limit; values are nanoseconds.
async fn round_trips(
    path: &Arc<dyn Path>,
    payload: usize,
    count: usize,
    limit: Duration,
) -> io::Result<Histogram<u64>> {
    let mut stream = begin(path.as_ref(), ECHO, 0).await?;
    let mut times = Histogram::new(3).map_err(io::Error::other)?;
    let data = vec![0x5a; payload];
    let mut back = vec![0; payload];
    let begun = Instant::now();
    for turn in 0..count + count / 10 {
        let started = Instant::now();
        stream.write_all(&data).await?;
        stream.flush().await?;
        stream.read_exact(&mut back).await?;
        // The first tenth is not counted.
        if turn >= count / 10 {
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            times.record(nanos).map_err(io::Error::other)?;
            if begun.elapsed() > limit {
                break;
            }
        }
    }
    stream.shutdown().await?;
    Ok(times)
}

/// Times round trips of 64 bytes, every 5 ms, while as many flows as are wanted send writes of
/// `payload` bytes without end. Also returns how evenly these were served: Jain's index of the
/// bytes that each sent.
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
        // The first fifth is not counted.
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
/// `duration`; returns how many per second.
async fn set_ups(path: &Arc<dyn Path>, lanes: usize, duration: Duration) -> io::Result<f64> {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..lanes {
        let path = Arc::clone(path);
        tasks.spawn(async move {
            let mut done = 0_u64;
            while started.elapsed() < duration {
                use_once(&mut path.connect().await?).await?;
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
