//! Reads the pages of a file, each with a limit.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::BoltError;
use crate::claims::{Claims, Place};
use crate::meta::Meta;
use crate::page::{Header, Page, PageKind};

/// Most bytes of a leaf with its overflow. A value of the original has some kilobytes.
pub const MAX_LEAF: u64 = 64 * 1_024 * 1_024;
/// Most bytes of a branch with its overflow. bbolt leaves at most four keys in one that is larger than a page, each of
/// at most 32 KiB.
pub const MAX_BRANCH: u64 = 256 * 1_024;
/// Most branches between the root of a bucket and its leaf. Each has two children or more, so that 2^48 leaves have
/// fewer.
pub(crate) const MAX_DEPTH: usize = 48;

/// The pages of an open file.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) meta: Meta,
    pub(crate) claims: Mutex<Claims>,
}

impl Pages {
    /// Reads the page to which a place refers, with its overflow, and checks it whole.
    pub(crate) fn read(&self, id: u64, place: Place) -> Result<Page, BoltError> {
        let damaged = |reason: String| BoltError::damaged(id, reason);
        if id < 2 || id >= self.meta.end {
            let reason = format!(
                "element {} refers to page {id}; pages 2 to {} hold entries",
                place.element,
                self.meta.end.saturating_sub(1)
            );
            return Err(BoltError::damaged(place.page, reason));
        }
        let mut bytes = vec![0; self.meta.page_size as usize];
        self.fill(id, id, &mut bytes)?;
        let header = Header::read(&bytes).map_err(damaged)?;
        if header.id != id {
            return Err(damaged(format!("it says that it is page {}", header.id)));
        }
        let pages = header.overflow + 1;
        let most = match header.kind {
            PageKind::Branch => MAX_BRANCH,
            PageKind::Leaf => MAX_LEAF,
        };
        // A page has at most 64 KiB and its overflow fewer than 2^32 pages: no overflow of the product.
        let size = pages * self.meta.page_size;
        if pages > self.meta.end - id {
            return Err(damaged(format!(
                "with its overflow it has {pages} pages, beyond the last"
            )));
        }
        if pages > 1 && size > most {
            return Err(damaged(format!(
                "with its overflow it has {size} bytes, more than {most}"
            )));
        }
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.claim(id, id + pages, place).map_err(|other| {
            damaged(format!("pages {other} and {} both refer to it or its overflow", place.page))
        })?;
        drop(claims);
        let read = bytes.len();
        bytes.resize(size as usize, 0);
        self.fill(id, id + 1, bytes.get_mut(read..).unwrap_or_default())?;
        Page::new(id, header, Bytes::from(bytes))
    }

    /// Fills a buffer from the beginning of page `from`, which belongs to page `id`.
    fn fill(&self, id: u64, from: u64, buffer: &mut [u8]) -> Result<(), BoltError> {
        let at = from.saturating_mul(self.meta.page_size);
        self.file.read_exact_at(buffer, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => BoltError::damaged(id, "the file ends within it"),
            _ => BoltError::Io { path: self.path.clone(), error },
        })
    }
}
