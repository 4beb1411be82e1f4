//! The router's copy of the data model: entities by id, and policies with their members, changed by
//! the events of a controller (docs/protocol/edge-control-plane.md 4, 8.1).

use std::collections::{BTreeMap, HashMap, HashSet};

use weft_wire::edge_ctrl::data_model::{
    Action, Cache, ChangeSet, Config, ConfigType, DataState, Event, Identity, PolicyType,
    PostureCheck, PublicKey, RelatedEntityType, Revocation, Router, Service, ServicePolicy,
    ServicePolicyChange, TARGET_ROUTER, event,
};

/// A service policy with its members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    pub(crate) value: ServicePolicy,
    pub(crate) services: HashSet<String>,
    pub(crate) checks: HashSet<String>,
    pub(crate) identities: HashSet<String>,
}

/// The data model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// The timeline of the index; empty without a model.
    pub(crate) timeline: String,
    /// Index of the last change.
    pub(crate) index: u64,
    pub(crate) config_types: HashMap<String, ConfigType>,
    pub(crate) configs: HashMap<String, Config>,
    pub(crate) identities: HashMap<String, Identity>,
    pub(crate) services: HashMap<String, Service>,
    pub(crate) routers: HashMap<String, Router>,
    pub(crate) policies: HashMap<String, Policy>,
    pub(crate) checks: HashMap<String, PostureCheck>,
    pub(crate) keys: HashMap<String, PublicKey>,
    pub(crate) revocations: HashMap<String, Revocation>,
    /// Values of the router itself, kept in its file.
    pub(crate) caches: BTreeMap<String, Cache>,
    /// The policies that each identity is a member of.
    policies_of: HashMap<String, HashSet<String>>,
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
            for policy in self.policies_of.remove(&one.id).unwrap_or_default() {
                if let Some(policy) = self.policies.get_mut(&policy) {
                    policy.identities.remove(&one.id);
                }
            }
        }
        put(&mut self.identities, one.id.clone(), one, delete);
    }

    fn apply_service(&mut self, one: Service, delete: bool, touched: &mut Touched) {
        touched.services.insert(one.id.clone());
        if delete {
            for policy in self.policies.values_mut() {
                policy.services.remove(&one.id);
            }
        }
        put(&mut self.services, one.id.clone(), one, delete);
    }

    fn apply_policy(&mut self, one: ServicePolicy, delete: bool, touched: &mut Touched) {
        let id = one.id.clone();
        if !delete {
            touched.policies.insert(id.clone());
            let policy = self.policies.entry(id).or_default();
            touched.identities.extend(policy.identities.iter().cloned());
            policy.value = one;
            return;
        }
        let Some(policy) = self.policies.remove(&id) else { return };
        for identity in &policy.identities {
            if let Some(policies) = self.policies_of.get_mut(identity) {
                policies.remove(&id);
            }
            touched.identities.insert(identity.clone());
        }
        touched.dropped.push(policy);
    }

    fn apply_members(&mut self, change: ServicePolicyChange, touched: &mut Touched) {
        let kind = change.related_entity_type();
        let Some(policy) = self.policies.get_mut(&change.policy_id) else {
            if change.add {
                tracing::warn!(
                    policy = %change.policy_id,
                    "members of an unknown policy were ignored"
                );
            }
            return;
        };
        let members = match kind {
            RelatedEntityType::Service => &mut policy.services,
            RelatedEntityType::PostureCheck => &mut policy.checks,
            RelatedEntityType::Identity => &mut policy.identities,
            RelatedEntityType::Invalid => return,
        };
        for id in change.related_entity_ids {
            if kind == RelatedEntityType::Identity {
                touched.identities.insert(id.clone());
                let policies = self.policies_of.entry(id.clone()).or_default();
                if change.add {
                    policies.insert(change.policy_id.clone());
                } else {
                    policies.remove(&change.policy_id);
                }
            }
            if kind == RelatedEntityType::Service {
                // Only these services are noted, and not the identities of the policy: a policy may
                // have all identities, and changes with every new service.
                touched.services.insert(id.clone());
            }
            if change.add {
                members.insert(id);
            } else {
                members.remove(&id);
            }
        }
        if kind == RelatedEntityType::PostureCheck {
            touched.identities.extend(policy.identities.iter().cloned());
        }
        if kind != RelatedEntityType::Service {
            touched.policies.insert(change.policy_id);
        }
    }

    fn apply_check(&mut self, one: PostureCheck, delete: bool, touched: &mut Touched) {
        for policy in self.policies.values_mut().filter(|policy| policy.checks.contains(&one.id)) {
            touched.identities.extend(policy.identities.iter().cloned());
            touched.policies.insert(policy.value.id.clone());
            if delete {
                policy.checks.remove(&one.id);
            }
        }
        put(&mut self.checks, one.id.clone(), one, delete);
    }

    fn apply_config(&mut self, one: Config, delete: bool, touched: &mut Touched) {
        touched.configs.insert(one.id.clone());
        if delete {
            for identity in self.identities.values_mut() {
                for configs in identity.service_configs.values_mut() {
                    configs.configs.retain(|_, config| *config != one.id);
                }
            }
        }
        put(&mut self.configs, one.id.clone(), one, delete);
    }

    /// The policies of one type with both an identity and a service.
    pub(crate) fn policies_for(
        &self,
        identity: &str,
        service: &str,
        kind: PolicyType,
    ) -> impl Iterator<Item = &Policy> {
        let policies = self.policies_of.get(identity).into_iter().flatten();
        policies
            .filter_map(|id| self.policies.get(id))
            .filter(move |policy| policy.value.policy_type() == kind)
            .filter(move |policy| policy.services.contains(service))
    }

    /// The services that an identity has by policies of one type.
    pub(crate) fn services_of(&self, identity: &str, kind: PolicyType) -> Vec<&Service> {
        let policies = self.policies_of.get(identity).into_iter().flatten();
        let mut ids: Vec<&String> = policies
            .filter_map(|id| self.policies.get(id))
            .filter(|policy| policy.value.policy_type() == kind)
            .flat_map(|policy| &policy.services)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.services.get(id)).collect()
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
        let of_router = |config: &Config| {
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

    /// The model as a full state, referenced entities first
    /// (docs/protocol/edge-control-plane.md 7.3).
    pub(crate) fn to_state(&self) -> DataState {
        let create = |model: event::Model| Event::new(Action::Create, model);
        let mut events: Vec<Event> = Vec::new();
        events.extend(sorted(&self.config_types).map(|one| create(one.clone().into())));
        events.extend(sorted(&self.configs).map(|one| create(one.clone().into())));
        events.extend(sorted(&self.identities).map(|one| create(one.clone().into())));
        events.extend(sorted(&self.services).map(|one| create(one.clone().into())));
        events.extend(sorted(&self.routers).map(|one| create(one.clone().into())));
        events.extend(sorted(&self.checks).map(|one| create(one.clone().into())));
        for policy in sorted(&self.policies) {
            events.push(create(policy.value.clone().into()));
            for (members, kind) in [
                (&policy.services, RelatedEntityType::Service),
                (&policy.checks, RelatedEntityType::PostureCheck),
                (&policy.identities, RelatedEntityType::Identity),
            ] {
                let mut ids: Vec<String> = members.iter().cloned().collect();
                ids.sort_unstable();
                let change = ServicePolicyChange {
                    policy_id: policy.value.id.clone(),
                    related_entity_ids: ids,
                    related_entity_type: kind.into(),
                    add: true,
                };
                events.push(create(change.into()));
            }
        }
        events.extend(sorted(&self.keys).map(|one| create(one.clone().into())));
        events.extend(sorted(&self.revocations).map(|one| create(one.clone().into())));
        DataState {
            events,
            end_index: self.index,
            timeline_id: self.timeline.clone(),
            caches: self.caches.clone(),
        }
    }

    /// Removes revocations that ended before `now` (seconds since 1970).
    pub(crate) fn expire_revocations(&mut self, now: i64) {
        self.revocations
            .retain(|_, one| one.expires_at.as_ref().is_none_or(|expires| expires.seconds >= now));
    }
}

fn put<T>(map: &mut HashMap<String, T>, id: String, value: T, delete: bool) {
    if delete {
        map.remove(&id);
    } else {
        map.insert(id, value);
    }
}

fn sorted<T>(map: &HashMap<String, T>) -> impl Iterator<Item = &T> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(id, _)| *id);
    entries.into_iter().map(|(_, value)| value)
}
