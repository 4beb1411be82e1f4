//! Terminators, as the fabric sees them.

use weft_contract::resource::fabric::terminator as contract;
use weft_contract::resource::fabric::terminator::{TerminatorBody, TerminatorDetail};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, convert};
use weft_model::Id;
use weft_model::entity::{Router, Service, Terminator};
use weft_model::filter::Table;

use super::{router_ref, service_ref};
use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, detail_base, nothing_prepared};
use crate::domain::resources::terminator::{SYMBOLS, secret_bytes};

/// The resource.
pub(crate) struct Terminators;

impl Readable for Terminators {
    type Record = Terminator;
    type Detail = TerminatorDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, Terminator> = &SYMBOLS;

    fn detail(context: &Context, record: &Terminator) -> TerminatorDetail {
        let view = context.view();
        TerminatorDetail {
            base: detail_base::<Self>(&record.base),
            address: record.address.to_string(),
            binding: record.binding.to_string(),
            cost: record.cost,
            dynamic_cost: context.controller().dynamic_cost(record),
            host_id: record.host_id.to_string(),
            instance_id: record.instance_id.to_string(),
            precedence: convert::precedence(record.precedence),
            router: router_ref(view, &record.router_id),
            router_id: record.router_id.to_string(),
            service: service_ref(view, &record.service_id),
            service_id: record.service_id.to_string(),
        }
    }
}

impl Resource for Terminators {
    type Body = TerminatorBody;
    nothing_prepared!();

    fn keep(current: &Terminator, fresh: &mut Terminator) {
        fresh.instance_id = current.instance_id.clone();
        fresh.instance_secret = current.instance_secret.clone();
        fresh.peer_data = current.peer_data.clone();
        fresh.source_ctrl = current.source_ctrl.clone();
    }

    fn merge(
        record: &mut Terminator,
        body: &TerminatorBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<(), Failure> {
        if let Some(service) = &body.service {
            record.service_id = convert::id_field("service", service)?;
        }
        if let Some(router) = &body.router {
            record.router_id = convert::id_field("router", router)?;
        }
        if let Some(address) = &body.address {
            record.address = address.as_str().into();
        }
        if let Some(binding) = &body.binding {
            record.binding = binding.as_str().into();
        }
        if let Some(cost) = body.cost {
            record.cost = cost;
        }
        if let Some(precedence) = body.precedence {
            record.precedence = convert::from_precedence(precedence);
        }
        if let Some(host) = &body.host_id {
            record.host_id = match host.as_str() {
                "" => Id::default(),
                host => convert::id_field("hostId", host)?,
            };
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        if verb != Verb::Create {
            return Ok(());
        }
        if let Some(instance) = &body.instance_id {
            record.instance_id = instance.as_str().into();
        }
        if let Some(secret) = &body.instance_secret {
            record.instance_secret = secret_bytes("instanceSecret", secret)?;
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Terminator>,
        after: &mut Terminator,
        _prepared: &(),
    ) -> Result<(), Failure> {
        for (field, text) in [("address", &after.address), ("binding", &after.binding)] {
            if text.trim().is_empty() {
                return Err(Failure::field(field, format!("{field} is required"), ""));
            }
        }
        decision.require::<Service>("service", &after.service_id)?;
        decision.require::<Router>("router", &after.router_id)?;
        Ok(())
    }
}
