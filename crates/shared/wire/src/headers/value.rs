//! Typed header values: their encodings, and the tolerance of their readers
//! (docs/protocol/channel.md 5).

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use super::Headers;
use crate::error::WireError;

/// Most items in a list or map header; peers refuse more.
pub const MAX_ENTRIES: usize = 128;
/// Longest string or value inside a list or map header; peers refuse longer ones.
pub const MAX_VALUE: usize = 8192;

/// Opaque values from one end of a circuit to the other, by header id.
pub type PeerData = BTreeMap<u32, Bytes>;
/// Names and values, for example circuit tags.
pub type StringMap = BTreeMap<String, String>;

impl Headers {
    /// A bool: true only if the first byte is 1; an empty value is false.
    pub fn get_bool(&self, key: i32) -> Option<bool> {
        self.get(key).map(|value| value.first() == Some(&1))
    }

    /// A byte: the first one; an empty value is 0.
    pub fn get_u8(&self, key: i32) -> Option<u8> {
        self.get(key).map(|value| value.first().copied().unwrap_or(0))
    }

    /// A 16 bit number; any other length is the same as absent.
    pub fn get_u16(&self, key: i32) -> Option<u16> {
        self.fixed(key).map(u16::from_le_bytes)
    }

    /// A 32 bit number; any other length is the same as absent.
    pub fn get_u32(&self, key: i32) -> Option<u32> {
        self.fixed(key).map(u32::from_le_bytes)
    }

    /// A signed 32 bit number; any other length is the same as absent.
    pub fn get_i32(&self, key: i32) -> Option<i32> {
        self.fixed(key).map(i32::from_le_bytes)
    }

    /// A 64 bit number; any other length is the same as absent.
    pub fn get_u64(&self, key: i32) -> Option<u64> {
        self.fixed(key).map(u64::from_le_bytes)
    }

    /// A string; text that is not UTF-8 is the same as absent.
    pub fn get_str(&self, key: i32) -> Option<&str> {
        self.get(key).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// A text for people: bytes that are not UTF-8 are replaced.
    pub fn get_text(&self, key: i32) -> Option<Cow<'_, str>> {
        self.get(key).map(String::from_utf8_lossy)
    }

    /// A value copied out.
    pub fn get_bytes(&self, key: i32) -> Option<Bytes> {
        self.get(key).map(Bytes::copy_from_slice)
    }

    /// A list of strings; absent yields `None`, a value over the limits an error.
    pub fn get_string_list(&self, key: i32) -> Result<Option<Vec<String>>, WireError> {
        let Some(mut reader) = self.reader(key) else { return Ok(None) };
        let count = reader.count()?;
        (0..count).map(|_| reader.string()).collect::<Result<_, _>>().map(Some)
    }

