//! SDKs that send more than their circuits take, and are not read for a while.

use weft_channel::Lane;

use super::*;
use crate::forwarder::ConnOwner as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_comes_and_goes_keeps_the_sdk_alive_once() {
    let router = router().await;
    let _sdk = router.sdk("dialer").await;
    router.until("the connection", || !router.data.edge().live().is_empty()).await;
    let connection = router.data.edge().live().pop().unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..200 {
        connection.backlog(true);
        connection.backlog(false);
    }
    // Tasks of other tests may begin and end meanwhile.
    let more = tasks().saturating_sub(before);
    assert!(more < 20, "{more} tasks for one connection");
}

/// A TCP server that reads nothing before it is told to.
async fn late_reader(begin: &CancellationToken) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let begin = begin.clone();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        begin.cancelled().await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    format!("tcp:{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_of_a_channel_is_read_again() {
    let router = router().await;
    let begin = CancellationToken::new();
    let (late, echo) = (late_reader(&begin).await, tcp_echo().await);
    router.table.addresses.lock().insert("late".to_owned(), late);
    router.table.addresses.lock().insert("tcp".to_owned(), echo);
    let sdk = router.grouped_sdk(router.address, 1, 1).await;
    router.until("both connections", || sdk.channel.underlays().len() == 2).await;
    StateConnected::from_message(&sdk.connect(1, "late").await).unwrap();

    let connection = router.data.edge().live().pop().unwrap();
    let flood = Data { conn_id: 1, flags: 0, uuid: None, data: vec![7; 32 * 1024].into() };
    let fill = || {
        let _ = sdk.channel.try_send(flood.to_message());
        connection.pause.is_on()
    };
    router.until("a backlog", fill).await;
    // The router stops reading both connections: this one after the request that comes on it.
    let connect = |conn_id| {
        let token = Bytes::from_static(b"tcp");
        let connect = Connect { conn_id: Some(conn_id), token, ..Connect::default() };
        sdk.channel.request_on(Lane::High, connect.to_message(), PATIENCE)
    };
    StateConnected::from_message(&connect(2).await.unwrap()).unwrap();
    begin.cancel();
    StateConnected::from_message(&connect(3).await.unwrap()).unwrap();
}
