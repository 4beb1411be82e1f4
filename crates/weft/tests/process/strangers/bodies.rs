//! Request bodies that are too large.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};
use tokio::time::sleep;
use weft_client::trust;

use super::door::Door;
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::wait::{PATIENCE, within};

/// Paths that take a body, of both APIs, with and without a login.
const PATHS: [&str; 4] = [
    "/edge/management/v1/services",
    "/edge/management/v1/authenticate?method=password",
    "/edge/client/v1/authenticate?method=password",
    "/edge/client/v1/enroll?method=ott",
];
/// More than any limit.
const STATED: u64 = 10 << 30;
/// Most bytes of a chunked body before it is refused: the limit, and the growing buffers of two
/// sockets.
const MOST_READ: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let stranger = trust::meet(&format!("localhost:{}", place.control).parse().unwrap()).await;
    let door = Door::anonymous(&place, stranger.unwrap().bundle);
    let before = network.resident();
    for path in PATHS {
        stated(&door, path).await;
        unstated(&door, path).await;
    }
    let after = network.resident();
    assert!(after < before + (32 << 20), "from {before} to {after} bytes");
    Operator::log_in(place.control).await;
}

/// A too large stated length is refused, while the body only trickles.
async fn stated(door: &Door, path: &str) {
    let mut stream = door.enter().await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {STATED}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = split(stream);
    let drip = async {
        while writer.write_all(b" ").await.is_ok() && writer.flush().await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = refused(&mut reader, path) => {}
        () = drip => {}
    }
}

/// Without a stated length, the body is refused once it is too long, before its end.
async fn unstated(door: &Door, path: &str) {
    let mut stream = door.enter().await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = split(stream);
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0;
    let pour = async {
        while writer.write_all(chunk.as_bytes()).await.is_ok() {
            sent += chunk.len();
        }
    };
    let (_, ()) = tokio::join!(within("it is not read on", PATIENCE, pour), async {
        refused(&mut reader, path).await;
    });
    assert!(sent < MOST_READ, "{path}: {sent} bytes were taken");
}

async fn refused(reader: &mut (impl tokio::io::AsyncRead + Unpin), path: &str) {
    let mut answer = [0; 12];
    let read = within("the refusal", PATIENCE, reader.read_exact(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(read.is_ok() && answer == "HTTP/1.1 413", "{path}: {read:?} {answer}");
}
