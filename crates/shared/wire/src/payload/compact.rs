//! The compact form of a payload, which a datagram link carries in place of a frame
//! (docs/protocol/data-plane.md 7.5).

use bytes::Bytes;

use super::{Flags, content_type, header, read_varint, write_varint};
use crate::headers::Headers;
use crate::message::{Message, header as channel};

/// A frame begins with an odd byte, the compact form with an even one.
const FRAME: u8 = 0x01;
const VERSION_MASK: u8 = 0x06;
const VERSION_1: u8 = 0x02;
const TERMINATOR: u8 = 0x08;
const RTT: u8 = 0x10;
const CHUNK: u8 = 0x20;
const HEADERS: u8 = 0x40;
const HEARTBEAT: u8 = 0x80;
/// Longest circuit id that the compact form has room for, in bytes.
const MAX_ID: usize = 15;
/// Length of a heartbeat, in bytes.
const BEAT: usize = 8;

/// True if a datagram is a frame, not the compact form.
pub fn is_frame(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & FRAME != 0)
}

/// The payload in a datagram as a message; `None` if it is malformed, or of another version.
pub fn read_compact(datagram: &Bytes) -> Option<Message> {
    let [marks, sizes, rest @ ..] = &**datagram else { return None };
    if marks & FRAME != 0 || marks & VERSION_MASK != VERSION_1 {
        return None;
    }
    let mut rest = rest;
    let mut headers = Headers::default();
    let stamp =
        (marks & RTT != 0).then(|| rest.split_off(..2)).map_or(Some(None), |at| at.map(Some));
    if let Some(stamp) = stamp? {
        headers.set(header::RTT, stamp);
    }
    if marks & HEARTBEAT != 0 {
        let beat = rest.split_off(rest.len().checked_sub(BEAT)?..)?;
        let beat = u64::from_be_bytes(beat.try_into().ok()?);
        headers.set(channel::HEARTBEAT, &beat.to_le_bytes());
    }
    let id = rest.split_off(..usize::from(sizes & 0x0f))?;
    std::str::from_utf8(id).ok()?;
    headers.set(header::CIRCUIT_ID, id);
    let sequence = read_varint(&mut rest)?;
    headers.set(header::SEQUENCE, &sequence.to_le_bytes());
    if marks & HEADERS != 0 {
        for _ in 0..read_varint(&mut rest)? {
            let key = rest.split_off_first()?;
            let length = usize::try_from(read_varint(&mut rest)?).ok()?;
            headers.set(header::PAYLOAD_HEADER + i32::from(*key), rest.split_off(..length)?);
        }
    }
    let terminator = if marks & TERMINATOR != 0 { Flags::ORIGINATOR } else { Flags::NONE };
    let chunk = if marks & CHUNK != 0 { Flags::CHUNK } else { Flags::NONE };
    let flags = terminator | chunk;
    if flags != Flags::NONE {
        headers.set(header::FLAGS, &flags.0.to_le_bytes());
    }
    let mut message = Message::new(content_type::PAYLOAD, datagram.slice_ref(rest));
    message.headers = headers;
    Some(message)
}

