//! Conversations in datagrams with applications.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::{Refusal, RefusalCause, connect};

/// Largest datagram, in bytes.
const MAX_DATAGRAM: usize = 65_507;
/// Most addresses of one host that are tried.
const MOST_ADDRESSES: usize = 32;
/// Most datagrams that are kept for the next address, and the most bytes of all of them; further ones
/// are lost if the present address refuses them.
const MOST_KEPT: (usize, usize) = (16, MAX_DATAGRAM);

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}

/// A conversation in datagrams with an application. While it has not answered, an address that refuses
/// datagrams, because no program listens there or no way leads there, gives way to the next address of
/// the host, which is sent the datagrams so far. Without a next address, and after an answer, a refusal
/// ends the conversation.
#[derive(Debug)]
pub struct AppDatagrams {
    source: Option<SocketAddr>,
    now: Mutex<Now>,
    /// The socket is another one.
    moved: Notify,
}

#[derive(Debug)]
struct Now {
    socket: Arc<UdpSocket>,
    answered: bool,
    /// The addresses that are left; none once the application has answered.
    next: VecDeque<SocketAddr>,
    /// The datagrams so far, while another address is left.
    kept: Vec<Bytes>,
    /// The addresses that have refused, with their reasons.
    refusals: Vec<String>,
}

impl AppDatagrams {
    /// Begins a conversation with the first of a host's addresses to which a way leads.
    ///
    /// # Errors
    /// When there is no such address of the family of `source`, or no socket can be opened.
    pub fn connect(
        addresses: Vec<SocketAddr>,
        source: Option<SocketAddr>,
    ) -> Result<Self, Refusal> {
        let fits = |remote: &SocketAddr| source.is_none_or(|one| one.is_ipv4() == remote.is_ipv4());
        let mut next: VecDeque<_> =
            addresses.into_iter().filter(fits).take(MOST_ADDRESSES).collect();
        let mut refusals = Vec::new();
        let mut failure = connect::no_address(source.map(|source| source.ip()));
        while let Some(address) = next.pop_front() {
            match open(address, source, &[]) {
                Ok(socket) => {
                    let socket = Arc::new(socket);
                    let now = Now { socket, answered: false, next, kept: Vec::new(), refusals };
                    return Ok(Self { source, now: Mutex::new(now), moved: Notify::new() });
                }
                Err(error) => {
                    refusals.push(format!("udp:{address}: {error}"));
                    failure = error;
                }
            }
        }
        if refusals.is_empty() {
            return Err(Refusal::new(RefusalCause::Unresolved, failure.to_string()));
        }
        let what = "cannot open a socket to the application";
        let cause = Refusal::of_system(what, &failure).cause;
        Err(Refusal::new(cause, format!("{what}: {}", refusals.join("; "))))
    }

    /// The addresses of this side and of the application.
    pub fn addresses(&self) -> (io::Result<SocketAddr>, io::Result<SocketAddr>) {
        let now = self.now.lock();
        (now.socket.local_addr(), now.socket.peer_addr())
    }

