//! Sessions and rights that end during other operations.

use weft_wire::edge::ErrorCode;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_while_it_is_judged_is_noticed() {
    let router = router().await;
    // The session is found valid, and the notice of its end finds no SDK with that session.
    router.ended.lock().insert("brief".to_owned());
    let sdk = router.sdk("brief").await;
    tokio::time::timeout(PATIENCE, sdk.channel.closed()).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_falls_behind_looks_at_everything() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    router.ended.lock().insert("dialer".to_owned());
    router.until("somebody to listen", || router.events.send(fallen_behind()).is_ok()).await;
    tokio::time::timeout(PATIENCE, dialer.channel.closed()).await.expect("closed");
    assert_eq!(host.closed().await.conn_id, there);
    let connected = || router.table.connected.lock().get("identity of dialer") == Some(&0);
    router.until("nobody to be connected", connected).await;
    assert!(!host.channel.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_while_nobody_listens_is_noticed() {
    let router = router().await;
    let dialer = router.sdk("dialer").await;
    router.until("somebody to listen", || router.events.receiver_count() > 0).await;
    router.end_before_next.lock().insert("dialer".to_owned());
    router.events.send(fallen_behind()).unwrap();
    tokio::time::timeout(PATIENCE, dialer.channel.closed()).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_lost_while_it_is_used_is_lost() {
    let router = router().await;
    let address = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), address);
    let (dialer, last) = (router.sdk("dialer").await, router.sdk("last").await);
    let known = || router.table.connected.lock().contains_key("identity of last");
    router.until("both to be known", known).await;
    // The SDK that listens hears of the end, and then of an event that shows that it has heard.
    let (events, channel) = (router.events.clone(), last.channel.clone());
    let meanwhile = async move {
        let (session, service_sessions) = ("dialer".to_owned(), ["tcp session".to_owned()].into());
        events.send(AccessEvent::ServiceSessionsEnded { session, service_sessions }).unwrap();
        events.send(AccessEvent::SessionEnded { session: "last".to_owned() }).unwrap();
        tokio::time::timeout(PATIENCE, channel.closed()).await.expect("closed");
    };
    *router.table.meanwhile.lock() = Some(meanwhile.boxed());
    let refused = StateClosed::from_message(&dialer.connect(1, "tcp").await).unwrap();
    assert_eq!(refused.error.unwrap().code, ErrorCode::ACCESS_DENIED);
    router.until("nothing to be left", || router.data.counts().1 == 0).await;
    // The connection id is free again.
    StateConnected::from_message(&dialer.connect(1, "tcp").await).unwrap();
}
