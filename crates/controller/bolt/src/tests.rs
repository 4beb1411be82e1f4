//! Databases that the writer of the tests makes, whole and damaged.

mod damage;
mod hostile;
mod locks;
mod original;
mod random;
mod reading;
mod writer;

use std::path::{Path, PathBuf};

use writer::{Node, Tree};

use crate::{Bolt, BoltBucket, BoltContent, BoltError};

/// A file in a folder of its own.
struct Stored {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Stored {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctrl.db");
        std::fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }
}

/// Everything of a bucket, as a walk through its entries finds it; `visited` counts the entries.
fn tree_of(bucket: &BoltBucket<'_>, visited: &mut usize) -> Result<Tree, BoltError> {
    let mut tree = Tree::new();
    for entry in bucket.entries() {
        let entry = entry?;
        *visited += 1;
        let node = match entry.content {
            BoltContent::Value(value) => Node::Value(value.to_vec()),
            BoltContent::Bucket(inner) => Node::Bucket(tree_of(&inner, visited)?),
        };
        tree.insert(entry.key.to_vec(), node);
    }
    Ok(tree)
}

/// Everything of a file.
fn read(path: &Path) -> Result<Tree, BoltError> {
    tree_of(&Bolt::open(path)?.root(), &mut 0)
}

/// Everything of a file with these bytes.
fn read_bytes(bytes: &[u8]) -> Result<Tree, BoltError> {
    read(&Stored::new(bytes).path)
}

fn value(text: &str) -> Node {
    Node::Value(text.as_bytes().to_vec())
}

fn key(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A tree like that of a controller: buckets within buckets, long and short values.
fn example() -> Tree {
    let identity = |number: usize| {
        let roles = (0..number % 4).map(|role| (key(&format!("role-{role}")), value("")));
        Node::Bucket(Tree::from([
            (key("name"), value(&format!("identity {number}"))),
            (key("roleAttributes"), Node::Bucket(roles.collect())),
            (key("data"), Node::Value(vec![number as u8; (number % 7) * 1_500])),
        ]))
    };
    let identities = (0..120).map(|number| (key(&format!("id{number:05}")), identity(number)));
    Tree::from([(
        key("ziti"),
        Node::Bucket(Tree::from([
            (key("empty"), Node::Bucket(Tree::new())),
            (key("identities"), Node::Bucket(identities.collect())),
            (key("version"), value("44")),
        ])),
    )])
}
