//! Dialers that stop reading: their data waits at its source, not in the router.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io};

use futures::future::try_join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use weft_sdk::{Connection, Endpoint, EndpointBuilder};

use crate::network::Network;
use crate::streams::{Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, until, within};

const MIB: u64 = 1 << 20;
/// Bytes that each dialer asks for.
const STREAM: u64 = 1 << 30;
/// Number of dialers in the tests with many.
const MANY: usize = 50;
/// Most memory that the router may need for one and for many dialers.
const GROWTH_OF_ONE: u64 = 32 * MIB;
const GROWTH_OF_MANY: u64 = 96 * MIB;
/// Time limit for the data of many dialers: about 150 MiB pass until the last window is full.
const LONG: Duration = PATIENCE.saturating_mul(5);
/// Data has stopped when none has moved for this long.
const STILL: Duration = Duration::from_secs(1);
/// Bytes that dialers read later, more than any window: if one reads, and if each does.
const READ_BY_ONE: u64 = 32 * MIB;
const READ_BY_EACH: u64 = 3 * MIB;

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_with_their_own_flow_control_cost_little_memory() {
    let scene = Scene::start().await;
    let endpoint = scene.network.operator.endpoint("slow").await;
    let one = async || dial(&endpoint, "flood").await;
    scene.hold("one with its own flow control", 1, GROWTH_OF_ONE, Awake::One, one).await;
    let what = "many with their own flow control";
    scene.hold(what, MANY, GROWTH_OF_MANY, Awake::One, one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_with_the_routers_flow_control_cost_little_memory() {
    let scene = Scene::start().await;
    let identity = scene.network.operator.identity("slow").await;
    // On a shared connection, a dialer that does not read stops the others; each has its own.
    let legacy = async || {
        let how = EndpointBuilder::new().router_flow_control();
        let endpoint: Endpoint = how.build(identity.clone()).await.unwrap();
        dial(&endpoint, "flood").await
    };
    scene.hold("one with the router's flow control", 1, GROWTH_OF_ONE, Awake::One, legacy).await;
    let what = "many with the router's flow control";
    scene.hold(what, MANY, GROWTH_OF_MANY, Awake::One, legacy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_that_share_an_old_connection_cost_little_memory() {
    let scene = Scene::start().await;
    let how = EndpointBuilder::new().router_flow_control();
    let endpoint = scene.network.operator.endpoint_with("slow", how).await;
    // All dial before the first data, because later answers would wait behind it.
    let shared = async || dial(&endpoint, "flood-when-asked").await;
    scene.hold("many on one connection", MANY, GROWTH_OF_MANY, Awake::All, shared).await;
}

/// The dialers that read again.
#[derive(Clone, Copy, PartialEq)]
enum Awake {
    /// One dialer, while the others still do not read.
    One,
    /// All dialers, because dialers on one connection can only continue together.
    All,
}

/// A network with a source of much data, and a bystander whose circuit must keep working.
struct Scene {
    network: Network,
    flood: Server,
    when_asked: Server,
    _echo: Server,
    bystander: Endpoint,
}

impl Scene {
    async fn start() -> Self {
        let network = Network::start().await;
        let operator = &network.operator;
        operator.allow_everybody().await;
        let flood = Server::tcp(Manner::Pour(STREAM)).await;
        operator.tunneled("flood", flood.port(), true).await;
        let when_asked = Server::tcp(Manner::PourWhenAsked(STREAM)).await;
        operator.tunneled("flood-when-asked", when_asked.port(), true).await;
        let echo = Server::tcp(Manner::Echo).await;
        operator.tunneled("echo", echo.port(), true).await;
        let bystander = operator.endpoint("bystander").await;
        let scene = Self { network, flood, when_asked, _echo: echo, bystander };
        // Memory that any work needs does not count as growth.
        let mut first = dial(&scene.bystander, "flood").await;
        within("it flows", LONG, discard(&mut first, READ_BY_ONE)).await.unwrap();
        drop(first);
        round_trips(&mut dial(&scene.bystander, "echo").await, 100).await;
        scene
    }

    /// Lets `count` dialers dial without reading, and watches the router's memory.
    async fn hold(
        &self,
        what: &str,
        count: usize,
        limit: u64,
        awake: Awake,
        dial_one: impl AsyncFn() -> Connection,
    ) {
        let mut bystander = dial(&self.bystander, "echo").await;
        self.still().await;
        let before = self.network.router().resident();
        let mut slow = Vec::new();
        for _ in 0..count {
            slow.push(dial_one().await);
        }
        for stream in &mut slow {
            stream.write_all(b"now").await.unwrap();
        }
        self.still().await;
        let growth = Bytes(self.network.router().resident().saturating_sub(before));
        println!("slow readers, {what}: the router grew by {growth}");
        assert!(
            growth.0 < limit,
            "{what}: the router grew by {growth}, more than {}",
            Bytes(limit)
        );

        // The bystander continues, waiting dialers continue once they read, and memory stays
        // bounded.
        round_trips(&mut bystander, 100).await;
        let (count, length) = match awake {
            Awake::One => (1, READ_BY_ONE),
            Awake::All => (count, READ_BY_EACH),
        };
        let awake = slow.get_mut(..count).unwrap();
        within(&format!("{what}: it flows again"), LONG, read_again(awake, length)).await;
        self.still().await;
        let growth = Bytes(self.network.router().resident().saturating_sub(before));
        println!("slow readers, {what}: after reading again {growth}");
        assert!(
            growth.0 < limit,
            "{what}: the router grew by {growth}, more than {}",
            Bytes(limit)
        );
    }

    /// Waits until the sources have sent nothing for a while.
    async fn still(&self) {
        let poured = || self.flood.poured() + self.when_asked.poured();
        let look = async || {
            let before = poured();
            tokio::time::sleep(STILL).await;
            let after = poured();
            if before == after { Ok(()) } else { Err(format!("{} flowed", Bytes(after - before))) }
        };
        until("the sources are held up", LONG, look).await;
    }
}

async fn round_trips(stream: &mut Connection, count: usize) {
    let trips = async {
        for _ in 0..count {
            round_trip(stream, "an innocent bystander").await.unwrap();
        }
    };
    within("others go on", LONG, trips).await;
}

/// Reads from all dialers until each has received `length` bytes. Dialers that have them read on, because
/// on a shared connection one that stops would hold up the others.
async fn read_again(streams: &mut [Connection], length: u64) {
    let (behind, together) = (AtomicUsize::new(streams.len()), CancellationToken::new());
    let read = async |stream: &mut Connection| {
        discard(stream, length).await?;
        if behind.fetch_sub(1, Ordering::Relaxed) == 1 {
            together.cancel();
        }
        tokio::select! {
            () = together.cancelled() => Ok(()),
            read = discard(stream, STREAM) => read,
        }
    };
    let read: io::Result<Vec<()>> = try_join_all(streams.iter_mut().map(read)).await;
    read.unwrap();
}

/// Reads `length` bytes without checking them.
async fn discard(stream: &mut Connection, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut left = length;
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        let read = stream.read(&mut buffer[..most]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= read as u64;
    }
    Ok(())
}

/// A number of bytes, for messages.
#[derive(Clone, Copy)]
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / MIB as f64)
    }
}
