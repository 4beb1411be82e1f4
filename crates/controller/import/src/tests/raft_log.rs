//! What a cluster's log has behind the database.

use weft_bolt::Bolt;

use super::writer::{Layout, Node, Tree, write};
use crate::LogRest;

/// An entry as the log has it, with `data` before the type.
fn entry(kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x86];
    let mut member = |key: &str, value: &[u8]| {
        bytes.push(0xA0 | u8::try_from(key.len()).unwrap());
        bytes.extend(key.as_bytes());
        bytes.extend(value);
    };
    member("Index", &[0xCF, 0, 0, 0, 0, 0, 0, 0, 9]);
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    member("Data", &[&[0xC5], length.as_slice(), data].concat());
    member("Extensions", &[0xC0]);
    member("Term", &[2]);
    member("Type", &[kind]);
    member("AppendedAt", &[&[0xC7, 12, 0xFF], [0; 12].as_slice()].concat());
    bytes
}

fn rest(entries: &[(u64, Vec<u8>)], index: u64) -> LogRest {
    let logs: Tree = entries
        .iter()
        .map(|(number, bytes)| (number.to_be_bytes().to_vec(), Node::Value(bytes.clone())))
        .collect();
    let root = Tree::from([(b"logs".to_vec(), Node::Bucket(logs))]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raft.db");
    std::fs::write(&path, write(&root, &Layout::default())).unwrap();
    LogRest::read(&Bolt::open(&path).unwrap(), index).unwrap()
}

#[test]
fn only_changes_behind_the_index_count() {
    let entries: Vec<(u64, Vec<u8>)> = [(5, 0), (6, 0), (7, 1), (8, 5), (9, 0), (10, 4)]
        .map(|(number, kind)| (number, entry(kind, &[0x93; 300])))
        .to_vec();
    assert_eq!(rest(&entries, 6), LogRest { changes: 1, last: 9 });
    assert_eq!(rest(&entries, 4), LogRest { changes: 3, last: 9 });
    assert_eq!(rest(&entries, 9), LogRest::default());
    assert_eq!(rest(&[], 0), LogRest::default());
}

#[test]
fn what_cannot_be_read_counts_as_a_change() {
    let mut deep = vec![0x81, 0xA1, b'x'];
    deep.extend([0x91; 10_000]);
    let endless = vec![0x81, 0xA1, b'x', 0xDF, 0xFF, 0xFF, 0xFF, 0xFF];
    for bytes in [Vec::new(), vec![0x81], deep, endless, entry(1, &[])[..40].to_vec()] {
        assert_eq!(rest(&[(3, bytes.clone())], 2).changes, 1, "{bytes:x?}");
    }
    assert_eq!(rest(&[(3, entry(1, &[]))], 2).changes, 0);
}
