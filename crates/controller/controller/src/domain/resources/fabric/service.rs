//! Services in the fabric API.

use weft_contract::resource::fabric::service as contract;
use weft_contract::resource::fabric::service::{ServiceBody, ServiceDetail};
use weft_contract::{Kind as ContractKind, Verb};
use weft_kernel::Result;
use weft_model::entity::Service;

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

    fn merge(record: &mut Service, body: &ServiceBody, _prepared: &(), verb: Verb) -> Result<()> {
        if verb == Verb::Create {
            record.is_fabric_only = true;
        }
        Self::set(record, body, verb)
    }
}
