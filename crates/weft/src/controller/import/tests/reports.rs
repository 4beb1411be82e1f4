//! What a dry run tells.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::database::read;
use super::super::dry_run;
use super::super::original::{Original, OriginalFile};
use super::super::report::{self, Report};
use super::network::{Network, text};
use crate::failure::Result;
use crate::output::Format;

/// A database with one identity, whose auth policy does not exist.
fn stored() -> (tempfile::TempDir, PathBuf) {
    let fields = vec![("name", text("Ada")), ("envInfoOs", text("linux"))];
    let bytes = Network::new(44).with("identities", "i1", fields).bytes();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctrl.db");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn told(path: &Path) -> Result<()> {
    dry_run(&Original::find(path, None)?, None, Format::Json)
}

#[test]
fn the_report_has_counts_losses_and_what_is_reported_again() {
    let (_folder, path) = stored();
    let (opened, import) = read(&path).unwrap();
    let report = Report { database: &path, import: &import, keys: None, notes: &[], problems: &[] };
    let values = report::values(&report);
    assert_eq!((&values["layout"], &values["release"]), (&44.into(), &"2.0".into()));
    let identities = json!({ "name": "identities", "found": 1, "taken": 1, "lossy": 1 });
    assert_eq!(values["kinds"][0], identities);
    let loss = json!({
        "kind": "identity", "id": "i1", "name": "Ada", "field": "authPolicyId",
        "reason": "there is no auth policy default",
    });
    assert_eq!(values["losses"], json!([loss]));
    assert_eq!(values["reportedAgain"][0]["count"], 1);
    let text = report::text(&report);
    for part in ["layout 44, of OpenZiti 2.0", "identities", "Lost:", "there is no auth policy"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("reported again") && !text.contains("To be solved"));
    assert!(!text.contains("service policies"), "kinds that the database has not are not shown");
    drop(opened);
    assert!(told(&path).is_ok());
}

#[test]
fn a_database_that_a_controller_has_open_is_refused() {
    let (_folder, path) = stored();
    let holder = File::open(&path).unwrap();
    holder.lock().unwrap();
    let refused = told(&path).unwrap_err().to_string();
    assert!(refused.contains("ziti fabric db snapshot"), "{refused}");
}

#[test]
fn a_controllers_file_names_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ctrl.yaml");
    let named = |text: &str| {
        let named = OriginalFile::parse(&file, text).and_then(|file| file.database());
        named.map_err(|error| error.to_string())
    };
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
    let database = |path: &Path| Original::find(path, None).map(|found| found.database);
    std::fs::write(&file, [0; 9_000]).unwrap();
    assert_eq!(database(&file).unwrap(), file);
    let other = Original::find(&file, Some(Path::new("/b.db")));
    assert!(other.err().unwrap().to_string().contains("--database"));
    std::fs::write(&file, "db: /a.db").unwrap();
    assert_eq!(database(&file).unwrap(), Path::new("/a.db"));
    let other = Original::find(&file, Some(Path::new("/b.db"))).unwrap();
    assert_eq!(other.database, Path::new("/b.db"));
    assert!(database(folder.path()).is_err());
    assert!(database(&folder.path().join("none")).is_err());
}
