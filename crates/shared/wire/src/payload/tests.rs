use proptest::prelude::*;

use super::*;
use crate::frame::{Decoder, FrameLimits, encode};

const CIRCUIT: &str = "4Q9dXq1aB";

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap()
}

fn decode(bytes: &[u8]) -> Message {
    let mut input = bytes;
    let message = Decoder::new(FrameLimits::MESSAGES).decode(&mut input).unwrap().unwrap();
    assert!(input.is_empty());
    message
}

/// Same content in any header order.
fn assert_same(built: &Message, wire: &Message) {
    assert_eq!(encode(built).len(), encode(wire).len());
    assert_eq!(built.body, wire.body);
    for (key, value) in &built.headers {
        assert_eq!(wire.headers.get(key), Some(value), "header {key}");
    }
}

#[test]
fn circuit_start() {
    // docs/protocol/data-plane.md 13
    let wire = decode(&hex("03 06 09 0c 4c 04 00 00 07 00 00 00 43 00 00 00 00 00 00 00
        d1 07 00 00 04 00 00 00 00 00 01 00
        d0 08 00 00 09 00 00 00 34 51 39 64 58 71 31 61 42
        d2 08 00 00 04 00 00 00 04 00 00 00
        d1 08 00 00 08 00 00 00 00 00 00 00 00 00 00 00
        d4 08 00 00 02 00 00 00 34 12"));
    let payload = Payload::from_message(&wire).unwrap();
    let expected = Payload {
        flags: Flags::CIRCUIT_START,
        stamp: 0x1234,
        headers: vec![Payload::capability_header(CAPABILITY_EOF)],
        ..Payload::default()
    };
    assert_eq!(payload, expected);
    assert_eq!(payload.capabilities(), Some(CAPABILITY_EOF));
    assert_eq!(PayloadView::of(&wire).unwrap().circuit_id, CIRCUIT);
    assert_same(&payload.into_message(CIRCUIT), &wire);
}

#[test]
fn data_and_its_ack() {
    // docs/protocol/data-plane.md 13
    let wire = decode(&hex("03 06 09 0c 4c 04 00 00 09 00 00 00 37 00 00 00 05 00 00 00
        d0 08 00 00 09 00 00 00 34 51 39 64 58 71 31 61 42
        d2 08 00 00 04 00 00 00 02 00 00 00
        d1 08 00 00 08 00 00 00 03 00 00 00 00 00 00 00
        d4 08 00 00 02 00 00 00 40 12
        68 65 6c 6c 6f"));
    let payload = Payload::from_message(&wire).unwrap();
    assert_eq!((payload.sequence, payload.flags, payload.stamp), (3, Flags::ORIGINATOR, 0x1240));
    assert_eq!((&payload.data[..], payload.is_fin()), (&b"hello"[..], false));
    assert_same(&payload.into_message(CIRCUIT), &wire);

    let wire = decode(&hex("03 06 09 0c 4d 04 00 00 05 00 00 00 27 00 00 00 04 00 00 00
        d4 08 00 00 02 00 00 00 40 12
        d0 08 00 00 09 00 00 00 34 51 39 64 58 71 31 61 42
        d3 08 00 00 04 00 00 00 05 00 00 00
        00 00 00 03"));
    let ack = Ack::from_message(&wire).unwrap();
    assert_eq!((ack.recv_buffer_size, &ack.sequences[..]), (5, &[3][..]));
    assert_same(&ack.into_message(CIRCUIT), &wire);
    let view = PayloadView::of(&wire).unwrap();
    assert_eq!((view.circuit_id, view.flags, view.strip), (CIRCUIT, Flags::NONE, false));
}

#[test]
fn traceroute() {
    // docs/protocol/data-plane.md 13
    let wire = decode(&hex("03 06 09 0c 4e 04 00 00 06 00 00 00 28 00 00 00 0a 00 00 00
        14 00 00 00 04 00 00 00 03 00 00 00
        17 00 00 00 08 00 00 00 00 00 2a 36 fe 9c 97 17
        18 00 00 00 04 00 00 00 0b 00 00 00
        01 34 51 39 64 58 71 31 61 42"));
    let control = CircuitControl::from_message(&wire).unwrap();
    let expected = CircuitControl {
        hop_count: Some(3),
        timestamp: Some(1_700_000_000_000_000_000),
        user_value: Some(11),
        ..CircuitControl::new(ControlKind::Traceroute, CIRCUIT)
    };
    assert_eq!(control, expected);
    assert_same(&control.to_message(), &wire);
    assert_eq!(PayloadView::of(&wire).unwrap().circuit_id, CIRCUIT);
}

#[test]
fn a_hop_answers_with_what_was_asked_and_its_own_name() {
    let mut asked = CircuitControl {
        hop_count: Some(3),
        timestamp: Some(7),
        user_value: Some(11),
        error: Some("of the asker".to_owned()),
        ..CircuitControl::new(ControlKind::Traceroute, CIRCUIT)
    };
    assert_eq!((asked.count_hop(), asked.count_hop()), (2, 1));
    let answer = asked.clone().answered_by(hop_type::FORWARDER, "r1");
    let expected = CircuitControl {
        hop_count: Some(1),
        hop_type: Some("forwarder".to_owned()),
        hop_id: Some("r1".to_owned()),
        timestamp: Some(7),
        user_value: Some(11),
        ..CircuitControl::new(ControlKind::TracerouteResponse, CIRCUIT)
    };
    assert_eq!(answer, expected);
    let message = answer.to_message();
    assert_eq!(ControlKind::of(&message), Some(ControlKind::TracerouteResponse));
    assert_eq!(CircuitControl::from_message(&message).unwrap(), answer);
    assert_eq!((asked.count_hop(), asked.count_hop()), (0, 0), "a count does not go below 0");
    asked.hop_count = None;
    assert_eq!(asked.count_hop(), 0);
}

#[test]
fn control_messages_are_short() {
    let named = |length| CircuitControl {
        hop_id: Some("x".repeat(length)),
        ..CircuitControl::new(ControlKind::TracerouteResponse, CIRCUIT)
    };
    assert!(PayloadView::of(&named(1000).to_message()).is_ok());
    let long = named(MAX_CONTROL_HEADERS).to_message();
    assert!(PayloadView::of(&long).is_err() && CircuitControl::from_message(&long).is_err());
}

#[test]
fn payload_and_ack_of_an_sdk() {
    // docs/protocol/sdk.md 17, F14 and F15
    let wire = decode(&hex("03 06 09 0c 4c 04 00 00 04 00 00 00 4a 00 00 00
        00 00 00 00 e8 03 00 00 04 00 00 00 01 00 00 00
        d0 08 00 00 04 00 00 00 63 72 63 31 d1 08 00 00
        08 00 00 00 00 00 00 00 00 00 00 00 d2 08 00 00
        04 00 00 00 04 00 00 00 d4 08 00 00 02 00 00 00
        34 12 d1 07 00 00 04 00 00 00 00 00 01 00"));
    let payload = Payload::from_message(&wire).unwrap();
    assert_eq!(PayloadView::of(&wire).unwrap().circuit_id, "crc1");
    assert!(payload.flags.has(Flags::CIRCUIT_START));
    assert_eq!(payload.capabilities(), Some(CAPABILITY_EOF));
    let mut built = payload.into_message("crc1");
    built.headers.set_u32(1000, 1);
    assert_same(&built, &wire);

    let wire = decode(&hex("03 06 09 0c 4d 04 00 00 0d 00 00 00 3a 00 00 00
        04 00 00 00 d4 08 00 00 02 00 00 00 34 12 d0 08
        00 00 04 00 00 00 63 72 63 31 d2 08 00 00 04 00
        00 00 02 00 00 00 d3 08 00 00 04 00 00 00 00 00
        00 00 e8 03 00 00 04 00 00 00 01 00 00 00 00 00
        00 00"));
    let ack = Ack::from_message(&wire).unwrap();
    assert_eq!((ack.flags, &ack.sequences[..], ack.stamp), (Flags::ORIGINATOR, &[0][..], 0x1234));
}

#[test]
fn what_cannot_be_forwarded_is_refused() {
    let mut message = Message::new(content_type::PAYLOAD, "x");
    assert!(PayloadView::of(&message).is_err());
    message.headers.set_str(header::CIRCUIT_ID, "c");
    assert!(PayloadView::of(&message).is_err());
    message.headers.set_u32(header::SEQUENCE, 1);
    assert!(PayloadView::of(&message).is_err());
    message.headers.set_u64(header::SEQUENCE, u64::MAX);
    assert_eq!(PayloadView::of(&message).unwrap().sequence, -1);
    message.headers.set(header::RAW, b"smuggled").set_u64(5, 1);
    assert!(PayloadView::of(&message).unwrap().strip);
    message.headers.remove_all(&NOT_FORWARDED);
    assert!(!PayloadView::of(&message).unwrap().strip);
    assert!(PayloadView::of(&Message::new(content_type::CONTROL, vec![1])).is_err());
    let odd = Message { body: Bytes::from_static(&[0; 5]), ..Message::new(1101, "") };
    assert!(sequences(&odd).is_err());
    assert!(sequences(&Message::new(1101, vec![0; 4 * MAX_ACK_SEQUENCES + 4])).is_err());
}

proptest! {
    #[test]
    fn payload_round_trip(
        sequence in any::<i32>(), flags in any::<u32>(), stamp in any::<u16>(),
        headers in prop::collection::btree_map(any::<u8>(), prop::collection::vec(any::<u8>(), 0..9), 0..4),
        data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let headers = headers.into_iter().map(|(k, v)| (k, Bytes::from(v))).collect();
        let payload =
            Payload { sequence, flags: Flags(flags), stamp, headers, data: data.into() };
        let message = decode(&encode(&payload.clone().into_message(CIRCUIT)));
        prop_assert_eq!(PayloadView::of(&message).unwrap().circuit_id, CIRCUIT);
        prop_assert_eq!(Payload::from_message(&message), Ok(payload));
    }

    #[test]
    fn ack_round_trip(
        sequences in prop::collection::vec(any::<i32>(), 0..40), flags in any::<u32>(),
        recv_buffer_size in any::<u32>(), stamp in any::<u16>(),
    ) {
        let ack = Ack { flags: Flags(flags), recv_buffer_size, stamp, sequences };
        let message = decode(&encode(&ack.clone().into_message(CIRCUIT)));
        prop_assert_eq!(PayloadView::of(&message).unwrap().circuit_id, CIRCUIT);
        prop_assert_eq!(Ack::from_message(&message), Ok(ack));
    }

    #[test]
    fn any_bytes_never_panic(
        content_type in 1100..1104i32,
        entries in prop::collection::vec(
            (prop::sample::select(vec![1, 5, 20, 22, 2000, 2001, 2016, 2256, 2257, 2258, 2259, 2260]),
             prop::collection::vec(any::<u8>(), 0..10)), 0..8),
        body in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut message = Message::new(content_type, body);
        for (key, value) in entries {
            message.headers.set(key, &value);
        }
        let _ = PayloadView::of(&message);
        if let Ok(payload) = Payload::from_message(&message) {
            let _ = (payload.capabilities(), payload.edge_flags());
        }
        let _ = Ack::from_message(&message);
        let _ = CircuitControl::from_message(&message);
    }
}
