//! Services, as the fabric sees them.

use futures::FutureExt as _;
use weft_contract::resource::fabric::service as contract;
use weft_contract::resource::fabric::service::{ServiceBody, ServiceDetail};
use weft_contract::{Api, Kind as ContractKind, Verb};
use weft_kernel::call::{Answer, Handler};
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Failure, convert};
use weft_model::entity::{Service, Terminator};
use weft_model::filter::{Table, Type, Value};

use super::terminator::Terminators;
use crate::Controller;
use crate::domain::collection;
use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, detail_base, nothing_prepared};
use crate::domain::resources::service::{idle_millis, strategy};
use crate::domain::symbols::symbols;

/// The resource.
pub(crate) struct Services;

static SYMBOLS: Table<Context, Service> = symbols!("services", Service {
    Column::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
    Column::one("terminatorStrategy", Type::String, |_, it| {
        Value::text(it.terminator_strategy.as_str())
    })
    .public(),
    Column::one("maxIdleTimeMillis", Type::Int, |_, it| Value::Int(it.max_idle_millis)).public(),
    Column::one("isFabricOnly", Type::Bool, |_, it| Value::Bool(it.is_fabric_only)).public(),
});

impl Readable for Services {
    type Record = Service;
    type Detail = ServiceDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, Service> = &SYMBOLS;

    fn detail(_context: &Context, record: &Service) -> ServiceDetail {
        ServiceDetail {
            base: detail_base::<Self>(&record.base),
            max_idle_time_millis: record.max_idle_millis,
            name: record.name.to_string(),
            terminator_strategy: record.terminator_strategy.as_str().to_owned(),
        }
    }
}

impl Resource for Services {
    type Body = ServiceBody;
    nothing_prepared!();

    fn keep(current: &Service, fresh: &mut Service) {
        fresh.is_fabric_only = current.is_fabric_only;
        fresh.encryption_required = current.encryption_required;
        fresh.role_attributes.clone_from(&current.role_attributes);
        fresh.configs.clone_from(&current.configs);
    }

    fn merge(
        record: &mut Service,
        body: &ServiceBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<(), Failure> {
        if verb == Verb::Create {
            record.is_fabric_only = true;
        }
        if let Some(name) = &body.name {
            record.name = name.as_str().into();
        }
        if let Some(millis) = body.max_idle_time_millis {
            record.max_idle_millis = idle_millis(millis)?;
        }
        if let Some(word) = &body.terminator_strategy {
            record.terminator_strategy = strategy(word)?;
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        Ok(())
    }

    fn validate(
        _decision: &mut Decision<'_>,
        _before: Option<&Service>,
        _after: &mut Service,
        _prepared: &(),
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// The operations beside the generic ones.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] =
    &[(Api::Fabric, "listServiceTerminators", terminators)];

fn terminators(controller: Controller, caller: Caller, call: Call) -> Answer {
    collection::nested::<Services, Terminators>(controller, caller, call, |context, parent, _| {
        let table = context.snapshot().table(weft_model::Kind::Terminator);
        Ok(table.referrers(Terminator::SERVICE, &parent.base.id))
    })
    .boxed()
}
