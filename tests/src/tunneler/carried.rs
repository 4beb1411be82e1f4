//! The data of connections over tunnelers: halves that end, connections that break, datagrams, and nothing that is left.

use std::pin::pin;

use futures::StreamExt as _;
use futures::future::{Either, select};
use tokio_util::io::StreamReader;
use weft_tunneler::ServiceTraffic;
use weft_tunneler::carry::{pipe, tcp};

use super::*;
use crate::sdk::dial;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_pass_two_tunnelers_with_half_close() {
    let network = Network::start().await;
    let port = application().await;
    for (name, encrypted) in [("secret", true), ("plain", false)] {
        service(&network, name, encrypted, &[(HOST_V1, at("tcp", port))]).await;
    }
    let host = Running::host(&network).await;
    let client =
        Running::proxy(&network, &[("secret", Protocol::Tcp), ("plain", Protocol::Tcp)]).await;
    for name in ["secret", "plain"] {
        host.hosts(name).await;
        let at = client.port(name).await;
        talked(at, 1).await;
        soon(talk(at, 3_000_000)).await.unwrap();
    }
    client.stop().await;
    host.stop().await;
}

/// Ends a TCP connection by a reset.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// Reads until the connection ends; true if that is a reset, false if it is the regular end.
async fn ends_with_a_reset(mut stream: TcpStream) -> bool {
    let ended = soon(stream.read_to_end(&mut Vec::new())).await;
    ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_and_lost_circuits_are_no_regular_ends() {
    let mut network = Network::start().await;
    let application = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = application.local_addr().unwrap().port();
    for (name, encrypted) in [("secret", true), ("plain", false)] {
        service(&network, name, encrypted, &[(HOST_V1, at("tcp", port))]).await;
    }
    let host = Running::host(&network).await;
    let client =
        Running::proxy(&network, &[("secret", Protocol::Tcp), ("plain", Protocol::Tcp)]).await;
    // Both sides of a connection over which a byte has gone in each direction.
    let opened = async |at: SocketAddr| {
        let talked = async || {
            let mut dialed = TcpStream::connect(at).await.ok()?;
            dialed.write_all(b"a").await.ok()?;
            let accepted = async {
                let (mut accepted, _) = application.accept().await.unwrap();
                accepted.write_all(b"b").await.ok()?;
                (accepted.read_u8().await.ok()? == b'a').then_some(accepted)
            };
            // Routers hear of terminators after the controller: a dial that is refused ends.
            let answer = dialed.read_u8();
            let accepted = match select(pin!(accepted), pin!(answer)).await {
                Either::Left((accepted, answer)) => answer.await.ok().and(accepted)?,
                Either::Right((answer, accepted)) => {
                    answer.ok()?;
                    accepted.await?
                }
            };
            Some((dialed, accepted))
        };
        until_some(talked).await
    };
    for name in ["secret", "plain"] {
        host.hosts(name).await;
        let at = client.port(name).await;
        let (dialed, accepted) = opened(at).await;
        reset(dialed);
        assert!(ends_with_a_reset(accepted).await, "{name}: the client was reset");
        let (dialed, accepted) = opened(at).await;
        reset(accepted);
        assert!(ends_with_a_reset(dialed).await, "{name}: the application was reset");
    }
    let (dialed, accepted) = opened(client.port("plain").await).await;
    network.stop_router().await;
    assert!(ends_with_a_reset(dialed).await && ends_with_a_reset(accepted).await, "no router");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_task_ends_has_not_ended() {
    let network = Network::start().await;
    let application = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = application.local_addr().unwrap().port();
    service(&network, "plain", false, &[(HOST_V1, at("tcp", port))]).await;
    let host = Running::host(&network).await;
    host.hosts("plain").await;
    let connection = dial(&network.endpoint("dialer").await, "plain").await;
    let (mut accepted, _) = soon(application.accept()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut program, _) = listener.accept().await.unwrap();
    let carrying =
        tokio::spawn(async move { tcp(connection, socket, &ServiceTraffic::default()).await });
    program.write_all(b"a").await.unwrap();
    assert_eq!(soon(accepted.read_u8()).await.unwrap(), b'a');
    carrying.abort();
    assert!(ends_with_a_reset(program).await && ends_with_a_reset(accepted).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_breaks_is_no_regular_end() {
    let network = Network::start().await;
    let application = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = application.local_addr().unwrap().port();
    for (name, encrypted) in [("secret", true), ("plain", false)] {
        service(&network, name, encrypted, &[(HOST_V1, at("tcp", port))]).await;
    }
    let host = Running::host(&network).await;
    let dialer = network.endpoint("dialer").await;
    let half = || Ok(Bytes::from_static(b"half"));
    for name in ["secret", "plain"] {
        host.hosts(name).await;
        for interrupted in [false, true] {
            let connection = dial(&dialer, name).await;
            let broken = Err(std::io::Error::other("the disk is broken"));
            let rest = match interrupted {
                true => futures::stream::pending().boxed(),
                false => futures::stream::iter([broken]).boxed(),
            };
            let input = StreamReader::new(futures::stream::iter([half()]).chain(rest));
            let piping = pipe(connection, input, tokio::io::sink());
            let (mut accepted, _) = soon(application.accept()).await.unwrap();
            if interrupted {
                let mut came = [0; 4];
                // An interruption drops the pipe.
                match select(pin!(accepted.read_exact(&mut came)), pin!(piping)).await {
                    Either::Left((read, _)) => assert!(read.is_ok() && &came == b"half"),
                    Either::Right(_) => panic!("the input has not ended"),
                }
            } else {
                assert!(soon(piping).await.is_err());
            }
            assert!(ends_with_a_reset(accepted).await, "{name}, interrupted: {interrupted}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_stay_whole_and_clients_apart() {
    let network = Network::start().await;
    let port = reflector().await;
    for (name, encrypted) in [("secret", true), ("plain", false)] {
        service(&network, name, encrypted, &[(HOST_V1, at("udp", port))]).await;
    }
    let host = Running::host(&network).await;
    let client =
        Running::proxy(&network, &[("secret", Protocol::Udp), ("plain", Protocol::Udp)]).await;
    for name in ["secret", "plain"] {
        host.hosts(name).await;
        let at = client.port(name).await;
        for number in 0..3_u8 {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.connect(at).await.unwrap();
            for length in [1, 1400, 20_000, 60_000] {
                let sent = vec![number + 1; length];
                // A datagram may be lost, and the first ones are while the dial is refused.
                until_some(async || {
                    socket.send(&sent).await.ok()?;
                    let mut buffer = vec![0; 65_536];
                    let answer = socket.recv(&mut buffer);
                    let answer = tokio::time::timeout(Duration::from_secs(1), answer).await;
                    let length = answer.ok()?.ok()?;
                    // An answer to an earlier try is of another length.
                    (buffer[..length] == sent[..]).then_some(())
                })
                .await;
            }
        }
        let dialed = client.tunneler.status().services;
        let open = dialed.iter().find(|one| one.name == name).unwrap().dialed.open;
        assert_eq!(open, 3, "one conversation for each client");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_that_nobody_takes_end_their_conversation_and_are_said() {
    let network = Network::start().await;
    let port = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    service(&network, "dns", false, &[(HOST_V1, at("udp", port))]).await;
    let host = Running::host(&network).await;
    let client = Running::proxy(&network, &[("dns", Protocol::Udp)]).await;
    host.hosts("dns").await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(client.port("dns").await).await.unwrap();
    let hosting = || host.tunneler.status().services.remove(0);
    let refused = until_some(async || {
        socket.send(b"x").await.ok()?;
        hosting().hosting[0].refused.clone()
    });
    let refused = refused.await;
    assert!(refused.contains(&format!("udp:127.0.0.1:{port}: ")), "{refused}");
    assert!(hosting().hosted.failed > 0);
    until_some(async || (hosting().hosted.open == 0).then_some(())).await;
    // The next conversations reach an application that runs meanwhile.
    let application = UdpSocket::bind(("127.0.0.1", port)).await.unwrap();
    until_some(async || {
        socket.send(b"x").await.ok()?;
        let mut buffer = [0; 8];
        let asked = application.recv_from(&mut buffer);
        let (count, from) = tokio::time::timeout(Duration::from_secs(1), asked).await.ok()?.ok()?;
        application.send_to(&buffer[..count], from).await.ok()
    })
    .await;
    until_some(async || hosting().hosting[0].refused.is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_connections_leave_nothing() {
    const COUNT: usize = 600;
    let network = Network::start().await;
    let port = application().await;
    service(&network, "web", true, &[(HOST_V1, at("tcp", port))]).await;
    let host = Running::host(&network).await;
    let client = Running::proxy(&network, &[("web", Protocol::Tcp)]).await;
    host.hosts("web").await;
    let to = client.port("web").await;
    talked(to, 1).await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..30 {
        turns.spawn(async move {
            for _ in 0..COUNT / 30 {
                soon(talk(to, 100)).await.unwrap();
            }
        });
    }
    turns.join_all().await;
    until_some(async || {
        let open = client.tunneler.open() + host.tunneler.open();
        (open == 0 && network.router().data().counts() == (0, 0)).then_some(())
    })
    .await;
    until_some(async || {
        let now = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        (now <= before + 3).then_some(())
    })
    .await;
    let carried = client.tunneler.status().services[0].dialed;
    assert!(carried.total > COUNT as u64 && carried.sent == carried.received, "{carried:?}");
}
