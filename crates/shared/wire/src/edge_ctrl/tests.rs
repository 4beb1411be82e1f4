mod messages;
mod model;

use proptest::prelude::*;

use super::*;
use crate::frame::{Decoder, FrameLimits, encode};
use crate::{Message, PeerData, ProtoBody};

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap()
}

fn decode(bytes: &[u8]) -> Message {
    let mut input = bytes;
    let message = Decoder::new(FrameLimits::MESSAGES).decode(&mut input).unwrap().unwrap();
    assert!(input.is_empty());
    message
}

fn request(sequence: i32) -> Message {
    Message { sequence, ..Message::default() }
}

/// Same content in any header order.
fn assert_same(built: &Message, wire: &Message) {
    assert_eq!(encode(built).len(), encode(wire).len());
    assert_eq!((built.content_type, &built.body), (wire.content_type, &wire.body));
    for (key, value) in &built.headers {
        assert_eq!(wire.headers.get(key), Some(value), "header {key}");
    }
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn peer_data() -> impl Strategy<Value = PeerData> {
    let value = prop::collection::vec(any::<u8>(), 0..20).prop_map(Into::into);
    prop::collection::btree_map(any::<u32>(), value, 0..5)
}

/// Encodes a value into a frame and checks that decoding gives the same value.
fn round_trip<T: ProtoBody>(value: &T) -> Result<(), TestCaseError> {
    let message = decode(&encode(&value.to_message()));
    prop_assert_eq!(&T::from_message(&message).unwrap(), value);
    Ok(())
}
