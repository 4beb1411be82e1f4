//! Routers in the fabric API. A router made by this API is given the fingerprint of its
//! certificate, and never enrolls.

use weft_contract::resource::edge_router::VersionInfo;
use weft_contract::resource::fabric::router as contract;
use weft_contract::resource::fabric::router::{RouterBody, RouterDetail, RouterListener};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, Result, convert};
use weft_model::Id;
use weft_model::entity::{ConfigTarget, Router};

use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource};
use crate::domain::resources::config_type::check_configs;
use crate::domain::resources::edge_router::{EdgeRouters, put_tunneler};
use crate::domain::resources::router;

/// Digits of a fingerprint: SHA-1 in hex.
const FINGERPRINT: usize = 40;

/// The resource.
pub(crate) struct Routers;

fields! {
    Routers of Router, set by RouterBody, shown as RouterDetail,
    searched as (those of router::Routers);

    tags;
    name { set, shown }
    cost { set, shown }
    no_traversal { set, shown }
    disabled { set, shown }
    configs { set, shown }
    ctrl_chan_listeners { set, shown }
    fingerprint { kept, merged, shown }
    cert_pem { kept, merged }
    is_verified { kept, merged }
    unverified_cert_pem { kept, merged }
    unverified_fingerprint { kept, merged }
    read id, fingerprint;
    is_fabric_only { kept, merged }
    is_edge { kept }
    is_tunneler_enabled { kept }
    role_attributes { kept }
    app_data { kept }
    show connected, interfaces, listener_addresses, version_info elsewhere;
}

impl Readable for Routers {
    const KIND: &'static ContractKind = &contract::KIND;

    fn detail(context: &Context, record: &Router) -> RouterDetail {
        let id = record.base.id.as_str();
        let facts = context.online().router(id);
        let live = context.controller().network().and_then(|network| network.routers().get(id));
        let listening = live.map(|live| live.listeners()).unwrap_or_default().into_iter();
        RouterDetail {
            connected: facts.is_some(),
            interfaces: facts.as_ref().map(|it| it.interfaces.to_vec()).unwrap_or_default().into(),
            listener_addresses: listening
                .map(|it| RouterListener { address: it.address, protocol: it.protocol })
                .collect(),
            version_info: facts.as_ref().map(|facts| VersionInfo {
                arch: facts.version.arch.clone(),
                build_date: facts.version.build_date.clone(),
                os: facts.version.os.clone(),
                revision: facts.version.revision.clone(),
                version: facts.version.version.clone(),
            }),
            ..Self::show(context, record)
        }
    }
}

impl Resource for Routers {
    type Prepared = ();

    fn chosen_id(body: &RouterBody) -> Option<Result<Id>> {
        Some(convert::id_field("id", body.id.as_deref().unwrap_or_default()))
    }

    fn merge(record: &mut Router, body: &RouterBody, _prepared: &(), verb: Verb) -> Result<()> {
        if verb == Verb::Create {
            record.is_fabric_only = true;
        }
        if let Some(fingerprint) = &body.fingerprint {
            set_fingerprint(record, fingerprint)?;
        }
        Self::set(record, body, verb)
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Router>,
        after: &mut Router,
        _prepared: &(),
    ) -> Result<()> {
        if before.is_none_or(|before| before.configs != after.configs) {
            check_configs(decision, ConfigTarget::Router, &after.configs)?;
        }
        match after.is_tunneler_enabled {
            true => put_tunneler(decision, after),
            false => Ok(()),
        }
    }

    fn on_delete(decision: &mut Decision<'_>, record: &Router) -> Result<()> {
        EdgeRouters::on_delete(decision, record)
    }
}

/// Sets the fingerprint of the only certificate that counts from now on, and forgets the text of
/// the former one.
fn set_fingerprint(record: &mut Router, text: &str) -> Result<()> {
    let text = text.trim().to_ascii_lowercase();
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !(text.is_empty() || is_hex && text.len() == FINGERPRINT) {
        let reason = format!("must be SHA-1 in hex: {FINGERPRINT} digits");
        return Err(Failure::field("fingerprint", reason, text));
    }
    if record.fingerprint.as_deref().unwrap_or_default() != text {
        record.cert_pem.clear();
        record.unverified_cert_pem.clear();
        record.unverified_fingerprint = None;
        record.is_verified = !text.is_empty();
        record.fingerprint = (!text.is_empty()).then(|| text.as_str().into());
    }
    Ok(())
}
