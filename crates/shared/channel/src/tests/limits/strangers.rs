//! Connections whose peer is not known yet: their number at once, and places for others beside them.

use super::*;

#[tokio::test]
async fn pending_handshakes_are_bounded_per_source() {
    let limits =
        ListenerLimits { pending_per_source: 2, grace: 2 * LONG, ..ListenerLimits::default() };
    let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
    let mut server = Server::with(channel, None, AcceptOptions::default(), limits).await;
    let _first = TcpStream::connect(server.addr()).await.unwrap();
    let second = TcpStream::connect(server.addr()).await.unwrap();
    let third = TcpStream::connect(server.addr()).await.unwrap();
    // The slots come back once the listener has seen the end.
    let dialing = tokio::spawn(dial(server.dial_options("dialer")));
    drop((second, third));
    let _dialer = soon(dialing).await.unwrap().unwrap();
    server.next().await;
    // Two connections have a slot, two wait in the line, the others are closed.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(server.addr()).await.unwrap());
    }
    let closed: futures::stream::FuturesUnordered<_> =
        silent.iter_mut().map(closed_by_peer).collect();
    assert_eq!(soon(closed.take(16).count()).await, 16);
}

/// A connection from an address of the loopback network.
async fn knock(to: std::net::SocketAddr, last: u8) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    soon(socket.connect(to)).await.unwrap()
}

#[tokio::test]
async fn silent_connections_from_everywhere_lock_nobody_out() {
    // The time for handshakes closes no connection in this test.
    let limits = ListenerLimits {
        pending: 4,
        pending_per_source: 2,
        grace: QUICK,
        handshake_timeout: 2 * LONG,
        ..ListenerLimits::default()
    };
    let mut server = server(AcceptOptions::default(), limits).await;
    let mut silent = Vec::new();
    // These connections fill all slots and the line.
    for last in 2..12 {
        silent.push(knock(server.addr(), last).await);
    }
    let (_dialer, _inbox, ..) = server.pair().await;
    for socket in &mut silent[..4] {
        assert!(closed_by_peer(socket).await.is_empty());
    }
}

// The clock stands while there is something to do: a slow machine does not let more of the flood through.
#[tokio::test(start_paused = true)]
async fn silent_connections_from_the_own_address_lock_nobody_out() {
    let limits = ListenerLimits {
        pending: 64,
        pending_per_source: 8,
        // The slots suffice for others, and the grace period frees none.
        grace: 2 * LONG,
        handshake_timeout: 2 * LONG,
        ..ListenerLimits::default()
    };
    let mut server = server(AcceptOptions::default(), limits).await;
    let to = server.addr();
    // A client behind the same address opens one silent connection after the other.
    let flood = tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            silent.extend(TcpStream::connect(to).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(to).await.unwrap());
    }
    for _ in 0..5 {
        soon(async { while dial(server.dial_options("dialer")).await.is_err() {} }).await;
        server.next().await;
    }
    flood.abort();
}

#[tokio::test]
async fn silent_clients_of_one_protocol_take_no_place_of_another() {
    let limits = ListenerLimits {
        pending: 8,
        pending_per_source: 8,
        // Neither the grace period nor the time for handshakes closes a connection.
        grace: 2 * LONG,
        handshake_timeout: 2 * LONG,
        connections: 6,
    };
    struct Silence;
    impl ConnectionHandler for Silence {
        fn handle(&self, connection: Accepted) -> futures::future::BoxFuture<'static, ()> {
            Box::pin(async move {
                let _connection = connection;
                std::future::pending().await
            })
        }
    }
    let (listeners, authority) = (Listeners::new(), Authority::new());
    let bind = "127.0.0.1:0";
    let web = listeners.listen(bind, limits, &["h2"], authority.source(), Arc::new(Silence));
    let web = web.await.unwrap();
    let (channels, mut admitted) = tokio::sync::mpsc::unbounded_channel();
    let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
    let control =
        ChannelAcceptor::new(Gate { channel, group: None, channels }, AcceptOptions::default());
    let control =
        listeners.listen(bind, limits, &["weft-test"], authority.source(), Arc::new(control));
    let control = control.await.unwrap();
    assert_eq!(web.local_addr(), control.local_addr());
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(authority.raw(web.local_addr(), &["h2"]).await.unwrap());
    }
    let mut more = authority.raw(web.local_addr(), &["h2"]).await;
    if let Ok(more) = &mut more {
        assert!(closed_by_peer(more).await.is_empty());
    }
    for _ in 0..4 {
        soon(dial(authority.dial_options(control.local_addr(), "router"))).await.unwrap();
        assert!(soon(admitted.recv()).await.is_some());
    }
}

#[tokio::test]
async fn sources_of_known_peers_come_before_strangers() {
    let limits = ListenerLimits {
        pending: 4,
        pending_per_source: 4,
        grace: 2 * LONG,
        handshake_timeout: 2 * LONG,
        ..ListenerLimits::default()
    };
    let accept = AcceptOptions { vouches: true, ..AcceptOptions::default() };
    let mut server = server(accept, limits).await;
    let (known, ..) = server.pair().await;
    // No slot is left, no connection is closed to make room, and some wait in the line.
    let mut silent = Vec::new();
    for last in 2..9 {
        silent.push(knock(server.addr(), last).await);
    }
    let (_again, ..) = server.pair().await;
    known.close("done");
}

#[tokio::test]
async fn connections_are_bounded() {
    let limits = ListenerLimits { connections: 1, ..ListenerLimits::default() };
    let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
    let mut server = Server::with(channel, None, AcceptOptions::default(), limits).await;
    let (dialer, _, _, _) = server.pair().await;
    assert!(soon(dial(server.dial_options("second"))).await.is_err());
    dialer.close("make room");
    soon(async { while dial(server.dial_options("third")).await.is_err() {} }).await;
}
