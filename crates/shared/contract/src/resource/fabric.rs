//! The fabric API: the mesh itself, for its operators (docs/protocol/operations.md 1).
//!
//! The API shows every router, service and terminator of the network, also those hidden from the
//! edge, and records that exist only while the network runs: links and circuits. Every operation is
//! for administrators; those on links, circuits and inspections are also for callers with the
//! permission `ops`.

pub mod circuit;
pub mod cluster;
pub mod inspection;
pub mod link;
pub mod router;
pub mod service;
mod statuses;
pub mod terminator;

use crate::operation::Operation;

/// Operations of the API beside those of circuits and links, which are among the kinds of commands.
pub(super) const OPERATIONS: &[&[Operation]] = &[
    cluster::OPERATIONS,
    super::database::FABRIC,
    inspection::OPERATIONS,
    router::OPERATIONS,
    service::OPERATIONS,
    terminator::OPERATIONS,
];
