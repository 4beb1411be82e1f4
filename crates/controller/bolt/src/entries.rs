//! Walks through the entries of a bucket, with no more pages in memory than those on the way to the current one.

use crate::bucket::too_deep;
use crate::page::{Bounds, Page, PageKind};
use crate::pages::MAX_DEPTH;
use crate::{BoltBucket, BoltEntry, BoltError};

/// A branch on the way to the current leaf.
#[derive(Debug)]
struct Level {
    page: Page,
    next: usize,
    bounds: Bounds,
}

/// The entries of a bucket, in the order of their keys. After an error there are no more.
#[derive(Debug)]
pub struct BoltEntries<'a> {
    bucket: BoltBucket<'a>,
    branches: Vec<Level>,
    leaf: Option<(Page, usize)>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Before,
    Within,
    After,
}

impl<'a> BoltEntries<'a> {
    pub(crate) fn new(bucket: BoltBucket<'a>) -> Self {
        Self { bucket, branches: Vec::new(), leaf: None, state: State::Before }
    }

    /// The next entry; `None` behind the last one.
    fn step(&mut self) -> Result<Option<BoltEntry<'a>>, BoltError> {
        if self.state == State::Before {
            self.state = State::Within;
            let first = self.bucket.first()?;
            self.enter(first, Bounds::default())?;
        }
        loop {
            if let Some((leaf, next)) = &mut self.leaf {
                if *next < leaf.count() {
                    let index = *next;
                    *next += 1;
                    let key = leaf.key(index)?;
                    let content = self.bucket.content(leaf, index)?;
                    return Ok(Some(BoltEntry { key, content }));
                }
                self.leaf = None;
            }
            let Some(level) = self.branches.last_mut() else { return Ok(None) };
            if level.next >= level.page.count() {
                self.branches.pop();
                continue;
            }
            let index = level.next;
            level.next += 1;
            let bounds = level.bounds.of_child(&level.page, index)?;
            let child = self.bucket.child(&level.page, index, &bounds)?;
            self.enter(child, bounds)?;
        }
    }

    /// Makes a page the current one.
    fn enter(&mut self, page: Page, bounds: Bounds) -> Result<(), BoltError> {
        match page.kind {
            PageKind::Leaf => self.leaf = Some((page, 0)),
            PageKind::Branch if self.branches.len() >= MAX_DEPTH => return Err(too_deep(&page)),
            PageKind::Branch => self.branches.push(Level { page, next: 0, bounds }),
        }
        Ok(())
    }
}

impl<'a> Iterator for BoltEntries<'a> {
    type Item = Result<BoltEntry<'a>, BoltError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::After {
            return None;
        }
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) {
            self.state = State::After;
            self.branches.clear();
            self.leaf = None;
        }
        step
    }
}
