//! The router's copy of the data model: entities by id, and policies with their members, changed by
//! the events of a controller (docs/protocol/edge-control-plane.md 4, 8.1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_wire::edge_ctrl::data_model::{
    Action, Cache, ChangeSet, Config, ConfigType, DataState, Event, Identity, PolicyType,
    PostureCheck, PublicKey, RelatedEntityType, Router, Service, ServicePolicyChange,
    TARGET_ROUTER, event,
};

use super::policies::{Ids, Index, Policies, Policy};
use super::revocations::Revocations;
use super::touched::Touched;

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
    pub(crate) revocations: Revocations,
    /// The identities that override configs of services, by config.
    pub(super) overriders: Index,
    /// Values of the router itself, kept in its file.
    pub(crate) caches: BTreeMap<String, Cache>,
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
        state.events.into_iter().for_each(|event| model.apply_event(event));
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
            self.note(&event, &mut touched);
            self.apply_event(event);
        }
        touched
    }

    /// Notes what an event that comes next changes.
    fn note(&self, event: &Event, touched: &mut Touched) {
        let delete = event.action() == Action::Delete;
        match &event.model {
            Some(event::Model::Identity(one)) => {
                touched.identities.insert(one.id.clone());
                touched.renewed.insert(one.id.clone());
                if delete || one.disabled {
                    touched.gone.push(one.id.clone());
                }
            }
            Some(event::Model::Service(one)) => {
                touched.services.insert(one.id.clone());
            }
            Some(event::Model::ServicePolicy(one)) => {
                if !delete {
                    touched.policies.insert(one.id.clone());
                }
                let Some(policy) = self.policies.get(&one.id) else { return };
                touched.identities.extend(strings(&policy.identities));
                if delete {
                    touched.dropped.push(policy.clone());
                }
            }
            Some(event::Model::ServicePolicyChange(one)) => {
                let Some(policy) = self.policies.get(&one.policy_id) else { return };
                let members = || one.related_entity_ids.iter().cloned();
                match one.related_entity_type() {
                    RelatedEntityType::Identity => touched.identities.extend(members()),
                    RelatedEntityType::PostureCheck => {
                        touched.identities.extend(strings(&policy.identities));
                    }
                    // Only these services are noted: a policy with all identities changes with
                    // every service.
                    RelatedEntityType::Service => return touched.services.extend(members()),
                    RelatedEntityType::Invalid => return,
                }
                touched.policies.insert(one.policy_id.clone());
            }
            Some(event::Model::PostureCheck(one)) => {
                for policy in self.policies.of_check(&one.id) {
                    touched.identities.extend(strings(&policy.identities));
                    touched.policies.insert(policy.value.id.clone());
                }
            }
            Some(event::Model::ConfigType(_)) => touched.config_types = true,
            Some(event::Model::Config(one)) => {
                touched.configs.insert(one.id.clone());
            }
            Some(event::Model::Router(_)) => touched.routers = true,
            Some(event::Model::PublicKey(_)) => touched.keys = true,
            Some(event::Model::Revocation(one)) => touched.revocations.push(one.id.clone()),
            // A kind of entity of a later release is ignored.
            None => {}
        }
    }

    fn apply_event(&mut self, event: Event) {
        let delete = event.action() == Action::Delete;
        match event.model {
            Some(event::Model::Identity(one)) => self.apply_identity(one, delete),
            Some(event::Model::Service(one)) => {
                if delete {
                    self.policies.forget_service(&one.id);
                }
                put(&mut self.services, one.id.clone(), one, delete);
            }
            Some(event::Model::ServicePolicy(one)) => {
                if delete {
                    self.policies.remove(&one.id);
                } else {
                    self.policies.put(one);
                }
            }
            Some(event::Model::ServicePolicyChange(one)) => {
                let is_known = self.policies.change(&one);
                if one.add && !is_known {
                    tracing::warn!(
                        policy = %one.policy_id,
                        "members of an unknown policy were ignored"
                    );
                }
            }
            Some(event::Model::PostureCheck(one)) => {
                if delete {
                    self.policies.forget_check(&one.id);
                }
                put(&mut self.checks, one.id.clone(), one, delete);
            }
            Some(event::Model::ConfigType(one)) => {
                put(&mut self.config_types, one.id.clone(), one, delete);
            }
            Some(event::Model::Config(one)) => {
                if delete {
                    self.drop_overrides(&one.id);
                }
                put(&mut self.configs, one.id.clone(), one, delete);
            }
            Some(event::Model::Router(one)) => {
                put(&mut self.routers, one.id.clone(), one, delete);
            }
            Some(event::Model::PublicKey(one)) => {
                put(&mut self.keys, one.kid.clone(), one, delete);
            }
            Some(event::Model::Revocation(one)) => self.revocations.put(one, delete),
            // A kind of entity of a later release is ignored.
            None => {}
        }
    }

    fn apply_identity(&mut self, one: Identity, delete: bool) {
        if delete {
            self.policies.forget_identity(&one.id);
        }
        if let Some(before) = self.identities.get(&one.id) {
            for config in overrides(before) {
                self.overriders.remove(config, &one.id);
            }
        }
        if !delete && !one.service_configs.is_empty() {
            let id = one.id.as_str().into();
            for config in overrides(&one) {
                self.overriders.add(config, &id);
            }
        }
        put(&mut self.identities, one.id.clone(), one, delete);
    }

    /// Removes a config that was deleted from the overrides of identities.
    fn drop_overrides(&mut self, config: &str) {
        for id in self.overriders.take(config) {
            let Some(identity) = self.identities.get_mut(&*id).map(Arc::make_mut) else { continue };
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

    /// The ids of the configs that controllers keep for a router.
    pub(crate) fn managed_ids(&self, router: &str) -> BTreeSet<String> {
        let own = self.routers.get(router).map(|router| router.configs.iter().cloned().collect());
        own.unwrap_or_default()
    }

    /// Removes the configs of routers that are not this router's own.
    pub(crate) fn forget_unmanaged(&mut self, router: &str) {
        let Some(own) = self.routers.get(router) else { return };
        let types = &self.config_types;
        self.configs.retain(|id, config| !is_of_router(types, config) || own.configs.contains(id));
    }

    /// Those of the configs that a router had which are no longer its own. No event removes them.
    pub(crate) fn no_longer_managed(&self, router: &str, had: &BTreeSet<String>) -> Vec<String> {
        let Some(own) = self.routers.get(router) else { return Vec::new() };
        let lost = had.iter().filter(|id| !own.configs.contains(id));
        let kept = lost.filter(|id| {
            let config = self.configs.get(*id);
            config.is_some_and(|config| is_of_router(&self.config_types, config))
        });
        kept.cloned().collect()
    }

    /// Removes configs.
    pub(crate) fn forget_configs(&mut self, ids: &[String]) {
        ids.iter().for_each(|id| drop(self.configs.remove(id)));
    }

    /// The model as the events of a full state, one after the other, referenced entities first
    /// (docs/protocol/edge-control-plane.md 7.3).
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> {
        let policies = sorted(self.policies.by_id()).flat_map(events_of_policy);
        created(&self.config_types, event::Model::ConfigType)
            .chain(created(&self.configs, event::Model::Config))
            .chain(created(&self.identities, event::Model::Identity))
            .chain(created(&self.services, event::Model::Service))
            .chain(created(&self.routers, event::Model::Router))
            .chain(created(&self.checks, event::Model::PostureCheck))
            .chain(policies)
            .chain(created(&self.keys, event::Model::PublicKey))
            .chain(created(self.revocations.by_id(), event::Model::Revocation))
    }
}

/// Whether a config is one that controllers keep for a router.
fn is_of_router(types: &Entities<ConfigType>, config: &Config) -> bool {
    types.get(&config.type_id).is_some_and(|kind| kind.target == TARGET_ROUTER)
}

/// The configs by which an identity overrides those of services.
fn overrides(identity: &Identity) -> impl Iterator<Item = &String> {
    identity.service_configs.values().flat_map(|of_service| of_service.configs.values())
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
fn created<T: Clone>(
    entities: &Entities<T>,
    model: fn(T) -> event::Model,
) -> impl Iterator<Item = Event> {
    sorted(entities).map(move |one| Event::new(Action::Create, model(T::clone(one))))
}

/// A policy as events that create it and add its members.
fn events_of_policy(policy: &Policy) -> impl Iterator<Item = Event> {
    let value = Event::new(Action::Create, event::Model::ServicePolicy(policy.value.clone()));
    let members = policy.members().into_iter().map(|(kind, members)| {
        let mut related_entity_ids: Vec<String> = strings(members).collect();
        related_entity_ids.sort_unstable();
        let change = ServicePolicyChange {
            policy_id: policy.value.id.clone(),
            related_entity_ids,
            related_entity_type: kind.into(),
            add: true,
        };
        Event::new(Action::Create, event::Model::ServicePolicyChange(change))
    });
    std::iter::once(value).chain(members)
}

fn sorted<K: Ord, T>(map: &imbl::HashMap<K, T>) -> impl Iterator<Item = &T> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(id, _)| *id);
    entries.into_iter().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::events::{create, delete, identity};

    fn apply(model: &mut Model, changes: Vec<Event>) {
        model.apply(ChangeSet { changes, ..ChangeSet::default() });
    }

    fn config(id: &str, kind: &str) -> Config {
        Config { id: id.into(), type_id: kind.into(), name: id.into(), data_json: "{}".into() }
    }

    #[test]
    fn a_deleted_config_overrides_nothing_any_more() {
        let mut model = Model::default();
        let overriding = |id: &str, configs: &[(&str, &str)]| {
            let mut one = identity(id);
            for (service, config) in configs {
                let of_service = one.service_configs.entry((*service).to_owned()).or_default();
                of_service.configs.insert("ct".into(), (*config).to_owned());
            }
            create(event::Model::Identity(one))
        };
        apply(
            &mut model,
            vec![
                overriding("i1", &[("s1", "c1"), ("s2", "c1"), ("s3", "c2")]),
                overriding("i2", &[("s1", "c1")]),
                // It has another one meanwhile.
                overriding("i2", &[("s1", "c2")]),
                delete(event::Model::Config(config("c1", "ct"))),
            ],
        );
        let of = |model: &Model, id: &str| -> Vec<String> {
            let mut configs: Vec<_> = overrides(&model.identities[id]).cloned().collect();
            configs.sort_unstable();
            configs
        };
        assert_eq!((of(&model, "i1"), of(&model, "i2")), (vec!["c2".into()], vec!["c2".into()]));
        apply(
            &mut model,
            vec![
                delete(event::Model::Identity(identity("i2"))),
                delete(event::Model::Config(config("c2", "ct"))),
            ],
        );
        assert!(of(&model, "i1").is_empty());
        assert!(model.overriders.take("c1").is_empty() && model.overriders.take("c2").is_empty());
    }

    #[test]
    fn configs_that_a_router_no_longer_has_are_named() {
        let mut model = Model::default();
        let router = |configs: &[&str]| {
            let configs = configs.iter().map(|id| (*id).to_owned()).collect();
            create(event::Model::Router(Router { id: "r1".into(), configs, ..Router::default() }))
        };
        let kind = |id: &str, target: &str| {
            create(event::Model::ConfigType(ConfigType {
                id: id.into(),
                name: id.into(),
                target: target.into(),
            }))
        };
        let configs = [config("c1", "own"), config("c2", "own"), config("c3", "service")];
        let mut changes = vec![kind("own", TARGET_ROUTER), kind("service", "")];
        changes.extend(configs.map(|config| create(event::Model::Config(config))));
        changes.push(router(&["c1", "c2", "c3"]));
        apply(&mut model, changes);
        let had = model.managed_ids("r1");
        assert_eq!(had.len(), 3);
        assert!(model.no_longer_managed("r1", &had).is_empty());
        apply(&mut model, vec![router(&["c2"])]);
        let lost = model.no_longer_managed("r1", &had);
        assert_eq!(lost, ["c1"], "a config of services stays");
        assert!(model.no_longer_managed("unknown", &had).is_empty());
        let mut whole = model.clone();
        model.forget_configs(&lost);
        whole.forget_unmanaged("r1");
        for model in [model, whole] {
            assert!(!model.configs.contains_key("c1"));
            assert!(model.configs.contains_key("c2") && model.configs.contains_key("c3"));
        }
    }
}
