//! Opens a database: its lock, and its meta pages.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use crate::claims::{Claims, ROOT};
use crate::meta::{MAX_PAGE, META_END, MIN_PAGE, Meta};
use crate::pages::Pages;
use crate::{BoltBucket, BoltError};

/// An open database. While it is open no other process can write it: it holds a shared lock on the file.
#[derive(Debug)]
pub struct Bolt {
    pages: Pages,
}

impl Bolt {
    /// Opens a database read-only.
    ///
    /// # Errors
    /// At once with [`BoltError::InUse`] if another process has it open for writing. [`BoltError::NotBolt`] if neither
    /// meta page is good, or if the file is shorter than they say.
    pub fn open(path: &Path) -> Result<Self, BoltError> {
        let io = |error| BoltError::Io { path: path.to_owned(), error };
        let not_bolt = |reason| BoltError::NotBolt { path: path.to_owned(), reason };
        // Opening a pipe would wait for its other end.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(not_bolt("it is not a file".to_owned()));
        }
        let file = File::open(path).map_err(io)?;
        file.try_lock_shared().map_err(|error| match error {
            TryLockError::WouldBlock => BoltError::InUse(path.to_owned()),
            TryLockError::Error(error) => io(error),
        })?;
        let size = file.metadata().map_err(io)?.len();
        let meta = newest(&file).map_err(io)?.map_err(not_bolt)?;
        let has_all = meta.end.checked_mul(meta.page_size).is_some_and(|bytes| bytes <= size);
        if !has_all || meta.end < 2 {
            return Err(not_bolt(format!(
                "it has {size} bytes, but its {} pages of {} bytes need another number: it was cut short",
                meta.end, meta.page_size
            )));
        }
        let claims = Mutex::new(Claims::default());
        Ok(Self { pages: Pages { file, path: path.to_owned(), meta, claims } })
    }

    /// The bucket with all others in it.
    #[must_use]
    pub fn root(&self) -> BoltBucket<'_> {
        BoltBucket::root(&self.pages, self.pages.meta.root, ROOT, self.pages.meta.sequence)
    }

    /// The bucket at a path from the root; `None` if there is none, or a value in its place.
    ///
    /// # Errors
    /// If a page on the way is damaged or cannot be read.
    pub fn bucket(&self, path: &[&[u8]]) -> Result<Option<BoltBucket<'_>>, BoltError> {
        let mut bucket = self.root();
        for name in path {
            match bucket.bucket(name)? {
                Some(inner) => bucket = inner,
                None => return Ok(None),
            }
        }
        Ok(Some(bucket))
    }

    /// Size of a page, in bytes.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        self.pages.meta.page_size
    }

    /// Number of pages in use or free, with the two meta pages.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.pages.meta.end
    }

    /// Number of the transaction that wrote the newest state.
    #[must_use]
    pub fn transaction(&self) -> u64 {
        self.pages.meta.transaction
    }
}

/// The newest good meta, or what is wrong with both.
fn newest(file: &File) -> io::Result<Result<Meta, String>> {
    let first = meta_at(file, 0)?;
    let second = match &first {
        Ok(meta) => meta_at(file, meta.page_size)?,
        // Where the second one begins is the size of a page, which only a meta tells.
        Err(_) => second_anywhere(file)?,
    };
    Ok(match (first, second) {
        (Ok(first), Ok(second)) if first.page_size != second.page_size => {
            Err("its two meta pages disagree about the size of a page".to_owned())
        }
        (Ok(first), Ok(second)) => {
            Ok(if second.transaction > first.transaction { second } else { first })
        }
        (Ok(meta), Err(_)) | (Err(_), Ok(meta)) => Ok(meta),
        (Err(reason), Err(_)) => {
            Err(format!("of its first meta page, {reason}; nor is its second good"))
        }
    })
}

/// The second meta, behind a first page of whatever size the second one tells.
fn second_anywhere(file: &File) -> io::Result<Result<Meta, String>> {
    let mut size = MIN_PAGE;
    while size <= MAX_PAGE {
        match meta_at(file, size)? {
            Ok(meta) if meta.page_size == size => return Ok(Ok(meta)),
            _ => size *= 2,
        }
    }
    Ok(Err("there is none".to_owned()))
}

fn meta_at(file: &File, offset: u64) -> io::Result<Result<Meta, String>> {
    let mut bytes = [0; META_END];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Meta::read(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Ok(Err("the file ends within it".to_owned()))
        }
        Err(error) => Err(error),
    }
}
