//! Members of a cluster. This controller is alone, and every operation says so.

use futures::FutureExt as _;
use weft_contract::{Api, ErrorCode};

use crate::Controller;
use crate::domain::call::{Answer, Call, Handler};
use crate::domain::caller::Caller;

/// The operations.
pub(crate) const HANDLERS: &[(Api, &str, Handler)] = &[
    (Api::Fabric, "clusterListMembers", alone),
    (Api::Fabric, "clusterMemberAdd", alone),
    (Api::Fabric, "clusterMemberRemove", alone),
    (Api::Fabric, "clusterTransferLeadership", alone),
];

fn alone(_controller: Controller, _caller: Caller, _call: Call) -> Answer {
    async { Err(ErrorCode::ServerNotRunningInHaMode.into()) }.boxed()
}
