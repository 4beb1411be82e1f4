//! One page: its header, and its elements, which are sorted by their keys (docs/protocol/operations.md 14.1).
//!
//! ```text
//!  header: number u64 | kind u16 | elements u16 | pages of overflow u32
//!  element of a branch: offset u32 | bytes of the key u32 | page u64
//!  element of a leaf:   flags u32 | offset u32 | bytes of the key u32 | bytes of the value u32
//!  then the keys and values, in the order of the elements; an offset counts from its element
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;

use crate::BoltError;
use crate::meta::HEADER;
use crate::number::{u16_at, u32_at, u64_at};

/// Bytes of an element, of either kind of page.
pub(crate) const ELEMENT: usize = 16;
/// The kind of a branch, as headers have it.
const BRANCH: u16 = 1;
/// The kind of a leaf, as headers have it.
const LEAF: u16 = 2;
/// The flag of an element whose value is a bucket.
const IS_BUCKET: u32 = 1;

/// Kinds of pages that a walk meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// Its elements refer to other pages.
    Branch,
    /// Its elements are the entries of a bucket.
    Leaf,
}

/// The header of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) kind: PageKind,
    pub(crate) count: usize,
    pub(crate) overflow: u64,
}

impl Header {
    /// Reads a header, or tells what is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let cut = "it ends within its header";
        let kind = match u16_at(bytes, 8).ok_or(cut)? {
            BRANCH => PageKind::Branch,
            LEAF => PageKind::Leaf,
            4 => return Err("a meta page is where a branch or a leaf should be".to_owned()),
            16 => return Err("the free list is where a branch or a leaf should be".to_owned()),
            other => return Err(format!("{other:#x} is no kind of a page")),
        };
        Ok(Self {
            id: u64_at(bytes, 0).ok_or(cut)?,
            kind,
            count: usize::from(u16_at(bytes, 10).ok_or(cut)?),
            overflow: u64::from(u32_at(bytes, 12).ok_or(cut)?),
        })
    }
}

/// One element of a page, with offsets in it.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    key: Range<usize>,
    /// Empty in a branch.
    value: Range<usize>,
    /// Zero in a leaf.
    child: u64,
    is_bucket: bool,
}

/// What an element of a leaf holds.
#[derive(Debug)]
pub(crate) enum LeafValue {
    Plain(Bytes),
    Bucket(Bytes),
}

/// A page whose elements were checked: they are within it, apart from each other, and their keys ascend.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Its number; that of the page around it, if it is within a value.
    pub(crate) id: u64,
    pub(crate) kind: PageKind,
    count: usize,
    bytes: Bytes,
}

impl Page {
    /// Checks a page and all elements of it.
    pub(crate) fn new(id: u64, header: Header, bytes: Bytes) -> Result<Self, BoltError> {
        let page = Self { id, kind: header.kind, count: header.count, bytes };
        if page.kind == PageKind::Branch && page.count == 0 {
            return Err(page.damaged("a branch without elements"));
        }
        let mut free = HEADER + ELEMENT * page.count;
        let mut last: Option<&[u8]> = None;
        for index in 0..page.count {
            let element = page.element(index)?;
            if element.key.start < free {
                return Err(page.damaged(format!("element {index} overlaps another")));
            }
            free = element.value.end;
            let key = page.slice(&element.key);
            if last.is_some_and(|last| last >= key) {
                return Err(page.damaged(format!("the key of element {index} is out of order")));
            }
            last = Some(key);
        }
        Ok(page)
    }

    /// Damage of this page.
    pub(crate) fn damaged(&self, reason: impl ToString) -> BoltError {
        BoltError::damaged(self.id, reason)
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// An element, within the page.
    fn element(&self, index: usize) -> Result<Element, BoltError> {
        let element = self.parse(index).filter(|it| it.value.end <= self.bytes.len());
        let element = element
            .ok_or_else(|| self.damaged(format!("element {index} does not lie within the page")))?;
        if self.kind == PageKind::Leaf {
            let flags = u32_at(&self.bytes, HEADER + ELEMENT * index).unwrap_or_default();
            if flags & !IS_BUCKET != 0 {
                return Err(self.damaged(format!("element {index} has the flags {flags:#x}")));
            }
        }
        Ok(element)
    }

    /// The fields of an element; its ranges may lie beyond the page.
    fn parse(&self, index: usize) -> Option<Element> {
        let at = HEADER + ELEMENT * index;
        let field = |offset| u32_at(&self.bytes, at + offset).map(|number| number as usize);
        let (position, key, value) = match self.kind {
            PageKind::Branch => (field(0)?, field(4)?, 0),
            PageKind::Leaf => (field(4)?, field(8)?, field(12)?),
        };
        let start = at.checked_add(position)?;
        let middle = start.checked_add(key)?;
        let end = middle.checked_add(value)?;
        let is_leaf = self.kind == PageKind::Leaf;
        Some(Element {
            key: start..middle,
            value: middle..end,
            child: if is_leaf { 0 } else { u64_at(&self.bytes, at + 8)? },
            is_bucket: is_leaf && field(0)? as u32 & IS_BUCKET != 0,
        })
    }

    /// The key of an element.
    pub(crate) fn key(&self, index: usize) -> Result<Bytes, BoltError> {
        let element = self.element(index)?;
        Ok(self.bytes.slice(element.key))
    }

    /// The page that an element of a branch refers to.
    pub(crate) fn child(&self, index: usize) -> Result<u64, BoltError> {
        Ok(self.element(index)?.child)
    }

    /// What an element of a leaf holds.
    pub(crate) fn value(&self, index: usize) -> Result<LeafValue, BoltError> {
        let element = self.element(index)?;
        let bytes = self.bytes.slice(element.value);
        Ok(if element.is_bucket { LeafValue::Bucket(bytes) } else { LeafValue::Plain(bytes) })
    }

    /// The place of a key among the elements: at it, or behind the last smaller one.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Result<usize, usize>, BoltError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let element = self.element(middle)?;
            match self.slice(&element.key).cmp(key) {
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }
}

/// The keys that a page may have: those that its parent leaves to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// The smallest one.
    pub(crate) from: Option<Bytes>,
    /// The one behind the largest.
    pub(crate) to: Option<Bytes>,
}

impl Bounds {
    /// The bounds of a child of a branch with these bounds.
    pub(crate) fn of_child(&self, branch: &Page, index: usize) -> Result<Self, BoltError> {
        let is_last = index + 1 >= branch.count();
        let to = if is_last { self.to.clone() } else { Some(branch.key(index + 1)?) };
        Ok(Self { from: Some(branch.key(index)?), to })
    }

    /// Fails if a page has a key outside the bounds. The keys ascend, so that its first and its last tell.
    pub(crate) fn check(&self, page: &Page) -> Result<(), BoltError> {
        let Some(last) = page.count().checked_sub(1) else { return Ok(()) };
        if self.from.as_ref().is_some_and(|from| page.key(0).is_ok_and(|first| first < from)) {
            return Err(page.damaged("its first key is smaller than its parent says"));
        }
        if self.to.as_ref().is_some_and(|to| page.key(last).is_ok_and(|last| last >= to)) {
            return Err(page.damaged("its last key belongs to the next page"));
        }
        Ok(())
    }
}
