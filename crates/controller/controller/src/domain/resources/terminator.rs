//! Terminators of the management API (docs/protocol/management-api.md 7.8).
//! [`weft_network::terminators`] makes those that routers report.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use weft_contract::resource::edge_router::ROUTER_COLLECTION;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::resource::terminator as contract;
use weft_contract::resource::terminator::{TerminatorBody, TerminatorDetail};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, convert};
use weft_model::entity::{Router, Service, Terminator};
use weft_model::filter::Index;

use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource};
use crate::domain::values::{choice, word};

/// The resource.
pub(crate) struct Terminators;

fields! {
    Terminators of Terminator, set by TerminatorBody, shown as TerminatorDetail,
    searched as "terminators";

    tags;
    binding { set, merged, shown, searched }
    address { set, shown, searched }
    instance_id as identity { set on Create, shown, searched as "instanceId" }
    host_id { kept, searched }
    source_ctrl { kept, searched }
    service_id {
        set as service on Create, shown, searched as "service" indexed Index::Link(0)
    }
    router_id { set as router, shown, searched as "router" indexed Index::Link(1) }
    search Column::one("service.name", Type::String, |context, it| {
        let service = context.view().get::<Service>(it.service_id.as_str());
        service.map_or(Value::Null, |service| Value::text(&service.name))
    })
    .public();
    search Column::one("router.name", Type::String, |context, it| {
        let router = context.view().get::<Router>(it.router_id.as_str());
        router.map_or(Value::Null, |router| Value::text(&router.name))
    })
    .public();
    instance_secret as identity_secret { set on Create by secret }
    cost { set, shown }
    precedence { set by choice, shown by word }
    saved_precedence { kept }
    peer_data { kept }
    host_proves { kept }
    show dynamic_cost by |context, it| context.controller().dynamic_cost(it);
    show router by |context, it| {
        convert::mention::<Router>(context.view(), ROUTER_COLLECTION, &it.router_id)
    };
    show service by |context, it| {
        convert::mention::<Service>(context.view(), SERVICES, &it.service_id)
    };
}

impl Readable for Terminators {
    const KIND: &'static ContractKind = &contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }
}

impl Resource for Terminators {
    type Prepared = ();

    fn merge(
        record: &mut Terminator,
        body: &TerminatorBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)?;
        if record.binding.is_empty() {
            let udp = record.address.starts_with("udp:");
            record.binding = if udp { "udp" } else { "transport" }.into();
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Terminator>,
        after: &mut Terminator,
        _prepared: &(),
    ) -> Result<()> {
        if after.address.trim().is_empty() {
            return Err(Failure::field("address", "address is required", ""));
        }
        decision.require_services("service", [&after.service_id])?;
        decision.require::<Router>("router", &after.router_id)?;
        Ok(())
    }
}

fn secret(secret: &str) -> Result<Bytes> {
    secret_bytes("identitySecret", secret)
}

/// A secret, which bodies carry as base64.
pub(super) fn secret_bytes(field: &str, secret: &str) -> Result<Bytes> {
    let decoded = STANDARD.decode(secret);
    decoded.map(Bytes::from).map_err(|_| Failure::field(field, "must be base64", ""))
}
