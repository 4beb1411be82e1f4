//! The wires of a pair of routers: a TCP proxy whose connections can be cut, held back and refused.

use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// Most bytes that a wire takes before it passes them on.
const PIECE: usize = 64 * 1024;

/// What the wires do to connections at present; by default, they carry everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// New connections are closed at once.
    pub(super) is_refusing: bool,
    /// What the router that dials sends is held back.
    pub(super) holds_there: bool,
    /// What the router that was dialed sends is held back.
    pub(super) holds_back: bool,
}

/// All connections to one listener.
pub(super) struct Wires {
    pub(super) port: u16,
    connections: Arc<Mutex<Vec<CancellationToken>>>,
    state: watch::Sender<State>,
    _stop: DropGuard,
    _task: AbortOnDropHandle<()>,
}

impl Wires {
    /// Wires to a port of this machine.
    pub(super) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let here = listener.local_addr().unwrap().port();
        let connections: Arc<Mutex<Vec<CancellationToken>>> = Arc::default();
        let (state, stop) = (watch::Sender::new(State::default()), CancellationToken::new());
        let (opened, seen, all) = (Arc::clone(&connections), state.subscribe(), stop.clone());
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if seen.borrow().is_refusing {
                    continue;
                }
                let cut = all.child_token();
                let mut opened = opened.lock();
                opened.retain(|one| !one.is_cancelled());
                opened.push(cut.clone());
                tokio::spawn(carry(socket, port, cut, seen.clone()));
            }
        });
        let task = AbortOnDropHandle::new(task);
        Self { port: here, connections, state, _stop: stop.drop_guard(), _task: task }
    }

    /// Cuts one connection, chosen by a number; false if there is none.
    pub(super) fn cut_one(&self, pick: usize) -> bool {
        let mut connections = self.connections.lock();
        connections.retain(|cut| !cut.is_cancelled());
        let count = connections.len();
        if count > 0 {
            connections.swap_remove(pick % count).cancel();
        }
        count > 0
    }

    /// Cuts all connections.
    pub(super) fn cut(&self) {
        self.connections.lock().drain(..).for_each(|cut| cut.cancel());
    }

    /// Sets what the wires do from now on.
    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }
}

async fn carry(
    socket: TcpStream,
    port: u16,
    cut: CancellationToken,
    state: watch::Receiver<State>,
) {
    let carried = async {
        let Ok(other) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
        for one in [&socket, &other] {
            one.set_nodelay(true).unwrap();
        }
        let ((from_one, to_one), (from_other, to_other)) =
            (socket.into_split(), other.into_split());
        tokio::select! {
            () = copy(from_one, to_other, state.clone(), |state| state.holds_there) => {}
            () = copy(from_other, to_one, state, |state| state.holds_back) => {}
        }
    };
    let _ = cut.run_until_cancelled(carried).await;
    cut.cancel();
}

/// Copies until one side ends.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    holds: impl Fn(&State) -> bool,
) {
    let mut data = vec![0; PIECE];
    loop {
        if state.wait_for(|state| !holds(state)).await.is_err() {
            return;
        }
        let Ok(read @ 1..) = from.read(&mut data).await else { return };
        // Data that was read before the wires hold back waits here.
        if state.wait_for(|state| !holds(state)).await.is_err() {
            return;
        }
        if to.write_all(&data[..read]).await.is_err() {
            return;
        }
    }
}
