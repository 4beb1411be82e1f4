//! The router's copy of the data model: entities by id, and policies with their members, changed by
//! the events of a controller (docs/protocol/edge-control-plane.md 4, 8.1).

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use weft_wire::edge_ctrl::data_model::{
    Action, Cache, ChangeSet, Config, ConfigType, DataState, Event, Identity, PolicyType,
    PostureCheck, PublicKey, RelatedEntityType, Revocation, Router, Service, ServicePolicy,
    ServicePolicyChange, TARGET_ROUTER, event,
};

use super::policies::{Ids, Policies, Policy};

/// Entities by id.
pub(super) type Entities<T> = imbl::HashMap<String, Arc<T>>;

/// The data model. A clone costs little, and shares everything with its original until one of them
/// changes: long work is done on a clone, so that changes and look-ups do not wait for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// The timeline of the index; empty without a model.
    pub(crate) timeline: String,
    /// Index of the last change.
    pub(crate) index: u64,
    pub(crate) config_types: Entities<ConfigType>,
    pub(crate) configs: Entities<Config>,
    pub(crate) identities: Entities<Identity>,
    pub(crate) services: Entities<Service>,
    pub(crate) routers: Entities<Router>,
    pub(crate) policies: Policies,
    pub(crate) checks: Entities<PostureCheck>,
    pub(crate) keys: Entities<PublicKey>,
    pub(crate) revocations: Entities<Revocation>,
    /// Values of the router itself, kept in its file.
    pub(crate) caches: BTreeMap<String, Cache>,
}

/// The entities that events may have changed.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// True if the whole model was replaced.
    pub(crate) all: bool,
    /// Identities whose access may have changed.
    pub(crate) identities: HashSet<String>,
    /// Identities whose own entity has changed.
    pub(crate) renewed: HashSet<String>,
    /// Services whose access or configs may have changed.
    pub(crate) services: HashSet<String>,
    /// Identities that were deleted or disabled.
    pub(crate) gone: Vec<String>,
    /// True if public keys have changed.
    pub(crate) keys: bool,
    /// True if revocations have changed.
    pub(crate) revocations: bool,
    /// Configs that have changed.
    pub(crate) configs: HashSet<String>,
    /// True if config types have changed.
    pub(crate) config_types: bool,
    /// True if routers have changed.
    pub(crate) routers: bool,
    /// Policies whose type, identities or posture checks have changed.
    pub(crate) policies: HashSet<String>,
    /// Policies that were deleted.
    pub(crate) dropped: Vec<Policy>,
}

impl Touched {
    /// A change of everything.
    pub(crate) fn all() -> Self {
        Self { all: true, keys: true, revocations: true, ..Self::default() }
    }

    /// True if anyone's access or configs may have changed.
    pub(crate) fn access(&self) -> bool {
        self.all
            || self.config_types
            || !self.configs.is_empty()
            || !self.identities.is_empty()
            || !self.services.is_empty()
    }
}

/// The place of a change set relative to a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The change set comes next.
    Next,
    /// The change set was applied before.
    Old,
    /// A change set before it is missing.
    Gap,
}

impl Model {
    /// The model of a full state.
    pub(crate) fn from_state(state: DataState) -> Self {
        let mut model = Self {
            timeline: state.timeline_id,
            index: state.end_index,
            caches: state.caches,
            ..Self::default()
        };
        let mut touched = Touched::default();
        for event in state.events {
            model.apply_event(event, &mut touched);
        }
        model
    }

    /// The place of a change set relative to this model. A change outside of the sequence can
    /// always be applied (docs/protocol/edge-control-plane.md 6.3).
    pub(crate) fn fits(&self, change: &ChangeSet) -> Fit {
        if change.is_synthetic {
            Fit::Next
        } else if self.index > 0 && change.index <= self.index {
            Fit::Old
        } else if self.index > 0 && change.previous_index > 0 && change.previous_index != self.index
        {
            Fit::Gap
        } else {
            Fit::Next
        }
    }

    /// Applies a change set that comes next.
    pub(crate) fn apply(&mut self, change: ChangeSet) -> Touched {
        if !change.is_synthetic {
            self.index = change.index;
        }
        let mut touched = Touched::default();
        for event in change.changes {
            self.apply_event(event, &mut touched);
        }
        touched
    }

