use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::frame::{Decoder, FrameLimits, encode};
use crate::hello::{Hello, HelloResult};
use crate::{
    Capabilities, Headers, Message, Outcome, PeerData, ProtoBody, VersionInfo, WireError,
    router_capability,
};

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text.replace(['|', ' ', '\n'], "")).unwrap()
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

#[test]
fn verify_router() {
    // docs/protocol/control-plane.md 26.1
    let wire = hex("03 06 09 0c | 0c 04 00 00 | 07 00 00 00 | 00 00 00 00 | 0a 00 00 00 | \
                    0a 02 72 31 12 04 61 62 31 32");
    let verify = VerifyRouter { router_id: "r1".into(), fingerprints: vec!["ab12".into()] };
    let mut message = verify.to_message();
    message.sequence = 7;
    assert_eq!(encode(&message), wire);
    assert_eq!(VerifyRouter::from_message(&decode(&wire)), Ok(verify));
}

#[test]
fn route() {
    // docs/protocol/control-plane.md 26.4
    let wire =
        hex("0a 02 63 31 1a 18 0a 09 74 72 61 6e 73 70 6f 72 74 12 01 45 1a 08 74 63 70 3a \
                    68 3a 38 30 22 08 0a 01 49 12 01 45 18 01 22 06 0a 01 45 12 01 49 30 80 c8 af \
                    a0 25");
    let forward = |from: &str, to: &str, kind: DestType| route::Forward {
        src_address: from.into(),
        dst_address: to.into(),
        dst_type: kind.into(),
    };
    let mut route = Route {
        circuit_id: "c1".into(),
        egress: Some(route::Egress {
            binding: "transport".into(),
            address: "E".into(),
            destination: "tcp:h:80".into(),
            peer_data: PeerData::new(),
        }),
        forwards: vec![forward("I", "E", DestType::End), forward("E", "I", DestType::Start)],
        ..Route::default()
    };
    route.set_time_left(10_000_000_000);
    assert_eq!(&route.to_body()[..], &wire[..]);
    assert_eq!(Route::from_body(&wire), Ok(route));
}

#[test]
fn forwards_can_be_added_to_an_encoded_route() {
    let forward = |from: &str, to: &str| route::Forward {
        src_address: from.into(),
        dst_address: to.into(),
        dst_type: DestType::Link.into(),
    };
    let all = vec![forward("a", "b"), forward("b", "a")];
    let whole = Route {
        circuit_id: "c".into(),
        attempt: REROUTE_ATTEMPT,
        forwards: all.clone(),
        tags: [("k".to_owned(), "v".to_owned())].into(),
        timeout: 9,
        ..Route::default()
    };
    for split in 0..=2 {
        let (first, rest) = all.split_at(split);
        let body = Route { forwards: first.to_vec(), ..whole.clone() }.to_body();
        let message = Route::message_with(&body, rest);
        assert_eq!(Route::from_message(&message), Ok(whole.clone()));
    }
}

#[test]
fn time_left_may_be_negative() {
    // docs/protocol/control-plane.md 26.9
    let mut route = Route::default();
    route.set_time_left(-1);
    assert_eq!(&route.to_body()[..], &hex("30 ff ff ff ff ff ff ff ff ff 01")[..]);
    assert_eq!(Route::from_body(&route.to_body()).unwrap().time_left(), -1);
}

#[test]
fn route_result_success() {
    // docs/protocol/control-plane.md 26.5
    let wire = hex("03 06 09 0c | fe 03 00 00 | 05 00 00 00 | 21 00 00 00 | 02 00 00 00 | \
                    4d 04 00 00 04 00 00 00 00 00 00 00 | 4e 04 00 00 01 00 00 00 01 | \
                    01 00 00 00 04 00 00 00 0c 00 00 00 | 63 31");
    let result = RouteResult { circuit_id: "c1".into(), attempt: 0, result: Ok(PeerData::new()) };
    let mut message = result.to_message().in_reply_to(&request(12));
    message.sequence = 5;
    assert_eq!(encode(&message), wire);
    assert_eq!(RouteResult::from_message(&decode(&wire)), Ok(result));
}

