//! Terminators made through the API (docs/protocol/management-api.md 7.8). Those that routers
//! report come by [`weft_network::terminators`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use weft_contract::resource::edge_router::ROUTER_COLLECTION;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::resource::terminator as contract;
use weft_contract::resource::terminator::{TerminatorBody, TerminatorDetail};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, convert};
use weft_model::entity::{Router, Service, Terminator};
use weft_model::filter::{Index, Table, Type, Value};

use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, Shown, detail_base, nothing_prepared};
use crate::domain::symbols::symbols;

/// The resource.
pub(crate) struct Terminators;

pub(super) static SYMBOLS: Table<Context, Terminator> = symbols!("terminators", Terminator {
    Column::one("binding", Type::String, |_, it| Value::text(&it.binding)).public(),
    Column::one("address", Type::String, |_, it| Value::text(&it.address)).public(),
    Column::one("instanceId", Type::String, |_, it| Value::text(&it.instance_id)).public(),
    Column::one("hostId", Type::String, |_, it| Value::text(it.host_id.as_str())).public(),
    Column::one("sourceCtrl", Type::String, |_, it| Value::text(&it.source_ctrl)).public(),
    Column::one("service", Type::String, |_, it| Value::text(it.service_id.as_str()))
        .public()
        .indexed(Index::Link(0)),
    Column::one("router", Type::String, |_, it| Value::text(it.router_id.as_str()))
        .public()
        .indexed(Index::Link(1)),
    Column::one("service.name", Type::String, |context, it| {
        let service = context.view().get::<Service>(it.service_id.as_str());
        service.map_or(Value::Null, |service| Value::text(&service.name))
    })
    .public(),
    Column::one("router.name", Type::String, |context, it| {
        let router = context.view().get::<Router>(it.router_id.as_str());
        router.map_or(Value::Null, |router| Value::text(&router.name))
    })
    .public(),
});

impl Readable for Terminators {
    type Record = Terminator;
    type Detail = TerminatorDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, Terminator> = &SYMBOLS;

    fn shown(_caller: &Caller) -> Shown {
        Shown::All
    }

    fn detail(context: &Context, record: &Terminator) -> TerminatorDetail {
        let view = context.view();
        TerminatorDetail {
            base: detail_base::<Self>(&record.base),
            address: record.address.to_string(),
            binding: record.binding.to_string(),
            cost: record.cost,
            dynamic_cost: context.controller().dynamic_cost(record),
            identity: record.instance_id.to_string(),
            precedence: convert::precedence(record.precedence),
            router: convert::mention::<Router>(view, ROUTER_COLLECTION, &record.router_id),
            router_id: record.router_id.to_string(),
            service: convert::mention::<Service>(view, SERVICES, &record.service_id),
            service_id: record.service_id.to_string(),
        }
    }
}

impl Resource for Terminators {
    type Body = TerminatorBody;
    nothing_prepared!();

    fn keep(current: &Terminator, fresh: &mut Terminator) {
        fresh.service_id = current.service_id.clone();
        fresh.instance_id = current.instance_id.clone();
        fresh.instance_secret = current.instance_secret.clone();
        fresh.peer_data = current.peer_data.clone();
        fresh.host_id = current.host_id.clone();
        fresh.source_ctrl = current.source_ctrl.clone();
    }

    fn merge(
        record: &mut Terminator,
        body: &TerminatorBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<(), Failure> {
        if let Some(address) = &body.address {
            record.address = address.as_str().into();
        }
        if let Some(binding) = &body.binding {
            record.binding = binding.as_str().into();
        }
        if record.binding.is_empty() {
            let udp = record.address.starts_with("udp:");
            record.binding = if udp { "udp" } else { "transport" }.into();
        }
        if let Some(cost) = body.cost {
            record.cost = cost;
        }
        if let Some(precedence) = body.precedence {
            record.precedence = convert::from_precedence(precedence);
        }
        if let Some(router) = &body.router {
            record.router_id = convert::id_field("router", router)?;
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        if verb != Verb::Create {
            return Ok(());
        }
        if let Some(service) = &body.service {
            record.service_id = convert::id_field("service", service)?;
        }
        if let Some(instance) = &body.identity {
            record.instance_id = instance.as_str().into();
        }
        if let Some(secret) = &body.identity_secret {
            record.instance_secret = secret_bytes("identitySecret", secret)?;
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Terminator>,
        after: &mut Terminator,
        _prepared: &(),
    ) -> Result<(), Failure> {
        if after.address.trim().is_empty() {
            return Err(Failure::field("address", "address is required", ""));
        }
        decision.require_services("service", [&after.service_id])?;
        decision.require::<Router>("router", &after.router_id)?;
        Ok(())
    }
}

/// A secret, which bodies carry as base64.
pub(super) fn secret_bytes(field: &str, secret: &str) -> Result<Bytes, Failure> {
    let decoded = STANDARD.decode(secret);
    decoded.map(Bytes::from).map_err(|_| Failure::field(field, "must be base64", ""))
}
