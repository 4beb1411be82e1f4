use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Message;
use crate::ctrl::TerminatorPrecedence;
use crate::frame::{Decoder, FrameLimits, encode};

const DIALER: &str = "0e0216223f147143d32615a91189c288c1728cba3cc5f9f621b1026e03d83129";
const HOST: &str = "99f4674ecc87c0b8e712f192b8f49e7442a9376b4875967ababa28471019a93e";

fn unhex(text: &str) -> Bytes {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap().into()
}

fn decode(text: &str) -> Message {
    let bytes = unhex(text);
    let mut input = &bytes[..];
    let message = Decoder::new(FrameLimits::MESSAGES).decode(&mut input).unwrap().unwrap();
    assert!(input.is_empty());
    message
}

/// Checks that two messages have the same headers in any order, the same body and the same length.
fn same(mut built: Message, wire: &Message) {
    built.sequence = wire.sequence;
    assert_eq!(built.content_type, wire.content_type);
    assert_eq!(built.body, wire.body);
    for (key, value) in &wire.headers {
        assert_eq!(built.headers.get(key), Some(value), "header {key}");
    }
    assert_eq!(encode(&built).len(), encode(wire).len());
}

fn replying(sequence: i32) -> Message {
    Message { sequence, ..Message::default() }
}

#[test]
fn connect() {
    // docs/protocol/sdk.md 17, F3
    let wire = decode(
        "03 06 09 0c 6f ed 00 00 02 00 00 00 3f 00 00 00 07 00 00 00 e8 03 00 00 04 00 00 00
         01 00 00 00 f0 03 00 00 03 00 00 00 63 6c 69 eb 03 00 00 20 00 00 00 0e 02 16 22 3f
         14 71 43 d3 26 15 a9 11 89 c2 88 c1 72 8c ba 3c c5 f9 f6 21 b1 02 6e 03 d8 31 29 65
         79 53 2e 73 2e 73",
    );
    let connect = Connect::from_message(&wire).unwrap();
    let expected = Connect {
        conn_id: Some(1),
        token: "eyS.s.s".into(),
        public_key: Some(unhex(DIALER)),
        caller_id: Some("cli".into()),
        ..Connect::default()
    };
    assert_eq!(connect, expected);
    assert_eq!(connect.peer_data().keys().copied().collect::<Vec<_>>(), [1003, 1008]);
    same(connect.to_message(), &wire);
}

#[test]
fn state_connected() {
    // docs/protocol/sdk.md 17, F4 and F7
    let wire = decode(
        "03 06 09 0c 70 ed 00 00 03 00 00 00 4c 00 00 00 00 00 00 00 e8 03 00 00 04 00 00 00
         01 00 00 00 01 00 00 00 04 00 00 00 02 00 00 00 02 04 00 00 04 00 00 00 63 72 63 31
         eb 03 00 00 20 00 00 00 99 f4 67 4e cc 87 c0 b8 e7 12 f1 92 b8 f4 9e 74 42 a9 37 6b
         48 75 96 7a ba ba 28 47 10 19 a9 3e",
    );
    let connected = StateConnected::from_message(&wire).unwrap();
    assert_eq!(connected.circuit_id.as_deref(), Some("crc1"));
    assert_eq!(connected.public_key, Some(unhex(HOST)));
    assert_eq!(wire.reply_for(), Some(2));
    same(connected.to_message().in_reply_to(&replying(2)), &wire);

    let wire = decode(
        "03 06 09 0c 70 ed 00 00 09 00 00 00 21 00 00 00 00 00 00 00 e8 03 00 00 04 00 00 00
         07 00 00 00 01 00 00 00 04 00 00 00 05 00 00 00 f4 03 00 00 01 00 00 00 01",
    );
    let connected = StateConnected::from_message(&wire).unwrap();
    assert!(connected.router_conn_ids && connected.xgress.is_none());
    same(connected.to_message().in_reply_to(&replying(5)), &wire);
}

