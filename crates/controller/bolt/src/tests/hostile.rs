//! Files that somebody made to harm a reader: each is refused with the number of the page.

use super::writer::{Layout, Node, Tree, write};
use super::{Stored, key, read_bytes, tree_of, value};
use crate::{Bolt, BoltError};

const PAGE: usize = 4_096;

/// A database with a branch as root and many leaves, and the number of that branch.
fn with_branch() -> (Vec<u8>, u64) {
    let keys = (0..200).map(|number| (key(&format!("key {number:03}")), value("v")));
    let bytes = write(&keys.collect(), &Layout { elements: 20, ..Layout::default() });
    let root = u64_of(&bytes, PAGE + 16 + 16);
    assert_eq!(bytes[root as usize * PAGE + 8], 1, "the root is a branch");
    (bytes, root)
}

fn u64_of(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Where an element of a page begins.
fn element(page: u64, index: usize) -> usize {
    page as usize * PAGE + 16 + 16 * index
}

fn child(bytes: &[u8], page: u64, index: usize) -> u64 {
    u64_of(bytes, element(page, index) + 8)
}

#[track_caller]
fn refused(bytes: &[u8], page: u64, reason: &str) {
    match read_bytes(bytes) {
        Err(BoltError::Damaged { page: found, reason: text }) => {
            assert!(found == page && text.contains(reason), "page {found}: {text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_circle_of_pages_is_refused() {
    let (mut bytes, root) = with_branch();
    put(&mut bytes, element(root, 3) + 8, &root.to_le_bytes());
    refused(&bytes, root, "both refer to it");
}

#[test]
fn a_page_with_two_parents_is_refused() {
    let (mut bytes, root) = with_branch();
    let first = child(&bytes, root, 0);
    put(&mut bytes, element(root, 1) + 8, &first.to_le_bytes());
    refused(&bytes, first, "both refer to it");
}

#[test]
fn a_bucket_with_two_names_is_refused() {
    let inner = || Node::Bucket((0..100).map(|n| (key(&format!("{n:03}")), value("v"))).collect());
    let tree = Tree::from([(key("a"), inner()), (key("b"), inner())]);
    let mut bytes = write(&tree, &Layout { within: 0, ..Layout::default() });
    let root = u64_of(&bytes, PAGE + 16 + 16);
    // The values of the two elements, which are headers of buckets, end the page.
    let data = element(root, 2);
    let (first, second) = (data + 1, data + 1 + 16 + 1);
    let shared = u64_of(&bytes, first);
    put(&mut bytes, second, &shared.to_le_bytes());
    refused(&bytes, shared, "both refer to it");
}

#[test]
fn a_bucket_within_itself_is_refused() {
    let inner = Tree::from([(key("b"), Node::Bucket(Tree::new()))]);
    let mut bytes = write(
        &Tree::from([(key("a"), Node::Bucket(inner))]),
        &Layout { within: 0, ..Layout::default() },
    );
    let root = u64_of(&bytes, PAGE + 16 + 16);
    let middle = u64_of(&bytes, element(root, 1) + 1);
    let at = element(middle, 1) + 1;
    put(&mut bytes, at, &middle.to_le_bytes());
    refused(&bytes, middle, "both refer to it");
}

#[test]
fn pages_outside_the_database_are_refused() {
    for page in [0, 1, 1_000_000, u64::MAX] {
        let (mut bytes, root) = with_branch();
        put(&mut bytes, element(root, 2) + 8, &page.to_le_bytes());
        refused(&bytes, root, &format!("element 2 refers to page {page};"));
    }
}

#[test]
fn a_root_outside_the_database_is_refused() {
    for page in [0, 1, 1_000_000, u64::MAX] {
        let (mut bytes, _) = with_branch();
        let meta = super::writer::meta(PAGE, page, None, (bytes.len() / PAGE) as u64, 100);
        put(&mut bytes, PAGE + 16, &meta);
        refused(&bytes, 0, "refers to page");
    }
}

#[test]
fn a_number_of_pages_that_overflows_is_refused() {
    for end in [0, 1, u64::MAX, u64::MAX / 4_096, u64::MAX / 4_096 + 2] {
        let (mut bytes, root) = with_branch();
        put(&mut bytes, PAGE + 16, &super::writer::meta(PAGE, root, None, end, 100));
        assert!(matches!(read_bytes(&bytes), Err(BoltError::NotBolt { .. })), "{end}");
    }
}

#[test]
fn pages_of_another_size_are_refused() {
    for page_size in [0, 1, 512, 2_048, 4_095, 12_288, 131_072, 1 << 31] {
        let mut bytes = vec![0; 300_000];
        put(&mut bytes, 16, &super::writer::meta(page_size, 2, None, 3, 100));
        assert!(matches!(read_bytes(&bytes), Err(BoltError::NotBolt { .. })), "{page_size}");
    }
}

#[test]
fn other_kinds_and_numbers_of_pages_are_refused() {
    for (kind, reason) in [(4_u16, "meta"), (16, "free list"), (0, "no kind"), (3, "no kind")] {
        let (mut bytes, root) = with_branch();
        let first = child(&bytes, root, 0);
        put(&mut bytes, first as usize * PAGE + 8, &kind.to_le_bytes());
        refused(&bytes, first, reason);
    }
    let (mut bytes, root) = with_branch();
    let first = child(&bytes, root, 0);
    put(&mut bytes, first as usize * PAGE, &77_u64.to_le_bytes());
    refused(&bytes, first, "says that it is page 77");
}

#[test]
fn an_overflow_beyond_the_file_costs_no_memory() {
    for overflow in [1_000_u32, u32::MAX] {
        let (mut bytes, root) = with_branch();
        let first = child(&bytes, root, 0);
        put(&mut bytes, first as usize * PAGE + 12, &overflow.to_le_bytes());
        refused(&bytes, first, "beyond the last");
    }
}

#[test]
fn an_overflow_over_the_next_page_is_refused() {
    let (mut bytes, root) = with_branch();
    let (first, second) = (child(&bytes, root, 0), child(&bytes, root, 1));
    assert_eq!(first + 1, second);
    put(&mut bytes, first as usize * PAGE + 12, &1_u32.to_le_bytes());
    refused(&bytes, second, "both refer to it");
}

#[test]
fn a_large_branch_is_refused() {
    let (mut bytes, root) = with_branch();
    bytes.resize(bytes.len() + 100 * PAGE, 0);
    let meta = super::writer::meta(PAGE, root, None, (bytes.len() / PAGE) as u64, 100);
    put(&mut bytes, PAGE + 16, &meta);
    put(&mut bytes, root as usize * PAGE + 12, &64_u32.to_le_bytes());
    refused(&bytes, root, "more than 262144");
}

#[test]
fn counts_and_lengths_beyond_the_page_are_refused() {
    let (bytes, root) = with_branch();
    let leaf = child(&bytes, root, 0);
    for page in [root, leaf] {
        let mut bytes = bytes.clone();
        put(&mut bytes, page as usize * PAGE + 10, &u16::MAX.to_le_bytes());
        refused(&bytes, page, "");
    }
    // The fields of an element of a leaf: offset, bytes of the key, bytes of the value.
    for field in [4, 8, 12] {
        for number in [PAGE as u32, u32::MAX, i32::MAX as u32] {
            let mut bytes = bytes.clone();
            put(&mut bytes, element(leaf, 1) + field, &number.to_le_bytes());
            refused(&bytes, leaf, "does not lie within the page");
        }
    }
}

#[test]
fn elements_that_share_their_bytes_are_refused() {
    let (mut bytes, root) = with_branch();
    let leaf = child(&bytes, root, 0);
    // The second element begins where the first does.
    let first = u32::from_le_bytes(bytes[element(leaf, 0) + 4..][..4].try_into().unwrap());
    put(&mut bytes, element(leaf, 1) + 4, &(first - 16).to_le_bytes());
    refused(&bytes, leaf, "element 1 overlaps another");
    // The first element begins at the elements themselves.
    let (mut bytes, root) = with_branch();
    let leaf = child(&bytes, root, 0);
    put(&mut bytes, element(leaf, 0) + 4, &0_u32.to_le_bytes());
    refused(&bytes, leaf, "element 0 overlaps another");
}

#[test]
fn keys_out_of_order_are_refused() {
    let (bytes, root) = with_branch();
    let leaf = child(&bytes, root, 1);
    let at = |index: usize| {
        let position =
            u32::from_le_bytes(bytes[element(leaf, index) + 4..][..4].try_into().unwrap());
        element(leaf, index) + position as usize
    };
    for (index, text, reason) in [
        (0, "key 000", "smaller than its parent says"),
        (19, "key 040", "belongs to the next page"),
        (5, "key 999", "out of order"),
        (5, "key 024", "out of order"),
    ] {
        let mut bytes = bytes.clone();
        put(&mut bytes, at(index), text.as_bytes());
        refused(&bytes, leaf, reason);
    }
}

#[test]
fn a_branch_without_elements_is_refused() {
    let (mut bytes, root) = with_branch();
    put(&mut bytes, root as usize * PAGE + 10, &0_u16.to_le_bytes());
    refused(&bytes, root, "without elements");
}

#[test]
fn an_endless_row_of_branches_is_refused() {
    // Each page is a branch with one child, the next page.
    let mut bytes = vec![0; 102 * PAGE];
    for page in 2..102_u64 {
        let at = page as usize * PAGE;
        put(&mut bytes, at, &page.to_le_bytes());
        put(&mut bytes, at + 8, &[1, 0, 1, 0, 0, 0, 0, 0]);
        put(&mut bytes, at + 16, &16_u32.to_le_bytes());
        put(&mut bytes, at + 24, &(page + 1).to_le_bytes());
    }
    put(&mut bytes, 16, &super::writer::meta(PAGE, 2, None, 102, 100));
    refused(&bytes, 50, "branches lead to it");
    let stored = Stored::new(&bytes);
    let database = Bolt::open(&stored.path).unwrap();
    assert!(database.root().get(b"key").is_err());
}

#[test]
fn buckets_within_too_many_others_are_refused() {
    let mut tree = Tree::new();
    for _ in 0..150 {
        tree = Tree::from([(key("deeper"), Node::Bucket(tree))]);
    }
    let error = read_bytes(&write(&tree, &Layout::default())).unwrap_err().to_string();
    assert!(error.contains("too many others"), "{error}");
}

#[test]
fn faults_of_buckets_within_values_are_refused() {
    let tree = Tree::from([(key("a"), Node::Bucket(Tree::from([(key("b"), value("c"))])))]);
    let bytes = write(&tree, &Layout::default());
    let root = u64_of(&bytes, PAGE + 16 + 16);
    // The value behind the key: header of the bucket, header of its page, one element.
    let at = element(root, 1) + 1;
    for (field, byte, reason) in [
        (0, 1, "one within this page"),
        (16 + 8, 1, "no leaf of its own"),
        (16 + 8, 16, "free list"),
        (16 + 12, 1, "no leaf of its own"),
        (16 + 10, 9, "overlaps another"),
        (32, 1, "lies within a bucket"),
        (32, 2, "flags 0x2"),
    ] {
        let mut bytes = bytes.clone();
        bytes[at + field] = byte;
        // A bucket within such a bucket is found by a header of its own.
        if reason == "lies within a bucket" {
            let mut tree = tree.clone();
            let long = Node::Value(vec![1; 40]);
            tree.insert(key("a"), Node::Bucket(Tree::from([(key("b"), long)])));
            bytes = super::writer::write(&tree, &Layout::default());
            bytes[at + field] = byte;
        }
        refused(&bytes, root, reason);
    }
    for size in 0..32_u32 {
        let mut bytes = bytes.clone();
        put(&mut bytes, element(root, 0) + 12, &size.to_le_bytes());
        assert!(matches!(read_bytes(&bytes), Err(BoltError::Damaged { page, .. }) if page == root));
    }
}

#[test]
fn nothing_follows_an_error() {
    let (mut bytes, root) = with_branch();
    let second = child(&bytes, root, 1);
    bytes[second as usize * PAGE] ^= 0xFF;
    let stored = Stored::new(&bytes);
    let database = Bolt::open(&stored.path).unwrap();
    let mut entries = database.root().entries();
    assert_eq!(entries.by_ref().take_while(Result::is_ok).count(), 20);
    assert!(entries.next().is_none());
    assert!(tree_of(&database.root(), &mut 0).is_err());
}
