//! The authenticator Poly1305 (RFC 8439, section 2.5) of aws-lc, by itself.
//!
//! ```text
//!   key, 32 bytes ----\
//!   part, part, ... ---+--> aws-lc --> 16 bytes
//! ```
//!
//! `aws-lc-rs` offers it as a part of ChaCha20-Poly1305 alone, which pads messages in another way than
//! the streams of libsodium do (docs/protocol/sdk.md 14.3). Libraries in Rust spend 2 to 3 us on
//! preparations for each message, longer than a network packet takes.
//!
//! ```
//! let key = [7; 32];
//! let whole = weft_unsafe_poly1305::authenticate(&key, &[b"one message"]);
//! assert_eq!(weft_unsafe_poly1305::authenticate(&key, &[b"one ", b"message"]), whole);
//! ```

use std::mem::MaybeUninit;

use aws_lc_sys::{
    CRYPTO_poly1305_finish, CRYPTO_poly1305_init, CRYPTO_poly1305_update, OPENSSL_cleanse,
    poly1305_state,
};

/// The authenticator of a message that comes in parts. A key is for one message only.
#[must_use]
#[expect(unsafe_code, reason = "aws-lc-rs does not offer the authenticator by itself")]
pub fn authenticate(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    let mut state = MaybeUninit::<poly1305_state>::uninit();
    let mut mac = [0; 16];
    let at = state.as_mut_ptr();
    // SAFETY: the state stays in its place until the last call, because the library finds an aligned
    // place within it by its address; `poly1305_state` has the library's size for that. `init` writes
    // the state before the other functions read it, and reads the 32 bytes of the key. `update` reads
    // as many bytes as the slice has; the pointer of an empty slice is not followed, as its length is
    // 0. `finish` writes 16 bytes, and the state is not used after it. `cleanse` overwrites the 512
    // bytes of the state, which depend on the key. None of them keeps a pointer.
    unsafe {
        CRYPTO_poly1305_init(at, key.as_ptr());
        for part in parts {
            CRYPTO_poly1305_update(at, part.as_ptr(), part.len());
        }
        CRYPTO_poly1305_finish(at, mac.as_mut_ptr());
        OPENSSL_cleanse(at.cast(), size_of::<poly1305_state>());
    }
    mac
}

#[cfg(test)]
mod tests {
    use poly1305::Poly1305;
    use poly1305::universal_hash::KeyInit as _;
    use proptest::prelude::*;

    use super::*;

    /// RFC 8439, section 2.5.2.
    #[test]
    fn the_example_of_the_standard() {
        let key = hex::decode("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b");
        let key = <[u8; 32]>::try_from(key.unwrap()).unwrap();
        let mac = authenticate(&key, &[b"Cryptographic Forum", b"", b" Research Group"]);
        assert_eq!(hex::encode(mac), "a8061dc1305136c6c22b8baf0c0127a9");
        assert_eq!(authenticate(&key, &[]), authenticate(&key, &[b""]));
    }

    proptest! {
        #[test]
        fn any_key_and_message_in_any_parts(
            key in any::<[u8; 32]>(),
            message in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..1000),
            cuts in proptest::collection::vec(0..1000usize, 0..4),
        ) {
            let expected: [u8; 16] = Poly1305::new((&key).into()).compute_unpadded(&message).into();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (message.len() + 1)).collect();
            cuts.extend([0, message.len()]);
            cuts.sort_unstable();
            let parts: Vec<_> = cuts.windows(2).map(|pair| &message[pair[0]..pair[1]]).collect();
            prop_assert_eq!(authenticate(&key, &parts), expected);
        }
    }
}
