//! Connections that are silent or too slow after the TLS handshake.

use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;
use weft_wire::edge::header;
use weft_wire::frame::encode;
use weft_wire::hello::Hello;

use super::door::{Door, Doors, NOT_AFTER, NOT_BEFORE, trickle, until_cut};
use super::malformed_control::other_router;
use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::wait::PATIENCE;

const DRIP: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread")]
async fn slow_hellos_and_heads_are_cut_by_a_deadline() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    let doors = Doors::of(&place, &operator.identity("stranger").await);
    // The control plane cuts a peer without a router's certificate at once.
    let (_, keys) = other_router(&place, &operator).await;
    let control = Doors::with(&place, &keys).control;
    let mut hello = Hello::new("stranger");
    hello.headers.set_str(header::SESSION_TOKEN, "a token that nobody gave out");
    let hello = encode(&hello.to_message());
    let head = b"GET /edge/client/v1/version HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
    let said = [(&doors.api, head), (&control, hello.clone()), (&doors.edge, hello)];
    join_all(said.iter().map(|(door, said)| cut(door, said))).await;
}

async fn cut(door: &Door, said: &[u8]) {
    let (begun, _) = said.split_at(said.len() / 2);
    let silent = async { until_cut(&mut door.enter().await).await.1 };
    let half = async {
        let mut stream = door.enter().await;
        stream.write_all(begun).await.unwrap();
        until_cut(&mut stream).await.1
    };
    let slow = async { trickle(door.enter().await, said, DRIP).await };
    let (silent, half, slow) = tokio::join!(silent, half, slow);
    for (what, took) in [("silent", silent), ("half", half), ("slow", slow)] {
        println!("after TLS, {}, {what}: cut after {took:?}", door.name);
        assert!(took > NOT_BEFORE, "{} {what}: cut after {took:?}, at once", door.name);
        assert!(took < NOT_AFTER, "{} {what}: cut after {took:?}", door.name);
    }
}
