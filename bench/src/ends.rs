//! The two programs at the ends of a path, a client and a server, as threads of this process.
//!
//! On real networks these programs run on machines of their own. Here they share the processors with the relays
//! between them. Each of the two therefore has one thread: further ones would take turns with the relays, and a
//! payload that changes threads costs more than its encryption.

use std::sync::OnceLock;
use std::{io, thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// The thread of servers, once there is one.
static SERVERS: OnceLock<Handle> = OnceLock::new();

/// The runtime of the client, on the thread that waits for it; starts the thread of servers.
///
/// # Errors
/// When the system refuses a thread or the runtime's descriptors.
pub(crate) fn start() -> io::Result<Runtime> {
    let servers = Builder::new_current_thread().enable_all().build()?;
    let _ = SERVERS.set(servers.handle().clone());
    thread::Builder::new()
        .name("servers".to_owned())
        .spawn(move || servers.block_on(std::future::pending::<()>()))?;
    Builder::new_current_thread().enable_all().build()
}

/// Runs a part of the server on its thread; on the caller's if there is no such thread.
pub(crate) fn serve<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    match SERVERS.get() {
        Some(servers) => servers.spawn(work),
        None => tokio::spawn(work),
    }
}
