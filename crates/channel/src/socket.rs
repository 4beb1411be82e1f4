//! Socket options of channels (protocol: channel 3.2).

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

const KEEPALIVE: Duration = Duration::from_secs(15);

/// Sends small messages at once and notices dead peers.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Bounds what the kernel holds unsent, where the system can.
pub(crate) fn set_unsent_low_water(stream: &TcpStream, bytes: u32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(bytes) {
        tracing::debug!(%error, "cannot bound unsent data of a socket");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (stream, bytes);
}
