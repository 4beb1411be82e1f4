//! A well-behaved client that notices disturbances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use weft_sdk::{Connection, Endpoint};

use crate::streams::{dial, pattern};
use crate::wait::{PATIENCE, until, within};

const PIECE: usize = 40_000;

/// A circuit on which known data goes back and forth and is compared.
pub(super) struct Witness {
    rounds: Arc<AtomicU64>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Witness {
    /// Dials an echo service and begins.
    pub(super) async fn at(endpoint: &Endpoint, service: &str) -> Self {
        let stream = dial(endpoint, service).await;
        let (rounds, stop) = (Arc::<AtomicU64>::default(), CancellationToken::new());
        let task = tokio::spawn(talk(stream, rounds.clone(), stop.clone()));
        Self { rounds, stop, task }
    }

    /// Waits for some more data.
    pub(super) async fn goes_on(&self) {
        let wanted = self.rounds.load(Ordering::Relaxed) + 3;
        let look = async || match self.rounds.load(Ordering::Relaxed) {
            rounds if rounds >= wanted => Ok(()),
            rounds => Err(format!("{rounds} rounds, finished: {}", self.task.is_finished())),
        };
        until("a circuit of somebody else goes on", PATIENCE, look).await;
    }

    /// Ends the circuit: all data has arrived unchanged.
    pub(super) async fn ends(self) {
        self.goes_on().await;
        self.stop.cancel();
        within("a circuit of somebody else ends", PATIENCE, self.task).await.unwrap().unwrap();
    }
}

async fn talk(
    mut stream: Connection,
    rounds: Arc<AtomicU64>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let mut back = vec![0; PIECE];
    while !stop.is_cancelled() {
        let round = rounds.load(Ordering::Relaxed);
        let piece = pattern(round * PIECE as u64, PIECE);
        stream.write_all(&piece).await?;
        stream.flush().await?;
        stream.read_exact(&mut back).await?;
        assert!(back == piece, "other data came back in round {round}");
        rounds.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
