//! SDKs whose session is not judged yet.

use weft_channel::CloseReason;

use super::*;
use crate::bindings::edge::patience::Asked;

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
    router.until("the channel", || router.data.edge().connections() == 1).await;
    let connection = router.data.edge().live().pop().unwrap();
    router.until("it is read no more", || connection.pause.is_on()).await;
    assert!(answers.iter().all(|answer| !answer.is_finished()));
    router.judge_slow.cancel();
    for answer in answers {
        let answer = answer.await.unwrap().unwrap();
        assert!(StateClosed::from_message(&answer).unwrap().reason.contains("access denied"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_on_a_refused_channel_is_answered_and_no_more_is_read_before_its_close() {
    let router = router().await;
    let _judged = router.host("other").await;
    let edge = router.data.edge();
    // The certificate was refused so often that the channel is closed late.
    let certificate =
        edge.live().pop().unwrap().channel.peer().certificates.first().unwrap().clone();
    let (sender, over) = (weft_identity::fingerprint(&certificate), CancellationToken::new());
    over.cancel();
    for _ in 0..20 {
        edge.patience.hold(&sender, Asked::Channel, tokio::time::Instant::now(), &over).await;
    }
    let sdk = router.sdk("slow and bad").await;
    let bind = Bind { conn_id: 2, token: "echo".into(), ..Bind::default() }.to_message();
    let asked = async { tokio::join!(sdk.connect(1, "echo"), sdk.channel.request(bind, PATIENCE)) };
    let judge = async {
        let unjudged = || edge.live().into_iter().find(|it| it.session().is_none());
        let waits = || unjudged().is_some_and(|it| it.requests_in_work() == 2);
        router.until("both to wait", waits).await;
        let connection = unjudged().unwrap();
        router.judge_slow.cancel();
        router.until("it is read no more", || connection.pause.is_on()).await;
    };
    let ((dialed, bound), ()) = tokio::join!(asked, judge);
    for answer in [dialed, bound.unwrap()] {
        assert_eq!(StateClosed::from_message(&answer).unwrap().reason, "Invalid Session");
    }
    tokio::time::timeout(PATIENCE, sdk.channel.closed()).await.unwrap();
}
