//! Members of a cluster. weft runs one controller: every operation answers that there is no
//! cluster.

use weft_contract::{Api, ErrorCode};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result};

use crate::Controller;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Fabric, "clusterListMembers", &alone),
    (Api::Fabric, "clusterMemberAdd", &alone),
    (Api::Fabric, "clusterMemberRemove", &alone),
    (Api::Fabric, "clusterTransferLeadership", &alone),
];

async fn alone(_controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    Err(ErrorCode::ServerNotRunningInHaMode.into())
}
