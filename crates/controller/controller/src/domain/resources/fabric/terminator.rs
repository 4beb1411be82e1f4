//! Terminators in the fabric API.

use bytes::Bytes;
use weft_contract::Kind as ContractKind;
use weft_contract::resource::fabric::terminator as contract;
use weft_contract::resource::fabric::terminator::{TerminatorBody, TerminatorDetail};
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, Result, convert};
use weft_model::Id;
use weft_model::entity::{Router, Service, Terminator};

use super::{router_ref, service_ref};
use crate::domain::fields::fields;
use crate::domain::resource::{Readable, Resource};
use crate::domain::resources::terminator::{self, secret_bytes};
use crate::domain::values::{choice, word};

/// The resource.
pub(crate) struct Terminators;

fields! {
    Terminators of Terminator, set by TerminatorBody, shown as TerminatorDetail,
    searched as (those of terminator::Terminators);

    tags;
    service_id { set as service, shown }
    router_id { set as router, shown }
    address { set, shown }
    binding { set, shown }
    cost { set, shown }
    precedence { set by choice, shown by word }
    saved_precedence { kept }
    host_id { set by host, shown }
    instance_id { set on Create, shown }
    instance_secret { set on Create by secret }
    peer_data { kept }
    source_ctrl { kept }
    host_proves { kept }
    show dynamic_cost by |context, it| context.controller().dynamic_cost(it);
    show router by |context, it| router_ref(context.view(), &it.router_id);
    show service by |context, it| service_ref(context.view(), &it.service_id);
}

impl Readable for Terminators {
    const KIND: &'static ContractKind = &contract::KIND;
}

impl Resource for Terminators {
    type Prepared = ();

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Terminator>,
        after: &mut Terminator,
        _prepared: &(),
    ) -> Result<()> {
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

/// The identity that hosts; an empty text means none.
fn host(id: &str) -> Result<Id> {
    match id {
        "" => Ok(Id::default()),
        id => convert::id_field("hostId", id),
    }
}

fn secret(secret: &str) -> Result<Bytes> {
    secret_bytes("instanceSecret", secret)
}
