//! A database that the original wrote, which `WEFT_ORIGINAL_DB` names; a folder stands for all `.db` files in it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::tree_of;
use super::writer::{Node, Tree};
use crate::Bolt;

fn databases(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "db")).collect()
}

fn buckets(tree: &Tree) -> usize {
    let inner = tree.values().map(|node| match node {
        Node::Value(_) => 0,
        Node::Bucket(inner) => 1 + buckets(inner),
    });
    inner.sum()
}

#[test]
fn a_database_of_the_original_is_read_whole() {
    let Some(path) = std::env::var_os("WEFT_ORIGINAL_DB") else {
        eprintln!("SKIPPED: WEFT_ORIGINAL_DB names no database of the original");
        return;
    };
    let databases = databases(Path::new(&path));
    assert!(!databases.is_empty(), "no database in {}", Path::new(&path).display());
    for path in databases {
        let begin = Instant::now();
        let database = Bolt::open(&path).unwrap();
        let mut entries = 0;
        let tree = tree_of(&database.root(), &mut entries).unwrap();
        eprintln!(
            "{}: {} pages of {} bytes, {} buckets, {entries} entries in {:?}",
            path.display(),
            database.page_count(),
            database.page_size(),
            buckets(&tree),
            begin.elapsed()
        );
        assert!(entries > 0);
    }
}
