//! Entities in the form for routers (docs/protocol/edge-control-plane.md 4.4).
//!
//! Some entities have no such form: services of the fabric alone, and configs for routers, which
//! are sent to their own router only ([`managed`]).

use bytes::Bytes;
use weft_auth::public_keys::PublicKey;
use weft_model::entity::{
    Config, ConfigTarget, ConfigType, Identity, IdentityType, PolicyType, PostureCheck,
    PostureCheckType, Precedence, ProcessSpec, Revocation, RevocationType, Router, Service,
    ServicePolicy,
};
use weft_model::{Id, JsonMap, Semantic, Snapshot, Timestamp};
use weft_wire::ctrl::TerminatorPrecedence;
use weft_wire::edge_ctrl::data_model as wire;
use weft_wire::edge_ctrl::data_model::{
    ALL_OF, ANY_OF, TARGET_ROUTER, TARGET_SERVICE, posture_check, posture_type, public_key,
    revocation_type,
};

/// A timeout that never ends.
const FOR_EVER: i64 = -1;

pub(crate) fn precedence(precedence: Precedence) -> TerminatorPrecedence {
    match precedence {
        Precedence::Default => TerminatorPrecedence::Default,
        Precedence::Required => TerminatorPrecedence::Required,
        Precedence::Failed => TerminatorPrecedence::Failed,
    }
}

pub(crate) fn config_type(it: &ConfigType) -> wire::ConfigType {
    let target = match it.target {
        ConfigTarget::Service => TARGET_SERVICE,
        ConfigTarget::Router => TARGET_ROUTER,
        ConfigTarget::Other => "",
    };
    wire::ConfigType {
        id: it.base.id.to_string(),
        name: it.name.to_string(),
        target: target.to_owned(),
    }
}

pub(crate) fn config(snapshot: &Snapshot, it: &Config) -> Option<wire::Config> {
    (!targets_routers(snapshot, it)?).then(|| config_form(it))
}

/// The configs of a router.
pub(crate) fn managed(snapshot: &Snapshot, router: &Id) -> Vec<wire::Config> {
    let ids = snapshot.get::<Router>(router).map(|router| router.configs.as_slice());
    let configs = ids.unwrap_or_default().iter().filter_map(|id| snapshot.get::<Config>(id));
    let own = configs.filter(|it| targets_routers(snapshot, it) == Some(true));
    own.map(|it| config_form(it)).collect()
}

/// Whether a config is for routers; none if its type is unknown.
fn targets_routers(snapshot: &Snapshot, it: &Config) -> Option<bool> {
    let config_type = snapshot.get::<ConfigType>(&it.config_type_id)?;
    Some(config_type.target == ConfigTarget::Router)
}

fn config_form(it: &Config) -> wire::Config {
    wire::Config {
        id: it.base.id.to_string(),
        type_id: it.config_type_id.to_string(),
        name: it.name.to_string(),
        data_json: it.data.to_text(),
    }
}

pub(crate) fn identity(it: &Identity, now: Timestamp) -> wire::Identity {
    let precedences = it.service_hosting_precedences.iter();
    let configs = it.service_configs.iter().map(|(service, overrides)| {
        let configs = overrides.configs.iter();
        let configs = configs.map(|(kind, config)| (kind.to_string(), config.to_string()));
        (service.to_string(), wire::ServiceConfigs { configs: configs.collect() })
    });
    let written = |map: &JsonMap| match map.is_empty() {
        true => Bytes::new(),
        false => map.to_text().into(),
    };
    let is_router = it.identity_type == IdentityType::Router;
    wire::Identity {
        id: it.base.id.to_string(),
        name: it.name.to_string(),
        default_hosting_precedence: precedence(it.default_hosting_precedence).into(),
        default_hosting_cost: it.default_hosting_cost.into(),
        service_hosting_precedences: precedences
            .map(|(service, own)| (service.to_string(), precedence(*own).into()))
            .collect(),
        service_hosting_costs: it
            .service_hosting_costs
            .iter()
            .map(|(service, cost)| (service.to_string(), u32::from(*cost)))
            .collect(),
        app_data_json: written(&it.app_data),
        tags_json: if is_router { written(&it.base.tags) } else { Bytes::new() },
        service_configs: configs.collect(),
        disabled: it.is_disabled(now),
    }
}

pub(crate) fn service(snapshot: &Snapshot, it: &Service) -> Option<wire::Service> {
    let configs = it
        .configs
        .iter()
        .filter(|id| snapshot.get::<Config>(id).is_some_and(|it| config(snapshot, it).is_some()));
    (!it.is_fabric_only).then(|| wire::Service {
        id: it.base.id.to_string(),
        name: it.name.to_string(),
        encryption_required: it.encryption_required,
        authenticated_ends: it.authenticated_ends,
        configs: configs.map(ToString::to_string).collect(),
    })
}

