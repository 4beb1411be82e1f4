//! Variable-length numbers: seven bits a byte, least significant first.

/// Takes a number from the front of `input`; `None` if it is incomplete or longer than 64 bits.
pub fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (place, byte) in input.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits.checked_shl(7 * place as u32)?;
        if shifted >> (7 * place) != bits {
            return None;
        }
        value |= shifted;
        if byte & 0x80 == 0 {
            *input = input.get(place + 1..)?;
            return Some(value);
        }
    }
    None
}

/// Appends a number to `out`.
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trip(value in any::<u64>(), tail in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            out.extend_from_slice(&tail);
            let mut input = &out[..];
            prop_assert_eq!(read_varint(&mut input), Some(value));
            prop_assert_eq!(input, &tail[..]);
        }

        #[test]
        fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..14)) {
            let _ = read_varint(&mut &bytes[..]);
        }
    }

    #[test]
    fn too_long_is_refused() {
        assert_eq!(read_varint(&mut &[0xff; 11][..]), None);
        assert_eq!(read_varint(&mut &[0x80][..]), None);
        assert_eq!(read_varint(&mut &[0xac, 0x02][..]), Some(300));
    }
}