    fn apply_event(&mut self, event: Event, touched: &mut Touched) {
        let delete = event.action() == Action::Delete;
        match event.model {
            Some(event::Model::Identity(one)) => self.apply_identity(one, delete, touched),
            Some(event::Model::Service(one)) => self.apply_service(one, delete, touched),
            Some(event::Model::ServicePolicy(one)) => self.apply_policy(one, delete, touched),
            Some(event::Model::ServicePolicyChange(one)) => self.apply_members(one, touched),
            Some(event::Model::PostureCheck(one)) => self.apply_check(one, delete, touched),
            Some(event::Model::ConfigType(one)) => {
                touched.config_types = true;
                put(&mut self.config_types, one.id.clone(), one, delete);
            }
            Some(event::Model::Config(one)) => self.apply_config(one, delete, touched),
            Some(event::Model::Router(one)) => {
                touched.routers = true;
                put(&mut self.routers, one.id.clone(), one, delete);
            }
            Some(event::Model::PublicKey(one)) => {
                touched.keys = true;
                put(&mut self.keys, one.kid.clone(), one, delete);
            }
            Some(event::Model::Revocation(one)) => {
                touched.revocations = true;
                put(&mut self.revocations, one.id.clone(), one, delete);
            }
            // A kind of entity of a later release is ignored.
            None => {}
        }
    }

    fn apply_identity(&mut self, one: Identity, delete: bool, touched: &mut Touched) {
        touched.identities.insert(one.id.clone());
        touched.renewed.insert(one.id.clone());
        if delete || one.disabled {
            touched.gone.push(one.id.clone());
        }
        if delete {
            self.policies.forget_identity(&one.id);
        }
        put(&mut self.identities, one.id.clone(), one, delete);
    }

    fn apply_service(&mut self, one: Service, delete: bool, touched: &mut Touched) {
        touched.services.insert(one.id.clone());
        if delete {
            self.policies.forget_service(&one.id);
        }
        put(&mut self.services, one.id.clone(), one, delete);
    }

    fn apply_policy(&mut self, one: ServicePolicy, delete: bool, touched: &mut Touched) {
        if delete {
            let Some(policy) = self.policies.remove(&one.id) else { return };
            touched.identities.extend(strings(&policy.identities));
            touched.dropped.push(policy);
        } else {
            touched.policies.insert(one.id.clone());
            touched.identities.extend(strings(&self.policies.put(one).identities));
        }
    }

    fn apply_members(&mut self, change: ServicePolicyChange, touched: &mut Touched) {
        let kind = change.related_entity_type();
        let Some(policy) = self.policies.change(&change) else {
            if change.add {
                tracing::warn!(
                    policy = %change.policy_id,
                    "members of an unknown policy were ignored"
                );
            }
            return;
        };
        match kind {
            RelatedEntityType::Identity => touched.identities.extend(change.related_entity_ids),
            RelatedEntityType::PostureCheck => {
                touched.identities.extend(strings(&policy.identities));
            }
            // Only these services are noted: a policy with all identities changes with every
            // service.
            RelatedEntityType::Service => {
                touched.services.extend(change.related_entity_ids);
                return;
            }
            RelatedEntityType::Invalid => return,
        }
        touched.policies.insert(change.policy_id);
    }

    fn apply_check(&mut self, one: PostureCheck, delete: bool, touched: &mut Touched) {
        for policy in self.policies.of_check(&one.id) {
            touched.identities.extend(strings(&policy.identities));
            touched.policies.insert(policy.value.id.clone());
        }
        if delete {
            self.policies.forget_check(&one.id);
        }
        put(&mut self.checks, one.id.clone(), one, delete);
    }

    fn apply_config(&mut self, one: Config, delete: bool, touched: &mut Touched) {
        touched.configs.insert(one.id.clone());
        if delete {
            self.drop_overrides(&one.id);
        }
        put(&mut self.configs, one.id.clone(), one, delete);
    }

    /// Removes a config that was deleted from the overrides of identities.
    fn drop_overrides(&mut self, config: &str) {
        let is_meant = |identity: &&Arc<Identity>| {
            let mut overrides = identity.service_configs.values();
            overrides.any(|of_service| of_service.configs.values().any(|id| id == config))
        };
        let meant: Vec<String> =
            self.identities.values().filter(is_meant).map(|one| one.id.clone()).collect();
        for id in meant {
            let Some(identity) = self.identities.get_mut(&id).map(Arc::make_mut) else { continue };
            for of_service in identity.service_configs.values_mut() {
                of_service.configs.retain(|_, id| id != config);
            }
        }
    }

    /// The policies of one type with both an identity and a service.
    pub(crate) fn policies_for(
        &self,
        identity: &str,
        service: &str,
        kind: PolicyType,
    ) -> impl Iterator<Item = &Policy> {
        self.policies.of_both(identity, service, kind)
    }

