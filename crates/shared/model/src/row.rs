//! Encoding of rows: protocol buffers, read and written by typed structs.
//!
//! `row!` declares a struct with its field numbers, so that a field is declared in one place only.
//! Default values are not written, unknown fields are skipped, field numbers are never reused.
//! Enumerations are in [`choice`](crate::choice).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

use crate::sparse::{Empty, Sparse};
use crate::{Id, IdError, JsonMap, Timestamp};

/// The reason why a row was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The bytes are not a protocol buffers message.
    #[error("field {field}: {reason}")]
    Malformed {
        /// Number of the field, 0 if unknown.
        field: u32,
        /// The problem.
        reason: String,
    },
    /// The row was written by a newer weft.
    #[error("row of {kind} has version {version}, this weft knows up to {known}: use a newer weft")]
    Newer {
        /// The kind's name.
        kind: &'static str,
        /// The version of the row.
        version: u16,
        /// Newest version that this program reads.
        known: u16,
    },
    /// The code of the kind is unknown.
    #[error("no kind has the code {0}: the store was written by a newer weft")]
    UnknownKind(u16),
}

impl RowError {
    pub(crate) fn malformed(reason: impl ToString) -> Self {
        Self::Malformed { field: 0, reason: reason.to_string() }
    }

    fn at(self, tag: u32) -> Self {
        match self {
            Self::Malformed { field: 0, reason } => Self::Malformed { field: tag, reason },
            other => other,
        }
    }
}

impl From<IdError> for RowError {
    fn from(error: IdError) -> Self {
        Self::malformed(error)
    }
}

/// A struct declared with `row!`.
pub(crate) trait Row: Default {
    fn write_fields(&self, out: &mut Vec<u8>);
    fn read_field(&mut self, tag: u32, wire: WireType, input: &mut &[u8]) -> Result<(), RowError>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_fields(&mut out);
        out
    }

    fn from_bytes(mut input: &[u8]) -> Result<Self, RowError> {
        let mut row = Self::default();
        while !input.is_empty() {
            let (tag, wire) = decode_key(&mut input).map_err(RowError::malformed)?;
            row.read_field(tag, wire, &mut input).map_err(|error| error.at(tag))?;
        }
        Ok(row)
    }
}

/// One value of a field: a scalar, a text, or a nested row.
pub(crate) trait Value: Default + PartialEq {
    const WIRE: WireType = WireType::LengthDelimited;
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut &[u8]) -> Result<Self, RowError>;

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A field of a row: one value, an optional one, or many.
pub(crate) trait Field {
    fn write(&self, tag: u32, out: &mut Vec<u8>);
    fn read(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), RowError>;
}

fn put_one<T: Value>(value: &T, tag: u32, out: &mut Vec<u8>) {
    encode_key(tag, T::WIRE, out);
    value.put(out);
}

fn take_one<T: Value>(wire: WireType, input: &mut &[u8]) -> Result<T, RowError> {
    if wire != T::WIRE {
        return Err(RowError::malformed(format!("wire type {wire:?} instead of {:?}", T::WIRE)));
    }
    T::take(input)
}

/// Splits off a length-delimited value.
pub(crate) fn take_slice<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], RowError> {
    let len = decode_varint(input).map_err(RowError::malformed)?;
    let len = usize::try_from(len).ok().filter(|len| *len <= input.len());
    let (part, rest) = input.split_at(len.ok_or_else(|| RowError::malformed("cut short"))?);
    *input = rest;
    Ok(part)
}

/// Splits off a number.
pub(crate) fn take_number(input: &mut &[u8]) -> Result<u64, RowError> {
    decode_varint(input).map_err(RowError::malformed)
}

fn take_str<'a>(input: &mut &'a [u8]) -> Result<&'a str, RowError> {
    std::str::from_utf8(take_slice(input)?).map_err(RowError::malformed)
}

pub(crate) fn put_slice(bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Skips the value of an unknown field, such as one that a newer release added.
pub(crate) fn skip(tag: u32, wire: WireType, input: &mut &[u8]) -> Result<(), RowError> {
    skip_field(wire, tag, input, DecodeContext::default()).map_err(RowError::malformed)
}

impl<T: Value> Field for T {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        if !self.is_default() {
            put_one(self, tag, out);
        }
    }

    fn read(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), RowError> {
        *self = take_one(wire, input)?;
        Ok(())
    }
}

