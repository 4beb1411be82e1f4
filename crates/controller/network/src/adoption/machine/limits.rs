//! Limits on circuits of an earlier run, and the share of each router that names them.

use hashbrown::HashMap;
use weft_model::Id;

/// Most circuits known in part.
const MAX_CIRCUITS: usize = 200_000;
/// Most circuits known in part for which one router was the first reporter.
const MAX_BEGUN: usize = 100_000;
/// Most bytes for the pieces of one router and the whole circuits that it reported first. A real
/// circuit takes some 300 bytes, so this is enough for all circuits over a router.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Longest route that is adopted, in bytes; real ones have some hundred bytes.
const MAX_ROUTE: usize = 2 * 1024;
/// Longest id of a circuit, in bytes; real ones have 22.
const MAX_ID: usize = 128;
/// Most routers one circuit goes over.
const MAX_NODES: usize = 64;
/// Most circuits over one router; beyond them no reported circuit is adopted.
const MAX_AT_ROUTER: usize = 200_000;

pub(crate) fn is_id(circuit: &str) -> bool {
    (1..=MAX_ID).contains(&circuit.len())
}

/// The limits of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) circuits: usize,
    pub(super) begun: usize,
    pub(super) bytes: usize,
    pub(super) route: usize,
    pub(super) nodes: usize,
    pub(super) at_router: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            circuits: MAX_CIRCUITS,
            begun: MAX_BEGUN,
            bytes: MAX_BYTES,
            route: MAX_ROUTE,
            nodes: MAX_NODES,
            at_router: MAX_AT_ROUTER,
        }
    }
}

/// Why a circuit that a router names is not adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    #[error("too many go over its router")]
    AtRouter,
    #[error("too many circuits are incomplete")]
    InPart,
    #[error("its route is too long")]
    Route,
    #[error("its router reports too many")]
    Bytes,
}

/// What a router fills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// The circuits known in part that it has named first.
    pub(super) begun: usize,
    /// The bytes of its pieces and of the whole circuits that it has named first.
    pub(super) bytes: usize,
}

/// What each router fills. Routers that fill nothing are not in the table.
#[derive(Debug, Default)]
pub(super) struct Shares {
    routers: HashMap<Id, Share>,
    /// All circuits that are known in part.
    in_part: usize,
}

impl Shares {
    pub(super) fn of(&self, router: &Id) -> Share {
        self.routers.get(router).copied().unwrap_or_default()
    }

    pub(super) fn in_part(&self) -> usize {
        self.in_part
    }

    /// Counts a circuit known in part for the router that has named it first.
    pub(super) fn begin(&mut self, router: &Id) {
        self.in_part += 1;
        self.change(router, |share| share.begun += 1);
    }

    /// Counts it no more.
    pub(super) fn complete(&mut self, router: &Id) {
        self.in_part = self.in_part.saturating_sub(1);
        self.change(router, |share| share.begun = share.begun.saturating_sub(1));
    }

    pub(super) fn take(&mut self, router: &Id, bytes: usize) {
        self.change(router, |share| share.bytes += bytes);
    }

    pub(super) fn give_back(&mut self, router: &Id, bytes: usize) {
        self.change(router, |share| share.bytes = share.bytes.saturating_sub(bytes));
    }

    fn change(&mut self, router: &Id, change: impl FnOnce(&mut Share)) {
        let share = self.routers.entry_ref(router).or_default();
        change(share);
        if *share == Share::default() {
            self.routers.remove(router);
        }
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &HashMap<Id, Share> {
        &self.routers
    }
}
