//! The loop that accepts connections: each gets a place, or a position in the line.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use weft_limits::{LogLines, TableFull};

use super::registered::{ListenerLimits, RegisterError, SharedListener};
use crate::clock;
use crate::door::{Door, KnownSources, PACE, PendingSlot, TakenBack};
use crate::line::{Line, Waiting};
use crate::socket::{self, PEER_TIMEOUT};

impl SharedListener {
    /// Opens the socket. It accepts as soon as a protocol is registered.
    pub async fn bind(bind: &str, limits: ListenerLimits) -> Result<Arc<Self>, RegisterError> {
        let failed = |source| RegisterError::Bind { bind: bind.to_owned(), source };
        let socket = open(bind).await.map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let known = KnownSources::new();
        let listener = Arc::new(Self {
            bind: bind.to_owned(),
            local,
            limits,
            protocols: Mutex::default(),
            door: limits.door(&known),
            known,
            accepting: Mutex::default(),
            refusals: Mutex::new(LogLines::new(clock::now())),
        });
        let line = Line::new(&limits);
        let door = Arc::clone(&listener.door);
        let task = tokio::spawn(accept(socket, Arc::downgrade(&listener), door, line));
        *listener.accepting.lock() = Some(task.abort_handle());
        Ok(listener)
    }
}

/// Opens a listening socket. An empty host means all addresses of the machine, of both families if it
/// has both.
async fn open(bind: &str) -> io::Result<TcpListener> {
    match bind.strip_prefix(':').and_then(|port| port.parse().ok()) {
        Some(port) => {
            let any: [SocketAddr; 2] =
                [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
            TcpListener::bind(&any[..]).await
        }
        None => TcpListener::bind(bind).await,
    }
}

/// Accepts until the listener is dropped.
async fn accept(
    socket: TcpListener,
    listener: Weak<SharedListener>,
    door: Arc<Door>,
    mut line: Line,
) {
    let now = || tokio::time::Instant::now().into_std();
    let mut lines = LogLines::new(now());
    loop {
        let is_line = !line.is_empty();
        let accepted = tokio::select! {
            accepted = socket.accept() => Some(accepted),
            () = door.freed(), if is_line => None,
            () = tokio::time::sleep(PACE), if is_line => None,
        };
        let Some(listener) = listener.upgrade() else { return };
        listener.advance(&mut line);
        match accepted {
            None => {}
            Some(Ok((socket, remote))) => listener.take(Waiting { socket, remote }, &mut line),
            Some(Err(error)) => {
                // No descriptors are left, or the peer is gone already: go on after a pause.
                if let Some(left_out) = lines.due(now()) {
                    tracing::warn!(%error, left_out, "cannot accept connections");
                }
                drop(listener);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

impl SharedListener {
    /// Gives a new connection a place, or a position in the line. Known sources do not wait behind
    /// unknown ones.
    fn take(self: &Arc<Self>, waiting: Waiting, line: &mut Line) {
        let remote = waiting.remote;
        if let Err(error) = socket::prepare(&waiting.socket, Some(PEER_TIMEOUT)) {
            tracing::debug!(peer = %remote, %error, "connection closed: socket options");
            return;
        }
        if line.has_of(remote.ip()) {
            return self.take_behind_its_own(waiting, line);
        }
        let waits = line.has_strangers() && !self.door.knows(remote.ip());
        let entered = match waits {
            true => Err(TableFull::Total(self.limits.pending)),
            false => self.door.enter(remote.ip()),
        };
        match entered {
            Ok(entered) => self.spawn(waiting, entered),
            Err(TableFull::Total(_)) => line.push(waiting),
            Err(TableFull::Source(_)) => self.take_behind_its_own(waiting, line),
        }
    }

    /// Puts a connection behind others of its source, which has taken all of its places. If too many
    /// of them wait already, a connection with a place makes room for the first that waits.
    fn take_behind_its_own(self: &Arc<Self>, waiting: Waiting, line: &mut Line) {
        let peer = waiting.remote.ip();
        if line.is_full_for(peer)
            && let Ok(entered) = self.door.press_in(peer)
        {
            let Some(first) = line.pop_of(peer) else { return self.spawn(waiting, entered) };
            self.spawn(first, entered);
        }
        line.push_behind_its_own(waiting);
    }

    fn spawn(self: &Arc<Self>, waiting: Waiting, entered: (PendingSlot, TakenBack)) {
        tokio::spawn(Arc::clone(self).serve(waiting, entered));
    }

    /// Gives places to waiting connections, as far as there are some.
    fn advance(self: &Arc<Self>, line: &mut Line) {
        while let Some(first) = line.first() {
            let entered = self.door.enter(first);
            if matches!(entered, Err(TableFull::Total(_))) {
                break;
            }
            let Some(waiting) = line.pop() else { break };
            match entered {
                Ok(entered) => self.spawn(waiting, entered),
                // The source has taken all of its places meanwhile.
                Err(_) => self.take_behind_its_own(waiting, line),
            }
        }
        for source in line.full_sources() {
            while let Some(first) = line.first_of(source)
                && let Ok(entered) = self.door.enter(first)
            {
                let Some(waiting) = line.pop_of(source) else { break };
                self.spawn(waiting, entered);
            }
        }
    }
}
