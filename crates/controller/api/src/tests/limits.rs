//! The limits on time, bytes, connections and requests; and how the server stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use weft_config::web::{TlsVersion, WebOptions};
use weft_config::{BindPoint, HostPort, WebServer};
use weft_controller::Caller;
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientTls, client_config};
use weft_store::InjectedFault;

use super::{Bed, LONG, MANAGEMENT, PASSWORD, USERNAME, listeners, section, send};
use crate::{ApiLimits, ApiServer, Setup, StartError};

fn hurried() -> WebServer {
    // Still long enough for a busy machine to read a head.
    let short = Duration::from_secs(2);
    let options = WebOptions {
        read_timeout: short,
        write_timeout: short,
        idle_timeout: short,
        ..WebOptions::default()
    };
    WebServer { options, ..section() }
}

/// A server that waits for bodies longer than any test does.
pub(super) fn patient() -> WebServer {
    let options = WebOptions { read_timeout: 2 * LONG, ..WebOptions::default() };
    WebServer { options, ..section() }
}

/// Reads until the server has ended the connection, however it did.
async fn end_of(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut seen = Vec::new();
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut seen)).await.unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[tokio::test]
async fn answers_that_nobody_takes_have_a_limit_and_end_their_connection() {
    let options = WebOptions { write_timeout: Duration::from_millis(500), ..WebOptions::default() };
    let limits = ApiLimits { answer_bytes_per_source: 40_000, ..ApiLimits::default() };
    let bed = Bed::with(WebServer { options, ..section() }, limits).await;
    // The windows of its streams stay shut, while the connection is in use.
    let tls = client_config(&ClientTls::anonymous(bed.bundle().clone(), &[b"h2"])).unwrap();
    let narrow = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .http2_initial_stream_window_size(100)
        .timeout(LONG)
        .build()
        .unwrap();
    let ask = || narrow.get(bed.url("/version")).send();
    let mut untaken = Vec::new();
    let refused = loop {
        assert!(untaken.len() < 20, "answers have no limit");
        let answer = ask().await.unwrap();
        if answer.status() != 200 {
            break answer.status();
        }
        untaken.push(answer);
    };
    assert!(refused == 429 && !untaken.is_empty(), "{refused}");
    let cut = async {
        while !ask().await.is_ok_and(|answer| answer.status() == 200) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, cut).await.expect("the bytes are given back");
    for answer in untaken {
        assert!(answer.bytes().await.is_err());
    }
}

