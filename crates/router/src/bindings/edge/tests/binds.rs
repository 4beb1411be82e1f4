//! Binds: one that takes a terminator over, one that is taken back, and hosts that name connections themselves.

use super::*;
use crate::bindings::edge::patience::Asked;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_bind_takes_the_terminator_over() {
    let router = router().await;
    let bind = |conn_id| Bind {
        conn_id,
        token: "echo".into(),
        listener_id: Some("L".into()),
        supports_bind_success: true,
        router_conn_ids: true,
        ..Bind::default()
    };
    let mut first = router.sdk("host").await;
    first.channel.request(bind(1).to_message(), PATIENCE).await.unwrap();
    assert_eq!(first.next().await.content_type, content_type::BIND_SUCCESS);
    let terminator = router.table.terminators.lock().get("echo").unwrap().id.clone();
    let mut second = router.sdk("host").await;
    second.channel.request(bind(5).to_message(), PATIENCE).await.unwrap();
    assert_eq!(second.next().await.content_type, content_type::BIND_SUCCESS);
    let told = StateClosed::from_message(&first.next().await).unwrap();
    assert_eq!(told.reason, "found a newer terminator for listener id");
    assert_eq!(router.table.terminators.lock().get("echo").unwrap().id, terminator);
    // The older connection goes away; the terminator stays.
    first.channel.close("old");
    let dialer = router.sdk("dialer").await;
    let (answer, _) = tokio::join!(dialer.connect(1, "echo"), second.accept());
    StateConnected::from_message(&answer).unwrap();
    assert!(router.table.removed.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_that_is_taken_back_before_it_is_made_is_not_made() {
    let router = router().await;
    let mut host = router.sdk("slow").await;
    let bind = |token: &'static str| Bind {
        conn_id: 1,
        token: token.into(),
        supports_bind_success: true,
        ..Bind::default()
    };
    host.channel.send(bind("first").to_message()).await.unwrap();
    let unbind = Unbind { conn_id: 1, token: "first".into(), listener_id: None }.to_message();
    let unbound = host.channel.request(unbind, PATIENCE).await.unwrap();
    assert_eq!(StateClosed::from_message(&unbound).unwrap().reason, "unbound");
    // The connection id is in use again when the first bind goes on.
    let second = host.channel.request(bind("second").to_message(), PATIENCE);
    let judge = async { router.judge_slow.cancel() };
    let (bound, ()) = tokio::join!(second, judge);
    assert_eq!(StateConnected::from_message(&bound.unwrap()).unwrap().conn_id, 1);
    assert_eq!(host.next().await.content_type, content_type::BIND_SUCCESS);
    assert_eq!(*router.table.asked_for.lock(), ["second"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_names_connections_itself_is_reached() {
    let router = router().await;
    let mut host = router.sdk("host").await;
    let bind = Bind { conn_id: 1, token: "echo".into(), ..Bind::default() };
    host.channel.request(bind.to_message(), PATIENCE).await.unwrap();
    router.until("the terminator", || !router.table.terminators.lock().is_empty()).await;
    let dialer = router.sdk("dialer").await;
    let three_way = async {
        let message = host.next().await;
        let dial = Dial::from_message(&message).unwrap();
        assert_eq!((dial.new_conn_id, &dial.caller_id[..]), (None, &b"caller"[..]));
        let success = DialSuccess { conn_id: 1, new_conn_id: 77, public_key: None };
        let answer = success.to_message().in_reply_to(&message);
        let ready = host.channel.request(answer, PATIENCE).await.unwrap();
        assert_eq!(StateConnected::from_message(&ready).unwrap().conn_id, 1);
    };
    let (answer, ()) = tokio::join!(dialer.connect(4, "echo"), three_way);
    StateConnected::from_message(&answer).unwrap();
    dialer.send(4, "x", 0).await;
    assert_eq!(host.data().await.conn_id, 77);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_asks_again_as_soon_as_it_is_refused_waits_longer_and_longer() {
    let router = router().await;
    let mut host = router.sdk("host").await;
    let bind = |conn_id| Bind { conn_id, token: "forbidden".into(), ..Bind::default() };
    let begun = Instant::now();
    for conn_id in 1..12 {
        let answer = host.channel.request(bind(conn_id).to_message(), PATIENCE).await.unwrap();
        assert!(StateClosed::from_message(&answer).is_ok(), "{answer:?}");
    }
    // Eight at once; the last three after 100, 200 and 400 ms.
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
    // A refusal that waits holds nothing else up.
    let (channel, twelfth) = (host.channel.clone(), bind(12).to_message());
    let waits = tokio::spawn(async move { channel.request(twelfth, PATIENCE).await });
    let allowed = Bind {
        conn_id: 13,
        token: "echo".into(),
        supports_bind_success: true,
        router_conn_ids: true,
        ..Bind::default()
    };
    let bound = host.channel.request(allowed.to_message(), PATIENCE).await.unwrap();
    assert_eq!(StateConnected::from_message(&bound).unwrap().conn_id, 13);
    assert_eq!(host.next().await.content_type, content_type::BIND_SUCCESS);
    let dialer = router.sdk("dialer").await;
    let (answer, _) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    StateConnected::from_message(&answer).unwrap();
    assert!(StateClosed::from_message(&waits.await.unwrap().unwrap()).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_that_wait_are_limited_by_their_channel_and_late_all_the_same() {
    let router = router().await;
    let host = router.sdk("host").await;
    router.until("the channel", || router.data.edge().connections() == 1).await;
    let connection = router.data.edge().live().pop().unwrap();
    // No refusal may wait beside the requests in work.
    let all = connection.held_refusals.available_permits();
    connection.held_refusals.forget_permits(all);
    // The host was refused so often that the next refusal is late by 4 s.
    let over = CancellationToken::new();
    over.cancel();
    for _ in 0..20 {
        let (sender, came) = ("identity of host", tokio::time::Instant::now());
        router.data.edge().patience.hold(sender, Asked::Use(Use::Bind), came, &over).await;
    }
    let begun = Instant::now();
    let bind = Bind { conn_id: 1, token: "forbidden".into(), ..Bind::default() };
    let refused = host.channel.request(bind.to_message(), PATIENCE);
    let waits = router.until("it to keep its place", || connection.requests_in_work() == 1);
    let (answer, ()) = tokio::join!(refused, waits);
    assert!(StateClosed::from_message(&answer.unwrap()).is_ok());
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
}
