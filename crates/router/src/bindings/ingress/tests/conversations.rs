//! Conversations of datagrams at a listener.

use super::*;

#[tokio::test]
async fn datagrams_keep_their_borders_and_conversations_are_told_apart() {
    let bed = Bed::new();
    bed.service("echo", "transport_udp", udp_echo().await);
    bed.service("secret", "edge_transport", udp_echo().await);
    for name in ["echo", "secret"] {
        let bound = bed.datagrams(Some(name), DatagramLimits::default()).await;
        let (one, two) = (talker().await, talker().await);
        for round in 0..5_u8 {
            for (socket, size) in [(&one, 3), (&two, 40_000)] {
                socket.send_to(&vec![round; size], bound).await.unwrap();
                assert_eq!(hear(socket).await, vec![round; size]);
            }
        }
        assert_eq!(bed.table.asked.swap(0, Ordering::Relaxed), 2, "one circuit each");
    }
}

#[tokio::test]
async fn the_first_datagram_names_the_service() {
    let bed = Bed::new();
    bed.service("echo", "transport", udp_echo().await);
    let bound = bed.datagrams(None, DatagramLimits::default()).await;
    let socket = talker().await;
    socket.send_to(b"{\"id\":\"me\",\"svcId\":\"echo\"}", bound).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&hear(&socket).await).unwrap();
    assert_eq!(answer["scc"], true);
    socket.send_to(b"hello", bound).await.unwrap();
    assert_eq!(hear(&socket).await, b"hello");
    let socket = talker().await;
    socket.send_to(b"hello, is anybody there?", bound).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&hear(&socket).await).unwrap();
    assert_eq!(answer["scc"], false);
}

#[tokio::test]
async fn whoever_forges_an_address_has_it_sent_few_refusals_and_short_ones() {
    let bed = Bed::new();
    let bound = bed.datagrams(None, DatagramLimits::default()).await;
    let begun = std::time::Instant::now();
    // All clients have one address, and other ports.
    let mut clients = Vec::new();
    for size in [1, 12, 13, 100].into_iter().cycle().take(4 * 80) {
        let client = talker().await;
        client.send_to(&vec![b'{'; size], bound).await.unwrap();
        clients.push((size, client));
    }
    let mut heard = 0;
    let mut most = [0; 2048];
    loop {
        for (size, client) in &clients {
            let Ok((count, _)) = client.try_recv_from(&mut most) else { continue };
            heard += 1;
            assert!(count <= 3 * size, "{count} bytes for {size}");
        }
        // Without a limit all of these come at once.
        if heard >= 64 || begun.elapsed() > Duration::from_secs(30) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(heard >= 64, "{heard}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = clients.iter().filter(|(_, client)| client.try_recv_from(&mut most).is_ok()).count();
    let allowed = 64 + 65 * (1 + begun.elapsed().as_secs() as usize);
    assert!(heard + late <= allowed, "{heard} and {late} of 160");
}

#[tokio::test]
async fn conversations_are_bounded_and_end_when_nothing_is_said() {
    let bed = Bed::new();
    bed.service("echo", "transport", udp_echo().await);
    let limits = DatagramLimits {
        conversations: 2,
        idle: Duration::from_millis(200),
        ..DatagramLimits::default()
    };
    let bound = bed.datagrams(Some("echo"), limits).await;
    let sockets = [talker().await, talker().await, talker().await];
    for socket in &sockets[..2] {
        socket.send_to(b"hello", bound).await.unwrap();
        hear(socket).await;
    }
    sockets[2].send_to(b"too many", bound).await.unwrap();
    bed.empty().await;
    assert_eq!(bed.table.asked.load(Ordering::Relaxed), 2);
    // There is room again, also for one that talked before.
    for socket in [&sockets[2], &sockets[0]] {
        socket.send_to(b"hello", bound).await.unwrap();
        assert_eq!(hear(socket).await, b"hello");
    }
}

#[tokio::test]
async fn datagrams_that_wait_share_the_memory_of_circuits_by_source() {
    const SHARE: u64 = 1 << 20;
    let bed = Bed::new();
    let bound = bed.datagrams(Some("silent"), DatagramLimits::default()).await;
    let used = || bed.forwarder.budget().used();
    let from = async |ip: &str| {
        let mut sockets = Vec::new();
        for _ in 0..40 {
            sockets.push(UdpSocket::bind((ip, 0)).await.unwrap());
        }
        sockets
    };
    let say = async |sockets: &[UdpSocket]| {
        for socket in sockets {
            socket.send_to(&[7; 40_000], bound).await.unwrap();
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let (one, other) = (from("127.0.0.1").await, from("127.0.0.2").await);
    soon(async {
        while used() < SHARE - 41_000 {
            say(&one).await;
        }
    })
    .await;
    for _ in 0..3 {
        say(&one).await;
    }
    assert!(used() <= SHARE, "{}", used());
    // Another source has a limit of its own.
    soon(async {
        while used() < 2 * SHARE - 82_000 {
            say(&other).await;
        }
    })
    .await;
    assert!(used() <= 2 * SHARE);
    bed.stop.cancel();
    until(|| used() == 0).await;
}

#[tokio::test]
async fn a_flood_of_datagrams_leaves_others_their_turn() {
    const MANY: usize = 190;
    let bed = Bed::new();
    let socket = bind_datagrams(&"udp4:127.0.0.1:0".parse().unwrap()).await.unwrap();
    let bound = socket.local_addr().unwrap();
    // The sockets stay open, because a port that is given back would be used again: each client is
    // a new one.
    let mut talkers = Vec::new();
    for _ in 0..MANY {
        let talker = talker().await;
        talker.send_to(b"x", bound).await.unwrap();
        talkers.push(talker);
    }
    let tasks = tokio::runtime::Handle::current().metrics();
    let begun = || tasks.num_alive_tasks();
    let before = begun();
    let ingress = bed.ingress(Some("silent"));
    let ends = DatagramEnds { draining: bed.draining.clone(), stop: bed.stop.clone() };
    let mut serving = Box::pin(serve_datagrams(ingress, socket, DatagramLimits::default(), ends));
    let mut turns = 0;
    soon(async {
        while begun() - before < MANY {
            let already = begun();
            assert!(futures::poll!(serving.as_mut()).is_pending());
            turns += usize::from(begun() > already);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(turns > 1, "all of them in one turn");
}
