//! The header section of a frame: (key, value) entries in their wire form.
//!
//! Entries are not parsed one by one when a frame arrives. The section is checked once, stays one
//! buffer, and a value is found by walking through it. A router that forwards a payload passes the
//! section on without a few keys, which are removed in place; the rest stays untouched
//! (docs/protocol/channel.md 4 and 5).

mod value;

use std::fmt;

pub use value::{MAX_ENTRIES, MAX_VALUE, PeerData, StringMap};

use crate::error::FrameError;

/// Bytes before each value: key and length.
const ENTRY_HEAD: usize = 8;

/// The headers of one message, in their wire form.
///
/// A key that occurs twice has the last value, as for Go peers; writing a key replaces every
/// earlier occurrence, so that headers made here have no duplicates.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    raw: Vec<u8>,
}

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self { raw: Vec::new() }
    }

    /// Takes the header section of a frame after checking that its entries fill it exactly.
    pub fn from_wire(raw: Vec<u8>) -> Result<Self, FrameError> {
        let mut offset = 0;
        while offset < raw.len() {
            match entry_at(&raw, offset) {
                Some(entry) => offset = entry.end,
                None => return Err(FrameError::HeaderEntry { offset, length: raw.len() }),
            }
        }
        Ok(Self { raw })
    }

    /// The section in its wire form.
    pub fn as_wire(&self) -> &[u8] {
        &self.raw
    }

    /// Length of the section in bytes.
    pub fn wire_len(&self) -> usize {
        self.raw.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// All entries in wire order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { raw: &self.raw, offset: 0 }
    }

    /// The value of `key`; the last one if it occurs more than once.
    pub fn get(&self, key: i32) -> Option<&[u8]> {
        self.iter().filter(|(k, _)| *k == key).last().map(|(_, value)| value)
    }

    /// True if `key` occurs.
    pub fn contains(&self, key: i32) -> bool {
        self.iter().any(|(k, _)| k == key)
    }

    /// Sets `key` to `value`, replacing an earlier value.
    pub fn set(&mut self, key: i32, value: &[u8]) -> &mut Self {
        self.remove(key);
        self.raw.reserve(ENTRY_HEAD + value.len());
        self.raw.extend_from_slice(&key.to_le_bytes());
        self.raw.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.raw.extend_from_slice(value);
        self
    }

    /// Removes every occurrence of `key`; true if there was one.
    pub fn remove(&mut self, key: i32) -> bool {
        self.remove_all(&[key])
    }

    /// Removes every occurrence of any of `keys` in place; true if there was one.
    ///
    /// A forwarding router removes by it the headers that are not passed on. Without a match the
    /// section is only read.
    pub fn remove_all(&mut self, keys: &[i32]) -> bool {
        let (mut read, mut write) = (0, 0);
        while let Some(entry) = entry_at(&self.raw, read) {
            if !keys.contains(&entry.key) {
                if read != write {
                    self.raw.copy_within(read..entry.end, write);
                }
                write += entry.end - read;
            }
            read = entry.end;
        }
        let removed = write != self.raw.len();
        self.raw.truncate(write);
        removed
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = (i32, &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets (session tokens, group secrets): show lengths only.
        f.debug_map().entries(self.iter().map(|(key, value)| (key, value.len()))).finish()
    }
}

/// Walks the entries of a [`Headers`] in wire order.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    raw: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = entry_at(self.raw, self.offset)?;
        let value = self.raw.get(self.offset + ENTRY_HEAD..entry.end)?;
        self.offset = entry.end;
        Some((entry.key, value))
    }
}

struct RawHeader {
    key: i32,
    end: usize,
}

/// The entry that starts at `offset`, if it lies wholly inside `raw`.
fn entry_at(raw: &[u8], offset: usize) -> Option<RawHeader> {
    let head = raw.get(offset..offset.checked_add(ENTRY_HEAD)?)?;
    let (key, length) = head.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length.first_chunk::<4>()?) as usize;
    let end = (offset + ENTRY_HEAD).checked_add(length)?;
    (end <= raw.len()).then_some(RawHeader { key: i32::from_le_bytes(*key), end })
}

#[cfg(test)]
mod tests;
