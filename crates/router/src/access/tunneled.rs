//! The services that the router's own identity may use, with their configs
//! (docs/protocol/edge-control-plane.md 15). After a change of the model only the services that it
//! concerns are computed again: a router may have thousands of services, and each service arrives
//! with several changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weft_model::access::Posture;
use weft_wire::edge_ctrl::data_model::{Identity, PolicyType};

use super::decide;
use super::model::Model;
use super::touched::Touched;
use crate::seam::{Hosting, TerminatorPrecedence, TunnelService, Use};

/// The services of the router's own identity, which exists only while the tunneler is enabled.
pub(crate) struct Tunneled {
    router: String,
    own: Arc<weft_tunnel::Identity>,
    services: BTreeMap<String, Arc<TunnelService>>,
    /// The ids of the configs that each service names, known or not.
    configs: HashMap<String, Vec<String>>,
    /// The services that name each config.
    users: HashMap<String, BTreeSet<String>>,
}

impl Tunneled {
    pub(crate) fn new(router: &str, model: &Model) -> Self {
        let mut this = Self {
            router: router.to_owned(),
            own: Arc::default(),
            services: BTreeMap::new(),
            configs: HashMap::new(),
            users: HashMap::new(),
        };
        this.follow(model, &Touched::all());
        this
    }

    /// The services, by id. An unchanged service stays the same `Arc`.
    pub(crate) fn list(&self) -> Arc<Vec<Arc<TunnelService>>> {
        Arc::new(self.services.values().map(Arc::clone).collect())
    }

    /// Follows a change of the model; true if services were added, removed or changed.
    pub(crate) fn follow(&mut self, model: &Model, touched: &Touched) -> bool {
        let anew = touched.all || touched.config_types || touched.renewed.contains(&self.router);
        let concerned = if anew { self.begin_anew(model) } else { self.concerned(model, touched) };
        let mut changed = false;
        for id in concerned {
            changed |= self.look(model, &id);
        }
        changed
    }

    /// The identity itself may have changed: every service is concerned.
    fn begin_anew(&mut self, model: &Model) -> BTreeSet<String> {
        let own = model.identities.get(&self.router).map(|identity| {
            let read = |json: &[u8]| serde_json::from_slice(json).unwrap_or_default();
            weft_tunnel::Identity {
                name: identity.name.clone(),
                app_data: read(&identity.app_data_json),
                tags: read(&identity.tags_json),
            }
        });
        let own = own.unwrap_or_default();
        if *self.own != own {
            self.own = Arc::new(own);
        }
        let mut all: BTreeSet<String> = self.services.keys().cloned().collect();
        for kind in [PolicyType::Dial, PolicyType::Bind] {
            let given = model.services_of(&self.router, kind);
            all.extend(given.into_iter().map(|service| service.id.clone()));
        }
        all
    }

    fn concerned(&self, model: &Model, touched: &Touched) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> = touched.services.iter().cloned().collect();
        let users = touched.configs.iter().filter_map(|config| self.users.get(config));
        ids.extend(users.flatten().cloned());
        let policies = touched.policies.iter().filter_map(|id| model.policies.get(id));
        for policy in policies.chain(&touched.dropped) {
            // The identity is no longer a member of a policy that it has left.
            if policy.identities.contains(self.router.as_str())
                || touched.identities.contains(&self.router)
            {
                ids.extend(policy.services.iter().map(ToString::to_string));
            }
        }
        ids
    }

    /// Computes a service again; true if it has changed.
    fn look(&mut self, model: &Model, id: &str) -> bool {
        let now = self.work_out(model, id);
        let named = match (&now, model.services.get(id)) {
            (Some(_), Some(service)) => {
                model.configs_named(&self.router, service).cloned().collect()
            }
            _ => Vec::new(),
        };
        self.note_configs(id, named);
        match now {
            Some(now) if self.services.get(id).is_some_and(|known| **known == now) => false,
            Some(now) => {
                self.services.insert(id.to_owned(), Arc::new(now));
                true
            }
            None => self.services.remove(id).is_some(),
        }
    }

    fn note_configs(&mut self, id: &str, named: Vec<String>) {
        for config in self.configs.remove(id).unwrap_or_default() {
            if let Some(users) = self.users.get_mut(&config) {
                users.remove(id);
                if users.is_empty() {
                    self.users.remove(&config);
                }
            }
        }
        for config in &named {
            self.users.entry(config.clone()).or_default().insert(id.to_owned());
        }
        if !named.is_empty() {
            self.configs.insert(id.to_owned(), named);
        }
    }

    /// The identity's use of a service; `None` if it may neither dial nor host it.
    fn work_out(&self, model: &Model, id: &str) -> Option<TunnelService> {
        let identity = model.identities.get(&self.router)?;
        let service = model.services.get(id)?;
        // A router has no posture data; a controller decides whether a dial needs any.
        let can_dial = !identity.disabled
            && model.policies_for(&self.router, id, PolicyType::Dial).next().is_some();
        let can_bind = decide::decide(model, &self.router, id, Use::Bind, Posture::Unknown).is_ok();
        (can_dial || can_bind).then(|| TunnelService {
            id: service.id.clone(),
            name: service.name.clone(),
            encryption_required: service.encryption_required,
            authenticated_ends: service.authenticated_ends,
            configs: model.configs_for(&self.router, service),
            can_dial,
            can_bind,
            identity: Arc::clone(&self.own),
            hosting: hosting(identity, id),
        })
    }
}

