//! A byte stream in any pieces: the decoder returns the same whole frames as of the stream in one piece.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::{Arbitrary as _, Unstructured};
use weft_wire::frame::{Decoder, MAGIC, encode};
use weft_wire::{FrameError, FrameLimits, Message};

const LIMITS: FrameLimits = FrameLimits::new(4096, 65536);

fn decode(bytes: &[u8], piece: usize) -> (Vec<Message>, Option<FrameError>) {
    let mut decoder = Decoder::new(LIMITS);
    let mut messages = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while !piece.is_empty() {
            match decoder.decode(&mut piece) {
                Ok(message) => messages.extend(message),
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}

/// A frame whose announced lengths are those of its parts.
fn frame(content_type: i32, headers: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for number in [content_type, 7, headers.len() as i32, body.len() as i32] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    [&bytes, headers, body].concat()
}

/// The length of the pieces, the parts of whole frames, and bytes after them.
type Input = (u8, Vec<(i32, Vec<u8>, Vec<u8>)>, Vec<u8>);

fn target(bytes: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let (piece, parts, rest) = input;
    let whole = parts.iter().map(|(kind, headers, body)| frame(*kind, headers, body));
    let bytes = [whole.collect::<Vec<_>>().concat(), rest].concat();
    let (messages, error) = decode(&bytes, usize::from(piece) + 1);
    assert_eq!((messages.clone(), error), decode(&bytes, bytes.len().max(1)));
    for message in messages {
        let again = encode(&message);
        assert_eq!(decode(&again, again.len()), (vec![message.clone()], None));
        for (key, _) in &message.headers {
            let _ = message.headers.get_string_list(key);
            let _ = message.headers.get_u32_map(key);
            let _ = message.headers.get_string_map(key);
        }
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
