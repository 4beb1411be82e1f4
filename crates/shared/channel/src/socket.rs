//! TCP sockets: connecting, and the options of every socket (docs/protocol/channel.md 3.2).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};

/// The time of silence after which the system probes the peer.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The time between two such probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered probes that end the connection, on systems without a user timeout.
const KEEPALIVE_RETRIES: u32 = 3;
/// The time for which an address is tried alone before the next one is tried, too (RFC 8305, section
/// 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Most addresses of one host that are tried.
const MAX_ADDRESSES: usize = 32;

/// The mark of sockets that connect; 0 means no mark.
static MARK: AtomicU32 = AtomicU32::new(0);

/// Marks the connections that this process opens from now on (`SO_MARK`), so that firewall rules can
/// tell them from those of other programs. It holds for the whole process, because a connection
/// without the mark would be intercepted by the process itself.
pub fn mark_connections(mark: u32) {
    MARK.store(mark, Ordering::Relaxed);
}

/// Gives a socket the mark of this process's connections, if there is one. To be called before it
/// connects.
///
/// # Errors
/// When the system refuses.
#[cfg(target_os = "linux")]
pub fn mark(socket: &impl std::os::fd::AsFd) -> io::Result<()> {
    match MARK.load(Ordering::Relaxed) {
        0 => Ok(()),
        mark => SockRef::from(socket).set_mark(mark),
    }
}

/// Gives a socket the mark of this process's connections: does nothing, because only Linux has
/// marks.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn mark<S>(_socket: &S) -> io::Result<()> {
    Ok(())
}

/// How long a peer may leave sent bytes unacknowledged, or accept none, before the system ends the
/// connection; also the default write timeout of channels.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// Sets the options of a socket: small messages are sent at once, and a peer that is gone is noticed
/// after 30 to 35 s of silence, or after `timeout` without an acknowledgement. Without a `timeout`
/// only silence counts.
///
/// # Errors
/// When the system refuses; the socket cannot be used then.
pub fn prepare(stream: &TcpStream, timeout: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    #[cfg(not(any(target_os = "windows", target_os = "openbsd")))]
    let keepalive = keepalive.with_retries(KEEPALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    set_peer_timeout(stream, timeout)
}

/// Moves a socket to the runtime that the caller has entered. After an error the socket is still on its
/// former runtime.
pub(crate) fn rebind(stream: &mut TcpStream) -> io::Result<()> {
    let same = SockRef::from(&*stream).try_clone()?;
    *stream = TcpStream::from_std(same.into())?;
    Ok(())
}

/// Sets how long the peer may leave sent bytes unacknowledged; `None` leaves it to the system.
pub(crate) fn set_peer_timeout(stream: &TcpStream, timeout: Option<Duration>) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    SockRef::from(stream).set_tcp_user_timeout(timeout)?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (stream, timeout);
    Ok(())
}

/// Acknowledges what was received now, on systems that can. It holds until the system delays
/// acknowledgements again by itself.
pub(crate) fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = SockRef::from(stream).set_tcp_quickack(true) {
        tracing::debug!(%error, "cannot acknowledge at once");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

/// Limits the unsent bytes in the kernel, on systems that can.
pub(crate) fn set_unsent_low_water(stream: &TcpStream, bytes: u32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(bytes) {
        tracing::debug!(%error, "cannot bound unsent data of a socket");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (stream, bytes);
}

/// Connects to the address of a host that answers first. The addresses are tried in turn, IPv4 and
/// IPv6 alternately, each 250 ms before the next, so that a dead one does not use up the caller's
/// time. `bind` is the local address.
///
/// # Errors
/// The error of the address that failed last, once all have.
pub async fn connect(addresses: Vec<SocketAddr>, bind: Option<IpAddr>) -> io::Result<TcpStream> {
    let usable = |remote: &SocketAddr| bind.is_none_or(|local| local.is_ipv4() == remote.is_ipv4());
    let mut waiting = alternate(addresses.into_iter().filter(usable)).into_iter().peekable();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut trying = FuturesUnordered::new();
    loop {
        if let Some(remote) = waiting.next() {
            trying.push(connect_to(remote, bind));
        }
        loop {
            let connected = tokio::select! {
                connected = trying.next() => connected,
                () = tokio::time::sleep(HEAD_START), if waiting.peek().is_some() => break,
            };
            match connected {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => failure = error,
                None if waiting.peek().is_none() => return Err(failure),
                None => {}
            }
            if waiting.peek().is_some() {
                break;
            }
        }
    }
}

async fn connect_to(remote: SocketAddr, bind: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if remote.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    mark(&socket)?;
    if let Some(local) = bind {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    let stream = socket.connect(remote).await?;
    prepare(&stream, Some(PEER_TIMEOUT))?;
    Ok(stream)
}

/// The addresses in their order, the two families alternately.
fn alternate(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.peekable();
    let first_is_v4 = addresses.peek().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.partition(|address| address.is_ipv4() == first_is_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    while ordered.len() < MAX_ADDRESSES {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            break;
        }
        ordered.extend(pair.into_iter().flatten());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;
    use crate::options::ChannelOptions;

    /// An address that does not answer: the listener's queue is full, so that the system ignores
    /// further connections.
    async fn dead() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        loop {
            let connecting = tokio::time::timeout(HEAD_START, TcpStream::connect(address));
            let Ok(connected) = connecting.await else { return (address, queued, listener) };
            queued.push(connected.unwrap());
            assert!(queued.len() < 64, "the queue of a listener has an end");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_address_does_not_use_up_the_time_of_a_live_one() {
        let (dead, _queued, _listener) = dead().await;
        let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = live.local_addr().unwrap();
        let begun = Instant::now();
        // Far less than the system takes to give an address up.
        let limit = Duration::from_secs(10);
        let connected = tokio::time::timeout(limit, connect(vec![dead, dead, address], None)).await;
        assert_eq!(connected.unwrap().unwrap().peer_addr().unwrap(), address);
        assert!(begun.elapsed() >= 2 * HEAD_START, "each has a head start");
        // An address that refuses is not waited for.
        let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let begun = Instant::now();
        assert!(connect(vec![refusing, refusing, refusing, address], None).await.is_ok());
        assert!(begun.elapsed() < 2 * HEAD_START);
        let error = connect(vec![refusing], None).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect(vec![], None).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn the_system_watches_every_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect(vec![listener.local_addr().unwrap()], None).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(PEER_TIMEOUT));
        }
    }

    #[test]
    fn every_channel_survives_the_loss_of_a_probe_and_a_peer_that_reads_nothing_for_a_while() {
        let probed = KEEPALIVE + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES;
        for options in [ChannelOptions::control, ChannelOptions::link, ChannelOptions::edge] {
            let options = options("");
            let timeout =
                |write_timeout| ChannelOptions { write_timeout, ..options.clone() }.peer_timeout();
            for limit in [Duration::from_secs(1), 2 * PEER_TIMEOUT] {
                let timeout = timeout(Some(limit)).unwrap();
                assert!(timeout >= probed && timeout >= limit, "{timeout:?}");
            }
            assert_eq!(timeout(None), None);
        }
    }

    #[test]
    fn families_take_turns() {
        let text = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"];
        let ordered = alternate(text.iter().map(|text| text.parse().unwrap()));
        let ordered: Vec<_> = ordered.iter().map(SocketAddr::to_string).collect();
        assert_eq!(ordered, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        let many = (0..1000).map(|port| SocketAddr::new([1, 1, 1, 1].into(), port));
        assert_eq!(alternate(many).len(), MAX_ADDRESSES);
    }
}
