//! Signed numbers of variable length: seven bits in each byte, the low ones first, with the sign in the lowest bit.

/// Most bytes of a number.
const LONGEST: usize = 10;

/// Reads a number from the front of `bytes`: its value and its length. `None` while bytes are missing.
///
/// # Errors
/// When the number has more than 64 bits.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(i64, usize)>, TooLarge> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(LONGEST).enumerate() {
        if at + 1 == LONGEST && *byte > 1 {
            return Err(TooLarge);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let half = (value >> 1).cast_signed();
            return Ok(Some((if value & 1 == 1 { !half } else { half }, at + 1)));
        }
    }
    if bytes.len() < LONGEST { Ok(None) } else { Err(TooLarge) }
}

/// Appends a number.
pub(crate) fn write(value: i64, out: &mut Vec<u8>) {
    let mut left = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// A number of more than 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_those_of_the_wire() {
        let written = |value| {
            let mut out = Vec::new();
            write(value, &mut out);
            out
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(-1), [1]);
        assert_eq!(written(1), [2]);
        assert_eq!(written(64), [0x80, 1]);
        assert_eq!(written(i64::MIN), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(read(&[0xff; 10]), Err(TooLarge));
        assert_eq!(read(&[0x80; 10]), Err(TooLarge));
        assert_eq!(read(&[0x80; 9]), Ok(None));
        assert_eq!(read(&[]), Ok(None));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: i64, behind: Vec<u8>) {
            let mut out = Vec::new();
            write(value, &mut out);
            let length = out.len();
            prop_assert_eq!(read(&out[..length - 1]), Ok(None));
            out.extend(behind);
            prop_assert_eq!(read(&out), Ok(Some((value, length))));
        }
    }
}
