//! Snapshots against naive models: state that is carried along must equal state that is computed
//! anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::deletion::{self, DeletionError};
use crate::entity::{
    ApiSession, AuthPolicy, Authenticator, CertCredential, Config, ConfigType, EdgeRouterPolicy,
    Identity, PolicyType, Record, Router, Service, ServicePolicy, UpdbCredential,
};
use crate::testing::{self, change_set, steps};
use crate::{
    ApplyError, Author, AuthorKind, Base, Cause, Change, ChangeSet, ColdField, Entity, Id, Kind,
    Roles, Snapshot, Timestamp,
};

fn base(id: &str) -> Base {
    Base::new(Id::new(id), Timestamp(1))
}

fn identity(id: &str, name: &str) -> Identity {
    Identity { base: base(id), name: name.into(), ..Identity::default() }
}

fn service(id: &str, name: &str) -> Service {
    Service { base: base(id), name: name.into(), ..Service::default() }
}

fn puts(entities: impl IntoIterator<Item = Entity>) -> ChangeSet {
    ChangeSet::of(entities.into_iter().map(Change::Put))
}

/// The ids that one side of a policy selects, found by looking at every entity.
fn naive_members(snapshot: &Snapshot, policy: &Entity, side: usize) -> BTreeSet<Id> {
    let (roles, semantic) = policy.side(side).unwrap();
    let entities = snapshot.table(policy.kind().sides()[side]).iter();
    let meant = entities.filter(|entity| {
        let attributes = entity.attributes();
        attributes.is_some_and(|attributes| roles.matches(semantic, entity.id(), attributes))
    });
    meant.map(|entity| entity.id().clone()).collect()
}

fn ids(snapshot: &Snapshot, kind: Kind, ordinals: &roaring::RoaringBitmap) -> BTreeSet<Id> {
    let table = snapshot.table(kind);
    ordinals.iter().map(|ordinal| table.at(ordinal).unwrap().id().clone()).collect()
}

fn check_members(snapshot: &Snapshot) {
    for kind in Kind::ALL.iter().filter(|kind| !kind.sides().is_empty()) {
        for policy in snapshot.table(*kind).iter() {
            let ordinal = snapshot.table(*kind).ordinal(policy.id()).unwrap();
            for (side, to) in kind.sides().iter().enumerate() {
                let members = snapshot.members(*kind, ordinal, side);
                let naive = naive_members(snapshot, policy, side);
                assert_eq!(ids(snapshot, *to, &members), naive, "{policy:?} side {side}");
            }
        }
    }
}

fn check_queries(snapshot: &Snapshot) {
    let policies: Vec<_> = snapshot.list::<ServicePolicy>().cloned().collect();
    for identity in snapshot.list::<Identity>() {
        let holding: BTreeSet<Id> = policies
            .iter()
            .filter(|policy| {
                let policy = Entity::from((*policy).clone());
                naive_members(snapshot, &policy, ServicePolicy::IDENTITIES)
                    .contains(&identity.base.id)
            })
            .map(|policy| policy.base.id.clone())
            .collect();
        let id = &identity.base.id;
        let found = snapshot.holding::<ServicePolicy>(ServicePolicy::IDENTITIES, id);
        assert_eq!(ids(snapshot, Kind::ServicePolicy, &found), holding);
        for policy_type in [PolicyType::Dial, PolicyType::Bind] {
            let services: BTreeSet<Id> = policies
                .iter()
                .filter(|policy| policy.policy_type == policy_type)
                .filter(|policy| holding.contains(&policy.base.id))
                .flat_map(|policy| {
                    naive_members(snapshot, &policy.clone().into(), ServicePolicy::SERVICES)
                })
                .collect();
            let found = snapshot.services_of(id, policy_type);
            assert_eq!(ids(snapshot, Kind::Service, &found), services);
            for service in &services {
                let back = snapshot.identities_of(service, policy_type);
                assert!(ids(snapshot, Kind::Identity, &back).contains(id));
            }
        }
        let routers: BTreeSet<Id> = snapshot
            .list::<EdgeRouterPolicy>()
            .map(|policy| Entity::from(policy.clone()))
            .filter(|policy| naive_members(snapshot, policy, 0).contains(id))
            .flat_map(|policy| naive_members(snapshot, &policy, 1))
            .collect();
        assert_eq!(ids(snapshot, Kind::Router, &snapshot.routers_of_identity(id)), routers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_carried_along_equals_what_is_computed_anew(
        batches in prop::collection::vec(steps(), 1..12), looks in any::<u16>()
    ) {
        let mut snapshot = testing::empty();
        let mut log = Vec::new();
        for (at, batch) in batches.iter().enumerate() {
            let set = change_set(&snapshot, batch);
            let next = snapshot.apply(&set).unwrap();
            log.push(set);
            next.check_tables();
            prop_assert!(next.check().is_empty());
            // Members are computed at some revisions and carried along at the others.
            if looks >> at & 1 == 1 {
                check_members(&next);
                check_queries(&next);
            }
            snapshot = next;
        }
        check_members(&snapshot);
        check_queries(&snapshot);

        // Replaying the stored log and loading the rows lead to the same network.
        let mut replayed = testing::empty();
        for set in &log {
            let stored = ChangeSet::from_bytes(&set.to_bytes()).unwrap();
            prop_assert_eq!(&stored, set);
            replayed = replayed.apply(&stored).unwrap();
        }
        let mut loader = Snapshot::loader(snapshot.timeline().clone(), snapshot.revision());
        for kind in Kind::ALL {
            for entity in snapshot.table(*kind).iter().rev() {
                let row = entity.to_row();
                loader.put(Entity::from_row(*kind, kind.row_version(), &row).unwrap()).unwrap();
            }
        }
        let loaded = loader.finish().unwrap();
        loaded.check_tables();
        check_members(&loaded);
        for kind in Kind::ALL {
            let of = |snapshot: &Snapshot| snapshot.table(*kind).iter().cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&replayed), of(&snapshot));
            prop_assert_eq!(of(&loaded), of(&snapshot));
        }
    }

    #[test]
    fn rows_of_any_bytes_are_read_without_panic(
        kind in prop::sample::select(Kind::ALL), bytes in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let _ = Entity::from_row(kind, 1, &bytes);
        let _ = ChangeSet::from_bytes(&bytes);
    }
}

