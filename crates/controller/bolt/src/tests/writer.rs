//! Writes databases of bbolt for tests: the smallest program that makes every kind of page.

use std::collections::BTreeMap;

/// A bucket.
pub(crate) type Tree = BTreeMap<Vec<u8>, Node>;

/// What a key has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Value(Vec<u8>),
    Bucket(Tree),
}

/// How a database is laid out.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Size of a page, in bytes.
    pub(crate) page_size: usize,
    /// Most elements of a page, at least two.
    pub(crate) elements: usize,
    /// Most bytes of a bucket that is kept within a value.
    pub(crate) within: usize,
    /// Whether the free list has a page.
    pub(crate) has_free_list: bool,
    /// Whether the newer meta is on the second page.
    pub(crate) is_newer_second: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            page_size: 4_096,
            elements: 1_000,
            within: 1_024,
            has_free_list: true,
            is_newer_second: true,
        }
    }
}

const HEADER: usize = 16;
const ELEMENT: usize = 16;

/// The sequence that every bucket gets.
pub(crate) const SEQUENCE: u64 = 7;

/// A page before it has a number.
struct Draft {
    /// 1: a branch; 2: a leaf.
    kind: u16,
    /// Flags, or the page of a child; key; value.
    elements: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

impl Draft {
    fn size(&self) -> usize {
        let sizes = self.elements.iter().map(|(_, key, value)| ELEMENT + key.len() + value.len());
        HEADER + sizes.sum::<usize>()
    }

    fn bytes(&self, id: u64, overflow: usize) -> Vec<u8> {
        let mut bytes = header(id, self.kind, self.elements.len(), overflow);
        let mut data = HEADER + ELEMENT * self.elements.len();
        for (index, (number, key, value)) in self.elements.iter().enumerate() {
            let position = (data - HEADER - ELEMENT * index) as u32;
            let (key, value) = (key.len() as u32, value.len() as u32);
            if self.kind == 1 {
                bytes.extend(position.to_le_bytes());
                bytes.extend(key.to_le_bytes());
                bytes.extend(number.to_le_bytes());
            } else {
                for field in [*number as u32, position, key, value] {
                    bytes.extend(field.to_le_bytes());
                }
            }
            data += (key + value) as usize;
        }
        for (_, key, value) in &self.elements {
            bytes.extend(key);
            bytes.extend(value);
        }
        bytes
    }
}

fn header(id: u64, kind: u16, count: usize, overflow: usize) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend((count as u16).to_le_bytes());
    bytes.extend((overflow as u32).to_le_bytes());
    bytes
}

struct Writer {
    layout: Layout,
    /// All pages, the meta pages too.
    bytes: Vec<u8>,
}

/// A database with a tree.
pub(crate) fn write(tree: &Tree, layout: &Layout) -> Vec<u8> {
    let mut writer = Writer { layout: layout.clone(), bytes: vec![0; 2 * layout.page_size] };
    let free_list = layout.has_free_list.then(|| writer.append(header(2, 16, 0, 0)));
    let old_root = writer.add(&Draft { kind: 2, elements: Vec::new() });
    let old_end = writer.next();
    let root = writer.add_bucket(tree);
    let end = writer.next();
    let (newer, older) = if layout.is_newer_second { (1, 0) } else { (0, 1) };
    writer.put_meta(older, old_root, free_list, old_end, 8 + older);
    writer.put_meta(newer, root, free_list, end, 10 + newer);
    writer.bytes
}

impl Writer {
    fn next(&self) -> u64 {
        (self.bytes.len() / self.layout.page_size) as u64
    }

    fn append(&mut self, mut page: Vec<u8>) -> u64 {
        let id = self.next();
        page.resize(page.len().next_multiple_of(self.layout.page_size), 0);
        self.bytes.extend(page);
        id
    }

    fn add(&mut self, draft: &Draft) -> u64 {
        let overflow = draft.size().div_ceil(self.layout.page_size) - 1;
        self.append(draft.bytes(self.next(), overflow))
    }

    /// The root page of a bucket.
    fn add_bucket(&mut self, tree: &Tree) -> u64 {
        let elements = tree.iter().map(|(key, node)| match node {
            Node::Value(value) => (0, key.clone(), value.clone()),
            Node::Bucket(inner) => (1, key.clone(), self.bucket(inner)),
        });
        let elements = elements.collect();
        let mut level = self.add_level(2, elements);
        while level.len() > 1 {
            level = self.add_level(1, level);
        }
        level[0].0
    }

    /// The value that stands for a bucket.
    fn bucket(&mut self, tree: &Tree) -> Vec<u8> {
        let values = tree.iter().map(|(key, node)| match node {
            Node::Value(value) => Some((0, key.clone(), value.clone())),
            Node::Bucket(_) => None,
        });
        let within = values.collect::<Option<Vec<_>>>();
        let within = within.map(|elements| Draft { kind: 2, elements });
        if let Some(draft) = within.filter(|draft| draft.size() <= self.layout.within) {
            return [header_of_bucket(0), draft.bytes(0, 0)].concat();
        }
        let root = self.add_bucket(tree);
        header_of_bucket(root)
    }

    /// Pages with elements; each with its number and its first key.
    fn add_level(
        &mut self,
        kind: u16,
        elements: Vec<(u64, Vec<u8>, Vec<u8>)>,
    ) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
        let mut level = Vec::new();
        let mut draft = Draft { kind, elements: Vec::new() };
        // A branch has at least two children.
        let least = if kind == 1 { 2 } else { 1 };
        for element in elements {
            let size = draft.size() + ELEMENT + element.1.len() + element.2.len();
            let is_full = draft.elements.len() >= self.layout.elements
                || (size > self.layout.page_size && draft.elements.len() >= least);
            if is_full {
                level.push(self.add_first(&draft));
                draft.elements.clear();
            }
            draft.elements.push(element);
        }
        level.push(self.add_first(&draft));
        level
    }

    fn add_first(&mut self, draft: &Draft) -> (u64, Vec<u8>, Vec<u8>) {
        let first = draft.elements.first().map(|(_, key, _)| key.clone());
        (self.add(draft), first.unwrap_or_default(), Vec::new())
    }

    fn put_meta(&mut self, page: u64, root: u64, free_list: Option<u64>, end: u64, number: u64) {
        let meta = meta(self.layout.page_size, root, free_list, end, number);
        let bytes = [header(page, 4, 0, 0), meta].concat();
        let at = page as usize * self.layout.page_size;
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }
}

fn header_of_bucket(root: u64) -> Vec<u8> {
    [root.to_le_bytes(), SEQUENCE.to_le_bytes()].concat()
}

/// A meta with its checksum, without the header of its page.
pub(crate) fn meta(
    page_size: usize,
    root: u64,
    free_list: Option<u64>,
    end: u64,
    number: u64,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in [0xED0C_DAED, 2, page_size as u32, 0] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [root, SEQUENCE, free_list.unwrap_or(u64::MAX), end, number] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// FNV-1a with 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