#[test]
fn route_result_failure() {
    // docs/protocol/control-plane.md 26.6
    let wire = hex("03 06 09 0c | fe 03 00 00 | 06 00 00 00 | 30 00 00 00 | 02 00 00 00 | \
                    4d 04 00 00 04 00 00 00 00 00 00 00 | \
                    4f 04 00 00 07 00 00 00 72 65 66 75 73 65 64 | \
                    50 04 00 00 01 00 00 00 04 | 01 00 00 00 04 00 00 00 0c 00 00 00 | 63 31");
    let error = RouteError { code: RouteErrorCode::ConnectionRefused, text: "refused".into() };
    let result = RouteResult { circuit_id: "c1".into(), attempt: 0, result: Err(error) };
    let mut message = result.to_message().in_reply_to(&request(12));
    message.sequence = 6;
    assert_eq!(encode(&message), wire);
    assert_eq!(RouteResult::from_message(&decode(&wire)), Ok(result));
}

#[test]
fn route_result_needs_its_attempt() {
    let mut message = Message::new(content_type::ROUTE_RESULT, "c1");
    let missing = WireError::MissingHeader { content_type: 1022, key: 1101 };
    assert_eq!(RouteResult::from_message(&message), Err(missing.clone()));
    message.headers.set(header::ROUTE_ATTEMPT, &[1, 0]);
    assert_eq!(RouteResult::from_message(&message), Err(missing));
    message.headers.set_u32(header::ROUTE_ATTEMPT, REROUTE_ATTEMPT);
    message.headers.set_u8(header::ROUTE_ERROR_CODE, 77);
    let error = RouteResult::from_message(&message).unwrap().result.unwrap_err();
    assert_eq!(error.code, RouteErrorCode::Generic);
}

#[test]
fn faults_and_unroute() {
    // docs/protocol/control-plane.md 26.7
    let forward = Fault::forward(true, &["c1", "c2"]);
    assert_eq!(&forward.to_body()[..], &hex("08 03 12 05 63 31 20 63 32")[..]);
    assert_eq!(forward.ids().collect::<Vec<_>>(), ["c1", "c2"]);
    assert_eq!(&Fault::link("L1", 4).to_body()[..], &hex("08 02 12 02 4c 31 18 04")[..]);
    assert_eq!(Fault::circuit(false, "c").subject(), FaultSubject::Egress);
    assert_eq!(Fault::circuit(false, "c").attempt(), None);
    assert_eq!(Fault::circuit(false, "c").in_attempt(0).attempt(), Some(0));
    let unroute = Unroute { circuit_id: "c1".into(), now: true, term: 0 };
    assert_eq!(&unroute.to_body()[..], &hex("0a 02 63 31 10 01")[..]);
}

#[test]
fn channel_headers_are_no_peer_data() {
    let success = CircuitSuccess {
        circuit_id: "c1".into(),
        address: "I".into(),
        peer_data: [(1003, vec![1, 2].into()), (1114, "t1".into())].into(),
    };
    let mut message = success.to_message().in_reply_to(&request(9));
    message.headers.set_u64(5, 1).set_u64(6, 2).set(128, b"x").set_u32(1101, 1).set(-4, b"y");
    assert_eq!(CircuitSuccess::from_message(&message), Ok(success.clone()));
    let mut sly = success;
    sly.peer_data.insert(1, vec![0; 4].into());
    sly.peer_data.insert(1100, "other".into());
    sly.peer_data.insert(u32::MAX, "far".into());
    let message = sly.to_message();
    assert_eq!(message.reply_for(), None);
    let read = CircuitSuccess::from_message(&message).unwrap();
    assert_eq!((read.address.as_str(), read.peer_data.len()), ("I", 2));
}

#[test]
fn circuit_failed() {
    let failed = CircuitFailed { error: "no path".into(), elsewhere: false };
    for failed in [failed.clone(), CircuitFailed { elsewhere: true, ..failed }] {
        assert_eq!(CircuitFailed::from_message(&failed.to_message()), Ok(failed));
    }
    assert!(CircuitFailed::from_message(&Outcome::failure("x").to_message()).is_err());
}

#[test]
fn large_and_malformed_bodies_are_refused() {
    let message = Message::new(content_type::ROUTE, vec![0; Route::MAX_BODY + 1]);
    let error = Route::from_message(&message).unwrap_err().to_string();
    assert!(error.contains("4194305 bytes, the limit is 4194304"), "{error}");
    let message = Message::new(content_type::ROUTE, vec![0x0a, 200]);
    assert!(matches!(Route::from_message(&message), Err(WireError::Body { .. })));
    let unknown_field = Message::new(content_type::UNROUTE, hex("0a 02 63 31 7a 01 00"));
    assert_eq!(Unroute::from_message(&unknown_field).unwrap().circuit_id, "c1");
}

