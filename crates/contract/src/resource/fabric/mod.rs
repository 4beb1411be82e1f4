//! The fabric API: the mesh itself, for those who operate it (protocol: operations 1).
//!
//! It shows every router, service and terminator of the network, also what the edge hides, and what
//! lives only while the network runs: links and circuits. Everything here is for administrators;
//! links and circuits also for operators.

pub mod circuit;
pub mod cluster;
pub mod inspection;
pub mod link;
pub mod router;
pub mod service;
pub mod terminator;

use crate::operation::Operation;

/// Statuses of lists and reads.
const LIST: &[u16] = &[200, 401, 429];
const DETAIL: &[u16] = &[200, 401, 404, 429];
const NESTED: &[u16] = &[200, 400, 401, 429];
/// Statuses of deletes.
const DELETE: &[u16] = &[200, 400, 401, 409, 429, 503];

/// Every operation of the API.
pub(super) const OPERATIONS: &[&[Operation]] = &[
    circuit::OPERATIONS,
    cluster::OPERATIONS,
    super::database::FABRIC,
    inspection::OPERATIONS,
    link::OPERATIONS,
    router::OPERATIONS,
    service::OPERATIONS,
    terminator::OPERATIONS,
];
