//! Circuits, terminators, sessions and reports.

use super::*;
use crate::WireError;
use crate::ctrl::TerminatorPrecedence;

#[test]
fn server_hello() {
    // docs/protocol/edge-control-plane.md 21
    let body =
        hex("0a 06 76 32 2e 31 2e 30 12 0f 0a 07 69 6e 73 74 61 6e 74 12 04 74 72 75 65 12 13
        0a 0b 72 6f 75 74 65 72 4d 6f 64 65 6c 12 04 74 72 75 65");
    let message = ServerHello::new("v2.1.0").greet();
    assert_eq!(&message.body[..], &body[..]);
    assert!(supports_data_model(&message));
    assert_eq!(ServerHello::from_message(&message), Ok(ServerHello::new("v2.1.0")));
}

#[test]
fn client_hello_tells_of_the_model_only_who_has_it() {
    let address = EdgeAddress {
        value: "tls:er1.example:3022".into(),
        protocol: "tls".into(),
        hostname: "er1.example".into(),
        port: 3022,
    };
    let listener = EdgeListener { address: Some(address.clone()), advertise: Some(address) };
    let hello =
        ClientHello { version: "v2.1.0".into(), listeners: vec![listener], ..Default::default() };
    let greeting = Message { sequence: 4, ..ServerHello::new("v2.1.0").greet() };
    let answer = hello.answer(&greeting, 17);
    assert_eq!(answer.reply_for(), Some(4));
    assert!(supports_data_model(&answer));
    assert_eq!(answer.headers.get_u64(header::DATA_MODEL_INDEX), Some(17));
    assert_eq!(ClientHello::from_message(&answer), Ok(hello.clone()));
    let answer = hello.answer(&ServerHello::new("v1").to_message(), 17);
    assert!(!supports_data_model(&answer) && !answer.headers.contains(header::DATA_MODEL_INDEX));
}

#[test]
fn create_circuit() {
    // docs/protocol/edge-control-plane.md 21
    let wire = decode(&hex("03 06 09 0c fa 4e 00 00 07 00 00 00 46 00 00 00 00 00 00 00
        0b 00 00 00 03 00 00 00 65 79 53
        0e 00 00 00 03 00 00 00 65 79 41
        0c 00 00 00 0a 00 00 00 01 00 00 00 02 00 00 00 61 62
        0d 00 00 00 00 00 00 00
        0a 00 00 00 0e 00 00 00 01 00 00 00 eb 03 00 00 02 00 00 00 aa bb"));
    let request = CreateCircuitV2 {
        session_token: "eyS".into(),
        api_session_token: "eyA".into(),
        fingerprints: vec!["ab".into()],
        terminator_instance_id: String::new(),
        peer_data: [(1003, vec![0xaa, 0xbb].into())].into(),
    };
    assert_eq!(CreateCircuitV2::from_message(&wire), Ok(request.clone()));
    assert_same(&request.to_message().unwrap(), &wire);
    assert!(!format!("{request:?}").contains("ey"));
}

#[test]
fn created_circuit() {
    // docs/protocol/edge-control-plane.md 21
    let wire = decode(&hex("03 06 09 0c fb 4e 00 00 03 00 00 00 49 00 00 00 00 00 00 00
        01 00 00 00 04 00 00 00 07 00 00 00
        0b 00 00 00 02 00 00 00 63 31
        0c 00 00 00 02 00 00 00 61 31
        0a 00 00 00 00 00 00 00
        0d 00 00 00 19 00 00 00 01 00 00 00 09 00 00 00 73 65 72 76 69 63 65 49 64 04 00 00 00 73 76 63 31"));
    let circuit = CreatedCircuit {
        circuit_id: "c1".into(),
        address: "a1".into(),
        peer_data: PeerData::new(),
        tags: [("serviceId".to_owned(), "svc1".to_owned())].into(),
    };
    assert_eq!(CreatedCircuit::from_message(&wire), Ok(circuit.clone()));
    let built = circuit.to_message(CircuitForm::V2).unwrap().in_reply_to(&request(7));
    assert_same(&built, &wire);
}

#[test]
fn error() {
    // docs/protocol/edge-control-plane.md 21
    let wire = decode(&hex("03 06 09 0c 22 4e 00 00 04 00 00 00 24 00 00 00 0f 00 00 00
        01 00 00 00 04 00 00 00 07 00 00 00
        f6 03 00 00 04 00 00 00 03 00 00 00
        12 00 00 00 04 00 00 00 02 00 00 00
        69 6e 76 61 6c 69 64 20 73 65 73 73 69 6f 6e"));
    let error =
        EdgeError::new(ErrorCode::INVALID_SESSION, RetryHint::START_OVER, "invalid session");
    assert_eq!(EdgeError::from_message(&wire), Ok(error.clone()));
    assert_same(&error.to_message().in_reply_to(&request(7)), &wire);
}

#[test]
fn error_of_an_old_controller() {
    let message = Message::new(content_type::ERROR, "no");
    let error = EdgeError { text: "no".into(), ..EdgeError::default() };
    assert_eq!(EdgeError::from_message(&message), Ok(error));
}

#[test]
fn create_terminator() {
    // docs/protocol/edge-control-plane.md 21
    let body = hex("0a 02 74 31 12 03 65 79 53 28 0a 30 01 4a 03 65 79 41");
    let request = CreateTerminatorV2Request {
        address: "t1".into(),
        session_token: "eyS".into(),
        cost: 10,
        precedence: TerminatorPrecedence::Required.into(),
        api_session_token: "eyA".into(),
        ..Default::default()
    };
    assert_eq!(&request.to_body()[..], &body[..]);
    assert_eq!(CreateTerminatorV2Request::from_body(&body), Ok(request.clone()));
    assert!(!format!("{request:?}").contains("ey"));

    let body = hex("0a 02 74 31 10 03 1a 04 62 75 73 79 20 01 28 01");
    let response = CreateTerminatorV2Response {
        terminator_id: "t1".into(),
        result: CreateTerminatorResult::FailedBusy.into(),
        msg: "busy".into(),
        error_code: ErrorCode::INTERNAL.0,
        retry_hint: RetryHint::TOO_BUSY.0,
    };
    assert_eq!(&response.to_body()[..], &body[..]);
    assert_eq!(CreateTerminatorV2Response::from_body(&body), Ok(response));
}

#[test]
fn sync_state() {
    // docs/protocol/edge-control-plane.md 21
    let state = SyncState { id: "cm3k2v0a80000abcd".into(), is_last: true, sequence: 0 };
    let message = ApiSessionAdded::default().to_message_at(&state);
    assert_eq!(message.headers.get_str(1013), Some("instant"));
    let json = r#"{"id":"cm3k2v0a80000abcd","isLast":true,"sequence":0}"#;
    assert_eq!(message.headers.get_str(1014), Some(json));
    assert_eq!(SyncState::from_message(&message), Ok(state));
    let updated = ApiSessionUpdated::default().to_synced_message();
    assert_eq!(updated.headers.get(1014), Some(&[][..]));
    assert!(SyncState::from_message(&updated).is_err());
}

#[test]
fn requests_without_what_they_need_are_refused() {
    let mut message = Message::new(content_type::CREATE_CIRCUIT_V2_REQUEST, "");
    let missing = WireError::MissingHeader { content_type: 20218, key: 11 };
    assert_eq!(CreateCircuitV2::from_message(&message), Err(missing.clone()));
    message.headers.set_str(header::SESSION_TOKEN, "");
    assert_eq!(CreateCircuitV2::from_message(&message), Err(missing));
    message.headers.set_str(header::SESSION_TOKEN, "eyS");
    assert!(CreateCircuitV2::from_message(&message).is_ok());
    message.headers.set_u32(header::PEER_DATA, 129);
    assert!(CreateCircuitV2::from_message(&message).is_err());
    for absent in [header::IDENTITY_ID, header::SERVICE_ID] {
        let request = CreateCircuitV3 {
            identity_id: "i".into(),
            service_id: "s".into(),
            api_session_token: "eyA".into(),
            ..Default::default()
        };
        let mut message = request.to_message().unwrap();
        assert!(CreateCircuitV3::from_message(&message).is_ok());
        message.headers.remove(absent);
        let missing = WireError::MissingHeader { content_type: 20222, key: absent };
        assert_eq!(CreateCircuitV3::from_message(&message), Err(missing));
    }
}

#[test]
fn what_peers_would_drop_is_not_sent() {
    let peer_data = [(1011, vec![0; 8193].into())].into();
    let request = CreateCircuitV2 { peer_data, ..Default::default() };
    assert!(matches!(request.to_message(), Err(WireError::TooLarge { .. })));
}

fn try_all(body: &[u8]) {
    let _ = ServerHello::from_body(body);
    let _ = ClientHello::from_body(body);
    let _ = SessionRemoved::from_body(body);
    let _ = ApiSessionAdded::from_body(body);
    let _ = ApiSessionUpdated::from_body(body);
    let _ = ApiSessionRemoved::from_body(body);
    let _ = ApiSessionHeartbeat::from_body(body);
    let _ = RequestClientReSync::from_body(body);
    let _ = UpdateTerminatorRequest::from_body(body);
    let _ = RemoveTerminatorRequest::from_body(body);
    let _ = ValidateSessionsRequest::from_body(body);
    let _ = HealthEventRequest::from_body(body);
    let _ = CreateTerminatorV2Request::from_body(body);
    let _ = CreateTerminatorV2Response::from_body(body).map(|response| response.result());
    let _ = CreateCircuitRequest::from_body(body);
    let _ = CreateCircuitResponse::from_body(body);
    let _ = CreateTunnelCircuitV2Request::from_body(body);
    let _ = CreateTunnelCircuitV2Response::from_body(body);
    let _ = EnrollmentCertsResponse::from_body(body);
    let _ = EnrollmentExtendRouterRequest::from_body(body);
    let _ = EnrollmentExtendRouterVerifyRequest::from_body(body);
    let _ = ExtendVerifyResult::from_body(body);
    let _ = UpdateTunnelTerminatorRequest::from_body(body);
    let _ = CreateTunnelTerminatorRequestV2::from_body(body);
    let _ = CreateTunnelTerminatorResponseV2::from_body(body);
    let _ = ConnectEvents::from_body(body);
}

proptest! {
    #[test]
    fn circuits(
        token in "[a-z]{1,9}", id in "\\PC{1,9}", circuit_id in text(), peer_data in peer_data(),
        fingerprints in prop::collection::vec(text(), 0..3), instance in text(),
        tags in prop::collection::btree_map(text(), text(), 0..4),
    ) {
        let request = CreateCircuitV2 {
            session_token: token.clone(), api_session_token: circuit_id.clone(),
            fingerprints: fingerprints.clone(), terminator_instance_id: instance.clone(),
            peer_data: peer_data.clone(),
        };
        let message = decode(&encode(&request.to_message().unwrap()));
        prop_assert_eq!(CreateCircuitV2::from_message(&message), Ok(request));
        let request = CreateCircuitV3 {
            identity_id: id.clone(), service_id: id.clone(), circuit_id, api_session_token: token,
            fingerprints, terminator_instance_id: instance.clone(), peer_data: peer_data.clone(),
        };
        let message = decode(&encode(&request.to_message().unwrap()));
        prop_assert_eq!(CreateCircuitV3::from_message(&message), Ok(request));
        let circuit = CreatedCircuit {
            circuit_id: id.clone(), address: id.clone(), peer_data: peer_data.clone(),
            tags: tags.clone(),
        };
        for form in [CircuitForm::V2, CircuitForm::V3] {
            let message = decode(&encode(&circuit.to_message(form).unwrap()));
            prop_assert_eq!(CreatedCircuit::from_message(&message), Ok(circuit.clone()));
        }
        round_trip(&CreateCircuitRequest {
            session_token: id.clone(), api_session_token: id.clone(), fingerprints: vec![id.clone()],
            terminator_instance_id: instance.clone(), peer_data: peer_data.clone(),
        })?;
        round_trip(&CreateCircuitResponse {
            circuit_id: id.clone(), address: id.clone(), peer_data: peer_data.clone(),
            tags: tags.clone(),
        })?;
        round_trip(&CreateTunnelCircuitV2Request {
            service_name: id.clone(), terminator_instance_id: instance, peer_data: peer_data.clone(),
            end_key: id.clone().into(),
        })?;
        round_trip(&CreateTunnelCircuitV2Response {
            circuit_id: id.clone(), address: id, peer_data, tags,
        })?;
    }

    #[test]
    fn terminators(
        id in text(), token in text(), peer_data in peer_data(), cost: u32, precedence in 0..3i32,
        result in 0..5i32, flag: bool, time: i64, fingerprints in prop::collection::vec(text(), 0..3),
    ) {
        round_trip(&CreateTerminatorV2Request {
            address: id.clone(), session_token: token.clone(), fingerprints: fingerprints.clone(),
            peer_data: peer_data.clone(), cost, precedence, instance_id: id.clone(),
            instance_secret: token.clone().into(), api_session_token: token.clone(),
        })?;
        round_trip(&CreateTerminatorV2Response {
            terminator_id: id.clone(), result, msg: token.clone(), error_code: cost, retry_hint: cost,
        })?;
        round_trip(&UpdateTerminatorRequest {
            session_token: token.clone(), fingerprints: fingerprints.clone(),
            terminator_id: id.clone(), cost, precedence, update_precedence: flag,
            update_cost: !flag, api_session_token: token.clone(),
        })?;
        round_trip(&RemoveTerminatorRequest {
            session_token: token.clone(), fingerprints: fingerprints.clone(),
            terminator_id: id.clone(), api_session_token: token.clone(),
        })?;
        round_trip(&HealthEventRequest {
            session_token: token.clone(), fingerprints, terminator_id: id.clone(),
            check_passed: flag, api_session_token: token.clone(),
        })?;
        round_trip(&CreateTunnelTerminatorRequestV2 {
            service_id: id.clone(), address: id.clone(), peer_data, cost, precedence,
            instance_id: id.clone(), instance_secret: token.clone().into(), start_time: time,
            end_key: token.clone().into(),
        })?;
        round_trip(&CreateTunnelTerminatorResponseV2 {
            terminator_id: id.clone(), start_time: time, result, msg: token,
            error_code: cost, retry_hint: cost,
        })?;
        round_trip(&UpdateTunnelTerminatorRequest {
            terminator_id: id.clone(), cost, precedence, update_precedence: flag, update_cost: flag,
        })?;
        let remove = RemoveTunnelTerminator { terminator_id: id.clone() };
        prop_assert_eq!(RemoveTunnelTerminator::from_message(&remove.to_message()), Ok(remove));
        let health = TunnelHealthEvent { terminator_id: id, check_passed: flag };
        prop_assert_eq!(TunnelHealthEvent::from_message(&health.to_message()), Ok(health));
    }

    #[test]
    fn sessions_and_reports(
        id in text(), token in text(), flag: bool, time: i64, sequence: u64,
        list in prop::collection::vec(text(), 0..4),
    ) {
        let api_sessions = vec![ApiSession {
            token: token.clone(), cert_fingerprints: list.clone(), id: id.clone(),
            identity_id: id.clone(),
        }];
        let added = ApiSessionAdded { is_full_state: flag, api_sessions: api_sessions.clone() };
        let state = SyncState { id: id.clone(), is_last: flag, sequence };
        let encoded: Vec<_> = api_sessions.iter().map(EncodedApiSession::from).collect();
        prop_assert_eq!(
            EncodedApiSession::added(flag, &encoded, &state), added.to_message_at(&state)
        );
        let updated = ApiSessionUpdated { api_sessions: api_sessions.clone() };
        prop_assert_eq!(EncodedApiSession::updated(&encoded), updated.to_synced_message());
        let message = decode(&encode(&added.to_message_at(&state)));
        prop_assert_eq!(ApiSessionAdded::from_message(&message), Ok(added));
        prop_assert_eq!(SyncState::from_message(&message), Ok(state));
        round_trip(&ApiSessionUpdated { api_sessions })?;
        round_trip(&ApiSessionRemoved { tokens: list.clone(), ids: list.clone() })?;
        round_trip(&ApiSessionHeartbeat { tokens: list.clone() })?;
        round_trip(&SessionRemoved { tokens: list.clone(), ids: list.clone() })?;
        round_trip(&ValidateSessionsRequest { session_tokens: list })?;
        round_trip(&RequestClientReSync { reason: id.clone() })?;
        let connect = ConnectDetails {
            connect_time: time, src_addr: id.clone(), dst_addr: token.clone(),
        };
        let event = IdentityConnectEvents {
            identity_id: id.clone(), is_connected: flag, connect_times: vec![connect],
        };
        round_trip(&ConnectEvents { events: vec![event], full_state: flag })?;
        round_trip(&EnrollmentCertsResponse {
            client_cert_pem: id.clone(), server_cert_pem: token.clone(), ca_certs_pem: String::new(),
        })?;
        round_trip(&EnrollmentExtendRouterRequest {
            client_cert_csr: id.clone(), server_cert_csr: token.clone(), require_verification: flag,
        })?;
        round_trip(&EnrollmentExtendRouterVerifyRequest { client_cert_pem: id.clone() })?;
        round_trip(&ExtendVerifyResult { code: id.clone(), message: token.clone(), cause: id })?;
    }

    #[test]
    fn errors(
        code: u32, hint: u32, text in text(), circuit_id in prop::option::of(text()), elsewhere: bool,
    ) {
        let error = EdgeError {
            code: ErrorCode(code), retry_hint: RetryHint(hint), text, circuit_id, elsewhere,
        };
        prop_assert_eq!(EdgeError::from_message(&decode(&encode(&error.to_message()))), Ok(error));
    }

    #[test]
    fn any_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..60),
        kind in prop::sample::select(vec![
            20000, 20001, 20002, 20200, 20218, 20219, 20222, 20223, 20410, 20412, 20506,
        ]),
        entries in prop::collection::vec(
            (prop::sample::select(vec![
                10, 11, 12, 13, 14, 15, 16, 17, 18, 1013, 1014, 1022, 1023, 1024, 1025, 1026,
            ]), prop::collection::vec(any::<u8>(), 0..20)), 0..10),
    ) {
        try_all(&body);
        let mut message = Message::new(kind, body);
        for (key, value) in entries {
            message.headers.set(key, &value);
        }
        let _ = CreateCircuitV2::from_message(&message);
        let _ = CreateCircuitV3::from_message(&message);
        let _ = CreatedCircuit::from_message(&message);
        let _ = EdgeError::from_message(&message);
        let _ = SyncState::from_message(&message);
        let _ = RemoveTunnelTerminator::from_message(&message);
        let _ = TunnelHealthEvent::from_message(&message);
        let _ = data_model::CurrentIndex::from_message(&message);
        let _ = (supports_data_model(&message), data_model::subscription_id(&message));
    }
}
