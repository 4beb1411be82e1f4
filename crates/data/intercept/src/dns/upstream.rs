//! Questions to other DNS servers.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::Instant;

use super::message;
use super::standing::Standing;
use crate::options::{Upstream, UpstreamMode};
use crate::socket;

/// Time limit for one server's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most different questions under way at once.
const MOST_QUESTIONS: usize = 512;
/// Largest answer over UDP, in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// A question without its id, and whether it is asked over TCP.
type Key = (Bytes, bool);
type SharedReply = Shared<BoxFuture<'static, Option<Bytes>>>;

/// Other servers, and the questions under way.
pub(crate) struct Upstreams {
    servers: Arc<[Server]>,
    mode: UpstreamMode,
    patience: Duration,
    /// The server whose last answer was good.
    good: Arc<AtomicUsize>,
    /// The same question is asked only once at a time, whichever client asks, even a server that
    /// asks this one what it was just asked.
    asking: Arc<Mutex<HashMap<Key, SharedReply>>>,
}

/// Another server.
#[derive(Debug)]
struct Server {
    at: Upstream,
    /// Over UDP, and over TCP.
    standing: [Standing; 2],
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.servers.iter()).finish()
    }
}

impl Upstreams {
    pub(crate) fn new(servers: &[Upstream], mode: UpstreamMode) -> Self {
        let server = |&at: &Upstream| Server { at, standing: Default::default() };
        let (good, asking) = (Arc::default(), Arc::default());
        let servers = servers.iter().map(server).collect();
        Self { servers, mode, patience: PATIENCE, good, asking }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// True if these servers are asked, in this order.
    pub(crate) fn asks(&self, servers: &[Upstream]) -> bool {
        self.servers.iter().map(|server| &server.at).eq(servers)
    }

    /// The best answer to a question, with the question's id.
    pub(crate) async fn ask(&self, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let answer = self.answer(question, tcp)?.await?;
        let mut answer = answer.to_vec();
        answer.get_mut(..2)?.copy_from_slice(question.get(..2)?);
        Some(answer)
    }

    fn answer(&self, question: &[u8], tcp: bool) -> Option<SharedReply> {
        let key: Key = (Bytes::copy_from_slice(question.get(2..)?), tcp);
        let mut asking = self.asking.lock();
        if let Some(answer) = asking.get(&key) {
            return Some(answer.clone());
        }
        if asking.len() >= MOST_QUESTIONS {
            return None;
        }
        let (mode, good) = (self.mode, Arc::clone(&self.good));
        let (table, own) = (Arc::clone(&self.asking), key.clone());
        let asked = Asked {
            servers: Arc::clone(&self.servers),
            question: own.0.clone(),
            tcp,
            patience: self.patience,
        };
        // A task of its own, because the client that asked first may go away.
        let task = tokio::spawn(async move {
            let answer = asked.best(mode, &good).await;
            table.lock().remove(&own);
            answer.map(Bytes::from)
        });
        let answer = async move { task.await.ok().flatten() }.boxed().shared();
        asking.insert(key, answer.clone());
        Some(answer)
    }
}

/// A question, and the servers that it may be asked.
#[derive(Clone)]
struct Asked {
    servers: Arc<[Server]>,
    question: Bytes,
    tcp: bool,
    /// Time limit for each server.
    patience: Duration,
}

impl Asked {
    /// The first good answer, or else the best one. Servers that are silent by what they were asked before
    /// are asked last, all at once and only if no other has answered, so that a question waits for them
    /// only if there is nothing else to wait for. Beside the others they are asked from time to time.
    async fn best(&self, mode: UpstreamMode, good: &AtomicUsize) -> Option<Vec<u8>> {
        let count = self.servers.len();
        let first = match mode {
            UpstreamMode::Parallel | UpstreamMode::Serial => 0,
            UpstreamMode::Failover => good.load(Ordering::Relaxed),
            UpstreamMode::Random => rand::random_range(0..count.max(1)),
        };
        let order = (0..count).map(|step| (first + step) % count);
        let is_silent = |index: &usize| self.standing(*index).is_some_and(Standing::is_silent);
        let (silent, heard): (Vec<usize>, Vec<usize>) = order.partition(is_silent);
        if !heard.is_empty() {
            self.probe(&silent);
        }
        let at_once = if mode == UpstreamMode::Parallel { count.max(1) } else { 1 };
        let turns = heard.chunks(at_once).map(|turn| (turn, false)).chain([(&silent[..], true)]);
        let mut best: Option<(u8, Vec<u8>)> = None;
        for (turn, are_silent) in turns {
            if are_silent && best.is_some() {
                break;
            }
            let asking = turn.iter().map(|&index| async move { (index, self.ask(index).await) });
            let mut asking: FuturesUnordered<_> = asking.collect();
            while let Some((index, outcome)) = asking.next().await {
                match outcome {
                    Some((0, answer)) => {
                        good.store(index, Ordering::Relaxed);
                        return Some(answer);
                    }
                    Some((rank, answer)) if best.as_ref().is_none_or(|best| rank < best.0) => {
                        best = Some((rank, answer));
                    }
                    _ => {}
                }
            }
        }
        best.map(|(_, answer)| answer)
    }

    /// Asks silent servers for which it is time. Nobody waits for their answers.
    fn probe(&self, silent: &[usize]) {
        let is_due = |index: &&usize| self.standing(**index).is_some_and(Standing::is_probed);
        for &index in silent.iter().filter(is_due) {
            let asked = self.clone();
            tokio::spawn(async move { asked.ask(index).await });
        }
    }

    fn standing(&self, index: usize) -> Option<&Standing> {
        let server = self.servers.get(index)?;
        let [over_udp, over_tcp] = &server.standing;
        Some(if server.at.tcp || self.tcp { over_tcp } else { over_udp })
    }

    /// Asks one server, and notes whether it answers.
    async fn ask(&self, index: usize) -> Option<(u8, Vec<u8>)> {
        let at = self.servers.get(index)?.at;
        let begun = Instant::now();
        let exchanged = exchange(&at, &self.question, self.tcp);
        let outcome = tokio::time::timeout(self.patience, exchanged).await;
        let outcome = outcome
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
        let changed = self.standing(index)?.note(begun, outcome.is_ok());
        let server = at.address;
        match &outcome {
            Ok(_) if changed => tracing::info!(%server, "a DNS server answers again"),
            Err(problem) if changed => tracing::warn!(
                %server, %problem,
                "a DNS server gives no answer: others are asked first until it does"
            ),
            Err(problem) => tracing::debug!(%server, %problem, "a DNS server gave no answer"),
            Ok(_) => {}
        }
        outcome.ok()
    }
}

/// Asks one server, under a random id.
async fn exchange(server: &Upstream, question: &[u8], tcp: bool) -> io::Result<(u8, Vec<u8>)> {
    let mut own = rand::random::<[u8; 2]>().to_vec();
    own.extend_from_slice(question);
    if server.tcp || tcp {
        over_tcp(server.address, &own).await
    } else {
        over_udp(server.address, &own).await
    }
}

async fn over_udp(server: SocketAddr, question: &[u8]) -> io::Result<(u8, Vec<u8>)> {
    let socket: UdpSocket = socket::udp_towards(server)?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let count = socket::receive_answer(&socket, &mut buffer).await?;
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
pub(super) mod tests;
