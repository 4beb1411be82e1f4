//! Random networks for tests: small steps, which become change sets that a controller could decide
//! on.

use std::sync::Arc;

use proptest::prelude::*;

use crate::entity::{
    Authenticator, CertCredential, Config, ConfigType, EdgeRouterPolicy, Identity, PolicyType,
    PostureCheck, Router, Service, ServiceEdgeRouterPolicy, ServicePolicy,
};
use crate::{
    Base, Change, ChangeSet, Entity, Id, Kind, Roles, Semantic, Snapshot, Timeline, Timestamp,
    deletion,
};

/// Number of different ids and attributes; small, so that several steps concern the same entity.
const IDS: u8 = 6;
const ATTRIBUTES: [&str; 4] = ["a", "b", "c", "d"];

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Put { kind: Kind, id: u8, attributes: Vec<u8>, roles: [Vec<u8>; 3], flags: [bool; 3] },
    Delete { kind: Kind, id: u8 },
}

const KINDS: [Kind; 10] = [
    Kind::Identity,
    Kind::Service,
    Kind::Router,
    Kind::PostureCheck,
    Kind::ServicePolicy,
    Kind::EdgeRouterPolicy,
    Kind::ServiceEdgeRouterPolicy,
    Kind::Authenticator,
    Kind::ConfigType,
    Kind::Config,
];

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = |most| prop::collection::vec(0u8..16, 0..most);
    let roles = || [some(3), some(3), some(2)];
    let put = (prop::sample::select(&KINDS), 0..IDS, some(4), roles(), any::<[bool; 3]>());
    let put = put.prop_map(|(kind, id, attributes, roles, flags)| Step::Put {
        kind,
        id,
        attributes,
        roles,
        flags,
    });
    let delete = (prop::sample::select(&KINDS), 0..IDS);
    let delete = delete.prop_map(|(kind, id)| Step::Delete { kind, id });
    prop::collection::vec(prop_oneof![3 => put, 1 => delete], 1..6)
}

pub(crate) fn empty() -> Snapshot {
    Snapshot::empty(Timeline("test".into()))
}

fn id_of(id: u8) -> Id {
    Id::new(&format!("id{id}"))
}

fn attributes_of(numbers: &[u8]) -> Vec<Arc<str>> {
    let mut list: Vec<Arc<str>> =
        numbers.iter().map(|n| ATTRIBUTES[usize::from(*n) % ATTRIBUTES.len()].into()).collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// Roles made of numbers: attributes, ids of existing entities, or all.
fn roles_of(snapshot: &Snapshot, kind: Kind, numbers: &[u8]) -> Roles {
    if numbers.first() == Some(&15) {
        return Roles::all();
    }
    let entries = numbers.iter().filter_map(|n| match n {
        0..8 => Some(format!("#{}", ATTRIBUTES[usize::from(*n) % ATTRIBUTES.len()])),
        _ => {
            let id = id_of(n % IDS);
            snapshot.contains(kind, &id).then(|| format!("@{id}"))
        }
    });
    Roles::parse(&entries.collect::<Vec<_>>()).unwrap()
}

/// The change set of several steps on a snapshot; steps that cannot be applied are left out.
pub(crate) fn change_set(snapshot: &Snapshot, steps: &[Step]) -> ChangeSet {
    let mut set = ChangeSet::default();
    let mut tip = snapshot.clone();
    for step in steps {
        let changes = match step {
            Step::Put { kind, id, attributes, roles, flags } => {
                let entity = entity(&tip, *kind, &id_of(*id), attributes, roles, *flags);
                entity.map(Change::Put).into_iter().collect()
            }
            Step::Delete { kind, id } => {
                deletion::plan(&tip, *kind, &id_of(*id), Timestamp(2)).unwrap_or_default()
            }
        };
        let step = ChangeSet::of(changes);
        tip = tip.apply(&step).unwrap();
        set.changes.extend(step.changes);
    }
    set
}

fn entity(
    tip: &Snapshot,
    kind: Kind,
    id: &Id,
    attributes: &[u8],
    roles: &[Vec<u8>; 3],
    flags: [bool; 3],
) -> Option<Entity> {
    let created = tip.entity(kind, id).map_or(Timestamp(1), |entity| entity.base().created_at);
    let base = Base { updated_at: Timestamp(2), ..Base::new(id.clone(), created) };
    let name: Arc<str> =
        if flags[0] { "n".to_owned() } else { "m".to_owned() + id.as_str() }.into();
    let name: Arc<str> = format!("{name}{id}").into();
    let role_attributes = attributes_of(attributes);
    let semantic = if flags[1] { Semantic::AnyOf } else { Semantic::AllOf };
    let roles = |side: usize| roles_of(tip, kind.sides()[side], &roles[side]);
    let configs = || {
        let ids = attributes.iter().map(|n| id_of(n % IDS));
        ids.filter(|id| tip.contains(Kind::Config, id)).collect::<Vec<_>>()
    };
    Some(match kind {
        Kind::Identity => Identity { base, name, role_attributes, ..Default::default() }.into(),
        Kind::Service => Service {
            base,
            name,
            role_attributes,
            configs: configs(),
            is_fabric_only: flags[2],
            ..Default::default()
        }
        .into(),
        Kind::Router => {
            Router { base, name, role_attributes, is_edge: flags[2], ..Default::default() }.into()
        }
        Kind::PostureCheck => {
            PostureCheck { base, name, role_attributes, ..Default::default() }.into()
        }
        Kind::ServicePolicy => ServicePolicy {
            base,
            name,
            semantic,
            policy_type: if flags[2] { PolicyType::Bind } else { PolicyType::Dial },
            identity_roles: roles(0),
            service_roles: roles(1),
            posture_check_roles: roles(2),
        }
        .into(),
        Kind::EdgeRouterPolicy => EdgeRouterPolicy {
            base,
            name,
            semantic,
            identity_roles: roles(0),
            edge_router_roles: roles(1),
        }
        .into(),
        Kind::ServiceEdgeRouterPolicy => ServiceEdgeRouterPolicy {
            base,
            name,
            semantic,
            service_roles: roles(0),
            edge_router_roles: roles(1),
        }
        .into(),
        Kind::Authenticator => {
            let identity_id = id.clone();
            let cert = CertCredential { fingerprint: name, ..Default::default() };
            let known = tip.contains(Kind::Identity, &identity_id);
            let cert = Some(cert);
            known.then(|| Authenticator { base, identity_id, cert, ..Default::default() }.into())?
        }
        Kind::ConfigType => tip
            .by_name::<ConfigType>(&name)
            .is_none()
            .then(|| ConfigType { base, name, ..Default::default() }.into())?,
        Kind::Config => {
            let config_type_id = id_of(attributes.first().copied().unwrap_or(0) % IDS);
            let known = tip.contains(Kind::ConfigType, &config_type_id);
            known.then(|| Config { base, name, config_type_id, ..Default::default() }.into())?
        }
        _ => return None,
    })
}
