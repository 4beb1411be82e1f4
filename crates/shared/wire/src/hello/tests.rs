use proptest::prelude::*;

use super::*;
use crate::frame::{Decoder, FrameLimits, encode};
use crate::{Capabilities, router_capability};

const SECRET: &str = "00112233445566778899aabbccddeeff";

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap()
}

fn decode(bytes: &[u8]) -> Message {
    let mut input = bytes;
    let message = Decoder::new(FrameLimits::HELLO).decode(&mut input).unwrap().unwrap();
    assert!(input.is_empty());
    message
}

#[test]
fn first_router_hello() {
    // docs/protocol/channel.md 17, V1
    let bytes = hex("03 06 09 0c 00 00 00 00 ff ff ff ff 4f 00 00 00
        08 00 00 00 04 00 00 00 21 00 00 00 76 32 2e 30
        2e 33 7c 61 62 63 7c 32 30 32 36 2d 30 31 2d 30
        31 7c 6c 69 6e 75 78 7c 61 6d 64 36 34 07 00 00
        00 0c 00 00 00 63 74 72 6c 2e 64 65 66 61 75 6c
        74 09 00 00 00 01 00 00 00 01 0b 00 00 00 01 00
        00 00 01 72 6f 75 74 65 72 2d 31");
    let hello = Hello::from_message(decode(&bytes)).unwrap();
    assert_eq!(hello.token, "router-1");
    assert!(hello.is_first());
    assert_eq!(hello.underlay_type(), Some("ctrl.default"));
    assert_eq!(hello.connection_id(), None);
    assert_eq!(hello.group_secret(), None);
    let mut built = Hello::new("router-1");
    built.headers.set_str(header::HELLO_VERSION, "v2.0.3|abc|2026-01-01|linux|amd64");
    let built = built.grouped_first("ctrl.default", None, None);
    assert_eq!(built.headers.iter().count(), hello.headers.iter().count());
    for (key, value) in &built.headers {
        assert_eq!(hello.headers.get(key), Some(value));
    }
    assert_eq!(encode(&built.to_message()).len(), 107);
}

#[test]
fn positive_result() {
    // docs/protocol/channel.md 17, V2
    let bytes = hex("03 06 09 0c 02 00 00 00 ff ff ff ff 63 00 00 00
        00 00 00 00 00 00 00 00 04 00 00 00 61 42 33 64
        01 00 00 00 04 00 00 00 ff ff ff ff 02 00 00 00
        01 00 00 00 01 07 00 00 00 0c 00 00 00 63 74 72
        6c 2e 64 65 66 61 75 6c 74 08 00 00 00 05 00 00
        00 63 74 72 6c 31 09 00 00 00 01 00 00 00 01 0a
        00 00 00 10 00 00 00 00 11 22 33 44 55 66 77 88
        99 aa bb cc dd ee ff");
    let result = HelloResult::from_message(decode(&bytes), HELLO_SEQUENCE).unwrap();
    assert!(result.success);
    assert_eq!(result.connection_id(), Some("aB3d"));
    assert_eq!(result.listener_id(), Some("ctrl1"));
    assert_eq!(result.group_secret(), Some(&hex(SECRET)[..]));
    let hello = Hello::new("router-1").grouped_first("ctrl.default", None, None);
    let built = HelloResult::accept(&hello, "aB3d", "ctrl1").grouped(&hex(SECRET));
    assert_eq!(encode(&built.to_message()).len(), bytes.len());
    for (key, value) in &built.headers {
        assert_eq!(result.headers.get(key), Some(value), "header {key}");
    }
}

#[test]
fn second_underlay() {
    // docs/protocol/channel.md 17, V3
    let bytes = hex("03 06 09 0c 00 00 00 00 ff ff ff ff 3e 00 00 00
        08 00 00 00 00 00 00 00 04 00 00 00 61 42 33 64
        07 00 00 00 09 00 00 00 63 74 72 6c 2e 68 69 67
        68 09 00 00 00 01 00 00 00 01 0a 00 00 00 10 00
        00 00 00 11 22 33 44 55 66 77 88 99 aa bb cc dd
        ee ff 72 6f 75 74 65 72 2d 31");
    let hello = Hello::from_message(decode(&bytes)).unwrap();
    assert!(hello.is_grouped() && !hello.is_first());
    assert_eq!(hello.connection_id(), Some("aB3d"));
    assert_eq!(hello.group_secret(), Some(&hex(SECRET)[..]));
    let built = Hello::new("router-1").grouped_later("ctrl.high", "aB3d", &hex(SECRET));
    assert_eq!(encode(&built.to_message()).len(), bytes.len());
}

#[test]
fn negative_result() {
    // docs/protocol/channel.md 17, V8
    let bytes = hex("03 06 09 0c 02 00 00 00 ff ff ff ff 21 00 00 00
        04 00 00 00 01 00 00 00 04 00 00 00 ff ff ff ff
        02 00 00 00 01 00 00 00 00 0d 00 00 00 04 00 00
        00 01 00 00 00 62 75 73 79");
    let result = HelloResult::from_message(decode(&bytes), HELLO_SEQUENCE).unwrap();
    assert!(!result.success);
    assert_eq!((result.text.as_str(), result.reject_class()), ("busy", RejectClass::Busy));
    let built = HelloResult::refuse(&Hello::new("x"), RejectClass::Busy, "busy");
    assert_eq!(encode(&built.to_message()), bytes);
}

#[test]
fn c_sdk_hello_and_its_result() {
    // docs/protocol/sdk.md 17, F1 and F2
    let bytes = hex("03 06 09 0c 00 00 00 00 01 00 00 00 3e 00 00 00
        13 00 00 00 ea 03 00 00 07 00 00 00 65 79 4a 2e
        78 2e 79 ff 03 00 00 01 00 00 00 01 09 00 00 00
        01 00 00 00 01 0b 00 00 00 01 00 00 00 01 07 00
        00 00 0c 00 00 00 65 64 67 65 2e 64 65 66 61 75
        6c 74 7a 69 74 69 2d 73 64 6b 2d 63 5b 30 5d 40
        68 6f 73 74 31");
    let hello = Hello::from_message(decode(&bytes)).unwrap();
    assert_eq!((hello.token.as_str(), hello.sequence), ("ziti-sdk-c[0]@host1", 1));
    assert!(hello.is_first());
    let result = hex("03 06 09 0c 02 00 00 00 ff ff ff ff a5 00 00 00
        00 00 00 00 01 00 00 00 04 00 00 00 01 00 00 00
        02 00 00 00 01 00 00 00 01 00 00 00 00 04 00 00
        00 61 42 33 64 08 00 00 00 09 00 00 00 65 64 67
        65 2d 72 74 72 31 09 00 00 00 01 00 00 00 01 07
        00 00 00 0c 00 00 00 65 64 67 65 2e 64 65 66 61
        75 6c 74 0a 00 00 00 10 00 00 00 00 11 22 33 44
        55 66 77 88 99 aa bb cc dd ee ff 04 00 00 00 14
        00 00 00 7b 22 76 65 72 73 69 6f 6e 22 3a 22 76
        32 2e 31 2e 30 22 7d 00 04 00 00 01 00 00 00 01
        08 04 00 00 01 00 00 00 01 0f 04 00 00 08 00 00
        00 40 00 00 00 00 00 00 76");
    let read = HelloResult::from_message(decode(&result), 1).unwrap();
    let mut built = HelloResult::accept(&hello, "aB3d", "edge-rtr1").grouped(&hex(SECRET));
    let capabilities: Capabilities =
        [1, 2, 4, 5, 6, router_capability::ROUTER_DATA_MODEL].into_iter().collect();
    built
        .headers
        .set_str(header::HELLO_VERSION, r#"{"version":"v2.1.0"}"#)
        .set_bool(1024, true)
        .set_bool(1032, true)
        .set(1039, &capabilities.to_wire());
    assert_eq!(encode(&built.to_message()).len(), result.len());
    for (key, value) in &built.headers {
        assert_eq!(read.headers.get(key), Some(value), "header {key}");
    }
    assert!(HelloResult::from_message(decode(&result), -1).is_err());
}

#[test]
fn keys_of_groups_mean_nothing_in_an_ungrouped_hello() {
    // 1.x routers send their listeners and metadata there
    let mut hello = Hello::new("r");
    hello.headers.set(10, b"listeners").set(11, &[1]).set_str(0, "old");
    assert_eq!(hello.group_secret(), None);
    assert_eq!(hello.connection_id(), None);
    assert!(!hello.is_first());
}

#[test]
fn version_response() {
    let response = negotiation::RESPONSE;
    assert_eq!(negotiation::decode(&response), Ok(Some(vec![1, 2])));
    for cut in 0..response.len() {
        assert_eq!(negotiation::decode(&response[..cut]), Ok(None), "{cut} bytes");
    }
    assert!(negotiation::decode(&crate::frame::MAGIC).is_err());
    assert!(negotiation::decode(&[3, 6, 9, 10, 65, 0, 0, 0]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = negotiation::decode(&bytes);
        let mut decoder = Decoder::new(FrameLimits::HELLO);
        if let Ok(Some(message)) = decoder.decode(&mut &bytes[..]) {
            let _ = HelloResult::from_message(message.clone(), -1);
            let _ = Hello::from_message(message);
        }
    }

    #[test]
    fn hello_round_trip(token in ".{0,30}", id in "[a-z]{0,5}", secret in prop::collection::vec(any::<u8>(), 0..16)) {
        let hello = Hello::new(token).grouped_later("ctrl.high", &id, &secret);
        let read = Hello::from_message(decode(&encode(&hello.to_message()))).unwrap();
        prop_assert_eq!(&read, &hello);
        prop_assert_eq!(read.connection_id(), Some(id.as_str()).filter(|id| !id.is_empty()));
        prop_assert_eq!(read.group_secret(), Some(&secret[..]).filter(|secret| !secret.is_empty()));
    }
}