/// Cost and precedence of an identity for a service that it hosts.
fn hosting(identity: &Identity, service: &str) -> Hosting {
    let number = identity.service_hosting_precedences.get(service);
    Hosting {
        default_cost: cost(identity.default_hosting_cost),
        default_precedence: identity.default_hosting_precedence(),
        cost: identity.service_hosting_costs.get(service).copied().map(cost),
        precedence: number.and_then(|number| TerminatorPrecedence::try_from(*number).ok()),
    }
}

fn cost(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use weft_wire::edge_ctrl::data_model::{
        ChangeSet, Config, ConfigType, Event, RelatedEntityType,
    };

    use super::*;
    use crate::tests::events;

    struct Lab {
        model: Model,
        tunneled: Tunneled,
    }

    impl Lab {
        /// Applies a change, and checks that the result equals one computed from the beginning.
        fn change(&mut self, changes: Vec<Event>) -> bool {
            let touched = self.model.apply(ChangeSet { changes, ..ChangeSet::default() });
            let changed = self.tunneled.follow(&self.model, &touched);
            let anew = Tunneled::new("r1", &self.model);
            assert_eq!(self.tunneled.list(), anew.list());
            assert_eq!(self.tunneled.users, anew.users);
            changed
        }

        fn config(&self, service: &str) -> Option<String> {
            let known = self.tunneled.services.get(service)?;
            known.configs.get("host.v1").cloned()
        }
    }

    fn config(id: &str, data: &str) -> Config {
        Config { id: id.into(), type_id: "ct".into(), name: id.into(), data_json: data.into() }
    }

    #[test]
    fn a_change_concerns_what_it_concerns() {
        let (model, kind) = (Model::default(), RelatedEntityType::Service);
        let mut lab = Lab { tunneled: Tunneled::new("r1", &model), model };
        let kinds = ConfigType { id: "ct".into(), name: "host.v1".into(), target: String::new() };
        lab.change(vec![
            events::create(events::Model::ConfigType(kinds)),
            events::new_identity("r1"),
        ]);
        lab.change(events::policy("p1", PolicyType::Bind, "r1", "none"));
        lab.change(events::policy("p2", PolicyType::Dial, "r2", "none"));
        let mut web = events::service("web");
        web.configs.push("c1".into());
        assert!(
            !lab.change(vec![events::create(events::Model::Service(web.clone()))]),
            "nobody gives it to the router"
        );
        assert!(!lab.change(vec![events::members("p2", kind, &["web"], true)]));
        assert!(lab.change(vec![events::members("p1", kind, &["web"], true)]));
        assert_eq!(lab.config("web"), None);
        // A config that comes after the service that names it.
        assert!(lab.change(vec![events::create(events::Model::Config(config("c1", "{}")))]));
        assert_eq!(lab.config("web").as_deref(), Some("{}"));
        assert!(
            !lab.change(vec![events::create(events::Model::Config(config("c2", "{}")))]),
            "nobody names it"
        );

        assert!(lab.change(vec![events::new_service("none")]));
        let before = lab.tunneled.list();
        assert!(lab.change(vec![events::create(events::Model::Config(config("c1", "[]")))]));
        let after = lab.tunneled.list();
        let same: Vec<bool> =
            before.iter().zip(&*after).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
        assert_eq!(same, [true, false], "what stays as it is is the same");

        // The identity joins a policy, leaves one, and a policy goes.
        let person = RelatedEntityType::Identity;
        assert!(lab.change(vec![events::members("p2", person, &["r1"], true)]));
        assert!(lab.tunneled.services["web"].can_dial);
        assert!(lab.change(vec![events::members("p1", person, &["r1"], false)]));
        assert!(!lab.tunneled.services["web"].can_bind);
        let gone = lab.model.policies.get("p2").unwrap().value.clone();
        assert!(lab.change(vec![events::delete(events::Model::ServicePolicy(gone))]));
        assert!(lab.tunneled.services.is_empty());
        assert!(lab.tunneled.configs.is_empty() && lab.tunneled.users.is_empty());
        // The identity's own entity changes.
        assert!(lab.change(vec![events::members("p1", person, &["r1"], true)]));
        let disabled = Identity { disabled: true, ..events::identity("r1") };
        assert!(lab.change(vec![events::create(events::Model::Identity(disabled))]));
        assert!(lab.tunneled.services.is_empty());
        let tags_json = r#"{"site":"b"}"#.into();
        let tagged = Identity { tags_json, ..events::identity("r1") };
        assert!(lab.change(vec![events::create(events::Model::Identity(tagged))]));
        assert_eq!(lab.tunneled.services["web"].identity.tags["site"], "b");
    }
}