#[test]
fn state_closed() {
    // docs/protocol/sdk.md 17, F5
    let wire = decode(
        "03 06 09 0c 71 ed 00 00 0c 00 00 00 5f 00 00 00 0d 00 00 00 e8 03 00 00 04 00 00 00
         01 00 00 00 01 00 00 00 04 00 00 00 02 00 00 00 f6 03 00 00 04 00 00 00 0e 00 00 00
         09 04 00 00 33 00 00 00 7b 22 6d 65 73 73 61 67 65 22 3a 22 61 63 63 65 73 73 20 64
         65 6e 69 65 64 22 2c 22 63 6f 64 65 22 3a 31 34 2c 22 72 65 74 72 79 48 69 6e 74 22
         3a 30 7d 61 63 63 65 73 73 20 64 65 6e 69 65 64",
    );
    let closed = StateClosed::from_message(&wire).unwrap();
    assert_eq!(closed.reason, "access denied");
    let error = closed.error.clone().unwrap();
    assert_eq!((error.code, error.retry_hint), (ErrorCode::ACCESS_DENIED, RetryHint::DEFAULT));
    same(closed.to_message().in_reply_to(&replying(2)), &wire);
}

#[test]
fn bind() {
    // docs/protocol/sdk.md 17, F6; there header 1028 is present as 0, which means the same as its
    // absence
    let wire = decode(
        "03 06 09 0c 76 ed 00 00 05 00 00 00 62 00 00 00 07 00 00 00 e8 03 00 00 04 00 00 00
         07 00 00 00 ff 03 00 00 01 00 00 00 01 00 04 00 00 01 00 00 00 01 04 04 00 00 01 00
         00 00 00 eb 03 00 00 20 00 00 00 99 f4 67 4e cc 87 c0 b8 e7 12 f1 92 b8 f4 9e 74 42
         a9 37 6b 48 75 96 7a ba ba 28 47 10 19 a9 3e fd 03 00 00 02 00 00 00 4c 31 f4 03 00
         00 01 00 00 00 01 65 79 42 2e 62 2e 62",
    );
    let bind = Bind::from_message(&wire).unwrap();
    let expected = Bind {
        conn_id: 7,
        token: "eyB.b.b".into(),
        public_key: Some(unhex(HOST)),
        listener_id: Some("L1".into()),
        supports_inspect: true,
        supports_bind_success: true,
        router_conn_ids: true,
        ..Bind::default()
    };
    assert_eq!(bind, expected);
    assert_eq!(Bind::from_message(&bind.to_message()).unwrap(), bind);
}

#[test]
fn old_hosts_send_cost_and_precedence_in_four_bytes() {
    let mut message = Message::new(content_type::BIND, "t");
    message.headers.set_u32(header::CONN_ID, 3);
    message.headers.set_u32(header::COST, 0x1_0102);
    message.headers.set_u32(header::PRECEDENCE, 1);
    let bind = Bind::from_message(&message).unwrap();
    assert_eq!((bind.cost, bind.precedence), (0x102, TerminatorPrecedence::Required));
}

#[test]
fn bind_success_and_dial() {
    // docs/protocol/sdk.md 17, F8, F9 and F10
    let wire = decode(
        "03 06 09 0c 80 ed 00 00 0a 00 00 00 0c 00 00 00 00 00 00 00 e8 03 00 00 04 00 00 00
         07 00 00 00",
    );
    same(BindSuccess::from_message(&wire).unwrap().to_message(), &wire);

    let wire = decode(
        "03 06 09 0c 73 ed 00 00 0b 00 00 00 57 00 00 00 07 00 00 00 e8 03 00 00 04 00 00 00
         07 00 00 00 f0 03 00 00 03 00 00 00 63 6c 69 02 04 00 00 04 00 00 00 63 72 63 31 eb
         03 00 00 20 00 00 00 0e 02 16 22 3f 14 71 43 d3 26 15 a9 11 89 c2 88 c1 72 8c ba 3c
         c5 f9 f6 21 b1 02 6e 03 d8 31 29 f4 03 00 00 04 00 00 00 00 00 00 80 65 79 42 2e 62
         2e 62",
    );
    let dial = Dial::from_message(&wire).unwrap();
    assert_eq!(dial.new_conn_id, Some(FIRST_ROUTER_CONN_ID));
    assert_eq!((&dial.caller_id[..], &dial.token[..]), (&b"cli"[..], &b"eyB.b.b"[..]));
    same(dial.to_message(), &wire);

    let wire = decode(
        "03 06 09 0c 74 ed 00 00 06 00 00 00 18 00 00 00 04 00 00 00 e8 03 00 00 04 00 00 00
         07 00 00 00 01 00 00 00 04 00 00 00 0b 00 00 00 00 00 00 80",
    );
    let success = DialSuccess::from_message(&wire).unwrap();
    assert_eq!(success.new_conn_id, FIRST_ROUTER_CONN_ID);
    same(success.to_message().in_reply_to(&replying(11)), &wire);
}

