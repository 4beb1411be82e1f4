//! One client floods the server; other clients do not notice.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weft_identity::tls::{ClientTls, client_config};

use super::limits::patient;
use super::{Bed, LONG, MANAGEMENT, PASSWORD, USERNAME, section};
use crate::ApiLimits;

/// Clients of the flood, and requests of honest clients.
const FLOODING: usize = 48;
const ASKED: usize = 40;
/// Longest answer to an honest client during the flood. Without it an answer takes some
/// milliseconds; a machine may be slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause before a refused client tries again.
const PAUSE: Duration = Duration::from_millis(5);

/// A client with this address of the loopback network.
fn from(bed: &Bed, last: u8) -> reqwest::Client {
    let alpn: &[&[u8]] = &[b"http/1.1"];
    let config = client_config(&ClientTls::anonymous(bed.bundle().clone(), alpn)).unwrap();
    reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .local_address(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
        .no_proxy()
        .timeout(LONG)
        .build()
        .unwrap()
}

/// A connection from such an address, without a request.
async fn connect(bed: &Bed, last: u8) -> TlsStream<TcpStream> {
    connect_as(bed, last, b"http/1.1").await
}

/// A connection from such an address for a protocol.
async fn connect_as(bed: &Bed, last: u8, alpn: &[u8]) -> TlsStream<TcpStream> {
    let config = client_config(&ClientTls::anonymous(bed.bundle().clone(), &[alpn])).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    let socket = socket.connect(bed.address).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
}

/// The results of the requests of a flood.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    turned_away: AtomicUsize,
    over: AtomicBool,
}

