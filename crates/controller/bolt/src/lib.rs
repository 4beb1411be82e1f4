//! Reads databases of bbolt, the format in which controllers of OpenZiti keep their networks. Opens the file read-only
//! and writes nothing.
//!
//! ```text
//!  file ──lock, meta pages──> Bolt ──path──> BoltBucket ──get──> BoltContent
//!                               |                         └───entries──> BoltEntries, in the order of their keys
//!                               └── pages: each read with a limit, checked whole, claimed by one place
//! ```
//!
//! A database is a tree of buckets; a bucket is a tree of pages with sorted keys. Every byte of the file is hostile:
//! - a page is checked whole before an entry of it is seen: its own number and kind, the number of its elements, that
//!   their keys ascend within the bounds that its parent gives, and that keys and values lie apart within the page;
//! - a page belongs to one place, so that pages which are reached twice, in a circle for example, are refused, and a
//!   walk through everything reads each page once;
//! - memory is bounded: the pages between the root of a bucket and its leaf, of which a branch has at most
//!   [`MAX_BRANCH`] and a leaf at most [`MAX_LEAF`] bytes, and some 50 bytes for each page that was seen.
//!
//! The free list is never read. A page with an error is named by its number.
//!
//! ```no_run
//! use weft_bolt::{Bolt, BoltContent};
//!
//! let database = Bolt::open("ctrl.db".as_ref())?;
//! if let Some(bucket) = database.bucket(&[b"ziti", b"identities"])? {
//!     for entry in bucket.entries() {
//!         let entry = entry?;
//!         let kind = match entry.content {
//!             BoltContent::Value(value) => format!("{} bytes", value.len()),
//!             BoltContent::Bucket(_) => "a bucket".to_owned(),
//!         };
//!         println!("{}: {kind}", String::from_utf8_lossy(&entry.key));
//!     }
//! }
//! # Ok::<(), weft_bolt::BoltError>(())
//! ```

mod bucket;
mod claims;
mod entries;
mod error;
mod file;
mod meta;
mod number;
mod page;
mod pages;
#[cfg(test)]
mod tests;

pub use bucket::{BoltBucket, BoltContent, BoltEntry};
pub use entries::BoltEntries;
pub use error::BoltError;
pub use file::Bolt;
pub use pages::{MAX_BRANCH, MAX_LEAF};
