//! Frames: a stream of bytes to messages and back.
//!
//! ```text
//! 03 06 09 0c | content type i32 | sequence i32 | headers length u32 | body length u32 | headers | body
//! ```
//!
//! All numbers are little-endian (docs/protocol/channel.md 4). The [`Decoder`] takes slices of any
//! length and copies each message once, into buffers of its exact size; the announced lengths are
//! compared with [`FrameLimits`] before anything is allocated. The encoder writes the head and the
//! headers into the caller's buffer and leaves the body where it is, so that the caller can write both
//! without copying.

mod limits;

use bytes::Bytes;

use crate::error::FrameError;
use crate::headers::Headers;
pub use crate::message::HEAD_LEN;
use crate::message::Message;

/// The first bytes of every frame.
pub const MAGIC: [u8; 4] = [0x03, 0x06, 0x09, 0x0c];

/// A message up to this size, in bytes, gets its buffer at once. A larger one gets memory as its bytes
/// arrive, so that an announcement alone costs nothing.
const EAGER: usize = 256 * 1024;

/// Bytes of room for one more header of 4 bytes, which forwarded messages often get.
const SPARE: usize = 12;

/// The limits of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Most bytes of headers.
    pub headers: u32,
    /// Most bytes of body.
    pub body: u32,
    /// Content types whose bodies may be longer, with their limits.
    pub longer: &'static [(i32, u32)],
}

impl FrameLimits {
    /// Limits of a hello: what current peers accept (docs/protocol/channel.md 7.1).
    pub const HELLO: Self = Self::new(16384, 4192);
    /// Limits of everything after the hello (docs/protocol/channel.md 4).
    pub const MESSAGES: Self = Self::new(1024 * 1024, 64 * 1024 * 1024);
    /// Limits of a peer that is not judged yet: 64 KiB in all.
    pub const UNJUDGED: Self = Self::new(32 * 1024, 32 * 1024);

    /// The same limits for every content type.
    pub const fn new(headers: u32, body: u32) -> Self {
        Self { headers, body, longer: &[] }
    }

    /// Most bytes of body of this content type.
    pub fn body_of(&self, content_type: i32) -> u32 {
        let longer = self.longer.iter().find(|(of, _)| *of == content_type);
        longer.map_or(self.body, |(_, limit)| *limit)
    }
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self::MESSAGES
    }
}

/// Assembles messages from the slices of a byte stream.
///
/// After an error the stream has no more frames; every further call returns the same error.
#[derive(Debug)]
pub struct Decoder {
    limits: FrameLimits,
    state: State,
}

#[derive(Debug)]
enum State {
    Head { bytes: [u8; HEAD_LEN], filled: usize },
    Content { head: Head, headers: Vec<u8>, body: Vec<u8> },
    Broken(FrameError),
}

impl State {
    const START: Self = Self::Head { bytes: [0; HEAD_LEN], filled: 0 };
}

#[derive(Debug, Clone, Copy)]
struct Head {
    content_type: i32,
    sequence: i32,
    headers: usize,
    body: usize,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub const fn new(limits: FrameLimits) -> Self {
        Self { limits, state: State::START }
    }

