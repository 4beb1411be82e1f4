//! Controllers that are near etcd and write as fast as they can, and one that is far from it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use weft_store::SharedLog as _;

use super::*;

/// The way of a controller to etcd, in one direction.
const WAY: Duration = Duration::from_millis(25);

/// Hands on what comes, each part so much later.
async fn hand_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (sender, mut parts) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, part)) = parts.recv().await {
            tokio::time::sleep_until(at.into()).await;
            if to.write_all(&part).await.is_err() {
                return;
            }
        }
    });
    let mut part = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut part).await {
        if sender.send((Instant::now() + WAY, part[..length].to_vec())).is_err() {
            return;
        }
    }
}

/// The address of a server by a long way.
async fn far(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, target) = (listener.local_addr().unwrap().to_string(), server.endpoint());
    tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            let Ok(to) = TcpStream::connect(&target).await else { continue };
            let ((from, back), (answers, to)) = (from.into_split(), to.into_split());
            tokio::spawn(hand_on(from, to));
            tokio::spawn(hand_on(answers, back));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_far_from_etcd_gets_its_turn_among_busy_ones_that_are_near() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let endpoints = vec![far(&server).await];
    let distant = EtcdLog::new(EtcdOptions { endpoints, ..server.options() });
    let distant = open(folder.path(), "far", distant).await;
    let mut near = Vec::new();
    for name in ["one", "two"] {
        near.push(open(folder.path(), name, server.log()).await);
    }
    let is_done = AtomicBool::new(false);
    let write = async |store: &Replica, name: &str| {
        let mut count = 0_u32;
        while !is_done.load(Ordering::Acquire) {
            commit(store, put(name, &count.to_string())).await;
            count += 1;
        }
        count
    };
    let wait = async {
        let mut longest = Duration::ZERO;
        for number in 0..8 {
            let (began, before) = (Instant::now(), distant.counts().conflicts);
            commit(&distant, put("far", &number.to_string())).await;
            longest = longest.max(began.elapsed());
            let lost = distant.counts().conflicts - before;
            assert!(lost <= 5, "lost {lost} times in a row");
            // Let the others write for a while.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        is_done.store(true, Ordering::Release);
        longest
    };
    let (one, two, longest) = futures::join!(write(&near[0], "one"), write(&near[1], "two"), wait);
    println!("the others wrote {one} and {two} changes; the longest wait was {longest:?}");
    assert!(one.min(two) > 20, "{one} and {two}");
    // Nobody is left with the turn.
    let work = async {
        while server.log().has_turn().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, work).await.expect("the turn is over");
}

#[tokio::test]
async fn a_turn_that_is_not_used_ends_by_itself() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    commit(&one, put("a", "a")).await;
    let idle = server.log();
    let head = idle.take_turn().await.unwrap().unwrap();
    assert!(server.log().has_turn().await);
    // Another one cannot take it, and learns the head.
    assert_eq!(server.log().take_turn().await, Ok(Some(head)));
    let began = Instant::now();
    commit(&one, put("b", "b")).await;
    assert!(began.elapsed() > Duration::from_millis(300), "{:?}", began.elapsed());
    assert!(!server.log().has_turn().await);
    // A controller that ends meanwhile does not give it back.
    let dying = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let log = server.log();
    dying.spawn(async move { log.take_turn().await }).await.unwrap().unwrap();
    dying.shutdown_background();
    assert!(server.log().has_turn().await);
    commit(&one, put("c", "c")).await;
    assert_eq!(idle.head().await.unwrap().unwrap().head.revision, Revision(3));
}
