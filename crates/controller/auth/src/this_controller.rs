//! The descriptions of controllers for clients.

use std::collections::BTreeMap;

use weft_contract::entity::{Base, links};
use weft_contract::resource::controller::{ApiAddress, COLLECTION, ControllerDetail};
use weft_contract::{Api, Word as _};
use weft_identity::{Certificate, to_pem};
use weft_kernel::convert;
use weft_model::entity::ControllerMember;
use weft_store::Alive;

use crate::handle::Auth;

/// All controllers of the network, ordered by id.
pub fn all(auth: &Auth, api: Api) -> Vec<ControllerDetail> {
    let snapshot = auth.kernel().snapshot();
    let alive = auth.kernel().settings().store.alive();
    let alive = alive.map(|alive| alive.borrow().clone()).unwrap_or_default();
    let others = auth.other_members(&snapshot).filter(|member| member.is_present());
    let others = others.map(|member| shown_other(auth, member, &alive, api));
    let mut all: Vec<_> = others.chain([shown(auth, api)]).collect();
    all.sort_unstable_by(|one, other| one.base.id.cmp(&other.base.id));
    all
}

/// Another controller, as the list of controllers shows it.
fn shown_other(
    auth: &Auth,
    member: &ControllerMember,
    alive: &Alive,
    api: Api,
) -> ControllerDetail {
    let id = member.base.id.as_str();
    let mut addresses = BTreeMap::<String, Vec<ApiAddress>>::new();
    for location in &member.apis {
        let address = ApiAddress { url: location.url.to_string(), version: "v1".into() };
        addresses.entry(location.api.to_string()).or_default().push(address);
    }
    let certificate = Certificate::from_der(member.certificate.to_vec()).ok();
    ControllerDetail {
        base: Base {
            links: links(COLLECTION, id, &[]),
            created_at: convert::time(member.base.created_at),
            id: id.to_owned(),
            updated_at: convert::time(member.base.updated_at),
            ..Base::default()
        },
        api_addresses: addresses.into_iter().collect(),
        cert_pem: to_pem(&certificate),
        ctrl_address: member.ctrl_addresses.first().filter(|_| api != Api::Client).cloned(),
        fingerprint: certificate.map(|it| it.fingerprint().to_owned()).unwrap_or_default(),
        is_online: auth.is_alive(&member.base.id, alive),
        is_preferred_leader: None,
        last_joined_at: convert::time(member.joined_at),
        name: id.to_owned(),
    }
}

/// This controller, as the list of controllers shows it.
fn shown(auth: &Auth, api: Api) -> ControllerDetail {
    let settings = auth.kernel().settings();
    let at = convert::time(auth.kernel().started());
    let keys = auth.keys();
    let leaf = keys.session.leaf();
    let addresses = settings.addresses.apis.iter().map(|(api, urls)| {
        let address = |url: &String| ApiAddress { url: url.clone(), version: "v1".into() };
        (api.as_str().to_owned(), urls.iter().map(address).collect())
    });
    ControllerDetail {
        base: Base {
            links: links(COLLECTION, &settings.id, &[]),
            created_at: at,
            id: settings.id.clone(),
            updated_at: at,
            ..Base::default()
        },
        api_addresses: addresses.collect(),
        cert_pem: to_pem([leaf]),
        ctrl_address: settings.addresses.ctrl.first().filter(|_| api != Api::Client).cloned(),
        fingerprint: leaf.fingerprint().to_owned(),
        is_online: true,
        is_preferred_leader: None,
        last_joined_at: at,
        name: settings.id.clone(),
    }
}
