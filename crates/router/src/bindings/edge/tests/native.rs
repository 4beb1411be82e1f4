//! Workarounds for native SDKs before 0.36.

use super::*;

/// The name of a native SDK before 0.36.
const OLD: &str = "ziti-sdk-c[0]@host1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_is_followed_by_messages_that_mean_nothing() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let mut dialer = router.sdk_called(OLD, "dialer").await;
    let (_, there) = tokio::join!(dialer.connect(7, "echo"), host.accept());
    for _ in 0..100 {
        host.send(there, "small", 0).await;
    }
    let mut last = 0;
    for _ in 0..100 {
        let message = dialer.next().await;
        assert_eq!(message.content_type, content_type::DATA);
        last = message.sequence;
    }
    // The channel accepts nudges without an answer, but they take sequence numbers.
    let mut nudges = 0;
    let deadline = Instant::now() + PATIENCE;
    while nudges * 32 < 100 {
        assert!(Instant::now() < deadline, "only {nudges} nudges");
        tokio::time::sleep(Duration::from_millis(50)).await;
        host.send(there, "small", 0).await;
        let next = dialer.next().await.sequence;
        nudges += next - last - 1;
        last = next;
    }
}

#[test]
fn a_meaningless_message_is_not_empty() {
    let message = super::super::nudge::meaningless();
    assert!(!message.body.is_empty(), "an empty one stops an old SDK for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_in_time_comes_alone() {
    // The close comes in time on a slow machine, too.
    let router = router_with(2 * PATIENCE).await;
    let mut host = router.host_called(OLD, "echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    dialer.send(1, "last words", 0).await;
    dialer.channel.send(StateClosed::new(1, "done").to_message()).await.unwrap();
    assert_eq!(&host.data().await.data[..], b"last words");
    assert_eq!(StateClosed::from_message(&host.next().await).unwrap().conn_id, there);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_close_comes_after_a_moment() {
    let router = router().await;
    let mut host = router.host_called(OLD, "echo").await;
    let mut dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(2, "echo"), host.accept());
    dialer.send(2, "", data_flags::FIN).await;
    assert!(host.data().await.is_fin());
    // The other direction is still open.
    host.send(there, "answer", 0).await;
    assert_eq!(&dialer.data().await.data[..], b"answer");
    host.send(there, "", data_flags::FIN).await;
    assert!(dialer.data().await.is_fin());
    assert_eq!(StateClosed::from_message(&host.next().await).unwrap().conn_id, there);
}
