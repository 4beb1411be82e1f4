//! What was written is read, in every layout.

use super::writer::{Layout, Node, SEQUENCE, Tree, write};
use super::{Stored, example, key, read_bytes, tree_of, value};
use crate::{Bolt, BoltContent, BoltError};

#[test]
fn what_was_written_is_read_in_every_layout() {
    let tree = example();
    for page_size in [4_096, 8_192, 16_384, 65_536] {
        for elements in [2, 3, 50, 1_000] {
            for (within, has_free_list, is_newer_second) in
                [(1_024, true, true), (0, false, false), (4_000, false, true)]
            {
                let layout = Layout { page_size, elements, within, has_free_list, is_newer_second };
                let read = read_bytes(&write(&tree, &layout)).unwrap();
                assert!(read == tree, "{layout:?}");
            }
        }
    }
}

#[test]
fn an_empty_database_is_read() {
    assert_eq!(read_bytes(&write(&Tree::new(), &Layout::default())).unwrap(), Tree::new());
}

#[test]
fn single_entries_are_found_and_others_are_not() {
    let stored = Stored::new(&write(&example(), &Layout { elements: 3, ..Layout::default() }));
    let database = Bolt::open(&stored.path).unwrap();
    assert_eq!((database.page_size(), database.transaction()), (4_096, 11));
    let identities = database.bucket(&[b"ziti", b"identities"]).unwrap().unwrap();
    assert_eq!(identities.sequence(), SEQUENCE);
    for number in 0..120 {
        let id = format!("id{number:05}");
        let identity = identities.bucket(id.as_bytes()).unwrap().unwrap();
        let name = identity.value(b"name").unwrap().unwrap();
        assert_eq!(name, format!("identity {number}"));
        assert!(identity.value(b"roleAttributes").unwrap().is_none(), "a bucket is no value");
        assert!(identity.bucket(b"name").unwrap().is_none(), "a value is no bucket");
        let between = format!("{id}x");
        assert!(identities.get(between.as_bytes()).unwrap().is_none());
    }
    for missing in ["", "a", "id", "id00120", "z"] {
        assert!(identities.get(missing.as_bytes()).unwrap().is_none(), "{missing}");
    }
    assert!(database.bucket(&[b"ziti", b"nothing", b"deeper"]).unwrap().is_none());
    assert!(matches!(database.bucket(&[b"ziti"]).unwrap().unwrap().get(b"version").unwrap(),
        Some(BoltContent::Value(value)) if value == "44"));
}

#[test]
fn a_value_with_overflow_is_read_up_to_the_limit() {
    let long = Node::Value((0..300_000_u32).map(|number| number as u8).collect());
    let tree = Tree::from([(key("a"), value("short")), (key("b"), long), (key("c"), value(""))]);
    assert_eq!(read_bytes(&write(&tree, &Layout::default())).unwrap(), tree);
    let too_long = Node::Value(vec![0; crate::MAX_LEAF as usize]);
    let error = read_bytes(&write(&Tree::from([(key("a"), too_long)]), &Layout::default()));
    assert!(error.unwrap_err().to_string().contains("more than 67108864"));
}

#[test]
fn branches_with_long_keys_are_read() {
    let keys = (0..9_u8).map(|number| (vec![number; 30_000], value("")));
    let tree = keys.collect();
    assert_eq!(read_bytes(&write(&tree, &Layout::default())).unwrap(), tree);
}

#[test]
fn the_older_state_is_read_if_the_newer_meta_is_bad() {
    for is_newer_second in [true, false] {
        let layout = Layout { is_newer_second, ..Layout::default() };
        let mut bytes = write(&example(), &layout);
        assert_eq!(read_bytes(&bytes).unwrap(), example());
        let newer = if is_newer_second { 4_096 } else { 0 };
        bytes[newer + 16 + 40] ^= 1;
        assert_eq!(read_bytes(&bytes).unwrap(), Tree::new(), "the older state is empty");
        bytes[(4_096 - newer) + 16 + 40] ^= 1;
        assert!(matches!(read_bytes(&bytes), Err(BoltError::NotBolt { .. })));
    }
}

#[test]
fn the_second_meta_is_found_behind_pages_of_every_size() {
    for page_size in [4_096, 8_192, 16_384, 32_768, 65_536] {
        let mut bytes = write(&example(), &Layout { page_size, ..Layout::default() });
        bytes[16] ^= 1;
        assert_eq!(read_bytes(&bytes).unwrap(), example(), "{page_size}");
    }
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"\0", b"db: ctrl.db\n", &[0; 100_000], &[0xFF; 100_000]] {
        assert!(matches!(read_bytes(bytes), Err(BoltError::NotBolt { .. })));
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Bolt::open(folder.path()), Err(BoltError::NotBolt { .. })));
    assert!(matches!(Bolt::open(&folder.path().join("none")), Err(BoltError::Io { .. })));
    let big_endian: Vec<u8> =
        [vec![0; 16], 0xED0C_DAED_u32.to_be_bytes().to_vec(), vec![0; 9_000]].concat();
    assert!(read_bytes(&big_endian).unwrap_err().to_string().contains("big-endian"));
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    let bytes = write(&example(), &Layout::default());
    for size in [bytes.len() - 1, bytes.len() / 2, 8_192] {
        let error = read_bytes(&bytes[..size]).unwrap_err().to_string();
        assert!(error.contains("cut short"), "{error}");
    }
    // bbolt makes files longer than what they hold.
    assert_eq!(read_bytes(&[bytes, vec![0xAA; 5_000]].concat()).unwrap(), example());
}

#[test]
fn a_bucket_is_read_more_than_once() {
    let stored = Stored::new(&write(&example(), &Layout::default()));
    let database = Bolt::open(&stored.path).unwrap();
    for _ in 0..3 {
        assert_eq!(tree_of(&database.root(), &mut 0).unwrap(), example());
    }
}