#[test]
fn secrets_are_not_shown() {
    let request = CreateTerminatorRequest {
        address: "tcp:h:80".into(),
        instance_secret: "hush".into(),
        ..Default::default()
    };
    let text = format!("{request:?}");
    assert!(text.contains("tcp:h:80") && !text.contains("hush") && !text.contains("secret"));
}

fn listeners(address: &str) -> Listeners {
    let listener = Listener {
        address: address.into(),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        local_binding: String::new(),
    };
    Listeners { listeners: vec![listener], server_keys: Vec::new() }
}

fn version(release: &str) -> Option<VersionInfo> {
    VersionInfo::from_header(&format!("{release}|abc|2026-01-01|linux|amd64"))
}

#[test]
fn hello_of_a_router() {
    let ctrl_chan = CtrlChanListener { address: "tls:r:6000".into(), groups: vec![] };
    let router = RouterHello {
        version: version("v2.1.0"),
        capabilities: [1, 2, 4, 5, 6, 62].into_iter().collect(),
        listeners: listeners("tls:r1:6000"),
        ctrl_chan_listeners: CtrlChanListeners { listeners: vec![ctrl_chan] },
    };
    let mut hello = Hello::new("r1");
    router.write(&mut hello.headers);
    assert_eq!(hello.headers.get(1002), Some(&hex("40 00 00 00 00 00 00 76")[..]));
    let hello = hello.grouped_first("ctrl.default", None, Some(b"0123456789abcdef"));
    assert_eq!(RouterHello::from_hello(&hello), router);
}

#[test]
fn hello_of_an_old_router() {
    let router = RouterHello {
        version: version("v1.6.20"),
        listeners: listeners("tls:r1:6000"),
        ..RouterHello::default()
    };
    let mut hello = Hello::new("r1");
    let version = router.version.as_ref().unwrap().to_header();
    hello.headers.set_str(crate::hello::header::HELLO_VERSION, &version);
    hello.headers.set(10, &router.listeners.encode_to_vec()).set(11, &[0x0a, 0x01, 0x01]);
    assert_eq!(RouterHello::from_hello(&hello), router);
    // In a group, key 10 is the secret, whatever its bytes look like.
    let secret = hello.headers.get(10).unwrap().to_vec();
    let grouped = hello.grouped_first("ctrl.default", None, Some(&secret));
    assert!(RouterHello::from_hello(&grouped).listeners.listeners.is_empty());
}

#[test]
fn malformed_listeners_are_none() {
    let mut hello = Hello::new("r1");
    let capabilities = Capabilities::NONE.with(router_capability::MULTI_CHANNEL);
    hello.headers.set(1002, &capabilities.to_wire()).set(1000, b"\x0a\xff").set(1003, b"\x0a");
    let router = RouterHello::from_hello(&hello);
    assert_eq!(router, RouterHello { capabilities, ..RouterHello::default() });
}

