//! Many busy circuits over one connection of an SDK, beside one that sends little.
//!
//! The clock stands still during a test, so that paths and payloads do not age on a busy machine.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use weft_config::router::Listener as RouterListener;
use weft_sdk::{Connection, Listener};

use crate::mesh::{at, links, network};
use crate::network::{LONG, free_port, soon};
use crate::sdk::{dial, echo};

const CIRCUITS: usize = 40;
/// Bytes that the circuits of a connection may have on their way together, on short paths, beside one that sends
/// little. The clock stands still, so that the connection counts as shared from the first ping on.
const LIMIT: usize = 256 * 1024;
/// A large payload with its bookkeeping: one fills the crowd, another may have been taken out of turn.
const PAYLOAD: usize = 33 * 1024;
/// Bytes that are written at once.
const PIECE: usize = 64 * 1024;

/// A clock that stands still. After [`LONG`] in real time it goes on, whenever no task can run, so that the
/// time limits of waits expire.
struct StandingClock(mpsc::Sender<()>);

impl StandingClock {
    fn new() -> Self {
        tokio::time::pause();
        let (sender, receiver) = mpsc::channel();
        // While such a task runs, the clock does not move on by itself.
        spawn_blocking(move || receiver.recv_timeout(LONG));
        Self(sender)
    }

    fn go_on(self) {
        drop(self.0);
        tokio::time::resume();
    }
}

/// Lets other tasks run for a moment of real time.
async fn moment() {
    spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await.unwrap();
}

/// Waits for a condition.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !condition() {
        assert!(since.elapsed() < LONG, "waited in vain for {what}");
        moment().await;
    }
}

/// A wire to a router that can keep what is sent to it. Acks come back meanwhile.
struct Wire {
    port: u16,
    keeps: watch::Sender<bool>,
    /// Bytes that the wire has kept back.
    kept: Arc<AtomicUsize>,
}

impl Wire {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Self {
            port: listener.local_addr().unwrap().port(),
            keeps: watch::Sender::new(false),
            kept: Arc::default(),
        };
        let (keeps, kept) = (wire.keeps.subscribe(), Arc::clone(&wire.kept));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let other = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let ((from_sdk, mut to_sdk), (mut from_router, to_router)) =
                    (socket.into_split(), other.into_split());
                tokio::spawn(there(from_sdk, to_router, keeps.clone(), Arc::clone(&kept)));
                tokio::spawn(async move { tokio::io::copy(&mut from_router, &mut to_sdk).await });
            }
        });
        wire
    }

    fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }
}

async fn there(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut keeps: watch::Receiver<bool>,
    kept: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut waiting = Vec::new();
    loop {
        tokio::select! {
            read = from.read_buf(&mut waiting) => {
                if read? == 0 {
                    return Ok(());
                }
            }
            changed = keeps.changed() => if changed.is_err() { return Ok(()) },
        }
        if *keeps.borrow_and_update() {
            kept.store(waiting.len(), Ordering::Relaxed);
        } else {
            to.write_all(&waiting).await?;
            waiting.clear();
        }
    }
}

/// A piece of a circuit's data: the number of the piece, then bytes with that of the circuit.
fn piece(circuit: usize, number: u64) -> Vec<u8> {
    let mut piece = vec![circuit as u8; PIECE];
    piece[..8].copy_from_slice(&number.to_be_bytes());
    piece
}

/// Hosts readers, which answer the first byte and, after the end, say how many pieces they have read. They panic if one
/// of these is not the next one of its circuit.
fn readers(mut listener: Listener) {
    tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = incoming.accept().await.unwrap();
                let circuit = connection.read_u8().await.unwrap() as usize;
                connection.write_u8(1).await.unwrap();
                let (mut pieces, mut read) = (0, vec![0; PIECE]);
                while connection.read_exact(&mut read).await.is_ok() {
                    assert!(read == piece(circuit, pieces), "piece {pieces} of circuit {circuit}");
                    pieces += 1;
                }
                connection.write_u64(pieces).await.unwrap();
                connection.shutdown().await
            });
        }
    });
}

/// Writes until told to stop; the number of pieces, once the host has said that it has them all.
fn keep_busy(
    mut connection: Connection,
    circuit: usize,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<u64> {
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) {
            connection.write_all(&piece(circuit, written)).await.unwrap();
            written += 1;
        }
        connection.shutdown().await.unwrap();
        assert_eq!(connection.read_u64().await.unwrap(), written);
        written
    })
}

#[tokio::test]
async fn busy_circuits_of_one_connection_share_what_is_on_its_way_and_let_a_ping_pass() {
    let network = network().await;
    let edge = free_port();
    let wire = Wire::to(edge).await;
    let link = free_port();
    let mut near = network.enrolled_router("near", link, link).await;
    near.change(|config| {
        for listener in &mut config.listeners {
            if let RouterListener::Edge(listener) = listener {
                listener.address.port = edge;
                listener.advertise.port = wire.port;
            }
        }
    });
    near.start().await;
    let far = network.another_router("far").await;
    links(&near, 1).await;
    network.service("bulk", false).await;
    network.service("ping", false).await;
    let (host, dialer) = (at(&network, &far, "host").await, at(&network, &near, "dialer").await);
    readers(soon(host.bind("bulk")).await.unwrap());
    echo(soon(host.bind("ping")).await.unwrap());
    let mut ping = dial(&dialer, "ping").await;
    let mut circuits = Vec::new();
    for _ in 0..CIRCUITS {
        circuits.push(dial(&dialer, "bulk").await);
    }

    let clock = StandingClock::new();
    // Each circuit measures its path.
    for (number, circuit) in circuits.iter_mut().enumerate() {
        circuit.write_u8(number as u8).await.unwrap();
        assert_eq!(soon(circuit.read_u8()).await.unwrap(), 1);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let busy = circuits.into_iter().enumerate();
    let busy: Vec<_> = busy.map(|(number, circuit)| keep_busy(circuit, number, &stop)).collect();
    for number in 0..100 {
        ping.write_u64(number).await.unwrap();
        ping.flush().await.unwrap();
        assert_eq!(soon(ping.read_u64()).await.unwrap(), number);
    }

    wire.keeps.send_replace(true);
    until("payloads on their way", || wire.kept() > LIMIT - 2 * PAYLOAD).await;
    for _ in 0..50 {
        moment().await;
    }
    let full = wire.kept();
    assert!(full < LIMIT + 2 * PAYLOAD, "{full} bytes are on their way");
    // A circuit that sends little is served nevertheless.
    ping.write_u64(100).await.unwrap();
    ping.flush().await.unwrap();
    until("a ping", || wire.kept() > full).await;
    let more = wire.kept() - full;
    assert!(more < 1024, "{more} bytes followed");
    wire.keeps.send_replace(false);
    assert_eq!(soon(ping.read_u64()).await.unwrap(), 100);

    stop.store(true, Ordering::Relaxed);
    for circuit in busy {
        assert!(soon(circuit).await.unwrap() > 0);
    }
    clock.go_on();
}
