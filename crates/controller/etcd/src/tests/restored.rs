//! A network that begins anew in etcd, in the place of what is there.

use futures::StreamExt as _;
use weft_model::Timeline;
use weft_store::{AppendError, Checkpoint, MoveError, SharedLog as _};
use weft_wire::etcd::RangeResponse;

use super::*;
use crate::requests::range;

/// The keys of the network.
async fn keys(log: &EtcdLog) -> Vec<String> {
    let all = range("/".into(), "0".into(), 1000);
    let found: RangeResponse = log.call("KV/Range", &all).await.unwrap();
    found.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

/// What a network begins with.
async fn checkpoint(log: &EtcdLog) -> Checkpoint {
    let Checkpoint { mut head, digest, chunks } = log.checkpoint().await.unwrap();
    let chunks: Vec<_> = chunks.collect().await;
    head.timeline = Timeline(format!("after {}", head.timeline).into());
    Checkpoint { head, digest, chunks: futures::stream::iter(chunks).boxed() }
}

#[tokio::test]
async fn a_network_begins_anew_at_once_and_tells_its_former_timelines() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = server.log();
    let one = open(folder.path(), "one", log.clone()).await;
    for number in 0..5 {
        commit(&one, put(&number.to_string(), "a")).await;
    }
    let seen = log.head().await.unwrap().unwrap();
    let first = seen.head.timeline.clone();
    commit(&one, put("late", "a")).await;
    one.close().await.unwrap();
    let refused = log.begin_anew(Some(seen), checkpoint(&log).await, vec![first.clone()]).await;
    assert!(matches!(refused, Err(AppendError::Moved(_))), "somebody has written: {refused:?}");
    assert_eq!(log.former().await.unwrap(), []);

    let now = log.head().await.unwrap();
    let former = vec![Timeline("earliest".into()), first.clone()];
    let begun = log.begin_anew(now, checkpoint(&log).await, former.clone()).await.unwrap();
    assert_eq!(log.former().await.unwrap(), former);
    let left = keys(&log).await;
    assert!(left.iter().all(|key| !key.contains("log/")), "{left:?}");
    assert!(left.iter().all(|key| !key.contains("checkpoint/")), "{left:?}");
    // A copy of the former timeline takes everything anew, and the timelines stay with later checkpoints.
    let one = open(folder.path(), "one", EtcdLog::with_checkpoints(server.options(), 3)).await;
    assert_eq!(one.head().unwrap().timeline, begun.head.timeline);
    assert_eq!(rows(&one), [], "the checkpoint is from before the changes");
    for number in 0..12 {
        commit(&one, put(&number.to_string(), "b")).await;
    }
    let work = async {
        while log.checkpoint().await.unwrap().head.revision == begun.head.revision {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, work).await.expect("another checkpoint");
    assert_eq!(log.former().await.unwrap(), former);
}

/// etcd is put back to an older state, goes on, and the network is taken from there.
#[tokio::test]
async fn what_etcd_has_after_it_was_put_back_is_where_the_network_goes_on() {
    let Some(mut server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let [one, fetched] = ["one", "fetched"].map(|name| folder.path().join(name));
    let live = server.log_beside("sessions/");
    let store = open(folder.path(), "one", server.log()).await;
    let kept = commit(&store, put("kept", "a")).await;
    server.keep();
    let lost = commit(&store, put("lost", "a")).await;
    assert!(lost > kept);
    server.put_back();
    state(&store, |state| state.obstacle.as_ref().is_some_and(|it| it.contains("gone back"))).await;
    store.close().await.unwrap();
    let other = open(folder.path(), "other", server.log()).await;
    commit(&other, put("later", "a")).await;
    other.close().await.unwrap();
    let store = open(folder.path(), "one", server.log()).await;
    state(&store, |state| state.obstacle.as_ref().is_some_and(|it| it.contains("differ"))).await;
    store.close().await.unwrap();

    let options = || Options { log_limit: 1_000, ..Options::default() };
    let model = Arc::new(server.log());
    let head = Replica::fetch(&fetched, options(), model.clone()).await.unwrap();
    assert_eq!(head.revision, lost);
    Replica::restore(&fetched, &one, options(), (&*model, &live)).await.unwrap();
    for name in ["one", "other"] {
        let store = open(folder.path(), name, server.log()).await;
        assert_eq!(rows(&store), [service("kept", "a"), service("later", "a")]);
        commit(&store, put("kept", "a")).await;
        store.close().await.unwrap();
    }
    let nothing = Replica::fetch(&folder.path().join("new"), options(), Arc::new(live)).await;
    assert!(nothing.is_ok_and(|head| head.revision == Revision(0)), "no session is left");
    let elsewhere = Arc::new(server.log_beside("elsewhere/"));
    let none = Replica::fetch(&folder.path().join("none"), options(), elsewhere).await;
    assert!(matches!(none, Err(MoveError::Empty)));
}