    /// The services that an identity has by policies of one type.
    pub(crate) fn services_of(&self, identity: &str, kind: PolicyType) -> Vec<&Service> {
        let policies = self.policies.of_identity(identity);
        let mut ids: Vec<&str> = policies
            .filter(|policy| policy.value.policy_type() == kind)
            .flat_map(|policy| policy.services.iter().map(|id| &**id))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.services.get(id)).map(|one| &**one).collect()
    }

    /// Configs (JSON text by type name) of a service for an identity: the service's own, overridden
    /// by those of the identity (docs/protocol/edge-control-plane.md 8.1).
    pub(crate) fn configs_for(
        &self,
        identity: &str,
        service: &Service,
    ) -> BTreeMap<String, String> {
        let ids = self.configs_named(identity, service);
        let mut out = BTreeMap::new();
        for config in ids.filter_map(|id| self.configs.get(id)) {
            if let Some(kind) = self.config_types.get(&config.type_id) {
                out.insert(kind.name.clone(), config.data_json.clone());
            }
        }
        out
    }

    /// Ids of the configs of a service for an identity, known or not: the service's own, then those
    /// by which the identity overrides them.
    pub(crate) fn configs_named<'a>(
        &'a self,
        identity: &str,
        service: &'a Service,
    ) -> impl Iterator<Item = &'a String> + use<'a> {
        let overrides = self.identities.get(identity);
        let overrides = overrides.and_then(|one| one.service_configs.get(&service.id));
        service.configs.iter().chain(overrides.into_iter().flat_map(|one| one.configs.values()))
    }

    /// The settings that controllers keep for a router, by the name of the config type.
    pub(crate) fn managed(&self, router: &str) -> BTreeMap<String, String> {
        let ids = self.routers.get(router).map(|router| router.configs.as_slice());
        let configs = ids.unwrap_or_default().iter().filter_map(|id| self.configs.get(id));
        let of_router = |config: &Arc<Config>| {
            let kind = self.config_types.get(&config.type_id)?;
            (kind.target == TARGET_ROUTER).then(|| (kind.name.clone(), config.data_json.clone()))
        };
        configs.filter_map(of_router).collect()
    }

    /// Removes configs of a router that are no longer its own, because no event removes them.
    pub(crate) fn forget_managed(&mut self, router: &str) {
        let Some(own) = self.routers.get(router) else { return };
        let types = &self.config_types;
        self.configs.retain(|id, config| {
            let kind = types.get(&config.type_id);
            kind.is_none_or(|kind| kind.target != TARGET_ROUTER) || own.configs.contains(id)
        });
    }

    /// The model as the events of a full state, one after the other, referenced entities first
    /// (docs/protocol/edge-control-plane.md 7.3).
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> {
        let policies = sorted(self.policies.by_id()).flat_map(events_of_policy);
        created(&self.config_types)
            .chain(created(&self.configs))
            .chain(created(&self.identities))
            .chain(created(&self.services))
            .chain(created(&self.routers))
            .chain(created(&self.checks))
            .chain(policies)
            .chain(created(&self.keys))
            .chain(created(&self.revocations))
    }

    /// Removes revocations that ended before `now` (seconds since 1970).
    pub(crate) fn expire_revocations(&mut self, now: i64) {
        self.revocations
            .retain(|_, one| one.expires_at.as_ref().is_none_or(|expires| expires.seconds >= now));
    }
}

fn put<T>(map: &mut Entities<T>, id: String, value: T, delete: bool) {
    if delete {
        map.remove(&id);
    } else {
        map.insert(id, Arc::new(value));
    }
}

fn strings(ids: &Ids) -> impl Iterator<Item = String> {
    ids.iter().map(ToString::to_string)
}

/// Entities as events that create them.
fn created<T: Clone + Into<event::Model>>(entities: &Entities<T>) -> impl Iterator<Item = Event> {
    sorted(entities).map(|one| Event::new(Action::Create, T::clone(one)))
}

/// A policy as events that create it and add its members.
fn events_of_policy(policy: &Policy) -> impl Iterator<Item = Event> {
    let value = Event::new(Action::Create, policy.value.clone());
    let members = policy.members().into_iter().map(|(kind, members)| {
        let mut related_entity_ids: Vec<String> = strings(members).collect();
        related_entity_ids.sort_unstable();
        let change = ServicePolicyChange {
            policy_id: policy.value.id.clone(),
            related_entity_ids,
            related_entity_type: kind.into(),
            add: true,
        };
        Event::new(Action::Create, change)
    });
    std::iter::once(value).chain(members)
}

fn sorted<K: Ord, T>(map: &imbl::HashMap<K, T>) -> impl Iterator<Item = &T> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(id, _)| *id);
    entries.into_iter().map(|(_, value)| value)
}
