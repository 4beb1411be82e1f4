//! The router data model.

use super::*;
use crate::edge_ctrl::data_model::*;

#[test]
fn subscribe() {
    // docs/protocol/edge-control-plane.md 21
    let wire = hex("03 06 09 0c 19 50 00 00 05 00 00 00 00 00 00 00 0e 00 00 00
        08 2a 10 ac 02 22 03 74 6c 31 2a 02 73 31");
    let subscribe = SubscribeToDataModelRequest {
        current_index: 42,
        subscription_duration_seconds: 300,
        renew: false,
        timeline_id: "tl1".into(),
        subscription_id: "s1".into(),
    };
    let message = Message { sequence: 5, ..subscribe.to_message() };
    assert_eq!(encode(&message), wire);
    assert_eq!(SubscribeToDataModelRequest::from_message(&decode(&wire)), Ok(subscribe));
}

#[test]
fn change_set() {
    // docs/protocol/edge-control-plane.md 21
    let wire = hex("03 06 09 0c 15 50 00 00 09 00 00 00 0a 00 00 00 1d 00 00 00
        02 04 00 00 02 00 00 00 73 31
        08 2b 1a 17 08 01 5a 13 0a 04 73 76 63 31 12 03 77 65 62 18 01 22 04 63 66 67 31 28 2a");
    let service = Service {
        id: "svc1".into(),
        name: "web".into(),
        encryption_required: true,
        configs: vec!["cfg1".into()],
        ..Service::default()
    };
    let changes = ChangeSet {
        index: 43,
        previous_index: 42,
        changes: vec![Event::new(Action::Update, event::Model::Service(service))],
        ..ChangeSet::default()
    };
    let message = Message { sequence: 9, ..changes.to_message_for("s1") };
    assert_eq!(encode(&message), wire);
    let read = decode(&wire);
    assert_eq!(subscription_id(&read), Some("s1"));
    assert_eq!(ChangeSet::from_message(&read), Ok(changes.clone()));
    assert_eq!(subscription_id(&changes.to_message_for("")), None);
}

/// The bytes of an event inside a change set, without the change set's own fields.
fn event_bytes(event: Event) -> Vec<u8> {
    let body = ChangeSet::synthetic(vec![event]).to_body();
    assert_eq!(body[..3], [0x10, 0x01, 0x1a]);
    body[4..].to_vec()
}

#[test]
fn events() {
    // docs/protocol/edge-control-plane.md 21
    let members = ServicePolicyChange {
        policy_id: "pol1".into(),
        related_entity_ids: vec!["idA".into(), "idB".into()],
        related_entity_type: RelatedEntityType::Identity.into(),
        add: true,
    };
    assert_eq!(
        event_bytes(Event::new(Action::Create, event::Model::ServicePolicyChange(members))),
        hex("82 01 14 0a 04 70 6f 6c 31 12 03 69 64 41 12 03 69 64 42 18 02 20 01")
    );
    let config_type = ConfigType {
        id: "ct1".into(),
        name: "router.link.v1".into(),
        target: TARGET_ROUTER.into(),
    };
    assert_eq!(
        event_bytes(Event::new(Action::Create, event::Model::ConfigType(config_type))),
        hex("8a 01 1d 0a 03 63 74 31 12 0e 72 6f 75 74 65 72 2e 6c 69 6e 6b 2e 76 31
             1a 06 72 6f 75 74 65 72")
    );
    let revocation = Revocation {
        id: "as1".into(),
        expires_at: Some(Timestamp { seconds: 1_800_000_000, nanos: 0 }),
        r#type: revocation_type::API_SESSION.into(),
        ..Revocation::default()
    };
    assert_eq!(
        event_bytes(Event::new(Action::Create, event::Model::Revocation(revocation))),
        hex("7a 1a 0a 03 61 73 31 12 06 08 80 a4 a7 da 06 1a 0b 41 50 49 5f 53 45 53 53 49 4f 4e")
    );
}

#[test]
fn entities_of_a_later_release_are_no_error() {
    let event = hex("1a 07 08 01 a2 01 02 0a 00");
    let changes = ChangeSet::from_body(&event).unwrap().changes;
    assert_eq!(changes, [Event { action: 1, is_synthetic: false, model: None }]);
}

#[test]
fn current_index() {
    // docs/protocol/edge-control-plane.md 21
    let wire = hex("03 06 09 0c 1a 50 00 00 0a 00 00 00 10 00 00 00 00 00 00 00
        01 04 00 00 08 00 00 00 2b 00 00 00 00 00 00 00");
    let index = CurrentIndex { index: 43, ..CurrentIndex::default() };
    let message = Message { sequence: 10, ..index.to_message() };
    assert_eq!(encode(&message), wire);
    assert_eq!(CurrentIndex::from_message(&decode(&wire)), Ok(index.clone()));
    for (bytes, is_good) in
        [(SealedRevision::MAX_SEAL, true), (SealedRevision::MAX_SEAL + 1, false)]
    {
        let sealed = Some(SealedRevision { revision: 44, seal: vec![7; bytes].into() });
        let sealed = CurrentIndex { sealed, ..index.clone() };
        let read = CurrentIndex::from_message(&sealed.to_message());
        assert_eq!(read.ok(), is_good.then_some(sealed));
    }
    let mut lacking = index.to_message();
    lacking.headers.set(header::INDEX_SEAL, b"seal");
    assert!(CurrentIndex::from_message(&lacking).is_err(), "of no revision");
    let short = Message::new(content_type::CURRENT_INDEX, "");
    assert!(CurrentIndex::from_message(&short).is_err());
}

#[test]
fn byte_fields_do_not_keep_the_body() {
    let key = PublicKey { data: vec![7; 64].into(), kid: "k".into(), ..Default::default() };
    let state = DataState {
        events: vec![Event::new(Action::Create, event::Model::PublicKey(key))],
        end_index: 1,
        ..DataState::default()
    };
    let message = state.to_message();
    let read = DataState::from_message(&message).unwrap();
    assert_eq!(read, state);
    let Some(event::Model::PublicKey(key)) = &read.events[0].model else { panic!("no key") };
    assert!(!message.body.as_ptr_range().contains(&key.data.as_ptr()));
}

fn model() -> impl Strategy<Value = event::Model> {
    let list = || prop::collection::vec(text(), 0..3);
    let map = || prop::collection::btree_map(text(), text(), 0..3);
    let time = || {
        prop::option::of((any::<i32>(), 0..1_000_000_000i32))
            .prop_map(|time| time.map(|(s, nanos)| Timestamp { seconds: s.into(), nanos }))
    };
    prop_oneof![
        (text(), text(), 0..3i32, any::<u32>(), map(), any::<bool>()).prop_map(
            |(id, name, precedence, cost, configs, disabled)| {
                event::Model::Identity(Identity {
                    id: id.clone(),
                    name: name.clone(),
                    default_hosting_precedence: precedence,
                    default_hosting_cost: cost,
                    service_hosting_precedences: [(id.clone(), precedence)].into(),
                    service_hosting_costs: [(id.clone(), cost)].into(),
                    app_data_json: name.clone().into(),
                    tags_json: name.into(),
                    service_configs: [(id, ServiceConfigs { configs })].into(),
                    disabled,
                })
            }
        ),
        (text(), text(), any::<bool>(), list()).prop_map(
            |(id, name, encryption_required, configs)| {
                let service =
                    Service { id, name, encryption_required, configs, ..Service::default() };
                event::Model::Service(service)
            }
        ),
        (text(), text(), 0..3i32).prop_map(|(id, name, policy_type)| event::Model::ServicePolicy(
            ServicePolicy { id, name, policy_type }
        )),
        (text(), list(), 0..4i32, any::<bool>()).prop_map(
            |(policy_id, related_entity_ids, related_entity_type, add)| {
                event::Model::ServicePolicyChange(ServicePolicyChange {
                    policy_id,
                    related_entity_ids,
                    related_entity_type,
                    add,
                })
            }
        ),
        (text(), text(), text()).prop_map(|(id, name, target)| event::Model::ConfigType(
            ConfigType { id, name, target }
        )),
        (text(), text(), text(), text()).prop_map(|(id, type_id, name, data_json)| {
            event::Model::Config(Config { id, type_id, name, data_json })
        }),
        (text(), text(), text(), list(), any::<bool>()).prop_map(
            |(id, name, fingerprint, configs, disabled)| {
                event::Model::Router(Router { id, name, fingerprint, configs, disabled })
            }
        ),
        (
            prop::collection::vec(any::<u8>(), 0..30),
            text(),
            prop::collection::vec(0..2i32, 0..3),
            0..2i32
        )
            .prop_map(|(data, kid, usages, format)| {
                event::Model::PublicKey(PublicKey { data: data.into(), kid, usages, format })
            }),
        (text(), time(), text(), time()).prop_map(|(id, expires_at, r#type, issued_before)| {
            let sessions = id.clone().into();
            event::Model::Revocation(Revocation { id, expires_at, r#type, issued_before, sessions })
        }),
        (text(), text(), text(), posture()).prop_map(|(id, name, type_id, subtype)| {
            event::Model::PostureCheck(PostureCheck { id, name, type_id, subtype })
        }),
    ]
}

fn posture() -> impl Strategy<Value = Option<posture_check::Subtype>> {
    use posture_check::{Domains, Mac, Mfa, Os, OsList, Process, ProcessMulti, Subtype};
    let list = || prop::collection::vec(text(), 0..3);
    let process =
        || {
            (text(), text(), list(), list()).prop_map(|(os_type, path, hashes, fingerprints)| {
                Process { os_type, path, hashes, fingerprints }
            })
        };
    prop::option::of(prop_oneof![
        list().prop_map(|mac_addresses| Subtype::Mac(Mac { mac_addresses })),
        (any::<i64>(), any::<[bool; 3]>()).prop_map(|(timeout_seconds, [wake, unlock, legacy])| {
            Subtype::Mfa(Mfa {
                timeout_seconds,
                prompt_on_wake: wake,
                prompt_on_unlock: unlock,
                ignore_legacy_endpoints: legacy,
            })
        }),
        (text(), list()).prop_map(|(os_type, os_versions)| {
            Subtype::OsList(OsList { os_list: vec![Os { os_type, os_versions }] })
        }),
        process().prop_map(Subtype::Process),
        prop::collection::vec(process(), 0..3).prop_map(|processes| {
            Subtype::ProcessMulti(ProcessMulti { semantic: ALL_OF.into(), processes })
        }),
        list().prop_map(|domains| Subtype::Domains(Domains { domains })),
    ])
}

fn some_events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0..3i32, any::<bool>(), prop::option::of(model()))
        .prop_map(|(action, is_synthetic, model)| Event { action, is_synthetic, model });
    prop::collection::vec(event, 0..6)
}

proptest! {
    #[test]
    fn whole_model_and_changes(
        events in some_events(), index: u64, timeline_id in text(), synthetic: bool,
        caches in prop::collection::btree_map(text(), text(), 0..3),
    ) {
        let changes = ChangeSet {
            index, is_synthetic: synthetic, changes: events.clone(), timestamp_id: String::new(),
            previous_index: index.wrapping_sub(1),
        };
        round_trip(&changes)?;
        prop_assert_eq!(ChangeSet::is_outside_the_chain(&changes.to_message()), Ok(synthetic));
        let data = caches.into_iter().map(|(name, value)| (name, value.into())).collect();
        let caches = [(TERMINATOR_ID_CACHE.to_owned(), Cache { data })].into();
        let state = DataState { events, end_index: index, timeline_id, caches };
        round_trip(&state)?;
        round_trip(&ValidateRequest { state: Some(state), fix: synthetic })?;
    }

    #[test]
    fn subscription_and_validation(
        index: u64, seconds: u32, renew: bool, id in text(),
        counts in prop::collection::btree_map(text(), any::<u32>(), 0..4),
    ) {
        round_trip(&SubscribeToDataModelRequest {
            current_index: index, subscription_duration_seconds: seconds, renew,
            timeline_id: id.clone(), subscription_id: id.clone(),
        })?;
        let diff = Diff {
            entity_type: "service".into(), entity_id: id.clone(), diff_type: "added".into(),
            detail: id,
        };
        round_trip(&ValidateResponse {
            orig_entity_counts: counts.clone(), copy_entity_counts: counts, diffs: vec![diff],
        })?;
    }

    #[test]
    fn any_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..60), events in some_events(),
        place: prop::sample::Index, byte: u8,
    ) {
        let _ = DataState::from_body(&body);
        let _ = ChangeSet::from_body(&body);
        let message = Message::new(ChangeSet::CONTENT_TYPE, body.clone());
        let _ = ChangeSet::is_outside_the_chain(&message);
        let _ = SubscribeToDataModelRequest::from_body(&body);
        let _ = ValidateRequest::from_body(&body);
        let _ = ValidateResponse::from_body(&body);
        // Damaged bytes of a real message.
        let mut real = DataState { events, end_index: 1, ..DataState::default() }.to_body().to_vec();
        let place = place.index(real.len());
        real[place] = byte;
        let _ = DataState::from_body(&real);
        real.truncate(place);
        let _ = DataState::from_body(&real);
    }
}