#[test]
fn hello_of_a_controller() {
    let controller =
        ControllerHello { version: version("v2.1.0"), capabilities: (1..=6).collect() };
    let hello = Hello::new("r1").grouped_first("ctrl.default", None, None);
    let mut result = HelloResult::accept(&hello, "conn", "ctrl1").grouped(b"secret");
    controller.write(&mut result.headers);
    assert_eq!(result.headers.get(12), Some(&[0x7e][..]));
    assert_eq!(ControllerHello::from_result(&result), controller);
    // A 1.6 controller knows the old key alone.
    result.headers.remove(1002);
    result.headers.set(12, &[0x1e]);
    assert_eq!(ControllerHello::from_result(&result).capabilities, (1..=4).collect());
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn peer_data() -> impl Strategy<Value = PeerData> {
    let key = prop_oneof![Just(1003u32), Just(1008), 1105..1200u32, 129..1100u32];
    let value = prop::collection::vec(any::<u8>(), 0..20).prop_map(Into::into);
    prop::collection::btree_map(key, value, 0..5)
}

/// Encodes a value into a frame and checks that decoding gives the same value.
fn round_trip<T: ProtoBody>(value: &T) -> Result<(), TestCaseError> {
    let message = decode(&encode(&value.to_message()));
    prop_assert_eq!(&T::from_message(&message).unwrap(), value);
    Ok(())
}

fn try_all(body: &[u8]) {
    let _ = CircuitRequest::from_body(body);
    let _ = Fault::from_body(body).map(|fault| (fault.subject(), fault.ids().count()));
    let _ = Route::from_body(body).map(|route| route.time_left());
    let _ = Unroute::from_body(body);
    let _ = CreateTerminatorRequest::from_body(body).map(|request| request.precedence());
    let _ = RemoveTerminatorRequest::from_body(body);
    let _ = InspectRequest::from_body(body);
    let _ = InspectResponse::from_body(body);
    let _ = ValidateTerminatorsRequest::from_body(body);
    let _ = UpdateTerminatorRequest::from_body(body);
    let _ = Settings::from_body(body);
    let _ = CircuitConfirmation::from_body(body);
    let _ = RouterLinks::from_body(body);
    let _ = VerifyRouter::from_body(body);
    let _ = UpdateCtrlAddresses::from_body(body);
    let _ = RemoveTerminatorsRequest::from_body(body);
    let _ = ValidateTerminatorsV2Request::from_body(body);
    let _ = ValidateTerminatorsV2Response::from_body(body);
    let _ = PeerStateChanges::from_body(body);
    let _ = UpdateClusterLeader::from_body(body);
    let _ = RouterInterfacesUpdate::from_body(body);
    let _ = LinkStateUpdate::from_body(body);
    let _ = Alerts::from_body(body);
    let _ = Listeners::from_body(body);
}

proptest! {
    #[test]
    fn circuit_messages(
        circuit in text(), service in text(), peer_data in peer_data(), attempt: u32,
        timeout: u64, now: bool, times in prop::collection::btree_map(text(), any::<i64>(), 0..4),
        kind in 0..3i32, subject in 0..6i32,
    ) {
        round_trip(&CircuitRequest {
            ingress_id: circuit.clone(), service: service.clone(), peer_data: peer_data.clone(),
        })?;
        round_trip(&Unroute { circuit_id: circuit.clone(), now, term: timeout })?;
        round_trip(&Fault { subject, id: circuit.clone(), iteration: attempt, attempts: attempt })?;
        round_trip(&CircuitConfirmation {
            circuit_ids: times.keys().cloned().collect(), idle_times: times,
        })?;
        let context = Context { fields: [(service.clone(), circuit.clone())].into(), channel_mask: 3 };
        let egress = route::Egress {
            binding: service.clone(), address: circuit.clone(), destination: service.clone(),
            peer_data,
        };
        let forward = route::Forward {
            src_address: circuit.clone(), dst_address: service.clone(), dst_type: kind,
        };
        round_trip(&Route {
            circuit_id: circuit, attempt, egress: Some(egress), forwards: vec![forward],
            context: Some(context), timeout, tags: [("serviceId".to_owned(), service)].into(), term: u64::from(attempt),
        })?;
    }

    #[test]
    fn circuit_answers(
        circuit_id in text(), address in text(), peer_data in peer_data(), attempt: u32,
        code in 0..10u8,
    ) {
        let success = CircuitSuccess {
            circuit_id: circuit_id.clone(), address: address.clone(), peer_data: peer_data.clone(),
        };
        let message = decode(&encode(&success.to_message()));
        prop_assert_eq!(CircuitSuccess::from_message(&message), Ok(success));
        let error = RouteError { code: RouteErrorCode::from_number(code), text: address };
        prop_assert_eq!(error.code.number(), code);
        for result in [Ok(peer_data), Err(error)] {
            let result = RouteResult { circuit_id: circuit_id.clone(), attempt, result };
            let message = decode(&encode(&result.to_message()));
            prop_assert_eq!(RouteResult::from_message(&message), Ok(result));
        }
    }

    #[test]
    fn terminator_messages(
        id in text(), binding in text(), cost: u32, precedence in 0..3i32, marker: u64, flag: bool,
        reason in 0..3i32, peer_data in peer_data(),
    ) {
        round_trip(&CreateTerminatorRequest {
            service_id: id.clone(), binding: binding.clone(), address: id.clone(), peer_data, cost,
            precedence, instance_id: id.clone(), instance_secret: binding.clone().into(),
        })?;
        round_trip(&RemoveTerminatorRequest { terminator_id: id.clone() })?;
        round_trip(&RemoveTerminatorsRequest { terminator_ids: vec![id.clone(), binding.clone()] })?;
        round_trip(&UpdateTerminatorRequest {
            terminator_id: id.clone(), update_precedence: flag, update_cost: !flag, precedence, cost,
        })?;
        let terminators = vec![
            Terminator { id: id.clone(), binding: binding.clone(), address: id.clone(), marker };
            2
        ];
        round_trip(&ValidateTerminatorsRequest { terminators: terminators.clone() })?;
        round_trip(&ValidateTerminatorsV2Request {
            terminators, fix_invalid: flag, post_create: !flag,
        })?;
        let state = RouterTerminatorState { valid: flag, reason, detail: binding, marker };
        round_trip(&ValidateTerminatorsV2Response { states: [(id, state)].into() })?;
    }

    #[test]
    fn link_and_peer_messages(
        id in text(), address in text(), iteration: u32, flag: bool, state in 0..3i32,
        groups in prop::collection::vec(text(), 0..3),
    ) {
        let conn = LinkConn {
            r#type: "link.ack".into(), local_addr: address.clone(), remote_addr: id.clone(),
        };
        let conn_state = Some(LinkConnState { state_iteration: iteration, conns: vec![conn] });
        let link = RouterLink {
            id: id.clone(), dest_router_id: address.clone(), link_protocol: "tls".into(),
            dial_address: address.clone(), iteration, conn_state: conn_state.clone(),
        };
        round_trip(&RouterLinks { links: vec![link], full_refresh: flag })?;
        round_trip(&LinkStateUpdate { link_id: id.clone(), link_iteration: iteration, conn_state })?;
        round_trip(&VerifyRouter { router_id: id.clone(), fingerprints: groups.clone() })?;
        let listener = Listener {
            address: address.clone(), protocol: "tls".into(), groups: groups.clone(),
            local_binding: id.clone(),
        };
        let server_keys = vec![address.clone(); 2];
        let listeners = vec![listener.clone()];
        round_trip(&Listeners { listeners, server_keys: server_keys.clone() })?;
        let change = PeerStateChange {
            id: id.clone(), version: "v2.1.0".into(), state, listeners: vec![listener],
            server_keys,
        };
        round_trip(&PeerStateChanges { changes: vec![change] })?;
        let endpoint = CtrlEndpoint { address: address.clone(), groups };
        let controller = CtrlDetail { id, endpoints: vec![endpoint] };
        round_trip(&UpdateCtrlAddresses {
            addresses: vec![address], index: iteration.into(), is_leader: flag,
            controllers: vec![controller],
        })?;
        round_trip(&UpdateClusterLeader { index: iteration.into() })?;
    }

    #[test]
    fn reports_and_settings(
        name in text(), value in text(), number: i64, flags: u64, success: bool,
        items in prop::collection::vec(text(), 0..3),
    ) {
        let interface = Interface {
            name: name.clone(), hardware_address: value.clone(), mtu: number, index: number,
            flags, addresses: items.clone(),
        };
        round_trip(&RouterInterfacesUpdate { interfaces: vec![interface] })?;
        let alert = Alert {
            source_type: "self".into(), source_id: name.clone(), timestamp: number,
            severity: "error".into(), message: value.clone(), details: items.clone(),
            related_entities: [(name.clone(), value.clone())].into(),
        };
        round_trip(&Alerts { alerts: vec![alert] })?;
        round_trip(&InspectRequest { requested_values: items.clone() })?;
        let entry = inspect_response::InspectValue { name, value: value.clone() };
        round_trip(&InspectResponse { success, errors: items, values: vec![entry] })?;
        round_trip(&Settings { data: [(SETTING_NEW_CTRL_ADDRESS, value.into())].into() })?;
    }

    #[test]
    fn any_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..60),
        entries in prop::collection::vec(
            (prop::sample::select(vec![1, 4, 9, 10, 11, 12, 1000, 1002, 1003, 1100, 1101, 1102, 1103, 1104]),
             prop::collection::vec(any::<u8>(), 0..10)), 0..8),
        cut in 0..40usize,
    ) {
        try_all(&body);
        // Damaged bytes of a real message.
        let mut real = listeners("tls:r1:6000").to_body().to_vec();
        real.truncate(cut);
        real.extend_from_slice(&body);
        try_all(&real);
        let mut headers = Headers::new();
        for (key, value) in &entries {
            headers.set(*key, value);
        }
        for kind in [content_type::CIRCUIT_SUCCESS, content_type::CIRCUIT_FAILED, content_type::ROUTE_RESULT] {
            let message = Message { headers: headers.clone(), ..Message::new(kind, body.clone()) };
            let _ = CircuitSuccess::from_message(&message);
            let _ = CircuitFailed::from_message(&message);
            let _ = RouteResult::from_message(&message);
        }
        let hello = Hello { headers, ..Hello::default() };
        let _ = (RouterHello::from_hello(&hello), ControllerHello::from_hello(&hello));
    }
}
