//! A channel after its hello, and how its connections get the parts that its user supplies.

use std::sync::Arc;
use std::{fmt, io};

use tokio::runtime;

use crate::connection::Connection;
use crate::error::CloseReason;
use crate::handle::ChannelHandle;
use crate::handler::{Behaviour, ConnectionParts};
use crate::peer::{PeerInfo, UnderlayInfo};
use crate::shared::{Runner, Shared};
use crate::threads::{Berth, Threads};
use crate::underlay::Underlay;
use crate::wake::UnderlayWaker;

/// Called after the start of a channel.
pub(crate) type OnStart = Box<dyn FnOnce(&ChannelHandle) + Send>;

/// A channel after its hello, which does not read or write yet. Dropped without
/// [`start`](Self::start), it is closed.
pub struct Established {
    shared: Arc<Shared>,
    connection: Option<Connection>,
    /// Called once the channel runs.
    started: Option<OnStart>,
}

impl Established {
    pub(crate) fn new(shared: Shared, connection: Connection, started: Option<OnStart>) -> Self {
        Self { shared: Arc::new(shared), connection: Some(connection), started }
    }

    /// The handle of the channel. Messages sent before the start wait in its lanes.
    pub fn handle(&self) -> ChannelHandle {
        ChannelHandle::from_shared(self.shared.clone())
    }

    /// The peer of the channel.
    pub fn peer(&self) -> &PeerInfo {
        &self.shared.peer
    }

    /// Starts to read and write.
    pub fn start(mut self, behaviour: Arc<dyn Behaviour>) -> ChannelHandle {
        self.shared.set_runner(Arc::new(ByBehaviour(behaviour)));
        let handle = self.handle();
        if let Some(connection) = self.connection.take() {
            if let Err(reason) = self.shared.attach(connection) {
                self.shared.close(reason);
            } else if let Some(started) = self.started.take() {
                started(&handle);
            }
        }
        handle
    }
}

impl Drop for Established {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.shared.close(CloseReason::local("not accepted after the hello"));
        }
    }
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established")
            .field("label", &self.shared.options.label)
            .finish_non_exhaustive()
    }
}

/// Runs connections with the parts of the channel's user.
struct ByBehaviour(Arc<dyn Behaviour>);

impl Runner for ByBehaviour {
    fn run(
        &self,
        channel: &Arc<Shared>,
        connection: Connection,
        info: &UnderlayInfo,
        waker: UnderlayWaker,
    ) -> io::Result<()> {
        let handle = ChannelHandle::from_shared(channel.clone());
        let parts = self.0.attach(info, &waker, &handle);
        if parts.outbox.is_some() {
            channel.carries_data(info);
        }
        tracing::debug!(channel = %handle, kind = %info.kind, peer = %info.remote, "connection attached");
        start(connection, parts, handle, info.clone(), waker)
    }

    fn closed(&self, reason: &CloseReason) {
        self.0.closed(reason);
    }
}

fn start(
    mut connection: Connection,
    parts: ConnectionParts,
    handle: ChannelHandle,
    info: UnderlayInfo,
    waker: UnderlayWaker,
) -> io::Result<()> {
    let berth = handle.shared().options.threads.as_ref().map(Threads::berth);
    let runtime = berth.as_ref().map_or_else(runtime::Handle::current, Berth::runtime);
    let _entered = runtime.enter();
    if berth.is_some() {
        connection.pump.rebind()?;
    }
    runtime.spawn(Underlay::new(connection, parts, handle, info, waker, berth).run());
    Ok(())
}
