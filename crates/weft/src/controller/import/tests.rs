//! Reports of databases that the tests write.

#[path = "../../../../controller/bolt/src/tests/writer.rs"]
#[allow(dead_code, reason = "the tests of the reader use all of it")]
mod writer;

use writer::{Layout, Node, Tree, write};

use super::*;

fn bucket<const N: usize>(entries: [(&str, Node); N]) -> Node {
    let entries = entries.map(|(key, node)| (key.as_bytes().to_vec(), node));
    Node::Bucket(entries.into_iter().collect())
}

fn text_of(text: &str) -> Node {
    Node::Value([&[5], text.as_bytes()].concat())
}

/// A database with one identity, whose auth policy does not exist.
fn stored() -> (tempfile::TempDir, PathBuf) {
    let fields = [("name", text_of("Ada")), ("envInfoOs", text_of("linux"))];
    let version = Node::Value([&[3], 44_i64.to_le_bytes().as_slice()].concat());
    let root = bucket([
        ("versions", bucket([("edge", version)])),
        ("identities", bucket([("i1", bucket(fields))])),
    ]);
    let bytes = write(&Tree::from([(b"ziti".to_vec(), root)]), &Layout::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctrl.db");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn the_report_has_counts_losses_and_what_is_reported_again() {
    let (_folder, path) = stored();
    let import = Import::read(&Bolt::open(&path).unwrap()).unwrap();
    let told = values(&path, &import);
    assert_eq!((&told["layout"], &told["release"]), (&44.into(), &"2.0".into()));
    let identities = json!({ "name": "identities", "found": 1, "taken": 1, "lossy": 1 });
    assert_eq!(told["kinds"][0], identities);
    let loss = json!({
        "kind": "identity", "id": "i1", "name": "Ada", "field": "authPolicyId",
        "reason": "there is no auth policy default",
    });
    assert_eq!(told["losses"], json!([loss]));
    assert_eq!(told["reportedAgain"][0]["count"], 1);
    let text = text(&path, &import);
    for part in ["layout 44, of OpenZiti 2.0", "identities", "Lost:", "there is no auth policy"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("reported again") && text.ends_with("nothing was written"));
    assert!(!text.contains("service policies"), "kinds that the database has not are not shown");
    assert!(dry_run(&path, Format::Json).is_ok());
}

#[test]
fn a_database_that_a_controller_has_open_is_refused() {
    let (_folder, path) = stored();
    let holder = File::open(&path).unwrap();
    holder.lock().unwrap();
    let refused = dry_run(&path, Format::Table).unwrap_err().to_string();
    assert!(refused.contains("ziti fabric db snapshot"), "{refused}");
}

#[test]
fn a_controllers_file_names_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ctrl.yaml");
    let named = |text: &str| named(&file, text).map_err(|error| error.to_string());
    assert_eq!(named("v: 3\ndb: /var/ctrl.db\n").unwrap(), Path::new("/var/ctrl.db"));
    assert_eq!(named("db: \"ctrl.db\"\n").unwrap(), folder.path().join("ctrl.db"));
    let cluster = named("cluster:\n  dataDir: /raft\ndb: /other.db\n").unwrap();
    assert_eq!(cluster, Path::new("/raft/ctrl-ha.db"));
    assert_eq!(named("raft: { dataDir: /raft }").unwrap(), Path::new("/raft/ctrl-ha.db"));
    let home = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let variable = named("db: ${CARGO_MANIFEST_DIR}/x.db").unwrap();
    assert_eq!(variable, Path::new(&home).join("x.db"));
    assert!(named("db: ${WEFT_NO_SUCH_NAME}/x").unwrap_err().contains("WEFT_NO_SUCH_NAME"));
    assert!(named("v: 3\n").unwrap_err().contains("names no database"));
    assert!(named("db: [\n").unwrap_err().contains("line"));
}

#[test]
fn databases_are_told_from_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, [0; 9_000]).unwrap();
    assert_eq!(database(&file).unwrap(), file);
    std::fs::write(&file, "db: /a.db").unwrap();
    assert_eq!(database(&file).unwrap(), Path::new("/a.db"));
    assert!(database(folder.path()).is_err());
    assert!(database(&folder.path().join("none")).is_err());
}
