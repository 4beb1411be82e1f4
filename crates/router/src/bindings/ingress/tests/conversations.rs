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
    socket.send_to(b"hello", bound).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&hear(&socket).await).unwrap();
    assert_eq!(answer["scc"], false);
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
