//! TLS handshakes that make no progress.

use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;

use super::door::{Door, Doors, NOT_AFTER, NOT_BEFORE, trickle, until_cut};
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::wait::PATIENCE;

/// Interval of single bytes, which do not extend the deadline.
const DRIP: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread")]
async fn half_open_tls_is_cut_by_a_deadline() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    let doors = Doors::of(&place, &operator.identity("stranger").await);
    join_all(doors.all().map(cut)).await;
}

/// Begins four handshakes at the same time, none of which ends, and checks when each is cut.
async fn cut(door: &Door) {
    let hello = door.client_hello();
    let (begun, _) = hello.split_at(hello.len() / 2);
    let silent = async { until_cut(&mut door.knock().await).await.1 };
    let half = async {
        let mut stream = door.knock().await;
        stream.write_all(begun).await.unwrap();
        until_cut(&mut stream).await.1
    };
    let slow = async { trickle(door.knock().await, &hello, DRIP).await };
    // The whole first message of the handshake, and nothing after the answer.
    let whole = async {
        let mut stream = door.knock().await;
        stream.write_all(&hello).await.unwrap();
        until_cut(&mut stream).await.1
    };
    let (silent, half, slow, whole) = tokio::join!(silent, half, slow, whole);
    for (what, took) in [("silent", silent), ("half", half), ("slow", slow), ("whole", whole)] {
        println!("half-open TLS, {}, {what}: cut after {took:?}", door.name);
        assert!(took > NOT_BEFORE, "{} {what}: cut after {took:?}, at once", door.name);
        assert!(took < NOT_AFTER, "{} {what}: cut after {took:?}", door.name);
    }
}
