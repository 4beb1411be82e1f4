//! The authenticator Poly1305 (RFC 8439, section 2.5) for messages of a network's size.
//!
//! Libraries offer it in two ways, of which neither serves messages of odd lengths well: inside of an
//! AEAD, which completes the last block in another way than secretstreams do, or by itself with vector
//! instructions, whose preparation takes as long as the blocks of two network packets. This one needs
//! no preparation, and computes modulo 2^130 - 5 with 64-bit digits. Neither branches nor addresses
//! depend on the key or the message.

use zeroize::Zeroize;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;

/// Bits of the key's first half that are always zero, so that products fit their digits.
const CLAMP: [u64; 2] = [0x0fff_fffc_0fff_ffff, 0x0fff_fffc_0fff_fffc];

/// The authenticator of one message.
pub(crate) struct Authenticator {
    /// The factor r, below 2^60 each digit.
    factor: [u64; 2],
    /// 5/4 of the factor's high digit: its product with a digit worth 2^64 is worth 1, because 2^130 is
    /// 5, and that digit is a multiple of 4.
    folded: u64,
    /// The sum so far: its lowest 128 bits, and the bits above, which are 4 at most.
    low: u128,
    high: u64,
    /// The number that is added in the end.
    pad: u128,
}

impl Authenticator {
    /// The authenticator under the key of one message.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let (factor, pad) = (number(&key[..BLOCK]), number(&key[BLOCK..]));
        let [low, high] = [factor as u64 & CLAMP[0], (factor >> 64) as u64 & CLAMP[1]];
        Self { factor: [low, high], folded: high + (high >> 2), low: 0, high: 0, pad }
    }

    /// Adds the whole blocks of a part of the message; returns the bytes behind them.
    pub(crate) fn blocks<'m>(&mut self, part: &'m [u8]) -> &'m [u8] {
        let (blocks, rest) = part.as_chunks::<BLOCK>();
        // Digits in registers.
        let mut sum = (self.low, self.high);
        for block in blocks {
            sum = self.next(sum, u128::from_le_bytes(*block), 1);
        }
        (self.low, self.high) = sum;
        rest
    }

    /// Adds the end of the message, and returns the message's authenticator.
    pub(crate) fn finish(mut self, end: &[u8]) -> [u8; BLOCK] {
        let rest = self.blocks(end);
        if !rest.is_empty() {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            block[rest.len()] = 1;
            let sum = (self.low, self.high);
            (self.low, self.high) = self.next(sum, u128::from_le_bytes(block), 0);
        }
        // The sum modulo 2^130 - 5, below which it is after one subtraction at most: the sum plus 5
        // reaches 2^130 if the sum is not below.
        let (reduced, carry) = self.low.overflowing_add(5);
        let is_over = (self.high + u64::from(carry)) >> 2;
        let mask = 0u128.wrapping_sub(u128::from(is_over));
        let low = (self.low & !mask) | (reduced & mask);
        low.wrapping_add(self.pad).to_le_bytes()
    }

    /// The sum after one more block, whose bits above 128 are `top`.
    ///
    /// No digit overflows: before a block the bits above 128 are 6 at most; the factor's digits are below
    /// 2^60, and `folded` below 2^61.
    #[inline]
    fn next(&self, (low, high): (u128, u64), block: u128, top: u64) -> (u128, u64) {
        let (low, carry) = low.overflowing_add(block);
        let high = high + top + u64::from(carry);
        let [first, second] = [low as u64, (low >> 64) as u64];
        let [r0, r1] = self.factor;
        let ones = wide(first, r0) + wide(second, self.folded);
        let middle =
            wide(first, r1) + wide(second, r0) + u128::from(high * self.folded) + (ones >> 64);
        let high = high * r0 + (middle >> 64) as u64;
        let low = u128::from(ones as u64) | (middle << 64);
        // What is worth 2^130 counts five times: four times as the bits that lie above 2 anyway.
        let (low, carry) = low.overflowing_add(u128::from((high >> 2) + (high & !3)));
        (low, (high & 3) + u64::from(carry))
    }
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        self.factor.zeroize();
        self.folded.zeroize();
        self.low.zeroize();
        self.high.zeroize();
        self.pad.zeroize();
    }
}

#[inline]
fn wide(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// Up to 16 bytes as a number.
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use poly1305::Poly1305;
    use poly1305::universal_hash::KeyInit as _;
    use proptest::prelude::*;

    use super::*;

    fn agrees(key: &[u8; 32], message: &[u8]) -> [u8; BLOCK] {
        let expected: [u8; BLOCK] = Poly1305::new(key.into()).compute_unpadded(message).into();
        assert_eq!(Authenticator::new(key).finish(message), expected, "{key:?} {message:?}");
        // In two parts.
        let mut parts = Authenticator::new(key);
        let (first, second) = message.split_at(message.len() / 32 * BLOCK);
        assert!(parts.blocks(first).is_empty());
        assert_eq!(parts.finish(second), expected);
        expected
    }

    /// RFC 8439, section 2.5.2.
    #[test]
    fn the_example_of_the_standard() {
        let key = hex::decode("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b");
        let key = <[u8; 32]>::try_from(key.unwrap()).unwrap();
        let tag = agrees(&key, b"Cryptographic Forum Research Group");
        assert_eq!(hex::encode(tag), "a8061dc1305136c6c22b8baf0c0127a9");
    }

    #[test]
    fn sums_at_the_edges_of_the_digits() {
        let edges = [0x00, 0x01, 0x02, 0x04, 0xfb, 0xfc, 0xfe, 0xff];
        for r in [0x00, 0x01, 0x02, 0x04, 0xff] {
            for r_rest in [0x00, 0xff] {
                let mut key = [r_rest; 32];
                key[0] = r;
                for pad in [0x00, 0xff] {
                    key[BLOCK..].fill(pad);
                    for first in edges {
                        for rest in [0x00, 0xff] {
                            for length in [1, 15, 16, 17, 31, 32, 48, 64, 80] {
                                let mut message = vec![rest; length];
                                message[0] = first;
                                if length > BLOCK {
                                    message[BLOCK] = first;
                                }
                                agrees(&key, &message);
                            }
                        }
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_key_and_message(
            key in any::<[u8; 32]>(),
            message in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..300),
        ) {
            agrees(&key, &message);
        }
    }
}
