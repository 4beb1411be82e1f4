//! Members of a cluster. weft runs one controller: every operation answers that there is no
//! cluster.

use futures::FutureExt as _;
use weft_contract::{Api, ErrorCode};
use weft_kernel::call::{OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller};

use crate::Controller;

/// The operations.
pub(crate) const HANDLERS: &[(Api, &str, OperationHandler<Controller>)] = &[
    (Api::Fabric, "clusterListMembers", alone),
    (Api::Fabric, "clusterMemberAdd", alone),
    (Api::Fabric, "clusterMemberRemove", alone),
    (Api::Fabric, "clusterTransferLeadership", alone),
];

fn alone(_controller: Controller, _caller: Caller, _call: Call) -> ReplyFuture {
    async { Err(ErrorCode::ServerNotRunningInHaMode.into()) }.boxed()
}
