//! Five routers, each linked with each, many long flows, and links and routers that break at random.
//!
//! No flow that has a way left is lost, none is corrupted, and nothing of any of them is left behind.
//! `WEFT_CHAOS_SEED`, `WEFT_CHAOS_SECONDS` and `WEFT_CHAOS_FLOWS` change a run; a run says its seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_sdk::Connection;

use crate::mesh::{at, links, network};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial, echo};
use crate::wires::Wires;

/// Bytes that a flow sends before it waits for their echo.
const PIECE: usize = 20_000;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Sends pieces and compares the echoes, until told to stop. Returns how many went round.
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
            mesh.routers.push(network.router_behind(&name, link, wires.port).await);
            mesh.wires.push(wires);
        }
        mesh.whole().await;
        mesh
    }

    /// Waits until every router is linked with every other.
    async fn whole(&self) {
        for router in &self.routers {
            links(router, self.routers.len() - 1).await;
        }
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
                // One at a time.
                links(&self.routers[at], self.routers.len() - 1).await;
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
    echo(soon(host.bind("chaos")).await.unwrap());
    let (stop, all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut running = Vec::new();
    for number in 0..flows {
        let connection = dial(&dialer, "chaos").await;
        running.push(tokio::spawn(flow(connection, number, stop.clone(), all.clone())));
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        let what = mesh.break_something(&mut random).await;
        let rounds = all.load(Ordering::Relaxed);
        println!("{:7.3} s, {rounds} rounds: {what}", begin.elapsed().as_secs_f32());
        tokio::time::sleep(Duration::from_millis(random.random_range(0..700))).await;
    }
    mesh.whole().await;
    // Every one of them goes on.
    let before = all.load(Ordering::Relaxed);
    until_some(async || (all.load(Ordering::Relaxed) > before + 5 * flows).then_some(())).await;
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
