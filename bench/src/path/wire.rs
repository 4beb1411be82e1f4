//! A wire with delay and rate between two programs of this machine: a TCP relay that delays its
//! data. All connections over it share its rate. No data is lost; a sender that is too fast waits.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};

/// Bytes read at a time.
const PIECE: usize = 16 * 1024;
/// Longest time that data may wait for the rate; above it the sender is not read.
const QUEUE: Duration = Duration::from_millis(20);

/// How a wire is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// From one end to the other.
    pub(crate) delay: Duration,
    /// Bytes per second in each direction.
    pub(crate) rate: f64,
}

/// When the last byte that waits leaves.
type Busy = Arc<Mutex<Instant>>;

impl Wire {
    /// Lays a wire to an address; answers where it begins.
    pub(crate) async fn to(self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let begin = listener.local_addr()?;
        let busy = || Arc::new(Mutex::new(Instant::now()));
        let (there, back) = (busy(), busy());
        tokio::spawn(async move {
            while let Ok((one, _)) = listener.accept().await {
                let (there, back) = (Arc::clone(&there), Arc::clone(&back));
                tokio::spawn(async move {
                    let other = TcpStream::connect(address).await?;
                    one.set_nodelay(true)?;
                    other.set_nodelay(true)?;
                    let ((from_one, to_one), (from_other, to_other)) =
                        (one.into_split(), other.into_split());
                    tokio::spawn(self.carry(from_one, to_other, there));
                    tokio::spawn(self.carry(from_other, to_one, back));
                    io::Result::Ok(())
                });
            }
        });
        Ok(begin)
    }

    async fn carry(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, busy: Busy) {
        let (queue, mut arriving) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
        tokio::spawn(async move {
            while let Some((at, data)) = arriving.recv().await {
                tokio::time::sleep_until(at.into()).await;
                if to.write_all(&data).await.is_err() {
                    return;
                }
            }
        });
        loop {
            let mut data = vec![0; PIECE];
            let Ok(read @ 1..) = from.read(&mut data).await else { return };
            data.truncate(read);
            let leaves = {
                let Ok(mut busy) = busy.lock() else { return };
                let leaves = (*busy).max(Instant::now());
                *busy = leaves + Duration::from_secs_f64(read as f64 / self.rate);
                *busy
            };
            if queue.send((leaves + self.delay, data)).is_err() {
                return;
            }
            if let Some(early) = leaves.checked_sub(QUEUE) {
                tokio::time::sleep_until(early.into()).await;
            }
        }
    }
}
