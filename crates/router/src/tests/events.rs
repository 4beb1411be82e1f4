//! Events of small data models.

pub(crate) use weft_wire::edge_ctrl::data_model::event::Model;
use weft_wire::edge_ctrl::data_model::posture_check::{Mfa, Subtype};
use weft_wire::edge_ctrl::data_model::public_key::{Format, Usage};
use weft_wire::edge_ctrl::data_model::{
    Action, Config, ConfigType, Event, Identity, PolicyType, PostureCheck, PublicKey,
    RelatedEntityType, Service, ServicePolicy, ServicePolicyChange,
};

pub(crate) fn create(model: Model) -> Event {
    Event::new(Action::Create, model)
}

pub(crate) fn delete(model: Model) -> Event {
    Event::new(Action::Delete, model)
}

pub(crate) fn identity(id: &str) -> Identity {
    Identity { id: id.into(), name: format!("{id} name"), ..Identity::default() }
}

pub(crate) fn service(id: &str) -> Service {
    Service { id: id.into(), name: format!("{id} name"), ..Service::default() }
}

pub(crate) fn new_identity(id: &str) -> Event {
    create(Model::Identity(identity(id)))
}

pub(crate) fn new_service(id: &str) -> Event {
    create(Model::Service(service(id)))
}

pub(crate) fn members(policy: &str, kind: RelatedEntityType, ids: &[&str], add: bool) -> Event {
    create(Model::ServicePolicyChange(ServicePolicyChange {
        policy_id: policy.into(),
        related_entity_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        related_entity_type: kind.into(),
        add,
    }))
}

pub(crate) fn policy(id: &str, kind: PolicyType, identity: &str, service: &str) -> Vec<Event> {
    let value = ServicePolicy { id: id.into(), name: id.into(), policy_type: kind.into() };
    vec![
        create(Model::ServicePolicy(value)),
        members(id, RelatedEntityType::Service, &[service], true),
        members(id, RelatedEntityType::Identity, &[identity], true),
    ]
}

/// A posture check that wants a one-time code.
pub(crate) fn posture_check(id: &str) -> Event {
    create(Model::PostureCheck(PostureCheck {
        id: id.into(),
        name: id.into(),
        type_id: "MFA".into(),
        subtype: Some(Subtype::Mfa(Mfa::default())),
    }))
}

pub(crate) fn config(service: &mut Service, kind: &str, data: &str) -> Vec<Event> {
    service.configs.push("cfg".into());
    vec![
        create(Model::ConfigType(ConfigType {
            id: "ct".into(),
            name: kind.into(),
            target: String::new(),
        })),
        create(Model::Config(Config {
            id: "cfg".into(),
            type_id: "ct".into(),
            name: "cfg".into(),
            data_json: data.into(),
        })),
    ]
}

/// A key of a certificate, for tokens and clients.
pub(crate) fn key(certificate: &weft_identity::Certificate) -> Event {
    create(Model::PublicKey(PublicKey {
        data: certificate.der().to_vec().into(),
        kid: certificate.fingerprint().into(),
        usages: vec![Usage::JwtValidation.into(), Usage::ClientX509CertValidation.into()],
        format: Format::X509CertDer.into(),
    }))
}
