//! Messages in datagrams: a frame each, or a payload in its compact form.

use bytes::Bytes;
use weft_wire::frame::{self, HEAD_LEN, MAGIC};
use weft_wire::payload::{is_frame, read_compact, write_compact};

/// Longest message in a datagram, in bytes; receivers drop a longer one.
pub const MAX_MESSAGE: usize = 2000;

/// The frame in the data of a datagram; `None` if it is none, or not whole.
pub(super) fn unpack(data: Vec<u8>) -> Option<Bytes> {
    if data.len() > MAX_MESSAGE {
        return None;
    }
    let data = Bytes::from(data);
    if !is_frame(&data) {
        return read_compact(&data).map(|message| frame::encode(&message).into());
    }
    let length = frame_length(&data).filter(|length| *length <= data.len())?;
    Some(data.slice(..length))
}

/// The data of a datagram for a frame; `None` if it is too long.
pub(super) fn pack(frame: Vec<u8>, compact: bool) -> Option<Vec<u8>> {
    let packed = if compact { in_compact_form(&frame).unwrap_or(frame) } else { frame };
    (packed.len() <= MAX_MESSAGE).then_some(packed)
}

fn in_compact_form(frame: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = frame::Decoder::new(weft_wire::FrameLimits::MESSAGES);
    write_compact(&decoder.decode(&mut &*frame).ok()??)
}

/// The length of the frame that begins here.
pub(super) fn frame_length(bytes: &[u8]) -> Option<usize> {
    let head: &[u8; HEAD_LEN] = bytes.first_chunk()?;
    let length = |at: usize| {
        let field = head.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(field)).ok()
    };
    (head.starts_with(&MAGIC)).then_some(())?;
    HEAD_LEN.checked_add(length(12)?)?.checked_add(length(16)?)
}

#[cfg(test)]
mod tests {
    use weft_wire::Message;
    use weft_wire::payload::content_type::PAYLOAD;
    use weft_wire::payload::header;

    use super::*;

    fn payload(body: usize) -> Message {
        let mut message = Message::new(PAYLOAD, vec![7; body]);
        message.headers.set(header::CIRCUIT_ID, b"c1");
        message.headers.set(header::SEQUENCE, &5u64.to_le_bytes());
        message
    }

    #[test]
    fn a_message_comes_out_as_it_went_in_by_either_form() {
        for compact in [false, true] {
            let before = frame::encode(&payload(1000));
            let packed = pack(before.clone(), compact).unwrap();
            assert_eq!(packed.len() < before.len(), compact);
            let mut frame = &*unpack(packed).unwrap();
            let mut decoder = frame::Decoder::new(weft_wire::FrameLimits::MESSAGES);
            let message = decoder.decode(&mut frame).unwrap().unwrap();
            assert_eq!(message.body, payload(1000).body);
            assert_eq!(message.headers.get(header::CIRCUIT_ID), Some(&b"c1"[..]));
        }
    }

    #[test]
    fn what_is_no_whole_message_is_dropped() {
        let frame = frame::encode(&payload(1900));
        assert!(frame.len() <= MAX_MESSAGE);
        assert!(unpack(frame.clone()).is_some());
        assert_eq!(unpack(frame[..frame.len() - 1].to_vec()), None);
        assert_eq!(pack(frame::encode(&payload(2000)), false), None);
        assert_eq!(unpack(vec![2; 2001]), None);
        for bytes in [&[][..], &[3], &[1; 30], &[2], &[4, 0, 0], &MAGIC] {
            assert_eq!(unpack(bytes.to_vec()), None, "{bytes:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_data_is_a_whole_frame_or_dropped(
            mut data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120), framed: bool,
        ) {
            if framed {
                data.splice(0..0, MAGIC);
                if let Some(lengths) = data.get_mut(12..20) {
                    lengths.iter_mut().skip(1).for_each(|byte| *byte &= 0x01);
                }
            }
            if let Some(frame) = unpack(data) {
                proptest::prop_assert_eq!(frame_length(&frame), Some(frame.len()));
            }
        }
    }
}
