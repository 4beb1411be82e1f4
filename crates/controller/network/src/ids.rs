//! The ids of circuits, and the addresses of their ends.

use sha2::{Digest as _, Sha256};

/// Digits of circuit ids and addresses.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Length of the tag of a controller, with which the ids of its circuits begin, and of the tag of its run, which comes next,
/// in characters.
pub(crate) const TAG: usize = 4;

/// The tag with which the ids of the circuits of a controller begin.
pub(crate) fn tag(controller: &str) -> String {
    let digest = Sha256::digest(controller);
    let number = digest.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    // The first digit of a number is always small.
    base62(number).chars().rev().take(TAG).collect()
}

/// A number in base 62, with 22 digits.
pub(crate) fn base62(mut number: u128) -> String {
    let mut digits = [b'0'; 22];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(number % 62) as usize];
        number /= 62;
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_digits_and_letters() {
        assert_eq!(base62(0), "0".repeat(22));
        assert_eq!(base62(61), format!("{}z", "0".repeat(21)));
        assert_eq!(base62(u128::MAX), "7n42DGM5Tflk9n8mt7Fhc7");
    }
}