#[test]
fn ordinals_are_given_out_again_lowest_first_but_not_at_once() {
    let put = |ids: &[&str]| puts(ids.iter().map(|id| service(id, id).into()));
    let ordinal =
        |snapshot: &Snapshot, id: &str| snapshot.table(Kind::Service).ordinal(&Id::new(id));
    let first = testing::empty().apply(&put(&["a", "b", "c"])).unwrap();
    let mut set = put(&["d"]);
    set.delete(Kind::Service, Id::new("c")).delete(Kind::Service, Id::new("a"));
    let second = first.apply(&set).unwrap();
    assert_eq!(ordinal(&second, "d"), Some(3));
    let third = second.apply(&put(&["e", "f", "g"])).unwrap();
    assert_eq!(ordinal(&third, "e"), Some(0));
    assert_eq!(ordinal(&third, "f"), Some(2));
    assert_eq!(ordinal(&third, "g"), Some(4));
    // The earlier snapshot is unchanged.
    assert_eq!(ordinal(&first, "a"), Some(0));
    assert_eq!(first.table(Kind::Service).len(), 3);
    third.check_tables();
}

#[test]
fn names_are_unique_and_can_be_swapped() {
    let snapshot = testing::empty()
        .apply(&puts([service("a", "one").into(), service("b", "two").into()]))
        .unwrap();
    let taken = snapshot.apply(&puts([service("c", "one").into()])).unwrap_err();
    let expected =
        ApplyError::DuplicateName { kind: Kind::Service, name: "one".into(), holder: Id::new("a") };
    assert_eq!(taken, expected);
    let swapped =
        snapshot.apply(&puts([service("a", "two").into(), service("b", "one").into()])).unwrap();
    assert_eq!(swapped.by_name::<Service>("one").unwrap().base.id, "b");
    assert_eq!(swapped.by_id_or_name::<Service>("two").unwrap().base.id, "a");
    assert_eq!(swapped.by_id_or_name::<Service>("b").unwrap().base.id, "b");
    swapped.check_tables();
}

#[test]
fn unique_values_find_their_entity() {
    let cert = CertCredential { fingerprint: "ff".into(), ..CertCredential::default() };
    let updb = UpdbCredential { username: "ann".into(), ..UpdbCredential::default() };
    let authenticator = |id: &str| Authenticator {
        base: base(id),
        identity_id: Id::new("i"),
        ..Authenticator::default()
    };
    let snapshot = testing::empty()
        .apply(&puts([
            identity("i", "i").into(),
            Authenticator { cert: Some(cert.clone()), ..authenticator("c") }.into(),
            Authenticator { updb: Some(updb.into()), ..authenticator("u") }.into(),
        ]))
        .unwrap();
    assert_eq!(snapshot.authenticator_by_fingerprint("ff").unwrap().base.id, "c");
    assert_eq!(snapshot.authenticator_by_username("ann").unwrap().base.id, "u");
    assert_eq!(snapshot.authenticator_by_username("ff"), None);
    let twice = Authenticator { cert: Some(cert), ..authenticator("d") };
    let error = snapshot.apply(&puts([twice.into()])).unwrap_err();
    assert!(matches!(error, ApplyError::DuplicateValue { field: "fingerprint", .. }), "{error}");
    let of_identity = snapshot.referring::<Authenticator>(0, &Id::new("i"));
    assert_eq!(of_identity.count(), 2);
}