/// The compact form of a message; `None` if it has none: it is no payload, or has a flag, a header or
/// a circuit id for which there is no room.
pub fn write_compact(message: &Message) -> Option<Vec<u8>> {
    if message.content_type != content_type::PAYLOAD {
        return None;
    }
    let (mut marks, mut id, mut sequence) = (VERSION_1, None, None);
    let (mut stamp, mut beat, mut headers) = (None, None, Vec::new());
    for (key, value) in &message.headers {
        match key {
            header::CIRCUIT_ID => id = Some(value),
            header::SEQUENCE => sequence = Some(u64::from_le_bytes(value.try_into().ok()?)),
            header::FLAGS => {
                let flags = Flags(u32::from_le_bytes(value.try_into().ok()?));
                if flags.without(Flags::ORIGINATOR | Flags::CHUNK) != Flags::NONE {
                    return None;
                }
                marks |= if flags.has(Flags::ORIGINATOR) { TERMINATOR } else { 0 };
                marks |= if flags.has(Flags::CHUNK) { CHUNK } else { 0 };
            }
            header::RTT => stamp = Some(<[u8; 2]>::try_from(value).ok()?),
            channel::HEARTBEAT => beat = Some(u64::from_le_bytes(value.try_into().ok()?)),
            _ => {
                headers.push((u8::try_from(key.checked_sub(header::PAYLOAD_HEADER)?).ok()?, value))
            }
        }
    }
    let (id, sequence) = (id.filter(|id| id.len() <= MAX_ID)?, sequence?);
    marks |= if stamp.is_some() { RTT } else { 0 };
    marks |= if headers.is_empty() { 0 } else { HEADERS };
    marks |= if beat.is_some() { HEARTBEAT } else { 0 };
    let mut out = vec![marks, id.len() as u8];
    out.extend(stamp.iter().flatten());
    out.extend_from_slice(id);
    write_varint(sequence, &mut out);
    if !headers.is_empty() {
        write_varint(headers.len() as u64, &mut out);
        for (key, value) in headers {
            out.push(key);
            write_varint(value.len() as u64, &mut out);
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(&message.body);
    out.extend(beat.map(u64::to_be_bytes).iter().flatten());
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload(id: &str, flags: u32, body: &[u8]) -> Message {
        let mut message = Message::new(content_type::PAYLOAD, body.to_vec());
        message.headers.set(header::CIRCUIT_ID, id.as_bytes());
        message.headers.set(header::SEQUENCE, &300u64.to_le_bytes());
        if flags > 0 {
            message.headers.set(header::FLAGS, &flags.to_le_bytes());
        }
        message
    }

    /// The expected bytes were written by hand from the table in docs/protocol/data-plane.md 7.5.
    #[test]
    fn the_bytes_are_those_of_the_page() {
        let mut message = payload("abc", 2 | 8, b"data");
        message.headers.set(header::RTT, &[0x34, 0x12]);
        message.headers.set(header::PAYLOAD_HEADER + 0x10, &[1, 0, 0, 0]);
        message.headers.set(channel::HEARTBEAT, &1u64.to_le_bytes());
        let bytes = write_compact(&message).unwrap();
        let begin: Vec<u8> = [
            &[0xfa, 3, 0x34, 0x12][..],
            b"abc",
            &[0xac, 0x02, 1, 0x10, 4, 1, 0, 0, 0],
            b"data",
            &[0, 0, 0, 0, 0, 0, 0, 1],
        ]
        .concat();
        assert_eq!(bytes, begin);
        assert!(!is_frame(&bytes) && is_frame(&crate::frame::MAGIC));
        let read = read_compact(&bytes.into()).unwrap();
        assert_eq!(read.body, message.body);
        for (key, value) in &message.headers {
            assert_eq!(read.headers.get(key), Some(value), "{key}");
        }
        assert_eq!(read.headers.iter().count(), message.headers.iter().count());
    }

    #[test]
    fn what_has_no_compact_form_is_told() {
        assert!(write_compact(&payload("123456789012345", 0, b"")).is_some());
        assert_eq!(write_compact(&payload("1234567890123456", 0, b"")), None, "a long id");
        for flag in [1, 4, 16, 32, 64] {
            assert_eq!(write_compact(&payload("a", flag, b"")), None, "flag {flag}");
        }
        let mut answer = payload("a", 0, b"");
        answer.headers.set(channel::HEARTBEAT_RESPONSE, &1u64.to_le_bytes());
        assert_eq!(write_compact(&answer), None, "an answer to a heartbeat");
        assert_eq!(write_compact(&Message::new(content_type::ACK, "")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let bytes = Bytes::from(bytes);
            if let Some(message) = read_compact(&bytes) {
                let again = write_compact(&message).unwrap();
                let read = read_compact(&again.into()).unwrap();
                prop_assert_eq!(&read.body, &message.body);
                prop_assert_eq!(read.headers.iter().count(), message.headers.iter().count());
            }
        }
    }
}
