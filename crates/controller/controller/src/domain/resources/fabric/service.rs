//! Services in the fabric API.

use futures::FutureExt as _;
use weft_contract::resource::fabric::service as contract;
use weft_contract::resource::fabric::service::{ServiceBody, ServiceDetail};
use weft_contract::{Api, Kind as ContractKind, Verb};
use weft_kernel::call::{OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller, Failure};
use weft_model::entity::{Service, Terminator};

use super::terminator::Terminators;
use crate::Controller;
use crate::domain::collection;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource};
use crate::domain::resources::service::{idle_millis, strategy};

/// The resource.
pub(crate) struct Services;

fields! {
    Services of Service, set by ServiceBody, shown as ServiceDetail, searched as "services";

    tags;
    name { set, shown, searched }
    terminator_strategy { set by strategy, shown by ToString::to_string, searched }
    max_idle_millis as max_idle_time_millis { set by idle_millis, shown, searched }
    is_fabric_only { kept, merged, searched }
    encryption_required { kept }
    authenticated_ends { kept }
    role_attributes { kept }
    configs { kept }
}

impl Readable for Services {
    const KIND: &'static ContractKind = &contract::KIND;
}

impl Resource for Services {
    type Prepared = ();

    fn merge(
        record: &mut Service,
        body: &ServiceBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<(), Failure> {
        if verb == Verb::Create {
            record.is_fabric_only = true;
        }
        Self::set(record, body, verb)
    }
}

/// The operations beside the generic ones.
pub(crate) const HANDLERS: &[(Api, &str, OperationHandler<Controller>)] =
    &[(Api::Fabric, "listServiceTerminators", terminators)];

fn terminators(controller: Controller, caller: Caller, call: Call) -> ReplyFuture {
    collection::nested::<Services, Terminators>(
        controller,
        caller,
        call,
        |context, parent, _, _| {
            let table = context.snapshot().table(weft_model::Kind::Terminator);
            Ok(table.referrers(Terminator::SERVICE, &parent.base.id))
        },
    )
    .boxed()
}
