//! Ids of entities: short opaque strings, compared bytewise, which is the default order of every
//! list.
//!
//! Ids up to 22 bytes (all that weft makes for its entities) are stored inside the value; longer
//! ones, such as UUIDs, are shared. Randomness is an argument.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::{fmt, hash};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The alphabet of short ids (docs/protocol/management-api.md 2.3).
const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-";
const INLINE: usize = 22;

/// Id of an entity. It is not empty, except for the default value of an unset field.
#[derive(Clone)]
pub struct Id(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("an id may not be empty")]
    Empty,
    /// The text is longer than [`Id::MAX_LEN`].
    #[error("an id of {0} bytes is too long, at most {max} are allowed", max = Id::MAX_LEN)]
    TooLong(usize),
    /// The text holds a control character.
    #[error("an id may not contain control characters")]
    Control,
}

impl Id {
    /// Longest id that is accepted from outside, in bytes.
    pub const MAX_LEN: usize = 128;

    /// An id from untrusted text.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        match text {
            "" => Err(IdError::Empty),
            _ if text.len() > Self::MAX_LEN => Err(IdError::TooLong(text.len())),
            _ if text.chars().any(char::is_control) => Err(IdError::Control),
            _ => Ok(Self::new(text)),
        }
    }

    /// An id from text that is known to be one: a constant, or text from weft's store.
    pub fn new(text: &str) -> Self {
        if text.len() > INLINE {
            return Self(Repr::Shared(text.into()));
        }
        let mut bytes = [0; INLINE];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(Repr::Inline { len: text.len() as u8, bytes })
    }

    /// A short id of nine characters, made of 54 random bits. It does not begin with `.` or `-`,
    /// which would need escaping in paths and shells.
    pub fn short(random: u64) -> Self {
        let mut bits = random;
        let mut text = String::with_capacity(9);
        text.push(char::from(ALPHABET[(bits % 62) as usize]));
        bits >>= 6;
        for _ in 1..9 {
            text.push(char::from(ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
        Self::new(&text)
    }

    /// An id for a session: 25 characters that begin with `c`, ordered by time and, within one
    /// millisecond, by a counter below 36^4.
    pub fn ordered(unix_millis: u64, counter: u32, random: u64) -> Self {
        let mut text = String::with_capacity(25);
        text.push('c');
        push_base36(&mut text, unix_millis, 8);
        push_base36(&mut text, counter.into(), 4);
        push_base36(&mut text, random, 12);
        Self::new(&text)
    }

    /// A UUID of version 4, for tokens and the API sessions of OIDC logins.
    pub fn uuid(random: [u8; 16]) -> Self {
        let mut b = random;
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (at, byte) in b.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        Self::new(&text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline { len, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default()
            }
            Repr::Shared(text) => text,
        }
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(text) => text.as_bytes(),
        }
    }

    /// True for the default value, which names nothing.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

/// Appends the lowest `digits` base-36 digits of `value`, most significant first.
fn push_base36(text: &mut String, mut value: u64, digits: usize) {
    let at = text.len();
    for _ in 0..digits {
        text.insert(at, char::from(ALPHABET[(value % 36) as usize]));
        value /= 36;
    }
}

impl Default for Id {
    fn default() -> Self {
        Self::new("")
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl hash::Hash for Id {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Id {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Id {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Id {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Id {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Id::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_documented_forms() {
        let short = Id::short(u64::MAX);
        assert_eq!(short.as_str().len(), 9);
        assert!(!short.as_str().starts_with(['.', '-']));
        let session = Id::ordered(1_769_860_800_000, 7, 12345);
        assert_eq!(session.as_str().len(), 25);
        assert!(session.as_str().starts_with('c'));
        assert!(Id::ordered(1_769_860_800_001, 0, 0) > session);
        assert!(Id::ordered(1_769_860_800_000, 8, 0) > session);
        assert_eq!(Id::uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(std::mem::size_of::<Id>(), 24);
    }

    #[test]
    fn outside_text_is_limited() {
        assert_eq!(Id::parse(""), Err(IdError::Empty));
        assert_eq!(Id::parse(&"x".repeat(129)), Err(IdError::TooLong(129)));
        assert_eq!(Id::parse("a\nb"), Err(IdError::Control));
        assert_eq!(Id::parse("-.é").unwrap(), "-.é");
        let long = "x".repeat(64);
        assert_eq!(Id::parse(&long).unwrap().as_str(), long);
    }

    #[test]
    fn order_is_bytewise_across_representations() {
        let mut ids = [Id::new("b"), Id::new(&"a".repeat(40)), Id::new("a")];
        ids.sort();
        assert_eq!(ids[0], "a");
        assert_eq!(ids[2], "b");
    }
}
