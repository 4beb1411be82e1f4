//! Events of the data model as messages carry them (docs/protocol/edge-control-plane.md 4.3, 7).
//!
//! The model gives the changes and their order; this module encodes them. A change that routers
//! cannot see gives no event: services of the fabric alone, and configs for routers, which each
//! router is sent outside of the sequence of change sets.

use std::sync::Arc;

use weft_auth::public_keys::{self, PublicKey};
use weft_model::entity::Ca;
use weft_model::rdm::{self, MemberKind, Subject};
use weft_model::{ChangeSet, Kind, Snapshot, Timestamp};
use weft_wire::edge_ctrl::data_model::event::Model;
use weft_wire::edge_ctrl::data_model::{
    Action, Config as ConfigForm, Event, PublicKey as PublicKeyForm, RelatedEntityType,
    ServicePolicyChange,
};

use super::project;

/// Whether a change set may concern routers.
pub(crate) fn concerns_routers(set: &ChangeSet) -> bool {
    set.changes.iter().any(|change| rdm::is_told(change.kind()))
}

/// The events of a batch; none if it does not concern routers.
pub(crate) fn of_changes(
    before: &Snapshot,
    after: &Snapshot,
    sets: &[Arc<ChangeSet>],
    now: Timestamp,
) -> Vec<Event> {
    if !sets.iter().any(|set| concerns_routers(set)) {
        return Vec::new();
    }
    let changes = rdm::changes(before, after, sets);
    let seen_in = |event: &rdm::Event| match event.action {
        rdm::Action::Delete => before,
        _ => after,
    };
    changes.into_iter().flat_map(|event| of((seen_in(&event), after), event, now)).collect()
}

/// Every entity of a snapshot as a creation. Keys, authorities included, come before revocations.
pub(crate) fn of_all(
    snapshot: &Snapshot,
    keys: Vec<PublicKey>,
    now: Timestamp,
) -> impl Iterator<Item = Event> {
    let told = move |event| of((snapshot, snapshot), event, now);
    let entities = rdm::entities(snapshot).flat_map(told);
    entities.chain(of_keys(keys)).chain(rdm::revocations(snapshot).flat_map(told))
}

/// Creations of public keys. They are marked as synthetic, as in the original.
pub(crate) fn of_keys(keys: Vec<PublicKey>) -> impl Iterator<Item = Event> {
    keys.into_iter().map(|key| Event {
        is_synthetic: true,
        ..Event::new(Action::Create, Model::PublicKey(project::public_key(key)))
    })
}

/// Events with the configs of a router. They are outside of the sequence of change sets, like keys,
/// because that sequence is the same for all routers.
pub(crate) fn of_managed(configs: &[ConfigForm]) -> impl Iterator<Item = Event> {
    configs.iter().map(|config| Event {
        is_synthetic: true,
        ..Event::new(Action::Create, Model::Config(config.clone()))
    })
}

/// Whether a change set may change the configs of a router.
pub(crate) fn concerns_managed(set: &ChangeSet) -> bool {
    let kinds = [Kind::Router, Kind::Config, Kind::ConfigType];
    set.changes.iter().any(|change| kinds.contains(&change.kind()))
}

/// Deletions of public keys by their names.
pub(crate) fn without_keys(kids: Vec<String>) -> impl Iterator<Item = Event> {
    kids.into_iter().map(|kid| Event {
        is_synthetic: true,
        ..Event::new(
            Action::Delete,
            Model::PublicKey(PublicKeyForm { kid, ..PublicKeyForm::default() }),
        )
    })
}

/// The events of an entity as a snapshot has it; `after` is the state when they are told.
fn of((snapshot, after): (&Snapshot, &Snapshot), event: rdm::Event, now: Timestamp) -> Vec<Event> {
    let action = match event.action {
        rdm::Action::Create => Action::Create,
        rdm::Action::Update => Action::Update,
        rdm::Action::Delete => Action::Delete,
    };
    let model = match event.subject {
        Subject::ConfigType(it) => Some(Model::ConfigType(project::config_type(&it))),
        Subject::Config(it) => project::config(snapshot, &it).map(Model::Config),
        Subject::Identity(it) => Some(Model::Identity(project::identity(&it, now))),
        Subject::Service(it) => project::service(snapshot, &it).map(Model::Service),
        Subject::Router(it) => Some(Model::Router(project::router(&it))),
        Subject::PostureCheck(it) => Some(Model::PostureCheck(project::posture_check(&it))),
        Subject::ServicePolicy(it) => Some(Model::ServicePolicy(project::service_policy(&it))),
        Subject::Ca(it) => return of_authorities(&it, action, after),
        Subject::Revocation(it) => Some(Model::Revocation(project::revocation(&it))),
        Subject::Members { policy, kind, ids } => {
            let change = ServicePolicyChange {
                policy_id: policy.to_string(),
                related_entity_ids: ids.iter().map(ToString::to_string).collect(),
                related_entity_type: members(kind).into(),
                add: event.action != rdm::Action::Delete,
            };
            return vec![Event::new(Action::Create, Model::ServicePolicyChange(change))];
        }
    };
    model.into_iter().map(|model| Event::new(action, model)).collect()
}

/// The authorities of a third-party CA as public keys. One that another CA has, too, is not deleted.
fn of_authorities(ca: &Ca, action: Action, after: &Snapshot) -> Vec<Event> {
    let mut keys = public_keys::of_ca(ca);
    if action == Action::Delete && !keys.is_empty() {
        let kept: Vec<PublicKey> =
            after.list::<Ca>().flat_map(|ca| public_keys::of_ca(ca)).collect();
        keys.retain(|key| !kept.contains(key));
    }
    let event = |key| Event::new(action, Model::PublicKey(project::public_key(key)));
    keys.into_iter().map(event).collect()
}

fn members(kind: MemberKind) -> RelatedEntityType {
    match kind {
        MemberKind::Services => RelatedEntityType::Service,
        MemberKind::Identities => RelatedEntityType::Identity,
        MemberKind::PostureChecks => RelatedEntityType::PostureCheck,
    }
}
