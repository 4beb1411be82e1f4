//! Another key seals what is in etcd: everything is written anew, and nothing sealed with the former one counts.

use weft_store::{LogKeys as _, SharedLog as _};

use super::*;
use crate::SealingKeys;

/// The log of a controller with keys of its own.
fn log_with(server: &Server, prefix: &str, keys: &Arc<SealingKeys>) -> EtcdLog {
    let sealing = Arc::clone(keys);
    EtcdLog::new(EtcdOptions { sealing, prefix: prefix.to_owned(), ..server.options() })
}

/// The store of a controller with keys of its own, with sessions.
async fn open_with(
    server: &Server,
    folder: &Path,
    name: &str,
    keys: &Arc<SealingKeys>,
) -> Result<Replica, String> {
    let [model, live] =
        ["/weft/", "/weft/sessions/"].map(|prefix| Arc::new(log_with(server, prefix, keys)));
    let path = folder.join(name);
    let opened = Replica::open_with_live(&path, Options::default(), model, live);
    opened.await.map_err(|error| error.to_string())
}

async fn sealed_anew(store: &Replica) {
    let work = async {
        while !store.seal_anew().await.unwrap() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, work).await.expect("everything sealed anew in time");
}

#[tokio::test]
async fn what_a_former_key_has_sealed_is_written_anew() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = ((1, [7; 32]), (2, [8; 32]));
    let [ours, theirs] = [(); 2].map(|()| Arc::new(SealingKeys::new([first])));
    let one = open_with(&server, folder.path(), "one", &ours).await.unwrap();
    let two = open_with(&server, folder.path(), "two", &theirs).await.unwrap();
    assert!(one.seal_anew().await.unwrap(), "there is one key");
    let revision = commit(&one, put("a", "a")).await;
    // A change that takes several values.
    let large = "x".repeat(3 << 20);
    reached(&two, commit(&one, put("b", &large)).await).await;
    for keys in [&ours, &theirs] {
        keys.add(second.0, second.1).unwrap();
        assert_eq!((keys.numbers().newest, keys.numbers().sealing), (2, 1));
    }
    assert!(one.seal_anew().await.unwrap(), "the former key still seals");
    ours.seal_with(2).unwrap();
    // Both write, each with another key.
    reached(&two, commit(&one, put("c", "c")).await).await;
    reached(&one, commit(&two, put("d", "d")).await).await;
    theirs.seal_with(2).unwrap();
    assert!(!one.seal_anew().await.unwrap());
    // What no controller reads, or only for a moment, holds nothing up.
    for key in ["/weft/unknown", "/weft/alive/unknown", "/weft/sessions/alive/unknown"] {
        let forged = crate::requests::put(key.into(), vec![0, 0, 0, 1].into());
        let log = log_with(&server, "/weft/", &ours);
        let _: weft_wire::etcd::PutResponse = log.call("KV/Put", &forged).await.unwrap();
    }
    sealed_anew(&one).await;
    for keys in [&ours, &theirs] {
        keys.forget_before(2).unwrap();
    }
    // Those that run go on, and one that has the new key alone has everything.
    reached(&two, commit(&one, put("e", "e")).await).await;
    let third = Arc::new(SealingKeys::new([second]));
    let three = open_with(&server, folder.path(), "three", &third).await.unwrap();
    assert_eq!(rows(&three), rows(&one));
    assert_eq!(rows(&three).len(), 5);
    assert!(three.head().unwrap().revision > revision);
    // One that was let in meanwhile has both, and would seal with the former one: it does as the others do.
    let both = Arc::new(SealingKeys::new([second, first]));
    let late = open_with(&server, folder.path(), "late", &both).await.unwrap();
    reached(&one, commit(&late, put("f", "f")).await).await;
    assert_eq!(both.numbers().sealing, 2);
    // Somebody with the former key reads nothing, and is believed nothing.
    let former = Arc::new(SealingKeys::new([first]));
    let refused = open_with(&server, folder.path(), "former", &former).await.unwrap_err();
    assert!(refused.contains("key 2, which this controller does not have"), "{refused}");
    let log = log_with(&server, "/weft/", &third);
    let head = log.head().await.unwrap().unwrap();
    let forged = SealingKeys::new([first]).seal(&"/weft/head".into(), None, &head.to_bytes());
    let put = crate::requests::put("/weft/head".into(), forged.unwrap());
    let _: weft_wire::etcd::PutResponse = log.call("KV/Put", &put).await.unwrap();
    state(&one, |state| state.obstacle.as_ref().is_some_and(|it| it.contains("key 1"))).await;
    assert_eq!(rows(&one).len(), 6);
}
