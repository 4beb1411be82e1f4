//! Accepts the TCP connections that the firewall leads here, and finds the service of each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weft_limits::source_of;

use crate::carry::{InterceptedClient, TcpClient};
use crate::service::Protocol;
use crate::shared::Shared;

/// The pause in accepting when the system has no room for another socket.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts until stopped.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let outcome = accepted.map(|(stream, source)| take(&shared, stream, source));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => tracing::debug!(%problem, "an intercepted client went away"),
            Err(problem) if gone_already(&problem) => {}
            Err(problem) => {
                shared
                    .complain(|| tracing::warn!(%problem, "cannot accept intercepted connections"));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}

/// True if the client has ended its connection before it was accepted: the listener has no fault.
fn gone_already(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

fn take(shared: &Shared, stream: TcpStream, source: std::net::SocketAddr) -> io::Result<()> {
    // The local address of the socket is the one that the client wanted to reach.
    let destination = stream.local_addr()?;
    let Some(arrival) = shared.arrival(Protocol::Tcp, source, destination) else {
        // The service was removed just now, or a program of this machine connected to the listener
        // directly.
        stream.set_zero_linger()?;
        return Ok(());
    };
    let Ok(place) = shared.places.try_acquire(source_of(source.ip())) else {
        shared.complain(|| {
            tracing::warn!(%source, "too many intercepted connections; this one is refused");
        });
        stream.set_zero_linger()?;
        return Ok(());
    };
    stream.set_nodelay(true)?;
    shared.carry.carry(arrival, InterceptedClient::Tcp(TcpClient { stream, place }));
    Ok(())
}