pub(crate) fn service_policy(it: &ServicePolicy) -> wire::ServicePolicy {
    let policy_type = match it.policy_type {
        PolicyType::Dial => wire::PolicyType::Dial,
        PolicyType::Bind => wire::PolicyType::Bind,
    };
    wire::ServicePolicy {
        id: it.base.id.to_string(),
        name: it.name.to_string(),
        policy_type: policy_type.into(),
    }
}

pub(crate) fn router(it: &Router) -> wire::Router {
    wire::Router {
        id: it.base.id.to_string(),
        name: it.name.to_string(),
        fingerprint: it.fingerprint.as_deref().unwrap_or_default().to_owned(),
        configs: it.configs.iter().map(ToString::to_string).collect(),
        disabled: it.disabled,
    }
}

pub(crate) fn posture_check(it: &PostureCheck) -> wire::PostureCheck {
    use posture_check::{Domains, Mac, Mfa, Os, OsList, ProcessMulti, Subtype};
    let processes = || it.processes.processes.iter().map(process);
    let (type_id, subtype) = match it.check_type {
        PostureCheckType::Mac => {
            let mac_addresses = it.mac_addresses.clone();
            (posture_type::MAC, Some(Subtype::Mac(Mac { mac_addresses })))
        }
        PostureCheckType::Domain => {
            let domains = it.domains.clone();
            (posture_type::DOMAIN, Some(Subtype::Domains(Domains { domains })))
        }
        PostureCheckType::Os => {
            let systems = it.operating_systems.iter();
            let os_list = systems
                .map(|os| Os { os_type: os.os_type.clone(), os_versions: os.versions.clone() })
                .collect();
            (posture_type::OS, Some(Subtype::OsList(OsList { os_list })))
        }
        PostureCheckType::Mfa => {
            let seconds = it.mfa.timeout_seconds;
            let mfa = Mfa {
                timeout_seconds: if seconds <= 0 { FOR_EVER } else { seconds },
                prompt_on_wake: it.mfa.prompt_on_wake,
                prompt_on_unlock: it.mfa.prompt_on_unlock,
                ignore_legacy_endpoints: it.mfa.ignore_legacy_endpoints,
            };
            (posture_type::MFA, Some(Subtype::Mfa(mfa)))
        }
        PostureCheckType::Process => {
            (posture_type::PROCESS, processes().next().map(Subtype::Process))
        }
        PostureCheckType::ProcessMulti => {
            let semantic = match it.processes.semantic {
                Semantic::AllOf => ALL_OF,
                Semantic::AnyOf => ANY_OF,
            };
            let processes = processes().collect();
            let several = ProcessMulti { semantic: semantic.to_owned(), processes };
            (posture_type::PROCESS_MULTI, Some(Subtype::ProcessMulti(several)))
        }
    };
    wire::PostureCheck {
        id: it.base.id.to_string(),
        name: it.name.to_string(),
        type_id: type_id.to_owned(),
        subtype,
    }
}

/// Empty fingerprints are left out, because they would never match
/// (docs/protocol/edge-control-plane.md 12.3).
fn process(it: &ProcessSpec) -> posture_check::Process {
    let filled = |texts: &[String]| texts.iter().filter(|text| !text.is_empty()).cloned().collect();
    posture_check::Process {
        os_type: it.os_type.clone(),
        path: it.path.clone(),
        hashes: filled(&it.hashes),
        fingerprints: filled(&it.signer_fingerprints),
    }
}

pub(crate) fn revocation(it: &Revocation) -> wire::Revocation {
    let revocation_type = match it.revocation_type {
        RevocationType::Jti => revocation_type::JTI,
        RevocationType::Identity => revocation_type::IDENTITY,
        RevocationType::ApiSession => revocation_type::API_SESSION,
    };
    wire::Revocation {
        id: it.base.id.to_string(),
        expires_at: Some(timestamp(it.expires_at)),
        r#type: revocation_type.to_owned(),
        issued_before: it.issued_before.map(timestamp),
        sessions: it.sessions.clone(),
    }
}

fn timestamp(at: Timestamp) -> wire::Timestamp {
    let nanos = i32::try_from(at.0.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
    wire::Timestamp { seconds: at.secs(), nanos }
}

pub(crate) fn public_key(it: PublicKey) -> wire::PublicKey {
    use public_key::{Format, Usage};
    // The original uses this order.
    let client = it.for_clients.then_some(Usage::ClientX509CertValidation);
    let token = it.for_tokens.then_some(Usage::JwtValidation);
    let format = match it.is_certificate {
        true => Format::X509CertDer,
        false => Format::PkixPublicKey,
    };
    wire::PublicKey {
        data: it.data.into(),
        kid: it.kid,
        usages: client.into_iter().chain(token).map(i32::from).collect(),
        format: format.into(),
    }
}
