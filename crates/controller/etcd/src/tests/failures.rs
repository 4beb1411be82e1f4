//! An etcd that is killed, frozen or full, or that is another network's.

use super::*;

#[tokio::test]
async fn a_killed_etcd_loses_nothing_and_writing_goes_on() {
    let Some(mut server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    let two = open(folder.path(), "two", server.log()).await;
    let revision = commit(&one, put("a", "a")).await;
    server.kill();
    let refused = one.commit(revision, vec![put("b", "b")]).await;
    assert!(
        matches!(refused, Err(CommitError::Unavailable(_) | CommitError::Unknown { .. })),
        "{refused:?}"
    );
    state(&one, |state| state.obstacle.is_some()).await;
    assert_eq!(rows(&one), [service("a", "a")], "reads go on");
    let refused = one.commit(revision, vec![put("b", "b")]).await;
    assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
    server.run();
    let revision = commit(&one, put("c", "c")).await;
    reached(&two, revision).await;
    assert_eq!(rows(&one), rows(&two));
}

#[tokio::test]
async fn a_frozen_etcd_is_answered_in_time_and_the_outcome_is_found() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    let base = commit(&one, put("a", "a")).await;
    server.signal("STOP");
    let batch = weft_store::BatchId::random();
    let begun = std::time::Instant::now();
    let lost = one.commit_as(batch, base, vec![put("b", "b")]).await;
    assert!(matches!(lost, Err(CommitError::Unknown { .. })), "{lost:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(one.settle(batch).await.is_err(), "etcd does not answer");
    server.signal("CONT");
    let work = async {
        loop {
            match one.settle(batch).await {
                Ok(outcome) => return outcome,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, work).await.unwrap();
    let is_there = rows(&one).contains(&service("b", "b"));
    assert_eq!(outcome.is_some(), is_there);
    assert_eq!(one.settle(batch).await, Ok(outcome), "it is said once and for all");
    commit(&one, put("c", "c")).await;
    assert_eq!(rows(&one).contains(&service("b", "b")), is_there);
}

#[tokio::test]
async fn a_full_etcd_is_named_and_reads_go_on() {
    let Some(server) = Server::start(&["--quota-backend-bytes", "3000000"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    let large = "x".repeat(200 << 10);
    let mut refused = None;
    for n in 0..40 {
        let base = one.head().unwrap().revision;
        if let Err(error) = one.commit(base, vec![put("a", &format!("{n}{large}"))]).await {
            refused = Some(error);
            break;
        }
    }
    let Some(CommitError::Unavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("quota"), "{why}");
    assert_eq!(rows(&one).len(), 1);
}

#[tokio::test]
async fn another_network_in_the_same_place_is_refused() {
    let (Some(server), Some(other)) = (Server::start(&[]), Server::start(&[])) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    commit(&one, put("a", "a")).await;
    one.close().await.unwrap();
    drop(one);
    let theirs = open(folder.path(), "other", other.log()).await;
    commit(&theirs, put("b", "b")).await;
    let one = open(folder.path(), "one", other.log()).await;
    state(&one, |state| state.obstacle.as_ref().is_some_and(|why| why.contains("timeline"))).await;
    assert_eq!(rows(&one), [service("a", "a")]);
    // Two networks in one etcd do not meet.
    let options = EtcdOptions { prefix: "/second/".to_owned(), ..server.options() };
    let second = open(folder.path(), "second", EtcdLog::new(options)).await;
    assert!(rows(&second).is_empty());
}

#[tokio::test]
async fn an_endpoint_that_is_gone_does_not_matter_while_another_is_there() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoints = vec![gone.to_string(), server.endpoint()];
    let log = EtcdLog::new(EtcdOptions { endpoints, ..server.options() });
    let one = open(folder.path(), "one", log).await;
    assert_eq!(commit(&one, put("a", "a")).await, Revision(1));
}
