//! What one identity may fill at a router.

use super::*;

/// The same identity as in all sessions whose token is this one.
const GREEDY: &str = "greedy";

async fn narrow(max_channels: u32, max_listeners: u32) -> Router {
    router_for(FIN_HOLD, Spans::off(), EdgePerIdentity { max_channels, max_listeners }).await
}

impl Router {
    fn full(&self) -> u64 {
        self.data.edge().full_count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_has_so_many_channels_and_keeps_no_other_out() {
    let router = narrow(2, 9).await;
    let identity = format!("identity of {GREEDY}");
    let channels = || router.table.connected.lock().get(&identity).copied().unwrap_or_default();
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(router.sdk(GREEDY).await);
    }
    router.until("two channels", || channels() == 2).await;
    let third = router.sdk(GREEDY).await;
    tokio::time::timeout(PATIENCE, third.channel.closed()).await.expect("it is refused");
    assert_eq!((channels(), router.full()), (2, 1));
    let other = router.host("echo").await;
    open.pop().unwrap().channel.close("test");
    router.until("one channel", || channels() == 1).await;
    let again = router.sdk(GREEDY).await;
    router.until("two channels", || channels() == 2).await;
    assert!(!again.channel.is_closed() && !other.channel.is_closed());
    drop(open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_has_so_many_listeners_over_all_of_its_channels() {
    let router = narrow(9, 2).await;
    let bind = |conn_id: u32| Bind { conn_id, token: "echo".into(), ..Bind::default() };
    let ask = async |sdk: &Sdk, bind: Bind| {
        sdk.channel.request(bind.to_message(), PATIENCE).await.unwrap()
    };
    let (one, two) = (router.sdk(GREEDY).await, router.sdk(GREEDY).await);
    let kept = Bind { listener_id: Some("L".into()), ..bind(1) };
    StateConnected::from_message(&ask(&one, kept.clone()).await).unwrap();
    StateConnected::from_message(&ask(&two, bind(1)).await).unwrap();
    let refused = StateClosed::from_message(&ask(&two, bind(2)).await).unwrap();
    let text = format!(
        "identity identity of {GREEDY} has 2 listeners at this router, as many as it may have; close some, or raise \
         edge.perIdentity.maxListeners in the router's file"
    );
    assert_eq!((refused.conn_id, refused.reason, router.full()), (2, text, 1));
    // A listener that takes the place of an older one is none more.
    StateConnected::from_message(&ask(&two, Bind { conn_id: 3, ..kept }).await).unwrap();
    StateConnected::from_message(&ask(&router.sdk("modest").await, bind(1)).await).unwrap();
    let unbind = Unbind { conn_id: 1, token: "echo".into(), listener_id: None }.to_message();
    two.channel.request(unbind, PATIENCE).await.unwrap();
    StateConnected::from_message(&ask(&one, bind(4)).await).unwrap();
    for sdk in [one, two] {
        sdk.channel.close("test");
    }
    let hosts = || router.data.edge().listeners_of(&format!("identity of {GREEDY}"));
    router.until("no listeners", || hosts() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_controller_takes_of_a_listener_is_not_kept() {
    let router = router().await;
    let sdk = router.sdk("host").await;
    let long = || Some(Bytes::from(vec![7; 1025]));
    let bind = Bind { token: "echo".into(), instance: "i".into(), ..Bind::default() };
    for (conn_id, bind) in (1..).zip([
        Bind { instance: "i".repeat(1025), ..bind.clone() },
        Bind { instance_secret: long(), ..bind.clone() },
        Bind { listener_id: long(), ..bind.clone() },
        Bind { public_key: Some(vec![7; 16_385].into()), ..bind.clone() },
    ]) {
        let bind = Bind { conn_id, ..bind };
        let answer = sdk.channel.request(bind.to_message(), PATIENCE).await.unwrap();
        let closed = StateClosed::from_message(&answer).unwrap();
        assert!(closed.reason.contains("of a listener has at most"), "{}", closed.reason);
    }
    assert!(router.table.asked_for.lock().is_empty());
}
