//! Five routers in a ring with chords, many long flows, and links and routers that break at random.
//!
//! Every flow with a path left goes on, no flow is corrupted, and at the end nothing is left of any of them.
//! `WEFT_CHAOS_SEED`, `WEFT_CHAOS_SECONDS` and `WEFT_CHAOS_FLOWS` change a run; a run prints its seed.
//! `crates/weft/tests/process/chaos.rs` kills processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_sdk::{Connection, Listener};

use crate::mesh::{at, links, network};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial, echo};
use crate::wires::Wires;

/// Bytes that a flow sends before it waits for their echo.
const PIECE: usize = 20_000;
/// The pairs of linked routers; the second one dials. The ends of the flows are at the first two routers.
const PAIRS: [(usize, usize); 7] = [(0, 2), (1, 2), (1, 3), (3, 4), (0, 4), (2, 3), (2, 4)];

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Sends pieces and compares the echoes, until told to stop. Returns the number of echoed pieces.
async fn flow(
    connection: Connection,
    number: u64,
    stop: Arc<AtomicBool>,
    all: Arc<AtomicU64>,
) -> u64 {
    let (mut reader, mut writer) = connection.into_split();
    let mut random = StdRng::seed_from_u64(number);
    let (mut sent, mut back, mut rounds) = (vec![0; PIECE], vec![0; PIECE], 0);
    while !stop.load(Ordering::Relaxed) {
        random.fill_bytes(&mut sent);
        let (wrote, read) = tokio::join!(writer.write_all(&sent), reader.read_exact(&mut back));
        wrote.unwrap_or_else(|problem| panic!("flow {number} after {rounds} rounds: {problem}"));
        read.unwrap_or_else(|problem| panic!("flow {number} after {rounds} rounds: {problem}"));
        assert!(sent == back, "flow {number} is corrupted in round {rounds}");
        rounds += 1;
        all.fetch_add(1, Ordering::Relaxed);
    }
    writer.shutdown().await.unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty(), "flow {number} got more than it sent");
    rounds
}

/// Compares streams, and answers the end of each with the number of its bytes.
fn sink(mut listener: Listener) {
    tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = incoming.accept().await.unwrap().into_split();
                let mut random = StdRng::seed_from_u64(reader.read_u64().await.unwrap());
                let (mut wanted, mut came, mut count) = (Vec::new(), vec![0; PIECE], 0);
                while let Ok(read @ 1..) = reader.read(&mut came).await {
                    while wanted.len() < read {
                        let mut more = vec![0; PIECE];
                        random.fill_bytes(&mut more);
                        wanted.append(&mut more);
                    }
                    assert!(wanted.drain(..read).eq(came[..read].iter().copied()), "corrupted");
                    count += read as u64;
                }
                writer.write_u64(count).await.unwrap();
                writer.shutdown().await.unwrap();
            });
        }
    });
}

/// Sends in one direction as fast as it can, until told to stop. Returns the number of pieces that were sent.
async fn stream(
    connection: Connection,
    number: u64,
    stop: Arc<AtomicBool>,
    all: Arc<AtomicU64>,
) -> u64 {
    let (mut reader, mut writer) = connection.into_split();
    let (mut random, mut piece, mut rounds) = (StdRng::seed_from_u64(number), vec![0; PIECE], 0);
    writer.write_u64(number).await.unwrap();
    while !stop.load(Ordering::Relaxed) {
        random.fill_bytes(&mut piece);
        let wrote = writer.write_all(&piece).await;
        wrote.unwrap_or_else(|problem| panic!("stream {number} after {rounds}: {problem}"));
        rounds += 1;
        all.fetch_add(1, Ordering::Relaxed);
    }
    writer.shutdown().await.unwrap();
    assert_eq!(reader.read_u64().await.unwrap(), rounds * PIECE as u64, "stream {number}");
    rounds
}

struct Mesh {
    routers: Vec<Peer>,
    wires: Vec<Wires>,
}

