//! The configs of a service, read for an identity: the terminators and ports that they ask for.

use std::sync::Arc;

use weft_sdk::{Identity, Service};
use weft_tunnel::{Configs, CostAndPrecedence, HostConfig, PortWanted};

use super::Options;

/// Why a service without a config for hosts is not hosted.
const NO_CONFIG: &str = "no config says where its application is (host.v1, host.v2)";

/// A service, and its configs parsed for an identity.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) service: Service,
    pub(super) identity: Arc<Identity>,
    pub(super) known: Arc<weft_tunnel::Service>,
    pub(super) own: Arc<weft_tunnel::Identity>,
    pub(super) configs: Configs,
    pub(super) plans: Vec<Plan>,
    /// Why a service that may be hosted has no plans.
    pub(super) unhosted: Option<String>,
    pub(super) ports: Vec<PortWanted>,
}

impl Read {
    pub(super) fn new(
        service: &Service,
        identity: &Arc<Identity>,
        own: &Arc<weft_tunnel::Identity>,
        options: &Options,
    ) -> Self {
        let (identity, own) = (Arc::clone(identity), Arc::clone(own));
        let known = Arc::new(weft_tunnel::Service {
            id: service.id.clone(),
            name: service.name.clone(),
            encryption_required: service.encrypted,
            authenticated_ends: service.authenticated,
        });
        let configs = configs_of(service);
        let (mut hosted, mut unhosted, mut ports) = (Vec::new(), None, Vec::new());
        if options.host && service.can_bind {
            match plans(service, &configs, &identity, &own) {
                Ok(plans) if plans.is_empty() => unhosted = Some(NO_CONFIG.to_owned()),
                Ok(plans) => hosted = plans,
                Err(problem) => {
                    tracing::warn!(service = %service.name, problem, "a service is not hosted");
                    unhosted = Some(problem);
                }
            }
        }
        if service.can_dial {
            let mut offered = configs.clone();
            let is_named = options.named.iter().any(|named| named.service == service.name);
            if !options.offer || is_named {
                // Ports from the command line take the place of those of the config.
                offered.remove("proxy.v1");
            }
            ports.extend(PortWanted::of(&known, &offered, &own, &options.named, &options.at));
        }
        let service = service.clone();
        Self { service, identity, known, own, configs, plans: hosted, unhosted, ports }
    }
}

/// The parameters of a host. When one of them changes, the service is hosted anew.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) service: String,
    encrypted: bool,
    pub(super) config: HostConfig,
    pub(super) instance: String,
    pub(super) terms: CostAndPrecedence,
}

/// The terminators that a service's config asks for, or the mistake of the config.
fn plans(
    service: &Service,
    configs: &Configs,
    identity: &Identity,
    own: &weft_tunnel::Identity,
) -> Result<Vec<Plan>, String> {
    let read = HostConfig::read(configs).map_err(|problem| problem.to_string())?;
    let plan = |config: HostConfig| {
        if let Some(problem) = &config.checks_problem {
            tracing::warn!(service = %service.name, %problem, "no health checks are made");
        }
        for problem in &config.left_out {
            tracing::warn!(service = %service.name, %problem, "an entry is left out");
        }
        let terms = CostAndPrecedence {
            cost: identity
                .service_costs
                .get(&service.id)
                .copied()
                .or(config.cost)
                .unwrap_or(identity.hosting_cost),
            precedence: identity
                .service_precedences
                .get(&service.id)
                .copied()
                .or(config.precedence)
                .unwrap_or(identity.hosting_precedence),
        };
        let instance = config.instance(own);
        let (name, encrypted) = (service.name.clone(), service.encrypted);
        Plan { service: name, encrypted, config, instance, terms }
    };
    Ok(read.into_iter().map(plan).collect())
}

pub(super) fn configs_of(service: &Service) -> Configs {
    let text = |data: &serde_json::Map<String, serde_json::Value>| {
        serde_json::Value::Object(data.clone()).to_string()
    };
    service.configs.iter().map(|(name, data)| (name.clone(), text(data))).collect()
}
