//! Small files with every byte changed: each is read or refused, within the work that its size allows.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::writer::{Layout, Node, Tree, write};
use super::{Stored, key, tree_of, value};
use crate::Bolt;

/// A database with every kind of page, in a few pages.
fn small() -> Vec<u8> {
    let inner = (0..6).map(|number| (key(&format!("k{number}")), value("some text")));
    let large = (0..12).map(|number| (key(&format!("m{number:02}")), Node::Value(vec![7; 500])));
    let tree = Tree::from([
        (key("inner"), Node::Bucket(inner.collect())),
        (key("large"), Node::Bucket(large.collect())),
        (key("long"), Node::Value(vec![9; 9_000])),
    ]);
    write(&tree, &Layout { elements: 4, ..Layout::default() })
}

/// Walks through a damaged file, which may show only as many entries as it has room for: one takes 16 bytes at least.
fn walk(path: &Path, size: usize) {
    let Ok(database) = Bolt::open(path) else { return };
    let mut visited = 0;
    let _ = tree_of(&database.root(), &mut visited);
    assert!(visited <= size / 16, "{visited} entries in {size} bytes");
}

/// A file of which a part is changed at a time.
struct Changing {
    stored: Stored,
    file: File,
    whole: Vec<u8>,
}

impl Changing {
    fn new(whole: Vec<u8>) -> Self {
        let stored = Stored::new(&whole);
        let file = File::options().write(true).open(&stored.path).unwrap();
        Self { stored, file, whole }
    }

    /// Walks through the file with other bytes at an offset, which are then put back.
    fn walk_with(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).unwrap();
        walk(&self.stored.path, self.whole.len());
        self.file.write_all_at(&self.whole[at..at + bytes.len()], at as u64).unwrap();
    }
}

/// Positions that are worth a look: all within the first bytes of each page, which hold headers and elements, and
/// some of those behind them.
fn positions(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (0..bytes.len()).filter(|at| at % 4_096 < 180 || at % 127 == 0)
}

#[test]
fn every_changed_byte_is_read_or_refused() {
    let file = Changing::new(small());
    for at in positions(&file.whole) {
        for change in [0x01, 0x80, 0xFF] {
            file.walk_with(at, &[file.whole[at] ^ change]);
        }
    }
}

#[test]
fn every_changed_field_is_read_or_refused() {
    let file = Changing::new(small());
    let size = file.whole.len();
    for at in positions(&file.whole).filter(|at| at % 4 == 0 && at + 4 <= size) {
        for number in [0_u32, 1, 2, 3, 0x7FFF_FFFF, u32::MAX, size as u32] {
            file.walk_with(at, &number.to_le_bytes());
        }
    }
}

#[test]
fn every_length_is_read_or_refused() {
    let whole = small();
    for size in (0..whole.len()).step_by(197) {
        walk(&Stored::new(&whole[..size]).path, size);
    }
}

#[test]
fn every_page_in_place_of_every_other_is_read_or_refused() {
    let file = Changing::new(small());
    for from in file.whole.chunks(4_096) {
        for to in (0..file.whole.len()).step_by(4_096) {
            file.walk_with(to, from);
            // The same with the number that belongs there.
            let number = (to / 4_096) as u64;
            file.walk_with(to, &[&number.to_le_bytes(), &from[8..]].concat());
        }
    }
}
