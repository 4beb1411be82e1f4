//! Buckets: maps from keys to values and to further buckets.

use bytes::Bytes;

use crate::claims::Place;
use crate::meta::HEADER;
use crate::number::u64_at;
use crate::page::{Bounds, Header, LeafValue, Page, PageKind};
use crate::pages::{MAX_DEPTH, Pages};
use crate::{BoltEntries, BoltError};

/// Bytes before the page of a bucket that is kept within a value: its root page and its sequence.
const BUCKET_HEADER: usize = 16;
/// Most buckets within each other. The original has eight, and one more for each level of a JSON value.
const MAX_NESTED: usize = 128;

/// The root of a bucket's pages.
#[derive(Debug, Clone)]
pub(crate) enum Root {
    /// A page of its own, and the place that refers to it.
    At(u64, Place),
    /// A small bucket, kept within the value that stands for it.
    Within(Page),
}

/// A map of the database. Reading it reads pages as they are needed.
#[derive(Debug, Clone)]
pub struct BoltBucket<'a> {
    pub(crate) pages: &'a Pages,
    pub(crate) root: Root,
    sequence: u64,
    nested: usize,
}

/// One entry of a bucket.
#[derive(Debug)]
pub struct BoltEntry<'a> {
    /// Its key.
    pub key: Bytes,
    /// What it holds.
    pub content: BoltContent<'a>,
}

/// What an entry holds.
#[derive(Debug)]
pub enum BoltContent<'a> {
    /// A value.
    Value(Bytes),
    /// A further bucket.
    Bucket(BoltBucket<'a>),
}

impl<'a> BoltBucket<'a> {
    /// The bucket of a page that is no value's.
    pub(crate) fn root(pages: &'a Pages, page: u64, place: Place, sequence: u64) -> Self {
        Self { pages, root: Root::At(page, place), sequence, nested: 0 }
    }

    /// The last number that the bucket has given to an entry.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// All entries, in the order of their keys.
    #[must_use]
    pub fn entries(&self) -> BoltEntries<'a> {
        BoltEntries::new(self.clone())
    }

    /// What a key has.
    ///
    /// # Errors
    /// If a page on the way is damaged or cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<BoltContent<'a>>, BoltError> {
        let mut bounds = Bounds::default();
        let mut page = self.first()?;
        for _ in 0..=MAX_DEPTH {
            if page.kind == PageKind::Leaf {
                let Ok(index) = page.find(key)? else { return Ok(None) };
                return self.content(&page, index).map(Some);
            }
            let index = match page.find(key)? {
                Ok(index) => index,
                Err(0) => return Ok(None),
                Err(behind) => behind - 1,
            };
            bounds = bounds.of_child(&page, index)?;
            page = self.child(&page, index, &bounds)?;
        }
        Err(too_deep(&page))
    }

    /// The bucket of a key; `None` if there is none, or a value in its place.
    ///
    /// # Errors
    /// If a page on the way is damaged or cannot be read.
    pub fn bucket(&self, key: &[u8]) -> Result<Option<Self>, BoltError> {
        Ok(match self.get(key)? {
            Some(BoltContent::Bucket(bucket)) => Some(bucket),
            _ => None,
        })
    }

    /// The value of a key; `None` if there is none, or a bucket in its place.
    ///
    /// # Errors
    /// If a page on the way is damaged or cannot be read.
    pub fn value(&self, key: &[u8]) -> Result<Option<Bytes>, BoltError> {
        Ok(match self.get(key)? {
            Some(BoltContent::Value(value)) => Some(value),
            _ => None,
        })
    }

    /// The root page.
    pub(crate) fn first(&self) -> Result<Page, BoltError> {
        match &self.root {
            Root::At(page, place) => self.pages.read(*page, *place),
            Root::Within(page) => Ok(page.clone()),
        }
    }

    /// The page that an element of a branch refers to.
    pub(crate) fn child(
        &self,
        branch: &Page,
        index: usize,
        bounds: &Bounds,
    ) -> Result<Page, BoltError> {
        let place = Place { page: branch.id, element: index };
        let page = self.pages.read(branch.child(index)?, place)?;
        bounds.check(&page)?;
        Ok(page)
    }

    /// What an element of a leaf holds.
    pub(crate) fn content(&self, leaf: &Page, index: usize) -> Result<BoltContent<'a>, BoltError> {
        match leaf.value(index)? {
            LeafValue::Plain(value) => Ok(BoltContent::Value(value)),
            LeafValue::Bucket(value) => self.inner(leaf, index, &value).map(BoltContent::Bucket),
        }
    }

    /// The bucket that an element of a leaf stands for.
    fn inner(&self, leaf: &Page, index: usize, value: &Bytes) -> Result<Self, BoltError> {
        let damaged =
            |reason: &str| leaf.damaged(format!("the bucket of element {index}: {reason}"));
        let (Some(page), Some(sequence)) = (u64_at(value, 0), u64_at(value, 8)) else {
            return Err(damaged("it is shorter than its header"));
        };
        if self.nested >= MAX_NESTED {
            return Err(damaged("it lies in too many others"));
        }
        if matches!(self.root, Root::Within(_)) {
            return Err(damaged("it lies within a bucket that has no page of its own"));
        }
        let root = match page {
            0 => Root::Within(page_within(leaf.id, value).map_err(|reason| damaged(&reason))?),
            _ if value.len() == BUCKET_HEADER => {
                Root::At(page, Place { page: leaf.id, element: index })
            }
            _ => return Err(damaged("it has pages of its own and one within this page")),
        };
        Ok(Self { pages: self.pages, root, sequence, nested: self.nested + 1 })
    }
}

/// The page of a small bucket, within the value that stands for it.
fn page_within(id: u64, value: &Bytes) -> Result<Page, String> {
    let bytes = value.slice(value.len().min(BUCKET_HEADER)..);
    if bytes.len() < HEADER {
        return Err("it ends within the header of its page".to_owned());
    }
    let header = Header::read(&bytes)?;
    if header.kind != PageKind::Leaf || header.overflow != 0 {
        return Err("its page is no leaf of its own".to_owned());
    }
    Page::new(id, header, bytes).map_err(|error| match error {
        BoltError::Damaged { reason, .. } => reason,
        other => other.to_string(),
    })
}

/// The error of a page that has too many branches above it.
pub(crate) fn too_deep(page: &Page) -> BoltError {
    page.damaged(format!("more than {MAX_DEPTH} branches lead to it"))
}
