//! Parts of a checkpoint: rows and cold fields as the file keeps them, with their checksums.
//!
//! ```text
//! table (1: rows, 2: cold fields), length of the key (u16), key, length of the value (u32), value    (big endian)
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::Damage;

/// A chunk is full at this many bytes; with one large value it has more.
const FULL: usize = 256 * 1024;

/// The table that an item belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkTable {
    Rows = 1,
    Cold = 2,
}

/// Collects items to chunks.
#[derive(Debug, Default)]
pub(crate) struct ChunkWriter(BytesMut);

impl ChunkWriter {
    /// Adds an item; returns a chunk once it is full.
    pub(crate) fn put(&mut self, table: ChunkTable, key: &[u8], value: &[u8]) -> Option<Bytes> {
        self.0.put_u8(table as u8);
        self.0.put_u16(key.len() as u16);
        self.0.put_slice(key);
        self.0.put_u32(value.len() as u32);
        self.0.put_slice(value);
        (self.0.len() >= FULL).then(|| self.0.split().freeze())
    }

    /// The last chunk, if there is anything in it.
    pub(crate) fn finish(self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| self.0.freeze())
    }
}

/// An item of a chunk: its table, its key and its value with the checksum.
pub(crate) type ChunkItem<'a> = (ChunkTable, &'a [u8], &'a [u8]);

/// The items of a chunk.
pub(crate) fn items(mut rest: &[u8]) -> impl Iterator<Item = Result<ChunkItem<'_>, Damage>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let item = item(&mut rest);
        if item.is_none() {
            rest = &[];
        }
        Some(item.ok_or_else(|| Damage::new("a part of a checkpoint", "it cannot be read")))
    })
}

fn item<'a>(rest: &mut &'a [u8]) -> Option<ChunkItem<'a>> {
    let table = match take(rest, 1)? {
        [1] => ChunkTable::Rows,
        [2] => ChunkTable::Cold,
        _ => return None,
    };
    let length = u16::from_be_bytes(take(rest, 2)?.try_into().ok()?);
    let key = take(rest, usize::from(length))?;
    let length = u32::from_be_bytes(take(rest, 4)?.try_into().ok()?);
    Some((table, key, take(rest, length as usize)?))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_they_were_put_and_nothing_else_is() {
        let mut writer = ChunkWriter::default();
        assert!(writer.put(ChunkTable::Rows, b"key", b"value").is_none());
        assert!(writer.put(ChunkTable::Cold, b"", &vec![7; FULL]).is_some_and(|chunk| {
            let read: Vec<_> = items(&chunk).map(Result::unwrap).collect();
            read[0] == (ChunkTable::Rows, b"key".as_slice(), b"value".as_slice())
                && read[1].0 == ChunkTable::Cold
                && read[1].2.len() == FULL
        }));
        assert!(writer.finish().is_none());
        let mut writer = ChunkWriter::default();
        assert!(writer.put(ChunkTable::Cold, b"k", b"v").is_none());
        let chunk = writer.finish().unwrap();
        for end in 1..chunk.len() {
            assert!(items(&chunk[..end]).any(|item| item.is_err()), "{end}");
        }
        assert!(items(b"\x03\0\0\0\0\0\0").any(|item| item.is_err()), "a table that is none");
        assert_eq!(items(b"").count(), 0);
    }
}