// With one worker, as on one core, requests would hardly ever run at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_from_one_address_drowns_nobody_else() {
    let limits = ApiLimits { requests: 64, requests_per_source: 4, ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    let admin = bed.admin().await;
    for n in 0..200 {
        let name = format!("service {n:03}");
        admin.create("services", json!({"name": name, "encryptionRequired": false})).await;
    }
    let seen = Arc::new(Seen::default());
    let mut flood = JoinSet::new();
    for at in 0..FLOODING {
        // The most expensive requests: lists that scan everything, and logins.
        let scan = "filter=name%20contains%20%22service%22%20sort%20by%20name%20limit%20none";
        let (method, path) = match at % 2 {
            0 => (Method::GET, format!("{MANAGEMENT}/services?{scan}")),
            _ => (Method::POST, format!("{MANAGEMENT}/authenticate?method=password")),
        };
        let (client, url) = (from(&bed, 2), bed.url(&path));
        let (seen, token) = (Arc::clone(&seen), admin.token.clone());
        flood.spawn(async move {
            while !seen.over.load(Ordering::Relaxed) {
                let request = client.request(method.clone(), &url).header("zt-session", &token);
                let request = match method {
                    Method::POST => {
                        request.json(&json!({"username": "nobody", "password": "wrong!"}))
                    }
                    _ => request,
                };
                let Ok(answer) = request.send().await else { continue };
                let refused = answer.status() == 429;
                if refused {
                    assert!(answer.headers().contains_key("retry-after"));
                    seen.turned_away.fetch_add(1, Ordering::Relaxed);
                } else {
                    seen.answered.fetch_add(1, Ordering::Relaxed);
                }
                let _ = answer.bytes().await;
                if refused {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
    let flooding = async {
        while seen.turned_away.load(Ordering::Relaxed) < FLOODING {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, flooding).await.expect("the flood is turned away");

    let behaving = from(&bed, 3);
    let mut slowest = Duration::ZERO;
    for at in 0..ASKED {
        let begun = Instant::now();
        let request = match at % 4 {
            3 => behaving
                .post(bed.url(&format!("{MANAGEMENT}/services")))
                .json(&json!({"name": format!("own {at}"), "encryptionRequired": true})),
            _ => behaving.get(bed.url(&format!("{MANAGEMENT}/services?limit=5"))),
        };
        let answer = request.header("zt-session", &admin.token).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < PATIENCE, "{slowest:?}");
    seen.over.store(true, Ordering::Relaxed);
    while flood.join_next().await.is_some() {}
    assert!(seen.answered.load(Ordering::Relaxed) > 0, "who floods is served too, in his turn");

    // No place stays taken: a refused client succeeds now.
    let again = from(&bed, 2).get(bed.url("/version")).send().await.unwrap();
    assert_eq!(again.status(), 200);
}

#[tokio::test]
async fn there_is_room_for_so_many_requests_in_all() {
    let limits =
        ApiLimits { requests: 2, requests_per_source: 1, grace: 2 * LONG, ..ApiLimits::default() };
    let bed = Bed::with(patient(), limits).await;
    // Two requests whose bodies do not come, from two addresses, hold the only places.
    let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 9\r\n\r\n";
    let mut held = Vec::new();
    for last in [2, 3] {
        let mut stream = connect(&bed, last).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let third = from(&bed, 4);
    let full = async {
        loop {
            let answer = third.get(bed.url("/version")).send().await.unwrap();
            if answer.status() == 429 {
                return answer.headers().get("retry-after").unwrap().to_str().unwrap().to_owned();
            }
        }
    };
    let wait = tokio::time::timeout(LONG, full).await.unwrap();
    assert_eq!(wait, "1");
    for mut stream in held {
        stream.write_all(b"{\"a\": 1} ").await.unwrap();
        let mut part = [0; 64];
        stream.read_exact(&mut part).await.unwrap();
        assert!(part.starts_with(b"HTTP/1.1 400"));
    }
    assert_eq!(third.get(bed.url("/version")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn bodies_that_do_not_end_hold_the_bytes_of_their_source_only() {
    const PART: usize = 60_000;
    let limits = ApiLimits {
        body_bytes: 6 * PART,
        body_bytes_per_source: 3 * PART,
        grace: 2 * LONG,
        ..ApiLimits::default()
    };
    let bed = Bed::with(patient(), limits).await;
    // Together they exceed the budget of all bodies; each lacks its last byte.
    let path = "/authenticate?method=password";
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        PART + 1
    );
    let stall = async || {
        let mut stream = connect(&bed, 2).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        // A refused client may be disconnected while it is sending.
        let _ = stream.write_all(&[b' '; PART]).await;
        stream
    };
    let mut stalled = Vec::new();
    for _ in 0..9 {
        stalled.push(stall().await);
    }
    let login = |client: &reqwest::Client| {
        let configs = json!(["x".repeat(PART / 2)]);
        let body = json!({"username": USERNAME, "password": PASSWORD, "configTypes": configs});
        let request = client.post(bed.url(path)).json(&body);
        async move { request.send().await.unwrap().status() }
    };
    let same = from(&bed, 2);
    // Bodies that arrive at the same moment may all be refused, for the sake of each other, and those that are no longer
    // safe from their own source make room: as many as fill the share follow until it is taken.
    let full = async {
        while login(&same).await != 429 {
            for _ in 0..3 {
                stalled.push(stall().await);
            }
        }
    };
    tokio::time::timeout(LONG, full).await.expect("one source fills its share");
    let other = from(&bed, 3);
    for _ in 0..5 {
        assert_eq!(login(&other).await, 200);
    }
    drop(stalled);
    let free = async { while login(&same).await != 200 {} };
    tokio::time::timeout(LONG, free).await.expect("the bytes are given back");
}

#[tokio::test]
async fn idle_http2_connections_from_everywhere_lock_nobody_out() {
    let mut section = patient();
    section.options.idle_timeout = 2 * LONG;
    section.options.write_timeout = 2 * LONG;
    let limits = ApiLimits {
        pending: 8,
        pending_per_source: 4,
        first_request: 2 * LONG,
        ..ApiLimits::default()
    };
    let bed = Bed::with(section, limits).await;
    let mut idle = Vec::new();
    for last in [2, 2, 2, 2, 3, 3, 3, 3] {
        idle.push(connect_as(&bed, last, b"h2").await);
    }
    for last in 4..8 {
        let client = from(&bed, last);
        assert_eq!(client.get(bed.url("/version")).send().await.unwrap().status(), 200);
    }
    // Another client at an address that holds all that it may.
    assert_eq!(from(&bed, 2).get(bed.url("/version")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_idle_http2_connection_gives_its_place_back_and_is_cut() {
    let mut section = patient();
    section.options.idle_timeout = 2 * LONG;
    section.options.write_timeout = 2 * LONG;
    // A file is not cut off for the sake of another request.
    let limits = ApiLimits {
        pending: 1,
        pending_per_source: 1,
        grace: 2 * LONG,
        first_request: Duration::from_millis(300),
        ..ApiLimits::default()
    };
    let bed = Bed::with(section, limits).await;
    let mut idle = connect_as(&bed, 2, b"h2").await;
    // Closing messages are not answered.
    let mut seen = Vec::new();
    let cut = tokio::time::timeout(LONG, idle.read_to_end(&mut seen)).await;
    assert!(cut.is_ok());
    assert_eq!(from(&bed, 3).get(bed.url("/version")).send().await.unwrap().status(), 200);
}

/// Requests with incomplete bodies: some stop, some send a byte from time to time.
async fn open_bodies(bed: &Bed, last: u8, count: usize, begun: usize) -> Vec<TlsStream<TcpStream>> {
    let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
    let mut open = Vec::new();
    for _ in 0..count {
        let mut stream = connect(bed, last).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        // A request that made room may be disconnected.
        let _ = stream.write_all(&vec![b' '; begun]).await;
        open.push(stream);
    }
    open
}

/// Whether one of the requests was told to make room.
async fn has_made_room(open: &mut [TlsStream<TcpStream>]) -> bool {
    for stream in open {
        let mut part = [0; 12];
        let read = tokio::time::timeout(Duration::from_millis(50), stream.read_exact(&mut part));
        if read.await.is_ok_and(|read| read.is_ok()) && part.ends_with(b"408") {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn open_bodies_do_not_keep_others_behind_their_address_out() {
    let limits = ApiLimits {
        requests_per_source: 4,
        grace: Duration::from_millis(300),
        ..ApiLimits::default()
    };
    let bed = Bed::with(patient(), limits).await;
    let mut open = open_bodies(&bed, 2, 4, 10).await;
    let same = from(&bed, 2);
    let served = async {
        loop {
            let body = json!({"username": USERNAME, "password": PASSWORD});
            let login = same.post(bed.url("/authenticate?method=password")).json(&body);
            let status = login.send().await.unwrap().status();
            if status == 200 && has_made_room(&mut open).await {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, served).await.expect("open bodies hold the places of an address");
}

#[tokio::test]
async fn bytes_of_bodies_that_do_not_end_make_room_for_others_behind_their_address() {
    const PART: usize = 60_000;
    let limits = ApiLimits {
        body_bytes_per_source: 3 * PART,
        grace: Duration::from_millis(300),
        ..ApiLimits::default()
    };
    let bed = Bed::with(patient(), limits).await;
    let mut open = open_bodies(&bed, 2, 4, PART).await;
    let same = from(&bed, 2);
    let served = async {
        loop {
            let configs = json!(["x".repeat(PART / 2)]);
            let body = json!({"username": USERNAME, "password": PASSWORD, "configTypes": configs});
            let login = same.post(bed.url("/authenticate?method=password")).json(&body);
            let status = login.send().await.unwrap().status();
            if status == 200 && has_made_room(&mut open).await {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, served).await.expect("open bodies hold the bytes of an address");
}
