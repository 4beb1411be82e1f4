//! SDKs reach applications behind sockets.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sdk_reaches_a_tcp_server() {
    let router = router().await;
    let address = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), address);
    let mut dialer = router.sdk("dialer").await;
    let connected = StateConnected::from_message(&dialer.connect(1, "tcp").await).unwrap();
    assert_eq!(connected.conn_id, 1);
    let sent: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let channel = dialer.channel.clone();
    let data = Bytes::from(sent.clone());
    tokio::spawn(async move {
        for at in (0..data.len()).step_by(20_000) {
            let part = data.slice(at..data.len().min(at + 20_000));
            let part = Data { conn_id: 1, flags: 0, uuid: None, data: part };
            channel
                .send_timeout(weft_channel::Lane::Default, part.to_message(), PATIENCE)
                .await
                .unwrap();
        }
        let fin = Data { conn_id: 1, flags: data_flags::FIN, ..Data::default() };
        channel
            .send_timeout(weft_channel::Lane::Default, fin.to_message(), PATIENCE)
            .await
            .unwrap();
    });
    let mut got = Vec::new();
    loop {
        let data = dialer.data().await;
        got.extend_from_slice(&data.data);
        if data.is_fin() {
            break;
        }
    }
    assert_eq!(got.len(), sent.len() + 7);
    assert!(got.starts_with(&sent) && got.ends_with(b"goodbye"));
    StateClosed::from_message(&dialer.next().await).unwrap();
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_holds_little_and_stops_nobody_else() {
    let router = router().await;
    // A server that never stops sending.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let block = vec![7; 64 * 1024];
                while stream.write_all(&block).await.is_ok() {}
            });
        }
    });
    router.table.addresses.lock().insert("flood".to_owned(), address);
    let echo = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), echo);
    let stalled = router.sdk("stalled").await;
    let connected = StateConnected::from_message(&stalled.connect(1, "flood").await).unwrap();
    let circuit = connected.circuit_id.unwrap();
    // The SDK reads nothing from its inbox, until the end at the server waits for room at the other end.
    let is_held_up = || {
        let ends = router.data.inspect_ends(&circuit);
        ends.values().any(|end| end["sendBufferDetail"]["blockedByRemoteWindow"] == true)
    };
    router.until("the server to be held up", is_held_up).await;
    let mut other = router.sdk("other").await;
    StateConnected::from_message(&other.connect(1, "tcp").await).unwrap();
    other.send(1, "ping", 0).await;
    assert_eq!(&other.data().await.data[..], b"ping");
    router.until("the server to be held up still", is_held_up).await;
    let held = router.data.budget_used();
    assert!(held < 4 << 20, "{held} bytes are held for one stalled reader");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_leaves_other_clients_their_memory() {
    let router = router().await;
    let echo = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), echo);
    // Two channels of one identity, and one of another.
    let (mut one, mut two, mut other) =
        (router.sdk("greedy").await, router.sdk("greedy").await, router.sdk("other").await);
    for sdk in [&mut one, &mut two, &mut other] {
        StateConnected::from_message(&sdk.connect(1, "tcp").await).unwrap();
    }
    let edge = router.data.edge();
    let memory = |token: &str| {
        let channels = edge.connections.lock().of_identity(&format!("identity of {token}"));
        channels.iter().map(|it| [it.memory(), it.backlog_memory()]).collect::<Vec<_>>()
    };
    let [[greedy, waiting], [same, more]] = memory("greedy").try_into().unwrap();
    let [[calm, _]] = memory("other").try_into().unwrap();
    let whole = greedy.whole().limit();
    let held = greedy.take_anyway(greedy.limit());
    assert_eq!(same.free(), 0, "channels of one identity have one share");
    assert_eq!((waiting.free(), more.free()), (0, 0), "also for what waits for their circuits");
    assert!(calm.free() > whole / 8 && greedy.whole().free() > whole / 2);
    // The greedy one goes on, slowly; the other one does not notice.
    for sdk in [&mut one, &mut other] {
        sdk.send(1, "ping", 0).await;
        assert_eq!(&sdk.data().await.data[..], b"ping");
    }
    drop(held);
    router.until("its memory to be free", || greedy.used() == 0).await;
}

/// The end of a circuit as an SDK with flow control of its own has it.
struct SdkEnd<'a> {
    sdk: &'a mut Sdk,
    end: End,
    circuit: String,
}