#[test]
fn data() {
    // docs/protocol/sdk.md 17, F12 and F13; header 1001 is only sent by older SDKs and not kept
    let wire = decode(
        "03 06 09 0c 72 ed 00 00 08 00 00 00 18 00 00 00 16 00 00 00 e8 03 00 00 04 00 00 00
         00 00 00 80 e9 03 00 00 04 00 00 00 02 00 00 00 0e b6 e6 b7 ce 7c ff 9e 31 14 cc 8f
         75 9a 5c 89 aa b4 6b 29 35 6a",
    );
    let data = Data::from_message(&wire).unwrap();
    assert_eq!((data.conn_id, data.flags, data.data.len()), (FIRST_ROUTER_CONN_ID, 0, 22));
    assert_eq!(Data::from_message(&data.to_message()).unwrap(), data);

    let fin = Data { conn_id: 4, flags: data_flags::FIN, ..Data::default() };
    assert!(Data::from_message(&fin.to_message()).unwrap().is_fin());
}

#[test]
fn errors_travel_as_json_and_as_number() {
    let error = StructuredError {
        message: "posture".into(),
        code: ErrorCode::POSTURE_CHECK_FAILED,
        retry_hint: RetryHint::START_OVER,
        failing_posture_check_ids: vec!["a".into()],
    };
    let failure = UpdateTokenFailure { error };
    assert_eq!(UpdateTokenFailure::from_message(&failure.to_message()).unwrap(), failure);

    let mut old = StateClosed::new(1, "x").to_message();
    old.headers.set_u32(header::ERROR_CODE, 6);
    let error = StateClosed::from_message(&old).unwrap().error.unwrap();
    assert_eq!(error.code, ErrorCode::INVALID_SERVICE);
}

proptest! {
    #[test]
    fn any_message_is_read_or_refused(
        content_type in 60783..60807_i32,
        entries in prop::collection::vec((0..1045_i32, prop::collection::vec(any::<u8>(), 0..9)), 0..12),
        body in prop::collection::vec(any::<u8>(), 0..32),
    ) {
        let mut message = Message::new(content_type, body);
        for (key, value) in &entries {
            message.headers.set(*key, value);
        }
        let _ = Connect::from_message(&message);
        let _ = StateConnected::from_message(&message);
        let _ = StateClosed::from_message(&message);
        let _ = Data::from_message(&message);
        let _ = Bind::from_message(&message);
        let _ = Unbind::from_message(&message);
        let _ = UpdateBind::from_message(&message);
        let _ = HealthEvent::from_message(&message);
        let _ = Dial::from_message(&message);
        let _ = DialSuccess::from_message(&message);
        let _ = DialFailed::from_message(&message);
        let _ = ConnInspectAnswer::from_message(&message);
        let _ = UpdateTokenFailure::from_message(&message);
    }
}

#[test]
fn a_traced_route_crosses_from_connections_to_circuits_and_back() {
    // docs/protocol/sdk.md 11.3
    let mut asked =
        TraceRoute { conn_id: 7, hop_count: 5, timestamp: 1_700_000_000_000, source_request: None };
    assert_eq!(TraceRoute::from_message(&asked.to_message()).unwrap(), asked);
    assert_eq!(asked.count_hop(), 4);
    let control = asked.as_control("c1", 99);
    assert_eq!((control.hop_count, control.user_value), (Some(4), Some(99)));
    // At the host's router, for a connection with another id.
    let at_host = TraceRoute::of_control(&control, 3);
    assert_eq!(at_host, TraceRoute { conn_id: 3, source_request: Some(99), ..asked });
    let answer = TraceRouteAnswer { hop_id: "h".to_owned(), ..at_host.answered_by("sdk/rust") };
    let message = answer.to_message();
    assert_eq!(TraceRouteAnswer::from_message(&message).unwrap(), answer);
    let control = answer.into_control("c1").unwrap();
    assert_eq!(control.user_value, Some(99));
    let expected = TraceRouteAnswer {
        hop_id: "h".to_owned(),
        source_request: None,
        ..asked.answered_by("sdk/rust")
    };
    assert_eq!(TraceRouteAnswer::of_control(control, 7), expected);
    // An answer to nothing, and one that is too long.
    assert_eq!(expected.clone().into_control("c1"), None);
    let long = TraceRouteAnswer { hop_id: "x".repeat(2000), ..expected }.to_message();
    assert!(TraceRouteAnswer::from_message(&long).is_err());
}