    /// Waits for a datagram of the application, and lets `take` see it.
    ///
    /// # Errors
    /// When the conversation is over, because the network refused its datagrams.
    pub async fn receive<T>(&self, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T> {
        loop {
            let socket = Arc::clone(&self.now.lock().socket);
            let ready = tokio::select! {
                ready = socket.ready(Interest::READABLE.add(Interest::ERROR)) => ready?,
                () = self.moved.notified() => continue,
            };
            // The system shows a refusal as an error of the socket, without anything to read.
            let refused = if ready.is_error() { refusal(&socket) } else { None };
            let taken = match refused {
                Some(error) => Err(error),
                None => SCRATCH.with_borrow_mut(|scratch| {
                    let count = socket.try_recv(scratch)?;
                    Ok(take(scratch.get(..count).unwrap_or_default()))
                }),
            };
            match taken {
                Ok(taken) => {
                    self.answered();
                    return Ok(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if is_refusal(&error) => self.refused(&socket, &error)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a datagram to the application. It is lost if the system does not take it.
    ///
    /// # Errors
    /// When the conversation is over, because the network refused its datagrams.
    pub async fn send(&self, datagram: &Bytes) -> io::Result<()> {
        let socket = {
            let mut now = self.now.lock();
            now.keep(datagram);
            Arc::clone(&now.socket)
        };
        match socket.send(datagram).await {
            Err(error) if is_refusal(&error) => self.refused(&socket, &error),
            _ => Ok(()),
        }
    }

    /// The application has answered: its address stays.
    fn answered(&self) {
        let mut now = self.now.lock();
        if !now.answered {
            now.answered = true;
            (now.next, now.kept, now.refusals) = Default::default();
        }
    }

    /// Goes on with the next address; with none, the conversation is over.
    fn refused(&self, by: &Arc<UdpSocket>, error: &io::Error) -> io::Result<()> {
        let mut now = self.now.lock();
        if !Arc::ptr_eq(by, &now.socket) {
            return Ok(());
        }
        let address = by.peer_addr().map_or_else(|_| "?".to_owned(), |at| at.to_string());
        now.refusals.push(format!("udp:{address}: {error}"));
        while let Some(address) = now.next.pop_front() {
            match open(address, self.source, &now.kept) {
                Ok(socket) => {
                    now.socket = Arc::new(socket);
                    self.moved.notify_one();
                    return Ok(());
                }
                Err(error) => now.refusals.push(format!("udp:{address}: {error}")),
            }
        }
        Err(io::Error::new(error.kind(), now.refusals.join("; ")))
    }
}

impl Now {
    fn keep(&mut self, datagram: &Bytes) {
        let (datagrams, bytes) = MOST_KEPT;
        let kept: usize = self.kept.iter().map(Bytes::len).sum();
        if !self.next.is_empty() && self.kept.len() < datagrams && kept + datagram.len() <= bytes {
            self.kept.push(datagram.clone());
        }
    }
}

/// A socket to this address, after sending it these datagrams.
fn open(
    address: SocketAddr,
    source: Option<SocketAddr>,
    datagrams: &[Bytes],
) -> io::Result<UdpSocket> {
    let any: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    weft_channel::mark(&socket)?;
    if source.is_some_and(|source| source.port() != 0) {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&source.unwrap_or(any).into())?;
    socket.connect(&address.into())?;
    for datagram in datagrams {
        match socket.send(datagram) {
            // The refusal of one before.
            Err(error) if is_refusal(&error) => return Err(error),
            _ => {}
        }
    }
    UdpSocket::from_std(socket.into())
}

/// The error that an earlier datagram of this socket has caused.
fn refusal(socket: &UdpSocket) -> Option<io::Error> {
    let taken = socket.try_io(Interest::ERROR, || {
        let error = SockRef::from(socket).take_error()?;
        Err::<(), _>(error.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
    });
    taken.err().filter(|error| error.kind() != io::ErrorKind::WouldBlock)
}

/// True if the network or this machine does not let datagrams through to the address.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// An application at one address of this machine, and an address of its host at which none is.
    async fn application() -> (UdpSocket, SocketAddr, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let here = socket.local_addr().unwrap();
        (socket, here, SocketAddr::new([127, 0, 0, 2].into(), here.port()))
    }

    async fn received(conversation: &AppDatagrams) -> io::Result<Vec<u8>> {
        let receiving = conversation.receive(<[u8]>::to_vec);
        timeout(LONG, receiving).await.expect("an answer or a refusal")
    }

    async fn asked(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 100];
        let (count, from) = timeout(LONG, socket.recv_from(&mut buffer)).await.unwrap().unwrap();
        (buffer[..count].to_vec(), from)
    }

    #[tokio::test]
    async fn a_refusing_address_gives_way_to_the_next() {
        let (socket, here, nobody) = application().await;
        let v6 = SocketAddr::new([0_u16, 0, 0, 0, 0, 0, 0, 1].into(), here.port());
        let no_way = SocketAddr::new([255, 255, 255, 255].into(), here.port());
        for addresses in [
            vec![here],
            vec![nobody, here],
            vec![v6, here],
            vec![no_way, here],
            vec![nobody, v6, no_way, nobody, here, nobody],
        ] {
            let conversation = AppDatagrams::connect(addresses.clone(), None).unwrap();
            conversation.send(&Bytes::from_static(b"one")).await.unwrap();
            // Nothing more is sent: what was sent arrives all the same.
            let (answer, (datagram, _)) = tokio::join!(received(&conversation), async {
                let asked = asked(&socket).await;
                socket.send_to(b"answer", asked.1).await.unwrap();
                asked
            });
            assert_eq!((datagram, answer.unwrap()), (b"one".to_vec(), b"answer".to_vec()));
            assert_eq!(conversation.addresses().1.unwrap(), here, "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn datagrams_so_far_go_to_the_next_address_in_their_order() {
        let (socket, here, nobody) = application().await;
        let conversation = AppDatagrams::connect(vec![nobody, here], None).unwrap();
        let sent: Vec<_> = (0..8).map(|at| Bytes::from(vec![at; 3])).collect();
        for datagram in &sent {
            conversation.send(datagram).await.unwrap();
        }
        for datagram in &sent {
            assert_eq!(asked(&socket).await.0, datagram[..]);
        }
    }

    #[tokio::test]
    async fn a_refusal_without_a_next_address_ends_the_conversation() {
        let (socket, here, nobody) = application().await;
        let third = SocketAddr::new([127, 0, 0, 3].into(), here.port());
        let conversation = AppDatagrams::connect(vec![nobody, third], None).unwrap();
        conversation.send(&Bytes::from_static(b"x")).await.unwrap();
        let error = received(&conversation).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        for address in [nobody, third] {
            assert!(error.to_string().contains(&format!("udp:{address}: ")), "{error}");
        }
        // A sender that nobody reads for is told at one of its next datagrams.
        let conversation = AppDatagrams::connect(vec![nobody], None).unwrap();
        let sending = async { while conversation.send(&Bytes::new()).await.is_ok() {} };
        timeout(LONG, sending).await.expect("the refusal");
        // After an answer no other address takes over in the middle of the conversation.
        let conversation = AppDatagrams::connect(vec![here, nobody], None).unwrap();
        conversation.send(&Bytes::from_static(b"x")).await.unwrap();
        socket.send_to(b"y", asked(&socket).await.1).await.unwrap();
        assert_eq!(received(&conversation).await.unwrap(), b"y");
        drop(socket);
        conversation.send(&Bytes::from_static(b"x")).await.unwrap();
        let error = received(&conversation).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("udp:{here}: ")), "{error}");
        assert!(!error.to_string().contains(&nobody.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_host_without_a_usable_address_is_refused_at_once() {
        let none = AppDatagrams::connect(Vec::new(), None).unwrap_err();
        assert_eq!(none.cause, RefusalCause::Unresolved);
        let v6 = "[2001:db8::1]:5".parse().unwrap();
        let source = Some("127.0.0.1:0".parse().unwrap());
        let none = AppDatagrams::connect(vec![v6], source).unwrap_err();
        assert!(none.message.contains("no address of IPv4"), "{none}");
        let broadcast = "255.255.255.255:5".parse().unwrap();
        let refused = AppDatagrams::connect(vec![broadcast], None).unwrap_err();
        assert!(refused.message.contains("udp:255.255.255.255:5: "), "{refused}");
    }
}
