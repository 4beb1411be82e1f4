//! The description of this controller for clients.

use weft_contract::entity::{Base, links};
use weft_contract::resource::controller::{ApiAddress, COLLECTION, ControllerDetail};
use weft_contract::{Api, Word as _};
use weft_identity::to_pem;
use weft_kernel::convert;

use crate::handle::Auth;

/// This controller, as the list of controllers shows it.
pub fn shown(auth: &Auth, api: Api) -> ControllerDetail {
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
