use proptest::prelude::*;

use super::*;
use crate::edge_ctrl::content_type;
use crate::{ctrl, edge};

fn decode_all(bytes: &[u8], chunk: usize, limits: FrameLimits) -> Result<Vec<Message>, FrameError> {
    let mut decoder = Decoder::new(limits);
    let mut messages = Vec::new();
    for mut piece in bytes.chunks(chunk.max(1)) {
        while !piece.is_empty() {
            messages.extend(decoder.decode(&mut piece)?);
        }
    }
    Ok(messages)
}

#[test]
fn an_empty_message_is_twenty_bytes() {
    let message = Message::new(1039, "");
    let bytes = encode(&message);
    assert_eq!(bytes.len(), HEAD_LEN);
    assert_eq!(decode_all(&bytes, 1, FrameLimits::MESSAGES).unwrap(), [message]);
}

#[test]
fn probe_and_heartbeat_vectors() {
    // docs/protocol/channel.md 17, V4, V6 and V7
    for (content_type, sequence, key, value, hex) in [
        (
            3,
            2,
            128,
            0x0000_018f_0000_0001,
            "0306090c030000000200000010000000000000008000000008000000010000008f010000",
        ),
        (
            5,
            9,
            5,
            1_700_000_000_000_000_000,
            "0306090c05000000090000001000000000000000050000000800000000002a36fe9c9717",
        ),
        (
            5,
            12,
            6,
            1_700_000_000_000_000_000,
            "0306090c050000000c0000001000000000000000060000000800000000002a36fe9c9717",
        ),
    ] {
        let mut message = Message { sequence, ..Message::new(content_type, "") };
        message.headers.set_u64(key, value);
        assert_eq!(hex::encode(encode(&message)), hex);
    }
}

#[test]
fn a_wrong_magic_is_refused_after_four_bytes() {
    let mut decoder = Decoder::new(FrameLimits::HELLO);
    assert_eq!(decoder.decode(&mut &b"GET"[..]), Ok(None));
    let error = decoder.decode(&mut &b" /"[..]).unwrap_err();
    assert_eq!(error, FrameError::Magic { found: *b"GET " });
    assert_eq!(decoder.decode(&mut &[3, 6][..]), Err(error));
}

#[test]
fn lengths_are_checked_before_the_content_arrives() {
    let mut message = Message::new(0, vec![0; 4193]);
    let head = &encode(&message)[..HEAD_LEN];
    assert_eq!(
        decode_all(head, 20, FrameLimits::HELLO),
        Err(FrameError::BodyTooLong { length: 4193, limit: 4192 })
    );
    message.body = Bytes::new();
    message.headers.set(1, &vec![0; 16384]);
    let head = &encode(&message)[..HEAD_LEN];
    assert_eq!(
        decode_all(head, 20, FrameLimits::HELLO),
        Err(FrameError::HeadersTooLong { length: 16392, limit: 16384 })
    );
}

#[test]
fn only_the_whole_model_may_be_long() {
    let announce = |content_type: i32, length: u32| {
        let mut head = encode(&Message::new(content_type, ""));
        head[16..20].copy_from_slice(&length.to_le_bytes());
        decode_all(&head, HEAD_LEN, FrameLimits::MODEL)
    };
    let (long, usual) = (FrameLimits::MODEL_BODY, FrameLimits::MESSAGES.body);
    for (content_type, limit) in [
        (content_type::DATA_STATE, long),
        (content_type::VALIDATE_DATA_STATE_REQUEST, long),
        (content_type::DATA_STATE_CHANGE_SET, usual),
        (content_type::API_SESSION_ADDED, usual),
        (1005, usual),
        (-1, usual),
    ] {
        assert_eq!(announce(content_type, limit), Ok(Vec::new()), "{content_type}");
        let length = limit + 1;
        let refused = Err(FrameError::BodyTooLong { length, limit });
        assert_eq!(announce(content_type, length), refused, "{content_type}");
    }
}

#[test]
fn headers_that_do_not_fill_their_section_are_refused() {
    let mut bytes = encode(&Message::new(9, ""));
    bytes[12] = 7;
    bytes.extend_from_slice(&[0; 7]);
    assert_eq!(
        decode_all(&bytes, 64, FrameLimits::MESSAGES),
        Err(FrameError::HeaderEntry { offset: 0, length: 7 })
    );
}

#[test]
fn a_huge_announcement_reserves_little() {
    let mut head = encode(&Message::new(9, ""));
    head[16..20].copy_from_slice(&(60 * 1024 * 1024u32).to_le_bytes());
    let mut decoder = Decoder::new(FrameLimits::MESSAGES);
    assert_eq!(decoder.decode(&mut &head[..]), Ok(None));
    let State::Content { body, .. } = &decoder.state else { panic!("no content") };
    assert!(body.capacity() <= EAGER);
    assert_eq!(decoder.missing(), 60 * 1024 * 1024);
}

fn message() -> impl Strategy<Value = Message> {
    let headers =
        prop::collection::btree_map(any::<i32>(), prop::collection::vec(any::<u8>(), 0..20), 0..6);
    let body = prop::collection::vec(any::<u8>(), 0..300);
    (any::<i32>(), any::<i32>(), headers, body).prop_map(|(content_type, sequence, map, body)| {
        let mut headers = Headers::new();
        for (key, value) in map {
            headers.set(key, &value);
        }
        Message { content_type, sequence, headers, body: body.into() }
    })
}

proptest! {
    #[test]
    fn round_trip_in_any_pieces(
        messages in prop::collection::vec(message(), 0..6),
        chunk in 1usize..200,
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        prop_assert_eq!(decode_all(&bytes, chunk, FrameLimits::MESSAGES), Ok(messages));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), chunk in 1usize..50) {
        let _ = decode_all(&bytes, chunk, FrameLimits::MESSAGES);
        let mut framed = MAGIC.to_vec();
        framed.extend_from_slice(&bytes);
        let _ = decode_all(&framed, chunk, FrameLimits::new(200, 200));
    }
}

#[test]
fn who_is_not_judged_sends_64_kib_at_most() {
    let limits = FrameLimits::UNJUDGED;
    assert_eq!(limits.headers + limits.body, 64 * 1024);
    assert!(limits.longer.is_empty());
}

#[test]
fn only_what_has_to_be_long_may_be() {
    let (sdk, router) = (FrameLimits::FROM_SDK, FrameLimits::FROM_ROUTER);
    assert_eq!(sdk.body_of(edge::content_type::DATA), FrameLimits::MESSAGES.body);
    assert_eq!(sdk.body_of(edge::content_type::CONNECT), 256 * 1024);
    assert_eq!(router.body_of(ctrl::content_type::ROUTE_RESULT), 1024 * 1024);
    assert!(router.body_of(ctrl::content_type::ROUTER_LINKS) > 1024 * 1024);
    let mut decoder = Decoder::new(sdk);
    let mut long = encode(&Message::new(edge::content_type::CONNECT, ""));
    long[16..20].copy_from_slice(&(256_u32 * 1024 + 1).to_le_bytes());
    let error = decoder.decode(&mut &long[..]).unwrap_err();
    assert!(matches!(error, FrameError::BodyTooLong { .. }));
    assert_eq!(decoder.held(), 0);
}
