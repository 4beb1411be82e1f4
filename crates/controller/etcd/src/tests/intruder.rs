//! Somebody who can write to etcd, and has no key of the network.

use bytes::Bytes;
use weft_wire::etcd::{DeleteRangeResponse, KeyValue, PutResponse, RangeResponse};

use super::*;
use crate::requests::{delete, get, put as put_request, range};

/// What somebody with etcd's command line can do.
struct Intruder(EtcdLog);

impl Intruder {
    async fn read(&self, key: &str) -> KeyValue {
        let key = Bytes::from(format!("/weft/{key}"));
        let answer: RangeResponse = self.0.call("KV/Range", &get(key)).await.unwrap();
        answer.kvs.into_iter().next().unwrap()
    }

    async fn write(&self, key: &str, value: Bytes) {
        let request = put_request(Bytes::from(format!("/weft/{key}")), value);
        let _: PutResponse = self.0.call("KV/Put", &request).await.unwrap();
    }

    async fn delete(&self, key: &str) {
        let range = (Bytes::from(format!("/weft/{key}")), Bytes::new());
        let _: DeleteRangeResponse = self.0.call("KV/DeleteRange", &delete(range)).await.unwrap();
    }
}

/// Waits until a controller says that it does not believe what is in etcd.
async fn stops(store: &Replica, word: &str) {
    state(store, |state| state.obstacle.as_ref().is_some_and(|why| why.contains(word))).await;
    let base = store.head().unwrap().revision;
    let refused = store.commit(base, vec![put("z", "z")]).await;
    assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn who_reads_etcd_finds_no_word_of_the_network() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", EtcdLog::with_checkpoints(server.options(), 5)).await;
    for n in 0..20 {
        commit(&one, put(&format!("id{n}"), "a-name-that-nobody-else-may-read")).await;
    }
    let everything = range(Bytes::from_static(b"\0"), Bytes::from_static(b"\0"), 0);
    let found: RangeResponse = server.log().call("KV/Range", &everything).await.unwrap();
    assert!(found.kvs.len() > 10, "{}", found.kvs.len());
    let timeline = one.head().unwrap().timeline.0.to_string();
    for word in ["a-name-that", "id1", &timeline] {
        let has_word = |kv: &KeyValue| {
            let text = [&kv.key[..], &kv.value[..]].concat();
            text.windows(word.len()).any(|part| part == word.as_bytes())
        };
        assert!(!found.kvs.iter().any(has_word), "{word}");
    }
}

#[tokio::test]
async fn what_is_forged_moved_or_played_again_is_not_believed() {
    let log = |revision: u64| format!("log/{revision:016x}");
    for (trick, word) in [
        ("another head", "not written by a controller"),
        ("an older head", "gone back"),
        ("a change of another revision", "not written by a controller"),
        ("a changed bit", "not written by a controller"),
        ("a change that is gone", "no longer in the log"),
    ] {
        let Some(server) = Server::start(&[]) else { return };
        let folder = tempfile::tempdir().unwrap();
        let one = open(folder.path(), "one", server.log()).await;
        let two = open(folder.path(), "two", server.log()).await;
        let intruder = Intruder(server.log());
        commit(&one, put("a", "a")).await;
        let old = intruder.read("head").await.value;
        reached(&two, commit(&one, put("b", "b")).await).await;
        // The second controller is away, and comes back to what was changed.
        two.close().await.unwrap();
        drop(two);
        reached(&one, commit(&one, put("c", "c")).await).await;
        match trick {
            "another head" => intruder.write("head", intruder.read(&log(1)).await.value).await,
            "an older head" => intruder.write("head", old).await,
            "a change of another revision" => {
                intruder.write(&log(3), intruder.read(&log(2)).await.value).await;
            }
            "a changed bit" => {
                let mut value = intruder.read(&log(3)).await.value.to_vec();
                value[40] ^= 1;
                intruder.write(&log(3), value.into()).await;
            }
            _ => intruder.delete(&log(3)).await,
        }
        let two = open(folder.path(), "two", server.log()).await;
        stops(&two, word).await;
        assert_eq!(rows(&two), [service("a", "a"), service("b", "b")], "{trick}");
        if trick.ends_with("head") {
            stops(&one, word).await;
        }
        assert_eq!(rows(&one).len(), 3, "{trick}");
    }
}

#[tokio::test]
async fn a_controller_without_the_key_is_told_so() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    commit(&one, put("a", "a")).await;
    let sealing = Arc::new(crate::SealingKeys::new([(2, [8; 32])]));
    let other = EtcdLog::new(EtcdOptions { sealing, ..server.options() });
    let path = folder.path().join("two");
    let refused = Replica::open(&path, Options::default(), Arc::new(other)).await.unwrap_err();
    assert!(
        refused.to_string().contains("key 1, which this controller does not have"),
        "{refused}"
    );
}