impl SdkEnd<'_> {
    async fn flush(&mut self) {
        let now = Instant::now();
        while let Some(ack) = self.end.poll_ack() {
            self.sdk.channel.send(ack.into_message(&self.circuit)).await.unwrap();
        }
        while let Some(payload) = self.end.poll_transmit(now) {
            self.sdk.channel.send(payload.into_message(&self.circuit)).await.unwrap();
        }
    }

    async fn read(&mut self) -> Delivery {
        loop {
            self.flush().await;
            if let Some(delivery) = self.end.read() {
                return delivery;
            }
            let message = self.sdk.next().await;
            match message.content_type {
                payload::content_type::PAYLOAD => {
                    assert_eq!(message.headers.get_u32(header::CONN_ID), Some(9));
                    self.end.on_payload(Payload::from_message(&message).unwrap(), Instant::now());
                }
                payload::content_type::ACK => {
                    self.end.on_ack(&Ack::from_message(&message).unwrap(), Instant::now());
                }
                other => panic!("unexpected {other}: {}", message.text()),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sdk_with_flow_control_of_its_own_reaches_a_tcp_server() {
    let router = router().await;
    let echo = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), echo);
    let mut dialer = router.sdk("dialer").await;
    let connect =
        Connect { conn_id: Some(9), token: "tcp".into(), use_xgress: true, ..Connect::default() };
    let answer = dialer.channel.request(connect.to_message(), PATIENCE).await.unwrap();
    let connected = StateConnected::from_message(&answer).unwrap();
    assert_eq!(connected.xgress.unwrap().controller, "ctrl");
    let circuit = connected.circuit_id.unwrap();
    let end = End::new(Role::Initiator, &Options::default(), &Budget::unlimited(), Instant::now());
    let mut end = SdkEnd { sdk: &mut dialer, end, circuit };
    let sent = vec![42; 500_000];
    let mut parts = sent.chunks(30_000).peekable();
    let mut got = Vec::new();
    loop {
        while let Some(part) = parts.next_if(|_| end.end.can_write()) {
            end.end.write(Bytes::copy_from_slice(part)).unwrap();
        }
        if parts.peek().is_none() {
            end.end.finish(Instant::now());
        }
        match end.read().await {
            Delivery::Data { data, .. } => got.extend_from_slice(&data),
            Delivery::Fin { .. } => break,
            Delivery::Closed(reason) => panic!("{reason:?}"),
        }
    }
    assert_eq!(got.len(), sent.len() + 7);
    end.flush().await;
    end.sdk.channel.send(payload::close(&end.circuit)).await.unwrap();
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_reader_unused_bytes_do_not_matter() {
    // A server that closes at once: the dialer hears of it.
    let router = router().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0];
        stream.read_exact(&mut first).await.unwrap();
    });
    router.table.addresses.lock().insert("short".to_owned(), address);
    let mut dialer = router.sdk("dialer").await;
    StateConnected::from_message(&dialer.connect(1, "short").await).unwrap();
    dialer.send(1, "xyz", 0).await;
    loop {
        let message = dialer.next().await;
        if message.content_type == content_type::STATE_CLOSED {
            break;
        }
    }
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_short_connections_on_one_channel_all_end() {
    const COUNT: u32 = 150;
    let router = router().await;
    let address = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), address);
    let mut dialer = router.sdk("dialer").await;
    let channel = dialer.channel.clone();
    for conn_id in 0..COUNT {
        let channel = channel.clone();
        tokio::spawn(async move {
            let connect =
                Connect { conn_id: Some(conn_id), token: "tcp".into(), ..Connect::default() };
            let answer = channel.request(connect.to_message(), PATIENCE).await.unwrap();
            StateConnected::from_message(&answer).unwrap();
            for (data, flags) in [(vec![conn_id as u8; 4145], 0), (Vec::new(), data_flags::FIN)] {
                let data = Data { conn_id, flags, uuid: None, data: data.into() };
                channel
                    .send_timeout(weft_channel::Lane::Default, data.to_message(), PATIENCE)
                    .await
                    .unwrap();
            }
        });
    }
    let mut got: HashMap<u32, usize> = HashMap::new();
    let mut closed = HashSet::new();
    while closed.len() < COUNT as usize {
        let message = tokio::time::timeout(PATIENCE, dialer.inbox.recv()).await;
        let Ok(Some(message)) = message else {
            panic!("{} of {COUNT} ended, {} with data", closed.len(), got.len());
        };
        if message.content_type == content_type::STATE_CLOSED {
            let id = StateClosed::from_message(&message).unwrap().conn_id;
            assert!(closed.insert(id), "{id} is closed twice");
        } else {
            let data = Data::from_message(&message).unwrap();
            assert!(!closed.contains(&data.conn_id), "{} is closed", data.conn_id);
            *got.entry(data.conn_id).or_default() += data.data.len();
        }
    }
    let wanted: HashMap<u32, usize> = (0..COUNT).map(|conn_id| (conn_id, 4145 + 7)).collect();
    assert_eq!(got, wanted);
}
