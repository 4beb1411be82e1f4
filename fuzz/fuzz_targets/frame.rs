//! A byte stream in any pieces: frames come out whole, the same ones as in one piece.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::frame::{Decoder, encode};
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

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (piece, bytes) = input;
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
});
