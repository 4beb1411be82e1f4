//! The log of a cluster of the original (`raft.db`): what it has behind the database, which gets its changes from it.
//!
//! An entry is a MessagePack map (docs/protocol/operations.md 14.4). Only entries of type 0 change the network.

use weft_bolt::{Bolt, BoltContent, BoltError};

/// What a cluster's log has behind an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRest {
    /// Number of entries that change the network.
    pub changes: u64,
    /// Index of the last of them; 0 without one.
    pub last: u64,
}

impl LogRest {
    /// Reads the entries behind an index. One that cannot be read counts as a change.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn read(log: &Bolt, index: u64) -> Result<Self, BoltError> {
        let mut rest = Self::default();
        let Some(logs) = log.bucket(&[b"logs".as_slice()])? else { return Ok(rest) };
        for entry in logs.entries() {
            let entry = entry?;
            let number = entry.key.first_chunk().map_or(u64::MAX, |key| u64::from_be_bytes(*key));
            let BoltContent::Value(value) = entry.content else { continue };
            if number > index && type_of(&value).unwrap_or_default() == COMMAND {
                rest.changes += 1;
                rest.last = rest.last.max(number);
            }
        }
        Ok(rest)
    }
}

/// The type of an entry that changes the network.
const COMMAND: u64 = 0;
/// Deepest value within an entry.
const MAX_DEPTH: usize = 8;

/// The type of an entry; none if it cannot be read.
fn type_of(entry: &[u8]) -> Option<u64> {
    let mut rest = Bytes(entry);
    let members = match rest.byte()? {
        first @ 0x80..=0x8F => u64::from(first & 0x0F),
        0xDE => rest.number(2)?,
        0xDF => rest.number(4)?,
        _ => return None,
    };
    for _ in 0..members {
        let key = rest.text()?;
        if key == b"Type" {
            return match rest.byte()? {
                number @ 0..=0x7F => Some(u64::from(number)),
                0xCC => rest.number(1),
                0xCD => rest.number(2),
                0xCE => rest.number(4),
                0xCF => rest.number(8),
                _ => None,
            };
        }
        rest.skip(MAX_DEPTH)?;
    }
    None
}

/// The rest of MessagePack.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes, big-endian.
    fn number(&mut self, bytes: u64) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = match self.byte()? {
            first @ 0xA0..=0xBF => u64::from(first & 0x1F),
            0xC4 | 0xD9 => self.number(1)?,
            0xC5 | 0xDA => self.number(2)?,
            0xC6 | 0xDB => self.number(4)?,
            _ => return None,
        };
        self.take(length)
    }

    /// Passes a value over.
    fn skip(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let length = match self.byte()? {
            0..=0x7F | 0xE0..=0xFF | 0xC0 | 0xC2 | 0xC3 => 0,
            first @ 0xA0..=0xBF => u64::from(first & 0x1F),
            first @ 0x80..=0x8F => return self.skip_all(2 * u64::from(first & 0x0F), depth),
            first @ 0x90..=0x9F => return self.skip_all(u64::from(first & 0x0F), depth),
            0xC4 | 0xD9 => self.number(1)?,
            0xC5 | 0xDA => self.number(2)?,
            0xC6 | 0xDB => self.number(4)?,
            0xC7 => self.number(1)? + 1,
            0xC8 => self.number(2)? + 1,
            0xC9 => self.number(4)? + 1,
            0xCC | 0xD0 => 1,
            0xCD | 0xD1 | 0xD4 => 2,
            0xD5 => 3,
            0xCA | 0xCE | 0xD2 => 4,
            0xD6 => 5,
            0xCB | 0xCF | 0xD3 => 8,
            0xD7 => 9,
            0xD8 => 17,
            0xDC => {
                let items = self.number(2)?;
                return self.skip_all(items, depth);
            }
            0xDD => {
                let items = self.number(4)?;
                return self.skip_all(items, depth);
            }
            0xDE => {
                let members = self.number(2)?;
                return self.skip_all(2 * members, depth);
            }
            0xDF => {
                let members = self.number(4)?;
                return self.skip_all(2 * members, depth);
            }
            _ => return None,
        };
        self.take(length).map(drop)
    }

    fn skip_all(&mut self, values: u64, depth: usize) -> Option<()> {
        // Each value has a byte at least, so that a wrong number ends with the bytes.
        (0..values).try_for_each(|_| self.skip(depth))
    }
}