#[test]
fn references_must_lead_somewhere() {
    let config = Config {
        base: base("c"),
        name: "c".into(),
        config_type_id: Id::new("t"),
        ..Config::default()
    };
    let error = testing::empty().apply(&puts([config.clone().into()])).unwrap_err();
    assert!(matches!(error, ApplyError::MissingReference { to: Kind::ConfigType, .. }), "{error}");
    let config_type = ConfigType { base: base("t"), name: "t".into(), ..ConfigType::default() };
    // Here the order within a change set does not matter.
    let snapshot = testing::empty().apply(&puts([config.into(), config_type.into()])).unwrap();
    let mut set = ChangeSet::default();
    set.delete(Kind::ConfigType, Id::new("t"));
    let error = snapshot.apply(&set).unwrap_err();
    assert!(matches!(error, ApplyError::StillReferenced { by: Kind::Config, .. }), "{error}");
    let session = ApiSession { base: base("s"), token_hash: "t".into(), ..ApiSession::default() };
    let error = snapshot.apply(&puts([session.into()])).unwrap_err();
    assert_eq!(error, ApplyError::NotInSnapshots(Kind::ApiSession));
    let mut set = ChangeSet::default();
    set.delete(Kind::Config, Id::new("x"));
    assert!(matches!(snapshot.apply(&set), Err(ApplyError::NotFound { .. })));
}

#[test]
fn a_deletion_takes_what_depends_and_frees_what_only_names() {
    let policy = ServicePolicy {
        base: base("p"),
        name: "p".into(),
        identity_roles: Roles::parse(&["@i", "#x"]).unwrap(),
        ..ServicePolicy::default()
    };
    let authenticator =
        Authenticator { base: base("a"), identity_id: Id::new("i"), ..Authenticator::default() };
    let snapshot = testing::empty()
        .apply(&puts([identity("i", "i").into(), policy.into(), authenticator.into()]))
        .unwrap();
    let changes = deletion::plan(&snapshot, Kind::Identity, &Id::new("i"), Timestamp(9)).unwrap();
    assert_eq!(changes.len(), 3);
    assert!(matches!(&changes[0], Change::Put(Entity::ServicePolicy(policy))
        if policy.identity_roles.to_strings() == ["#x"] && policy.base.updated_at == Timestamp(9)));
    assert_eq!(changes[1], Change::Delete(Kind::Authenticator, Id::new("a")));
    assert_eq!(changes[2], Change::Delete(Kind::Identity, Id::new("i")));
    let after = snapshot.apply(&ChangeSet::of(changes)).unwrap();
    after.check_tables();
    assert!(after.table(Kind::Authenticator).is_empty());
}

#[test]
fn a_deletion_names_who_stands_against_it() {
    let auth_policy = AuthPolicy::default_policy(Timestamp(1));
    let user = Identity { auth_policy_id: auth_policy.base.id.clone(), ..identity("i", "ann") };
    let snapshot = testing::empty().apply(&puts([auth_policy.into(), user.into()])).unwrap();
    let refused = deletion::plan(&snapshot, Kind::AuthPolicy, &Id::new("default"), Timestamp(1));
    let Err(error @ DeletionError::InUse { .. }) = refused else { panic!("in use") };
    assert_eq!(error.to_string(), "auth policy default is in use by identity ann");
    let unknown = deletion::plan(&snapshot, Kind::Service, &Id::new("x"), Timestamp(1));
    assert_eq!(unknown, Err(DeletionError::NotFound(Kind::Service, Id::new("x"))));
}

#[test]
fn change_sets_keep_author_cause_and_cold_fields() {
    let mut set = puts([service("a", "a").into()]);
    set.author = Author { kind: AuthorKind::Identity, id: Id::new("i"), name: "ann".into() };
    set.cause = Cause { operation: "createService".into(), ..Cause::default() };
    set.at = Timestamp(7);
    let cold = |value: Option<&'static str>| Change::Cold {
        kind: Kind::Service,
        id: Id::new("a"),
        field: ColdField::AppData,
        value: value.map(bytes::Bytes::from),
    };
    set.changes.extend([cold(Some("much")), cold(None)]);
    set.delete(Kind::Service, Id::new("a"));
    assert_eq!(ChangeSet::from_bytes(&set.to_bytes()).unwrap(), set);
    assert!(ChangeSet::from_bytes(&[0xff]).is_err());
}

#[test]
fn only_what_policies_can_mean_is_meant_by_all() {
    let router = |id: &str, is_edge| Router {
        base: base(id),
        name: id.into(),
        is_edge,
        ..Router::default()
    };
    let policy = EdgeRouterPolicy {
        base: base("p"),
        name: "p".into(),
        identity_roles: Roles::all(),
        edge_router_roles: Roles::all(),
        ..EdgeRouterPolicy::default()
    };
    let snapshot = testing::empty()
        .apply(&puts([
            identity("i", "i").into(),
            router("edge", true).into(),
            router("transit", false).into(),
            policy.into(),
        ]))
        .unwrap();
    let usable = snapshot.routers_of_identity(&Id::new("i"));
    let names: Vec<_> = snapshot.entities::<Router>(&usable).map(|it| it.name.clone()).collect();
    assert_eq!(names, [Arc::from("edge")]);
    assert_eq!(<EdgeRouterPolicy as Record>::SIDES, [Kind::Identity, Kind::Router]);
}