#[tokio::test]
async fn ghsa_q8g9_jc4c_jp6q_large_bodies_are_refused_before_they_are_read_or_anybody_is_asked() {
    let bed = Bed::new().await;
    let path = format!("{MANAGEMENT}/services");
    let mut stream = bed.connect(&[b"http/1.1"]).await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut part = vec![0; 4096];
    let count = tokio::time::timeout(LONG, stream.read(&mut part)).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&part[..count]);
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert!(text.contains("REQUEST_ENTITY_TOO_LARGE") && text.contains("\"data\":{}"), "{text}");

    // Without a stated length, the body is refused while it arrives.
    let mut stream = bed.connect(&[b"http/1.1"]).await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..17 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    let count = tokio::time::timeout(LONG, stream.read(&mut part)).await.unwrap().unwrap();
    assert!(part[..count].starts_with(b"HTTP/1.1 413"));

    let body = vec![b' '; 1024 * 1024 + 1];
    let request = bed.request(Method::POST, &path).header("content-type", "application/json");
    send(request.body(body)).await.is_error(413, "REQUEST_ENTITY_TOO_LARGE");
    let body = vec![b' '; 1024 * 1024];
    let request = bed.request(Method::POST, &path).header("content-type", "application/json");
    send(request.body(body)).await.is_error(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn ghsa_j952_6x8x_jmj6_an_enrollment_reads_no_large_body() {
    let bed = Bed::new().await;
    let token = "00000000-0000-0000-0000-000000000000";
    for path in [
        format!("/enroll?method=ott&token={token}"),
        format!("/enroll?method=updb&token={token}"),
        format!("/enroll/ca?token={token}"),
        "/enroll/ott".to_owned(),
        "/enroll/updb".to_owned(),
        "/enroll/erott".to_owned(),
        "/enroll/token".to_owned(),
    ] {
        let mut stream = bed.connect(&[b"http/1.1"]).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut part = vec![0; 4096];
        let count = tokio::time::timeout(LONG, stream.read(&mut part)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&part[..count]);
        assert!(text.starts_with("HTTP/1.1 413"), "{path}: {text}");
        // Without a stated length, too: it is refused as soon as it is too large.
        let mut stream = bed.connect(&[b"http/1.1"]).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        for _ in 0..17 {
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
        let count = tokio::time::timeout(LONG, stream.read(&mut part)).await.unwrap().unwrap();
        assert!(part[..count].starts_with(b"HTTP/1.1 413"), "{path}");
    }
}

#[tokio::test]
async fn malformed_chunks_are_the_fault_of_whoever_sends_them() {
    let bed = Bed::new().await;
    for chunks in ["zz\r\n", "5\r\n12345678\r\n", "ffffffffffffffffff\r\n", "-1\r\n\r\n"] {
        let mut stream = bed.connect(&[b"http/1.1"]).await;
        let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\n\
                    content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{chunks}").as_bytes()).await.unwrap();
        let mut part = vec![0; 4096];
        let count = tokio::time::timeout(LONG, stream.read(&mut part)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&part[..count]);
        assert!(text.starts_with("HTTP/1.1 400"), "{chunks:?}: {text}");
        assert!(text.contains("COULD_NOT_READ_BODY"), "{chunks:?}: {text}");
    }
}

#[tokio::test]
async fn slow_heads_bodies_and_handshakes_are_cut() {
    let limits =
        ApiLimits { handshake_timeout: Duration::from_millis(300), ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    let mut half_open = TcpStream::connect(bed.address).await.unwrap();
    assert_eq!(end_of(&mut half_open).await, "");

    // Real handshakes take longer than the test's limit.
    let bed = Bed::with(hurried(), ApiLimits::default()).await;
    for begun in ["", "GET /ver", "GET /version HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = bed.connect(&[b"http/1.1"]).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        let text = end_of(&mut stream).await;
        assert!(!text.contains("200 OK"), "{begun}: {text}");
    }
    let mut stream = bed.connect(&[b"http/1.1"]).await;
    let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let text = end_of(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");

    let mut silent = bed.connect(&[b"h2"]).await;
    end_of(&mut silent).await;
}

#[tokio::test]
async fn too_many_requests_are_asked_to_come_back() {
    let limits = ApiLimits { requests_per_source: 1, grace: 2 * LONG, ..ApiLimits::default() };
    let bed = Arc::new(Bed::with(patient(), limits).await);
    // A request whose body does not come holds the only place.
    let mut stream = bed.connect(&[b"http/1.1"]).await;
    let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let deadline = Instant::now() + LONG;
    loop {
        let seen = bed.get("/version").await;
        if seen.status == 429 {
            seen.is_error(429, "SERVER_TOO_MANY_REQUESTS");
            assert_eq!(seen.header("retry-after"), Some("1"));
            break;
        }
        assert!(Instant::now() < deadline);
    }
    stream.write_all(b"{\"a\": 1} ").await.unwrap();
    let mut part = [0; 64];
    stream.read_exact(&mut part).await.unwrap();
    assert!(part.starts_with(b"HTTP/1.1 400"));
    assert_eq!(bed.get("/version").await.status, 200);
}

#[tokio::test]
async fn bodies_all_together_are_bounded() {
    let bed = Bed::with(section(), ApiLimits { body_bytes: 100, ..ApiLimits::default() }).await;
    let body = json!({"username": USERNAME, "password": PASSWORD, "configTypes": ["x".repeat(90)]});
    let path = "/authenticate?method=password";
    send(bed.request(Method::POST, path).json(&body))
        .await
        .is_error(429, "SERVER_TOO_MANY_REQUESTS");
    assert_eq!(bed.login_answer("", USERNAME, PASSWORD).await.status, 200);
}

#[tokio::test]
async fn connections_of_one_source_are_bounded() {
    let bed =
        Bed::with(section(), ApiLimits { connections_per_source: 2, ..ApiLimits::default() }).await;
    let first = bed.connect(&[b"http/1.1"]).await;
    let mut second = bed.connect(&[b"http/1.1"]).await;
    second.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut part = [0; 64];
    second.read_exact(&mut part).await.unwrap();
    assert!(part.starts_with(b"HTTP/1.1 200"));
    let mut third = bed.connect(&[b"http/1.1"]).await;
    let _ = third.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(end_of(&mut third).await, "");
    drop(first);
}

#[tokio::test]
async fn a_slow_operation_is_answered_in_time() {
    let limits = ApiLimits { handler_timeout: Duration::from_secs(2), ..ApiLimits::default() };
    let bed = Bed::with(section(), limits).await;
    // A login would be bound by the same limit.
    let token = bed.controller.auth().open_operator_session().unwrap();
    let admin = bed.session(&token);
    bed.store.push(InjectedFault::Hangs);
    let body = json!({"name": "web", "encryptionRequired": true});
    let path = format!("{MANAGEMENT}/services");
    // The change was given to the store, which does not answer.
    admin.call(Method::POST, &path, &body).await.is_error(503, "OUTCOME_UNKNOWN");
    assert_eq!(admin.get(&path).await.status, 200, "reads go on");
}

#[tokio::test]
async fn the_server_stops_when_its_requests_are_done() {
    let bed = Bed::new().await;
    let address = bed.address;
    let mut idle = bed.connect(&[b"http/1.1"]).await;
    let mut working = bed.connect(&[b"http/1.1"]).await;
    let body = json!({"username": USERNAME, "password": PASSWORD}).to_string();
    let head = format!(
        "POST /authenticate?method=password HTTP/1.1\r\nhost: x\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    working.write_all(head.as_bytes()).await.unwrap();
    // The request is being worked on once its head was read: a second connection shows that the
    // server had time for that.
    assert_eq!(bed.get("/version").await.status, 200);
    let Bed { server, .. } = bed;
    let stop = tokio::spawn(server.shutdown(LONG, LONG));
    assert_eq!(end_of(&mut idle).await, "");
    working.write_all(body.as_bytes()).await.unwrap();
    let text = end_of(&mut working).await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    tokio::time::timeout(LONG, stop).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

/// The head of a request that creates a service, and its body.
fn creation(token: &str) -> (String, String) {
    let body = json!({"name": "web", "encryptionRequired": true}).to_string();
    let head = format!(
        "POST {MANAGEMENT}/services HTTP/1.1\r\nhost: x\r\nzt-session: {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

#[tokio::test]
async fn a_stop_waits_longer_for_operations_that_are_carried_out() {
    let bed =
        Bed::with(section(), ApiLimits { handler_timeout: LONG, ..ApiLimits::default() }).await;
    let token = bed.controller.auth().open_operator_session().unwrap();
    let gate = Arc::new(Notify::new());
    bed.store.push(InjectedFault::Awaits(Arc::clone(&gate)));
    let mut working = bed.connect(&[b"http/1.1"]).await;
    let (head, body) = creation(&token);
    working.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let taken = async {
        while bed.store.left() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, taken).await.unwrap();
    let Bed { server, store: _store, controller: _controller, .. } = bed;
    let mut stop = tokio::spawn(server.shutdown(Duration::from_millis(10), LONG));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut stop).await;
    assert!(early.is_err(), "the stop waits for the commit");
    gate.notify_one();
    let text = end_of(&mut working).await;
    assert!(text.starts_with("HTTP/1.1 201"), "{text}");
    tokio::time::timeout(LONG, stop).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_for_lists() {
    let bed =
        Bed::with(section(), ApiLimits { handler_timeout: LONG, ..ApiLimits::default() }).await;
    let token = bed.controller.auth().open_operator_session().unwrap();
    // Others have all turns, so that a list that takes long waits.
    let others = (0..).map(|at| Caller::router(&format!("r{at}").as_str().into(), "test"));
    let permit = |caller| bed.controller.kernel().scans().asked_by(&caller).permit().now_or_never();
    let permits: Vec<_> = others.map_while(permit).map(Result::unwrap).collect();
    // Shows the number of requests that wait.
    let scans = || format!("{:?}", bed.controller.kernel().scans());
    let before = scans();
    let mut waiting = bed.connect(&[b"http/1.1"]).await;
    let head = format!(
        "GET {MANAGEMENT}/identities?filter=anyOf%28roleAttributes%29%20%21%3D%20%22a%22%20or%20tags.b HTTP/1.1\r\n\
         host: x\r\nzt-session: {token}\r\n\r\n"
    );
    waiting.write_all(head.as_bytes()).await.unwrap();
    let waits = async {
        while scans() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.unwrap();
    let Bed { server, controller: _controller, .. } = bed;
    let stop = tokio::spawn(server.shutdown(Duration::from_millis(10), 2 * LONG));
    let text = end_of(&mut waiting).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("the controller stops"), "{text}");
    tokio::time::timeout(LONG, stop).await.unwrap().unwrap();
    drop(permits);
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_for_bodies() {
    let bed = Bed::with(patient(), ApiLimits::default()).await;
    let token = bed.controller.auth().open_operator_session().unwrap();
    let mut slow = bed.connect(&[b"http/1.1"]).await;
    let (head, _) = creation(&token);
    slow.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(bed.get("/version").await.status, 200);
    let Bed { server, .. } = bed;
    let stop = server.shutdown(Duration::from_millis(10), 2 * LONG);
    tokio::time::timeout(LONG, stop).await.unwrap();
    assert_eq!(end_of(&mut slow).await, "");
}

#[tokio::test]
async fn connections_that_end_wait_for_documents() {
    let bed = Bed::new().await;
    let terms = bed.server.terms(&section());
    assert!(terms.working >= ApiLimits::default().document_timeout, "{:?}", terms.working);
}

#[tokio::test]
async fn bind_points_are_checked() {
    let bed = Bed::new().await;
    let start = async |section: WebServer| {
        let (_, identity) = super::keys();
        let identity = LiveIdentity::fixed(identity);
        ApiServer::start(&[section], Setup::new(bed.controller.clone(), identity, listeners()))
            .await
    };
    let mut elsewhere = section();
    elsewhere.bind_points = vec![BindPoint::Underlay {
        interface: HostPort { host: "127.0.0.1".into(), port: 0 },
        address: HostPort { host: "ctrl.example".into(), port: 1280 },
        new_address: None,
    }];
    let error = start(elsewhere).await.unwrap_err();
    assert!(matches!(error, StartError::Name { .. }), "{error}");
    let mut taken = section();
    taken.bind_points = vec![BindPoint::Underlay {
        interface: HostPort { host: "127.0.0.1".into(), port: bed.address.port() },
        address: HostPort { host: "127.0.0.1".into(), port: 1280 },
        new_address: None,
    }];
    let error = start(taken).await.unwrap_err();
    assert!(matches!(error, StartError::Bind { .. }), "{error}");
}

#[tokio::test]
async fn versions_and_new_addresses_are_as_configured() {
    let mut section = section();
    section.options.max_tls = TlsVersion::V1_2;
    section.bind_points = vec![BindPoint::Underlay {
        interface: HostPort { host: "127.0.0.1".into(), port: 0 },
        address: HostPort { host: "localhost".into(), port: 1280 },
        new_address: Some(HostPort { host: "new.example".into(), port: 443 }),
    }];
    let bed = Bed::with(section, ApiLimits::default()).await;
    let stream = bed.connect(&[]).await;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    let seen = bed.get("/version").await;
    assert_eq!(seen.header("ziti-ctrl-address"), Some("https://new.example:443"));
}
