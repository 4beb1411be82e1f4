//! Invalid bytes and messages.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use weft_wire::Message;
use weft_wire::frame::{HEAD_LEN, MAGIC, encode};
use weft_wire::hello::Hello;

/// A frame's head with these figures.
fn head(content_type: i32, headers: u32, body: u32) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&content_type.to_le_bytes());
    head.extend_from_slice(&7_i32.to_le_bytes());
    head.extend_from_slice(&headers.to_le_bytes());
    head.extend_from_slice(&body.to_le_bytes());
    head
}

/// Invalid frames, each with a part of its log message.
pub(super) fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let mut too_long_entry = head(60786, 12, 0);
    too_long_entry.extend_from_slice(&1_i32.to_le_bytes());
    too_long_entry.extend_from_slice(&u32::MAX.to_le_bytes());
    too_long_entry.extend_from_slice(&[1; 4]);
    let mut cut_entry = head(60786, 3, 0);
    cut_entry.extend_from_slice(&[1, 2, 3]);
    vec![
        ("frame starts with", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("frame starts with", vec![0xff; 4096]),
        ("bytes of headers announced", head(60786, u32::MAX, 0)),
        ("bytes announced", head(60786, 0, u32::MAX)),
        ("does not fit", too_long_entry),
        ("does not fit", cut_entry),
    ]
}

/// Invalid hellos, each with a part of its log message.
pub(super) fn hellos(hello: &Hello) -> Vec<(&'static str, Vec<u8>)> {
    let mut other = hello.to_message();
    other.content_type = 4711;
    let mut cut = encode(&hello.to_message());
    cut.truncate(HEAD_LEN + 3);
    let long = Hello { token: "x".repeat(4193), ..hello.clone() };
    let mut crowded = hello.clone();
    for key in 5000..7000 {
        crowded.headers.set(key, &[0; 16]);
    }
    let mut all = frames();
    all.extend([
        ("content type", encode(&other)),
        ("during the hello", cut),
        ("bytes announced", encode(&long.to_message())),
        ("bytes of headers announced", encode(&crowded.to_message())),
    ]);
    all
}

/// Random changes of a valid beginning, the same in every run.
pub(super) struct Noise(StdRng);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(super) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.0.random_range(1..most)];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// Bytes that begin like valid ones, or nearly.
    pub(super) fn like(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..self.0.random_range(1..8) {
            let at = self.0.random_range(0..bytes.len());
            bytes[at] = self.0.random();
        }
        if self.0.random_bool(0.3) {
            bytes.truncate(self.0.random_range(1..=bytes.len()));
        }
        if self.0.random_bool(0.3) {
            bytes.extend(self.bytes(600));
        }
        bytes
    }

    /// A complete frame of one of these types with random headers, some of them of these keys, and
    /// a random body.
    pub(super) fn message(&mut self, types: &[i32], keys: &[i32]) -> Message {
        let body = if self.0.random_bool(0.8) { self.bytes(400) } else { Vec::new() };
        let mut message = Message::new(*types.choose(&mut self.0).unwrap(), body);
        for _ in 0..self.0.random_range(0..6) {
            let key = *keys.choose(&mut self.0).unwrap();
            let length = *[0, 1, 2, 4, 4, 4, 8, 20].choose(&mut self.0).unwrap();
            let mut value = vec![0; length];
            // Small numbers are more interesting.
            if self.0.random_bool(0.5) {
                self.0.fill_bytes(&mut value);
            } else if let Some(first) = value.first_mut() {
                *first = self.0.random_range(0..4);
            }
            message.headers.set(key, &value);
        }
        message
    }
}
