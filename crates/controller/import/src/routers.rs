//! Routers: those of the edge, those of the fabric that the edge manages, and those of the fabric alone.

use std::collections::BTreeMap;

use weft_identity::{Certificate, San};
use weft_model::Entity;
use weft_model::entity::{CtrlListener, Router};

use crate::credentials::checked_print;
use crate::fields::{Fields, Taken};
use crate::layout::Layout;

/// Why what a router says of itself is not taken.
const AT_CONNECT: &str = "routers report it again when they connect";

/// What the bucket within that of a router says.
#[derive(Default)]
struct Managed {
    is_verified: bool,
    cert_pem: String,
    unverified_cert_pem: String,
    unverified_fingerprint: Option<String>,
    is_tunneler_enabled: bool,
    role_attributes: Vec<std::sync::Arc<str>>,
    app_data: weft_model::JsonMap,
}

/// Reads a router.
pub(crate) fn router(fields: &mut Fields<'_, '_>, layout: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    fields.reported("interfaces", "interfaces", AT_CONNECT);
    let fingerprint = fields.full_text("fingerprint");
    let (edge, transit) = (fields.bucket("edge"), fields.bucket("transitRouter"));
    let managed = match (&edge, &transit) {
        (Some(edge), _) => fields.within(edge, edge_router)?,
        (None, Some(transit)) => fields.within(transit, transit_router)?,
        // The fabric's own routers are enrolled from the beginning.
        (None, None) => Managed { is_verified: true, ..Managed::default() },
    };
    let fingerprint = checked_print(fields, "fingerprint", fingerprint, &managed.cert_pem);
    let base = fields.base()?;
    if let Some(other) = foreign_name(base.id.as_str(), &managed.cert_pem) {
        let reason = format!(
            "it names {other:?}, which is not this router: nobody believes it, and another enrollment replaces it"
        );
        fields.lose("certPem", reason);
    }
    let router = Router {
        base,
        name,
        is_edge: edge.is_some(),
        fingerprint: fingerprint.map(Into::into),
        cert_pem: managed.cert_pem,
        is_verified: managed.is_verified,
        unverified_cert_pem: managed.unverified_cert_pem,
        unverified_fingerprint: managed.unverified_fingerprint.map(Into::into),
        cost: fields.cost("cost"),
        no_traversal: fields.flag("noTraversal", false),
        disabled: fields.flag("disabled", false),
        is_tunneler_enabled: managed.is_tunneler_enabled,
        role_attributes: managed.role_attributes,
        app_data: managed.app_data,
        configs: if layout >= Layout::V48 { fields.ids("configs")? } else { Vec::new() },
        ctrl_chan_listeners: listeners(fields)?,
        is_fabric_only: edge.is_none() && transit.is_none(),
    };
    Ok(router.into())
}

/// A name in the certificate of a router that is the name of somebody else. The original copies names from requests.
fn foreign_name(id: &str, pem: &str) -> Option<String> {
    let leaf = Certificate::from_pem(pem.as_bytes()).ok()?.into_iter().next()?;
    if let Some(name) = leaf.common_name().filter(|name| *name != id) {
        return Some(name.to_owned());
    }
    let own = format!("/router/{id}");
    let mut named = leaf.sans().iter().filter_map(|san| match san {
        San::Uri(uri) => Some(uri),
        _ => None,
    });
    let is_spiffe = |uri: &str| {
        uri.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("spiffe"))
    };
    named.find(|uri| is_spiffe(uri) && !uri.ends_with(&own)).cloned()
}

fn edge_router(fields: &mut Fields<'_, '_>) -> Taken<Managed> {
    Ok(Managed {
        is_tunneler_enabled: fields.flag("isTunnelerEnabled", false),
        role_attributes: fields.attributes()?,
        app_data: fields.object("appData")?,
        cert_pem: fields.text("certPem").unwrap_or_default(),
        ..transit_router(fields)?
    })
}

fn transit_router(fields: &mut Fields<'_, '_>) -> Taken<Managed> {
    Ok(Managed {
        is_verified: fields.flag("isVerified", false),
        unverified_cert_pem: fields.text("unverifiedCertPem").unwrap_or_default(),
        unverified_fingerprint: fields.full_text("unverifiedFingerprint"),
        ..Managed::default()
    })
}

/// The listeners of a router for controllers: an address, and a list of groups.
fn listeners(fields: &mut Fields<'_, '_>) -> Taken<BTreeMap<String, CtrlListener>> {
    let mut listeners = BTreeMap::new();
    for (address, groups) in fields.object("ctrlChanListeners")?.iter() {
        let groups = groups.as_array().into_iter().flatten();
        let groups = groups.filter_map(|group| group.as_str().map(str::to_owned));
        listeners.insert(address.clone(), CtrlListener { groups: groups.collect() });
    }
    Ok(listeners)
}
