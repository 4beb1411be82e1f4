//! SDKs whose session is not judged yet.

use weft_channel::CloseReason;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_session_is_judged_no_long_message_is_taken() {
    let router = router().await;
    let sdk = router.sdk("slow").await;
    // As many bytes as an SDK may send once it is judged.
    sdk.send(1, vec![b'x'; 64 * 1024], 0).await;
    let reason = tokio::time::timeout(PATIENCE, sdk.channel.closed()).await.unwrap();
    assert!(matches!(reason, CloseReason::Peer | CloseReason::Io(_)), "{reason}");

    // The same message is accepted from an SDK that is judged.
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let (answer, there) = tokio::join!(dialer.connect(7, "echo"), host.accept());
    StateConnected::from_message(&answer).unwrap();
    dialer.send(7, vec![b'x'; 64 * 1024], 0).await;
    let data = host.data().await;
    assert_eq!((data.conn_id, data.data.len()), (there, 64 * 1024));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_before_the_session_is_judged_waits_within_bounds() {
    const ASKED: u32 = 200;
    let router = router().await;
    let sdk = router.sdk("slow").await;
    // Some 3 MiB: more than is read before the session is judged, less than is taken later.
    let mut answers = Vec::new();
    for conn_id in 1..=ASKED {
        let connect = Connect {
            conn_id: Some(conn_id),
            token: Bytes::from("forbidden"),
            caller_id: Some("x".repeat(16 * 1024).into()),
            ..Connect::default()
        };
        let (channel, message) = (sdk.channel.clone(), connect.to_message());
        answers.push(tokio::spawn(async move { channel.request(message, PATIENCE).await }));
    }
    let connection = router.data.edge().live().pop().unwrap();
    router.until("it is read no more", || connection.pause.is_on()).await;
    assert!(answers.iter().all(|answer| !answer.is_finished()));
    router.judge_slow.cancel();
    for answer in answers {
        let answer = answer.await.unwrap().unwrap();
        assert!(StateClosed::from_message(&answer).unwrap().reason.contains("access denied"));
    }
}
