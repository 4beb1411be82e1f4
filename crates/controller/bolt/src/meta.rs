//! The meta pages: the first two pages of a file, of which the newer one with a good checksum is valid
//! (docs/protocol/operations.md 14.1).

use crate::number::{u32_at, u64_at};

/// Bytes of the header of every page.
pub(crate) const HEADER: usize = 16;
/// Bytes of a meta behind the header of its page.
const META: usize = 64;
/// Bytes from the beginning of a page to the end of its meta.
pub(crate) const META_END: usize = HEADER + META;
/// The first four bytes of a meta.
const MAGIC: u32 = 0xED0C_DAED;
/// The version of the format.
const VERSION: u32 = 2;
/// Smallest size of a page, in bytes.
pub(crate) const MIN_PAGE: u64 = 4 * 1_024;
/// Largest size of a page, in bytes.
pub(crate) const MAX_PAGE: u64 = 64 * 1_024;

/// What a meta page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Size of a page, in bytes.
    pub(crate) page_size: u64,
    /// Root page of the root bucket.
    pub(crate) root: u64,
    /// The sequence of the root bucket.
    pub(crate) sequence: u64,
    /// Number of pages that the database uses, all below this number.
    pub(crate) end: u64,
    /// The number of the transaction that wrote it.
    pub(crate) transaction: u64,
}

impl Meta {
    /// Reads the meta in the first bytes of a page, or tells what is wrong with it.
    pub(crate) fn read(page: &[u8]) -> Result<Self, String> {
        let meta = page.get(HEADER..META_END).ok_or("the file ends within it")?;
        let number = |at| u64_at(meta, at).unwrap_or_default();
        let short = |at| u32_at(meta, at).unwrap_or_default();
        match short(0) {
            MAGIC => {}
            magic if magic.swap_bytes() == MAGIC => {
                return Err("it was written by a big-endian processor".to_owned());
            }
            _ => return Err("it does not begin as one of bbolt".to_owned()),
        }
        if short(4) != VERSION {
            return Err(format!("its format is {}, not {VERSION}", short(4)));
        }
        if number(META - 8) != checksum(meta.get(..META - 8).unwrap_or_default()) {
            return Err("its checksum is wrong".to_owned());
        }
        let page_size = u64::from(short(8));
        if !page_size.is_power_of_two() || !(MIN_PAGE..=MAX_PAGE).contains(&page_size) {
            return Err(format!("its pages have {page_size} bytes, which is no size of a page"));
        }
        Ok(Self {
            page_size,
            root: number(16),
            sequence: number(24),
            end: number(40),
            transaction: number(48),
        })
    }
}

/// FNV-1a with 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
