//! The stored form of rows: keys, checksums, and the tally of each kind.
//!
//! The key of a row is its kind (two bytes, big endian) and its id, so that rows are ordered by
//! kind and id. Its value is *sealed*: a CRC-32 over key and value comes first, which finds a
//! flipped bit and a row under another key. The tally finds what a checksum for each row cannot: a
//! row that is missing or stored twice.

use weft_model::{Entity, Id, Kind, RowError};

use crate::error::Damage;

/// The key of a row.
pub(crate) fn row_key(kind: Kind, id: &Id) -> Vec<u8> {
    let mut key = kind.code().to_be_bytes().to_vec();
    key.extend(id.as_bytes());
    key
}

/// Key of a cold field. A zero byte ends the id, which holds no control characters.
pub(crate) fn cold_key(kind: Kind, id: &Id, field: u16) -> Vec<u8> {
    let mut key = row_key(kind, id);
    key.push(0);
    key.extend(field.to_be_bytes());
    key
}

/// Key range of all cold fields of an entity: the start, and the end, which is outside.
pub(crate) fn cold_range(kind: Kind, id: &Id) -> (Vec<u8>, Vec<u8>) {
    let (mut from, mut to) = (row_key(kind, id), row_key(kind, id));
    from.push(0);
    to.push(1);
    (from, to)
}

/// The key of the row that a cold field belongs to.
pub(crate) fn cold_owner(key: &[u8]) -> Option<&[u8]> {
    // The two bytes of the kind may be zero, no byte of the id is.
    let end = key.iter().skip(2).position(|byte| *byte == 0)? + 2;
    key.get(..end)
}

/// The key of a note.
pub(crate) fn note_key(space: u16, key: &str) -> Vec<u8> {
    let mut bytes = space.to_be_bytes().to_vec();
    bytes.extend(key.as_bytes());
    bytes
}

/// Splits a key into the kind's code and the rest.
pub(crate) fn split_key(key: &[u8]) -> Result<(u16, &str), Damage> {
    let damage = || Damage::new("a key", "it cannot be read");
    let (code, rest) = key.split_first_chunk().ok_or_else(damage)?;
    let rest = std::str::from_utf8(rest).map_err(|_| damage())?;
    Ok((u16::from_be_bytes(*code), rest))
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(key.len() as u32).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// Puts the checksum before a value.
pub(crate) fn seal(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = checksum(key, value).to_le_bytes().to_vec();
    sealed.extend_from_slice(value);
    sealed
}

/// Checks the checksum and returns the value without it.
pub(crate) fn unseal<'a>(place: &str, key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], Damage> {
    let at = || format!("{place} {}", String::from_utf8_lossy(key.get(2..).unwrap_or_default()));
    let Some((sum, value)) = sealed.split_first_chunk() else {
        return Err(Damage::new(at(), "it is cut short"));
    };
    if u32::from_le_bytes(*sum) != checksum(key, value) {
        return Err(Damage::new(at(), "its checksum is wrong"));
    }
    Ok(value)
}

/// The sealed row of an entity: version, then fields.
pub(crate) fn seal_row(key: &[u8], entity: &Entity) -> Vec<u8> {
    let mut value = entity.kind().row_version().to_le_bytes().to_vec();
    value.extend(entity.to_row());
    seal(key, &value)
}

/// Why a row cannot be used.
pub(crate) enum RowFault {
    Damaged(Damage),
    Row(RowError),
}

impl From<Damage> for RowFault {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// Reads the sealed row of an entity.
pub(crate) fn unseal_row(key: &[u8], sealed: &[u8]) -> Result<Entity, RowFault> {
    let value = unseal("row", key, sealed)?;
    let (code, id) = split_key(key)?;
    let place = || format!("row {id}");
    let kind = Kind::from_code(code).ok_or(RowFault::Row(RowError::UnknownKind(code)))?;
    let Some((version, row)) = value.split_first_chunk() else {
        return Err(Damage::new(place(), "it is cut short").into());
    };
    let entity = Entity::from_row(kind, u16::from_le_bytes(*version), row);
    let entity = entity.map_err(|error| match error {
        RowError::Malformed { .. } => RowFault::Damaged(Damage::new(place(), error)),
        newer => RowFault::Row(newer),
    })?;
    if *entity.id() != id {
        return Err(Damage::new(place(), "it has another id inside").into());
    }
    Ok(entity)
}

/// Number of rows of a kind, and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) hash: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, key: &[u8], sealed: &[u8]) {
        self.count = self.count.wrapping_add(1);
        self.hash = self.hash.wrapping_add(hash(key, sealed));
    }

    pub(crate) fn remove(&mut self, key: &[u8], sealed: &[u8]) {
        self.count = self.count.wrapping_sub(1);
        self.hash = self.hash.wrapping_sub(hash(key, sealed));
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.count.to_le_bytes(), self.hash.to_le_bytes()].concat()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Damage> {
        let damage = || Damage::new("a tally", "it cannot be read");
        let (count, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
        let hash = rest.first_chunk().ok_or_else(damage)?;
        Ok(Self { count: u64::from_le_bytes(*count), hash: u64::from_le_bytes(*hash) })
    }
}

/// Hash of a row: its checksum and lengths, spread over 64 bits.
fn hash(key: &[u8], sealed: &[u8]) -> u64 {
    let sum = sealed.first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
    let mut word = u64::from(sum) << 32 ^ (sealed.len() as u64) << 8 ^ key.len() as u64;
    word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}