impl Mesh {
    async fn of(network: &Network, count: usize) -> Self {
        let mut mesh = Self { routers: Vec::new(), wires: Vec::new() };
        for number in 0..count {
            let link = free_port();
            let wires = Wires::to(link).await;
            let name = format!("r{number}");
            let mut router = network.enrolled_router(&name, link, wires.port).await;
            router.change(|config| {
                let of = |is_dialer| {
                    let end = |pair: (usize, usize)| if is_dialer { pair.1 } else { pair.0 };
                    let none = if is_dialer { "dials nobody" } else { "is not dialed" };
                    let own = PAIRS.into_iter().filter(move |pair| end(*pair) == number);
                    own.map(|pair| format!("{pair:?}")).chain([none.into()]).collect()
                };
                config.link.listeners.iter_mut().for_each(|one| one.groups = of(false));
                config.link.dialers.iter_mut().for_each(|one| one.groups = of(true));
            });
            router.start().await;
            mesh.routers.push(router);
            mesh.wires.push(wires);
        }
        mesh.whole().await;
        mesh
    }

    /// Waits until every pair is linked.
    async fn whole(&self) {
        for number in 0..self.routers.len() {
            self.linked(number).await;
        }
    }

    /// Waits until a router has all its links.
    async fn linked(&self, number: usize) {
        let own = PAIRS.iter().filter(|(one, other)| [*one, *other].contains(&number)).count();
        links(&self.routers[number], own).await;
    }

    /// Breaks a link or a router such that a path between the first two routers is left, and
    /// repairs it.
    async fn break_something(&mut self, random: &mut StdRng) -> String {
        let at = random.random_range(0..self.routers.len());
        match random.random_range(0..10) {
            0..4 => {
                let cut = self.wires[at].cut_one(random.random_range(0..100));
                format!("one connection to router {at}: {cut}")
            }
            4..6 => {
                let at = at.max(2);
                self.wires[at].cut();
                format!("all connections to router {at}")
            }
            6..8 => {
                self.wires[at].pause(true);
                tokio::time::sleep(Duration::from_millis(random.random_range(200..2000))).await;
                self.wires[at].pause(false);
                format!("router {at} paused")
            }
            _ => {
                let at = at.max(2);
                self.routers[at].stop().await;
                tokio::time::sleep(Duration::from_millis(random.random_range(0..1000))).await;
                self.routers[at].start().await;
                // One fault at a time.
                self.linked(at).await;
                format!("router {at} stopped and started")
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_outlive_whatever_leaves_them_a_way() {
    let seed = setting("WEFT_CHAOS_SEED", 7);
    let time = Duration::from_secs(setting("WEFT_CHAOS_SECONDS", 15));
    let flows = setting("WEFT_CHAOS_FLOWS", 20);
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let network = network().await;
    let mut mesh = Mesh::of(&network, 5).await;
    network.service("chaos", true).await;
    let host = at(&network, &mesh.routers[0], "host").await;
    let dialer = at(&network, &mesh.routers[1], "dialer").await;
    network.service("stream", false).await;
    echo(soon(host.bind("chaos")).await.unwrap());
    sink(soon(host.bind("stream")).await.unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let counts: Vec<Arc<AtomicU64>> = (0..flows).map(|_| Arc::default()).collect();
    let rounds = || counts.iter().map(|count| count.load(Ordering::Relaxed));
    let mut running = Vec::new();
    for number in 0..flows {
        let (stop, all) = (stop.clone(), counts[number as usize].clone());
        running.push(match number % 4 {
            0 => {
                let connection = dial(&dialer, "stream").await;
                tokio::spawn(stream(connection, number, stop, all))
            }
            _ => {
                let connection = dial(&dialer, "chaos").await;
                tokio::spawn(flow(connection, number, stop, all))
            }
        });
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        let what = mesh.break_something(&mut random).await;
        let all: u64 = rounds().sum();
        println!("{:7.3} s, {all} rounds: {what}", begin.elapsed().as_secs_f32());
        tokio::time::sleep(Duration::from_millis(random.random_range(0..700))).await;
    }
    mesh.whole().await;
    // Every flow goes on.
    let before: Vec<u64> = rounds().collect();
    let go_on = || rounds().zip(&before).all(|(now, before)| now > before + 5);
    until_some(async || go_on().then_some(())).await;
    stop.store(true, Ordering::Relaxed);
    for (number, one) in running.into_iter().enumerate() {
        let rounds = soon(one).await.unwrap();
        assert!(rounds > 0, "flow {number} never moved");
    }
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
    for (number, router) in mesh.routers.iter().enumerate() {
        let data = router.router().data();
        let empty = until_some(async || {
            let left = (data.counts().0, data.budget_used());
            (left == (0, 0)).then_some(())
        });
        let left = || (data.counts(), data.budget_used());
        tokio::time::timeout(Duration::from_secs(50), empty)
            .await
            .unwrap_or_else(|_| panic!("router {number} keeps {:?}", left()));
    }
}
