//! Questions to other DNS servers.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, future::Shared, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

use super::message;
use crate::{
    options::{Upstream, UpstreamMode},
    socket,
};

/// Time limit for one server's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most different questions under way at once.
const MOST_QUESTIONS: usize = 512;
/// Largest answer over UDP, in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// A question without its id, and whether it is asked over TCP.
type Key = (Bytes, bool);
type Answer = Shared<BoxFuture<'static, Option<Bytes>>>;

/// Other servers, and the questions under way.
pub(crate) struct Upstreams {
    servers: Arc<[Upstream]>,
    mode: UpstreamMode,
    /// The server whose last answer was good.
    good: Arc<AtomicUsize>,
    /// The same question is asked only once at a time, whichever client asks, even a server that
    /// asks this one what it was just asked.
    asking: Arc<Mutex<HashMap<Key, Answer>>>,
}

impl Upstreams {
    pub(crate) fn new(servers: &[Upstream], mode: UpstreamMode) -> Self {
        let (good, asking) = (Arc::default(), Arc::default());
        Self { servers: servers.into(), mode, good, asking }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The best answer to a question, with the question's id.
    pub(crate) async fn ask(&self, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let answer = self.answer(question, tcp)?.await?;
        let mut answer = answer.to_vec();
        answer.get_mut(..2)?.copy_from_slice(question.get(..2)?);
        Some(answer)
    }

    fn answer(&self, question: &[u8], tcp: bool) -> Option<Answer> {
        let key: Key = (Bytes::copy_from_slice(question.get(2..)?), tcp);
        let mut asking = self.asking.lock();
        if let Some(answer) = asking.get(&key) {
            return Some(answer.clone());
        }
        if asking.len() >= MOST_QUESTIONS {
            return None;
        }
        let (servers, mode, good) = (Arc::clone(&self.servers), self.mode, Arc::clone(&self.good));
        let table = Arc::clone(&self.asking);
        let own = key.clone();
        // A task of its own, because the client that asked first may go away.
        let task = tokio::spawn(async move {
            let answer = best(&servers, mode, &good, &own.0, tcp).await;
            table.lock().remove(&own);
            answer.map(Bytes::from)
        });
        let answer = async move { task.await.ok().flatten() }.boxed().shared();
        asking.insert(key, answer.clone());
        Some(answer)
    }
}

async fn best(
    servers: &[Upstream],
    mode: UpstreamMode,
    good: &AtomicUsize,
    question: &[u8],
    tcp: bool,
) -> Option<Vec<u8>> {
    let count = servers.len();
    let first = match mode {
        UpstreamMode::Parallel | UpstreamMode::Serial => 0,
        UpstreamMode::Failover => good.load(Ordering::Relaxed),
        UpstreamMode::Random => rand::random_range(0..count.max(1)),
    };
    let tries = (0..count).map(|step| {
        let index = (first + step) % count;
        async move { Some((index, exchange(servers.get(index)?, question, tcp).await)) }
    });
    let mut best: Option<(u8, Vec<u8>)> = None;
    let mut consider = |(index, outcome): (usize, io::Result<(u8, Vec<u8>)>)| match outcome {
        Ok((0, answer)) => {
            good.store(index, Ordering::Relaxed);
            Some(answer)
        }
        Ok((rank, answer)) => {
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                best = Some((rank, answer));
            }
            None
        }
        Err(problem) => {
            let server = servers.get(index).map(|server| server.address);
            tracing::debug!(?server, %problem, "a DNS server gave no answer");
            None
        }
    };
    if mode == UpstreamMode::Parallel {
        let mut tries: FuturesUnordered<_> = tries.collect();
        while let Some(outcome) = tries.next().await {
            if let Some(answer) = outcome.and_then(&mut consider) {
                return Some(answer);
            }
        }
    } else {
        for attempt in tries {
            if let Some(answer) = attempt.await.and_then(&mut consider) {
                return Some(answer);
            }
        }
    }
    best.map(|(_, answer)| answer)
}

/// Asks one server, under a random id.
async fn exchange(server: &Upstream, question: &[u8], tcp: bool) -> io::Result<(u8, Vec<u8>)> {
    let mut own = rand::random::<[u8; 2]>().to_vec();
    own.extend_from_slice(question);
    let asked = async {
        if server.tcp || tcp {
            over_tcp(server.address, &own).await
        } else {
            over_udp(server.address, &own).await
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.map_err(|_| io::ErrorKind::TimedOut)?
}

async fn over_udp(server: SocketAddr, question: &[u8]) -> io::Result<(u8, Vec<u8>)> {
    let socket: UdpSocket = socket::udp_towards(server)?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let count = socket.recv(&mut buffer).await?;
        let answer = buffer.get(..count).unwrap_or_default();
        // A datagram that does not answer this question may be an attacker's guess.
        if let Some(rank) = message::rank(question, answer) {
            return Ok((rank, answer.to_vec()));
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &[u8]) -> io::Result<(u8, Vec<u8>)> {
    let mut stream: TcpStream = socket::tcp_towards(server)?.connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(question);
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    let rank = message::rank(question, &answer).ok_or(io::ErrorKind::InvalidData)?;
    Ok((rank, answer))
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