impl<T: Value> Field for Option<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            put_one(value, tag, out);
        }
    }

    fn read(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), RowError> {
        *self = Some(take_one(wire, input)?);
        Ok(())
    }
}

impl<T: Value> Field for Vec<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        for value in self {
            put_one(value, tag, out);
        }
    }

    fn read(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), RowError> {
        self.push(take_one(wire, input)?);
        Ok(())
    }
}

impl<T: Field + Empty> Field for Sparse<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        (**self).write(tag, out);
    }

    fn read(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), RowError> {
        (**self).read(wire, input)
    }
}

/// A map is a repeated message of key (1) and value (2), as protocol buffers define it.
impl<K: Value + Ord, V: Value> Field for BTreeMap<K, V> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        for (key, value) in self {
            let mut entry = Vec::new();
            put_one(key, 1, &mut entry);
            put_one(value, 2, &mut entry);
            encode_key(tag, WireType::LengthDelimited, out);
            put_slice(&entry, out);
        }
    }

    fn read(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), RowError> {
        if wire != WireType::LengthDelimited {
            return Err(RowError::malformed("a map entry is not a message"));
        }
        let mut entry = take_slice(input)?;
        let (mut key, mut value) = (K::default(), V::default());
        while !entry.is_empty() {
            match decode_key(&mut entry).map_err(RowError::malformed)? {
                (1, wire) => key = take_one(wire, &mut entry)?,
                (2, wire) => value = take_one(wire, &mut entry)?,
                (tag, wire) => skip(tag, wire, &mut entry)?,
            }
        }
        self.insert(key, value);
        Ok(())
    }
}

impl Value for bool {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        encode_varint((*self).into(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        Ok(take_number(input)? != 0)
    }
}

impl Value for u16 {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        encode_varint((*self).into(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        take_number(input)?.try_into().map_err(RowError::malformed)
    }
}

impl Value for u32 {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        encode_varint((*self).into(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        take_number(input)?.try_into().map_err(RowError::malformed)
    }
}

impl Value for u64 {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        encode_varint(*self, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        take_number(input)
    }
}

impl Value for i64 {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        encode_varint(*self as u64, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        Ok(take_number(input)? as i64)
    }
}

impl Value for Timestamp {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        encode_varint(self.0 as u64, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        Ok(Timestamp(take_number(input)? as i64))
    }
}

impl Value for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.as_bytes(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        take_str(input).map(String::from)
    }
}

impl Value for Arc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.as_bytes(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        take_str(input).map(Arc::from)
    }
}

impl Value for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        take_slice(input).map(Bytes::copy_from_slice)
    }
}

impl Value for Id {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.as_bytes(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        match take_str(input)? {
            "" => Ok(Self::default()),
            text => Ok(Self::parse(text)?),
        }
    }
}

impl Value for JsonMap {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.to_text().as_bytes(), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        let text = take_str(input)?;
        Self::from_text(text).ok_or_else(|| RowError::malformed("not a JSON object"))
    }
}

/// Declares a struct for rows, each field with its number: `row! { pub struct Point { 1 => pub x:
/// u32, } }`.
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $tag:literal => pub $field:ident: $ty:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $vis struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $crate::row::Row for $name {
            fn write_fields(&self, out: &mut Vec<u8>) {
                $($crate::row::Field::write(&self.$field, $tag, out);)*
            }

            fn read_field(
                &mut self,
                tag: u32,
                wire: ::prost::encoding::WireType,
                input: &mut &[u8],
            ) -> Result<(), $crate::row::RowError> {
                match tag {
                    $($tag => $crate::row::Field::read(&mut self.$field, wire, input),)*
                    _ => $crate::row::skip(tag, wire, input),
                }
            }
        }

        impl $crate::row::Value for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::row::put_slice(&$crate::row::Row::to_bytes(self), out);
            }

            fn take(input: &mut &[u8]) -> Result<Self, $crate::row::RowError> {
                $crate::row::Row::from_bytes($crate::row::take_slice(input)?)
            }
        }
    };
}

pub(crate) use row;
