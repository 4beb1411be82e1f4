//! Wires between programs that can be cut and paused: a TCP proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// All connections to one address.
pub(crate) struct Wires {
    pub(crate) port: u16,
    connections: Arc<Mutex<Vec<CancellationToken>>>,
    paused: watch::Sender<bool>,
    refuses: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Wires {
    /// Wires to a port of this machine.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wires = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            paused: watch::Sender::new(false),
            refuses: Arc::default(),
            stop: CancellationToken::new(),
        };
        let (connections, paused) = (wires.connections.clone(), wires.paused.clone());
        let (stop, refuses) = (wires.stop.clone(), wires.refuses.clone());
        tokio::spawn(async move {
            loop {
                let Some(Ok((socket, _))) = stop.run_until_cancelled(listener.accept()).await
                else {
                    return;
                };
                if refuses.load(Ordering::Relaxed) {
                    continue;
                }
                let cut = stop.child_token();
                connections.lock().push(cut.clone());
                tokio::spawn(carry(socket, port, cut, paused.subscribe()));
            }
        });
        wires
    }

    /// Cuts one connection, chosen by a number; false if there is no connection.
    pub(crate) fn cut_one(&self, pick: usize) -> bool {
        let mut connections = self.connections.lock();
        connections.retain(|cut| !cut.is_cancelled());
        let count = connections.len();
        if count == 0 {
            return false;
        }
        connections.swap_remove(pick % count).cancel();
        true
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.connections.lock().drain(..).for_each(|cut| cut.cancel());
    }

    /// Cuts all connections and refuses new ones while `refuses` is true.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
        if refuses {
            self.cut();
        }
    }

    /// Holds back all bytes while `paused` is true.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn carry(
    socket: TcpStream,
    port: u16,
    cut: CancellationToken,
    paused: watch::Receiver<bool>,
) {
    let there: SocketAddr = ([127, 0, 0, 1], port).into();
    let Ok(other) = TcpStream::connect(there).await else { return };
    let ((from_one, to_one), (from_other, to_other)) = (socket.into_split(), other.into_split());
    let there = copy(from_one, to_other, paused.clone());
    let back = copy(from_other, to_one, paused);
    tokio::select! {
        () = cut.cancelled() => {}
        () = there => {}
        () = back => {}
    }
    cut.cancel();
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut paused: watch::Receiver<bool>) {
    let mut data = vec![0; 64 * 1024];
    loop {
        if paused.wait_for(|paused| !paused).await.is_err() {
            return;
        }
        match from.read(&mut data).await {
            Ok(read) if read > 0 => {
                if to.write_all(&data[..read]).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