    /// Changes the limits of later frames, for example after the hello.
    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Bytes of memory that the frame at hand takes up so far.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Content { headers, body, .. } => headers.capacity() + body.capacity(),
            State::Head { .. } | State::Broken(_) => 0,
        }
    }

    /// Bytes that the present frame still lacks. Before its head is complete, these are the bytes of
    /// the head.
    pub fn missing(&self) -> usize {
        match &self.state {
            State::Head { filled, .. } => HEAD_LEN - filled,
            State::Content { head, headers, body } => {
                (head.headers - headers.len()) + (head.body - body.len())
            }
            State::Broken(_) => 0,
        }
    }

    /// Takes bytes from the front of `input` until a message is complete or `input` is empty.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Message>, FrameError> {
        loop {
            match &mut self.state {
                State::Broken(error) => return Err(*error),
                State::Head { bytes, filled } => {
                    let Some(target) = bytes.get_mut(*filled..) else { return Ok(None) };
                    let taken = target.len().min(input.len());
                    let (head, rest) = input.split_at(taken);
                    target[..taken].copy_from_slice(head);
                    *input = rest;
                    *filled += taken;
                    let (bytes, filled) = (*bytes, *filled);
                    self.check_magic(&bytes, filled)?;
                    if filled < HEAD_LEN {
                        return Ok(None);
                    }
                    self.begin_content(&bytes)?;
                }
                State::Content { head, headers, body } => {
                    take(input, headers, head.headers);
                    if headers.len() == head.headers {
                        take(input, body, head.body);
                    }
                    if headers.len() < head.headers || body.len() < head.body {
                        return Ok(None);
                    }
                    return self.finish().map(Some);
                }
            }
        }
    }

    /// Refuses wrong first bytes as soon as they are there: a peer of another version sends fewer bytes
    /// than a whole head (docs/protocol/channel.md 6.3).
    fn check_magic(&mut self, bytes: &[u8; HEAD_LEN], filled: usize) -> Result<(), FrameError> {
        let seen = filled.min(MAGIC.len());
        if bytes[..seen] == MAGIC[..seen] || seen < MAGIC.len() {
            return Ok(());
        }
        let found = [bytes[0], bytes[1], bytes[2], bytes[3]];
        self.fail(FrameError::Magic { found })
    }

    fn begin_content(&mut self, bytes: &[u8; HEAD_LEN]) -> Result<(), FrameError> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (headers, body) = (word(12), word(16));
        if headers > self.limits.headers {
            let limit = self.limits.headers;
            return self.fail(FrameError::HeadersTooLong { length: headers, limit });
        }
        let content_type = word(4).cast_signed();
        let limit = self.limits.body_of(content_type);
        if body > limit {
            return self.fail(FrameError::BodyTooLong { length: body, limit });
        }
        let head = Head {
            content_type,
            sequence: word(8).cast_signed(),
            headers: headers as usize,
            body: body as usize,
        };
        self.state = State::Content {
            head,
            headers: Vec::with_capacity(head.headers.min(EAGER) + SPARE),
            body: Vec::with_capacity(head.body.min(EAGER)),
        };
        Ok(())
    }

    fn finish(&mut self) -> Result<Message, FrameError> {
        let State::Content { head, headers, body } =
            std::mem::replace(&mut self.state, State::START)
        else {
            return self.fail(FrameError::HeaderEntry { offset: 0, length: 0 });
        };
        match Headers::from_wire(headers) {
            Ok(headers) => Ok(Message {
                content_type: head.content_type,
                sequence: head.sequence,
                headers,
                body: Bytes::from(body),
            }),
            Err(error) => self.fail(error),
        }
    }

    fn fail<T>(&mut self, error: FrameError) -> Result<T, FrameError> {
        self.state = State::Broken(error);
        Err(error)
    }
}

/// Moves bytes from `input` to the end of `target` until it holds `wanted`.
fn take(input: &mut &[u8], target: &mut Vec<u8>, wanted: usize) {
    let taken = (wanted - target.len()).min(input.len());
    let (head, rest) = input.split_at(taken);
    target.extend_from_slice(head);
    *input = rest;
}

/// Appends the frame of `message` without its body to `out`: the fixed head, the headers, and `extra`
/// (whole header entries that the connection adds, such as heartbeats).
pub fn encode_head(message: &Message, sequence: i32, extra: &Headers, out: &mut Vec<u8>) {
    let headers = message.headers.wire_len() + extra.wire_len();
    out.reserve(HEAD_LEN + headers);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&message.content_type.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&(headers as u32).to_le_bytes());
    out.extend_from_slice(&(message.body.len() as u32).to_le_bytes());
    out.extend_from_slice(message.headers.as_wire());
    out.extend_from_slice(extra.as_wire());
}

/// The whole frame of `message` in one buffer, for hellos and tests.
pub fn encode(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.wire_len());
    encode_head(message, message.sequence, &Headers::new(), &mut out);
    out.extend_from_slice(&message.body);
    out
}

#[cfg(test)]
mod tests;
