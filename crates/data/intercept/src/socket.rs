//! Sockets that take packets to other addresses, and sockets whose packets are not intercepted.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::sockopt::{Ipv4OrigDstAddr, Ipv6OrigDstAddr};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg, setsockopt,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, UdpSocket};

/// The mark of sockets whose traffic is never intercepted (`SO_MARK`).
pub const OWN_MARK: u32 = 0x7766_0002;

/// Most connections that wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

fn any(v6: bool) -> SocketAddr {
    if v6 { (Ipv6Addr::LOCALHOST, 0).into() } else { (Ipv4Addr::LOCALHOST, 0).into() }
}

/// A socket that may have an address of another machine.
fn transparent(v6: bool, kind: Type) -> io::Result<Socket> {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    if v6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    // The system has one flag for both families; IPv6 sockets take it under this name as well.
    socket.set_ip_transparent_v4(true)?;
    // Accepted connections inherit the mark of the listener.
    socket.set_mark(OWN_MARK)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A listener for intercepted connections: their local address is the one that the client wanted to
/// reach.
pub(crate) fn tcp_listener(v6: bool) -> io::Result<TcpListener> {
    let socket = transparent(v6, Type::STREAM)?;
    socket.bind(&any(v6).into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A socket for intercepted datagrams, which reports their destinations.
pub(crate) fn udp_listener(v6: bool) -> io::Result<UdpSocket> {
    let socket = transparent(v6, Type::DGRAM)?;
    if v6 {
        setsockopt(&socket, Ipv6OrigDstAddr, &true)?;
    } else {
        setsockopt(&socket, Ipv4OrigDstAddr, &true)?;
    }
    // Room for bursts at the start of conversations; afterwards each one has a socket of its own.
    let _ = socket.set_recv_buffer_size(4 << 20);
    socket.bind(&any(v6).into())?;
    UdpSocket::from_std(socket.into())
}

/// The socket of one conversation: it receives datagrams of the client to the destination, and sends
/// datagrams from that destination.
pub(crate) fn udp_conversation(
    destination: SocketAddr,
    client: SocketAddr,
) -> io::Result<UdpSocket> {
    let socket = transparent(destination.is_ipv6(), Type::DGRAM)?;
    socket.bind(&destination.into())?;
    socket.connect(&client.into())?;
    UdpSocket::from_std(socket.into())
}

/// Receives a datagram: its length, its source and its destination.
pub(crate) async fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, SocketAddr)> {
    let descriptor = socket.as_raw_fd();
    socket.async_io(Interest::READABLE, || receive_now(descriptor, buffer)).await
}

fn receive_now(
    descriptor: RawFd,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, SocketAddr)> {
    let mut parts = [IoSliceMut::new(buffer)];
    let mut control = nix::cmsg_space!(SockaddrStorage);
    let received = recvmsg::<SockaddrStorage>(
        descriptor,
        &mut parts,
        Some(control.as_mut_slice()),
        MsgFlags::empty(),
    )?;
    let source = received.address.as_ref().and_then(address);
    let destination = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4OrigDstAddr(to) => {
            Some(SocketAddrV4::from(SockaddrIn::from(to)).into())
        }
        ControlMessageOwned::Ipv6OrigDstAddr(to) => {
            Some(SocketAddrV6::from(SockaddrIn6::from(to)).into())
        }
        _ => None,
    });
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "a datagram without addresses");
    Ok((received.bytes, source.ok_or_else(missing)?, destination.ok_or_else(missing)?))
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|at| SocketAddrV4::from(*at).into());
    v4.or_else(|| storage.as_sockaddr_in6().map(|at| SocketAddrV6::from(*at).into()))
}

/// Marks a socket of this program, if the program may: otherwise nothing is intercepted anyway.
fn own(socket: &Socket) {
    let _ = socket.set_mark(OWN_MARK);
}

/// An unconnected socket for datagrams to a server.
pub(crate) fn udp_towards(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    own(&socket);
    socket.set_nonblocking(true)?;
    let any: SocketAddr = if server.is_ipv6() {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    };
    socket.bind(&any.into())?;
    UdpSocket::from_std(socket.into())
}

/// Waits for a datagram of the peer. Fails when the network refuses one of this side: the system shows
/// that as an error of the socket, without anything to read.
pub(crate) async fn receive_answer(socket: &UdpSocket, into: &mut [u8]) -> io::Result<usize> {
    loop {
        let ready = socket.ready(Interest::READABLE.add(Interest::ERROR)).await?;
        let read = match ready.is_error() {
            true => socket.try_io(Interest::ERROR, || {
                let error = SockRef::from(socket).take_error()?;
                Err(error.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
            }),
            false => socket.try_recv(into),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// An unconnected socket for a connection to a server.
pub(crate) fn tcp_towards(server: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if server.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    let _ = SockRef::from(&socket).set_mark(OWN_MARK);
    Ok(socket)
}

/// The sockets of a server of this program.
pub(crate) fn serve(at: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let open = |kind, protocol| {
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
        own(&socket);
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if kind == Type::STREAM {
            socket.set_reuse_address(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        if kind == Type::STREAM {
            socket.listen(128)?;
        }
        io::Result::Ok(socket)
    };
    let udp = open(Type::DGRAM, Protocol::UDP)?;
    let tcp = open(Type::STREAM, Protocol::TCP)?;
    Ok((UdpSocket::from_std(udp.into())?, TcpListener::from_std(tcp.into())?))
}