    /// A map from numbers to bytes; absent yields `None`, a value over the limits an error.
    pub fn get_u32_map(&self, key: i32) -> Result<Option<PeerData>, WireError> {
        let Some(mut reader) = self.reader(key) else { return Ok(None) };
        let count = reader.count()?;
        (0..count)
            .map(|_| Ok((reader.u32()?, Bytes::copy_from_slice(reader.sized()?))))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// A map from strings to strings; absent yields `None`, a value over the limits an error.
    pub fn get_string_map(&self, key: i32) -> Result<Option<StringMap>, WireError> {
        let Some(mut reader) = self.reader(key) else { return Ok(None) };
        let count = reader.count()?;
        (0..count)
            .map(|_| Ok((reader.string()?, reader.string()?)))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Writes a bool as exactly one byte (an empty one is read out of bounds by old C peers).
    pub fn set_bool(&mut self, key: i32, value: bool) -> &mut Self {
        self.set(key, &[u8::from(value)])
    }

    /// Writes a byte.
    pub fn set_u8(&mut self, key: i32, value: u8) -> &mut Self {
        self.set(key, &[value])
    }

    /// Writes a 16 bit number.
    pub fn set_u16(&mut self, key: i32, value: u16) -> &mut Self {
        self.set(key, &value.to_le_bytes())
    }

    /// Writes a 32 bit number.
    pub fn set_u32(&mut self, key: i32, value: u32) -> &mut Self {
        self.set(key, &value.to_le_bytes())
    }

    /// Writes a signed 32 bit number.
    pub fn set_i32(&mut self, key: i32, value: i32) -> &mut Self {
        self.set(key, &value.to_le_bytes())
    }

    /// Writes a 64 bit number.
    pub fn set_u64(&mut self, key: i32, value: u64) -> &mut Self {
        self.set(key, &value.to_le_bytes())
    }

    /// Writes a string.
    pub fn set_str(&mut self, key: i32, value: &str) -> &mut Self {
        self.set(key, value.as_bytes())
    }

    /// Writes a list of strings; refuses values that peers would refuse.
    pub fn set_string_list<S: AsRef<str>>(
        &mut self,
        key: i32,
        items: &[S],
    ) -> Result<&mut Self, WireError> {
        let mut writer = ItemWriter::new(items.len())?;
        for item in items {
            writer.sized(item.as_ref().as_bytes())?;
        }
        Ok(self.set(key, &writer.finish()))
    }

    /// Writes a map from numbers to bytes; refuses values that peers would refuse.
    pub fn set_u32_map(&mut self, key: i32, map: &PeerData) -> Result<&mut Self, WireError> {
        let mut writer = ItemWriter::new(map.len())?;
        for (k, value) in map {
            writer.out.extend_from_slice(&k.to_le_bytes());
            writer.sized(value)?;
        }
        Ok(self.set(key, &writer.finish()))
    }

    /// Writes a map from strings to strings; refuses values that peers would refuse.
    pub fn set_string_map(&mut self, key: i32, map: &StringMap) -> Result<&mut Self, WireError> {
        let mut writer = ItemWriter::new(map.len())?;
        for (name, value) in map {
            writer.sized(name.as_bytes())?;
            writer.sized(value.as_bytes())?;
        }
        Ok(self.set(key, &writer.finish()))
    }

    fn fixed<const N: usize>(&self, key: i32) -> Option<[u8; N]> {
        self.get(key).and_then(|value| value.try_into().ok())
    }

    fn reader(&self, key: i32) -> Option<Reader<'_>> {
        self.get(key).map(|rest| Reader { key, rest })
    }
}

/// Reads the inside of a list or map value. Bytes after the last item are ignored.
struct Reader<'a> {
    key: i32,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The number of items; a value of length zero is an empty collection.
    fn count(&mut self) -> Result<usize, WireError> {
        if self.rest.is_empty() {
            return Ok(0);
        }
        let count = self.u32()? as usize;
        if count > MAX_ENTRIES { Err(self.problem("more than 128 items")) } else { Ok(count) }
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        let (head, rest) =
            self.rest.split_first_chunk::<4>().ok_or_else(|| self.problem("value ends early"))?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*head))
    }

    fn sized(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.u32()? as usize;
        if length > MAX_VALUE {
            return Err(self.problem("an item is longer than 8192 bytes"));
        }
        let (head, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| self.problem("value ends early"))?;
        self.rest = rest;
        Ok(head)
    }

    fn string(&mut self) -> Result<String, WireError> {
        let bytes = self.sized()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.problem("a string is not UTF-8")),
        }
    }

    fn problem(&self, problem: &'static str) -> WireError {
        WireError::HeaderValue { key: self.key, problem }
    }
}

/// Writes the inside of a list or map value; an empty collection is a value of length zero.
struct ItemWriter {
    out: Vec<u8>,
}

impl ItemWriter {
    fn new(count: usize) -> Result<Self, WireError> {
        if count > MAX_ENTRIES {
            return Err(WireError::TooLarge { what: "number of items", limit: MAX_ENTRIES });
        }
        let out = if count == 0 { Vec::new() } else { (count as u32).to_le_bytes().to_vec() };
        Ok(Self { out })
    }

    fn sized(&mut self, value: &[u8]) -> Result<(), WireError> {
        if value.len() > MAX_VALUE {
            return Err(WireError::TooLarge { what: "item of a header", limit: MAX_VALUE });
        }
        self.out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.out.extend_from_slice(value);
        Ok(())
    }

    fn finish(self) -> Vec<u8> {
        self.out
    }
}
