use dryoc::classic::crypto_secretstream_xchacha20poly1305 as reference;
use proptest::prelude::*;

use super::*;

fn key() -> SessionKey {
    SessionKey::from(std::array::from_fn(|i| i as u8 ^ 0x5a))
}

fn header() -> Header {
    Header::from(std::array::from_fn(|i| 0x40 + i as u8))
}

/// As in docs/protocol/sdk.md 17, vector E2.
#[test]
fn agrees_with_libsodium() {
    let key = hex::decode("17821f6861b0f9ac897981c01cca46b711a0afd09010d3694895333903865af2");
    let key = SessionKey::from(<[u8; 32]>::try_from(key.unwrap()).unwrap());
    let mut sealer = Sealer::with_header(&key, &header());
    let hello = sealer.seal(b"hello", Tag::Message).unwrap();
    let world = sealer.seal(b"world", Tag::Message).unwrap();
    assert_eq!(hex::encode(&hello), "0eb6e6b7ce7cff9e3114cc8f759a5c89aab46b29356a");
    assert_eq!(hex::encode(&world), "7551bc8ac2d06c517156a6f3e1eee691185f2ebd5ec5");

    let mut opener = Opener::new(&key, &header());
    assert_eq!(opener.open(&hello).unwrap().plaintext, &b"hello"[..]);
    assert_eq!(opener.open(&world).unwrap().plaintext, &b"world"[..]);
}

/// The reference: another library's secretstream.
struct Reference(reference::State);

impl Reference {
    fn new() -> Self {
        let mut state = reference::State::new();
        reference::crypto_secretstream_xchacha20poly1305_init_pull(
            &mut state,
            header().as_bytes(),
            key().as_bytes(),
        );
        Self(state)
    }

    fn seal(&mut self, message: &[u8], tag: u8) -> Vec<u8> {
        let mut sealed = vec![0; message.len() + OVERHEAD];
        reference::crypto_secretstream_xchacha20poly1305_push(
            &mut self.0,
            &mut sealed,
            message,
            None,
            tag,
        )
        .unwrap();
        sealed
    }
}

#[test]
fn every_length_seals_as_the_reference_does() {
    let mut sealer = Sealer::with_header(&key(), &header());
    let mut opener = Opener::new(&key(), &header());
    let mut reference = Reference::new();
    let message: Vec<u8> = (0..4096u32).map(|i| (i * 7 % 253) as u8).collect();
    for length in (0..=640).chain([1_400, 1_403, 4_095, 4_096]) {
        let sealed = sealer.seal(&message[..length], Tag::Message).unwrap();
        assert_eq!(sealed, reference.seal(&message[..length], 0), "length {length}");
        assert_eq!(opener.open(&sealed).unwrap().plaintext, &message[..length]);
    }
}

#[test]
fn a_wrapped_counter_changes_the_key() {
    let mut counter = [0xfe, 0xff, 0xff, 0xff];
    assert!(!increment(&mut counter));
    assert!(increment(&mut counter));
    let mut state = State::new(&key(), &header());
    let before = state.key.clone();
    state.nonce[..COUNTER].fill(0xff);
    state.advance(&[0; MAC], 0);
    assert_ne!(*state.key, *before);
    assert_eq!(state.nonce[..COUNTER], FIRST_COUNTER);
}

#[test]
fn what_is_changed_replayed_or_too_short_does_not_open() {
    for length in [5, 16] {
        let mut sealer = Sealer::with_header(&key(), &header());
        let sealed = sealer.seal(&vec![9; length], Tag::Message).unwrap();
        let mut opener = Opener::new(&key(), &header());
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert_eq!(opener.open(&changed), Err(Error::Forged), "byte {at}");
        }
        opener.open(&sealed).unwrap();
        assert_eq!(opener.open(&sealed), Err(Error::Forged), "replayed");
        assert_eq!(opener.open(&sealed[..16]), Err(Error::TooShort(16)));
        assert_eq!(opener.open(&[]), Err(Error::TooShort(0)));
    }
    assert_eq!(Header::try_from(&[0u8; 25][..]), Err(Error::HeaderLength(25)));
}

proptest! {
    #[test]
    fn streams_agree_with_the_reference_over_changes_of_keys(
        messages in prop::collection::vec((0u8..6, prop::collection::vec(any::<u8>(), 0..600)), 1..20)
    ) {
        let mut sealer = Sealer::with_header(&key(), &header());
        let mut opener = Opener::new(&key(), &header());
        let mut reference = Reference::new();
        for (tag, message) in messages {
            // The reference changes keys for tags with the rekey bit, as libsodium does.
            let sealed = sealer.seal(&message, Tag::from_byte(tag)).unwrap();
            prop_assert_eq!(&sealed[..], &reference.seal(&message, tag)[..]);
            let opened = opener.open(&sealed).unwrap();
            prop_assert_eq!(&opened.plaintext[..], &message[..]);
            prop_assert_eq!(opened.tag, Tag::from_byte(tag));
        }
    }

    #[test]
    fn nothing_that_arrives_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut opener = Opener::new(&key(), &header());
        prop_assert!(opener.open(&bytes).is_err());
    }
}
