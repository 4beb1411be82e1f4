//! Why a dial takes its path: weft's own operation, decided on one state of the network.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::entity::{EntityRef, PrecedenceWord, detail};
use crate::operation::{Access, Operation, detail as get};
use crate::permission::{Action, Subject};
use crate::word::Word;

/// The most routers that are explained as the place where a dial enters.
pub const MAX_ENTRIES: usize = 16;
/// The most terminators that are explained for one router.
pub const MAX_TERMINATORS: usize = 256;

/// The operation. The caller also needs the permission to read the entities in the answer:
/// identities, services, service policies, routers and terminators.
pub const OPERATIONS: &[Operation] = &[get(
    "explainPath",
    "/why-path/{id}/{serviceId}",
    Access::Permission(Subject::Ops, Action::Read),
    "pathExplanation",
)
.query(&["instance"])];

/// What a dial does with a terminator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Verdict {
    /// The terminator is dialed.
    #[default]
    Chosen,
    /// Chance decides between the terminator and others.
    Chance,
    /// The terminator costs more than the one that is dialed.
    Dearer,
    /// A terminator with a better precedence is dialed.
    Precedence,
    /// No path leads to the router of the terminator.
    NoPath,
    /// The router of the terminator is not connected.
    Offline,
    /// The host of the terminator has lost the right to host the service.
    Unfounded,
    /// The terminator belongs to another instance than the dialed one.
    OtherInstance,
}

impl Word for Verdict {}

detail! {
    /// The reasons for which a dial takes its path.
    pub struct PathExplanation {
        /// Whether service policies allow the dial.
        pub access: PathAccess,
        /// At most 16 routers where the dial can enter the network; routers that the dial can use
        /// come first.
        pub entries: Vec<PathEntry>,
        /// The identity or router that dials.
        pub from: EntityRef,
        /// The instance that is dialed; empty for any terminator without an instance.
        pub instance: String,
        /// Whether the search for other paths was ended early because the network has too many
        /// links.
        pub is_cut: bool,
        /// The number of entries that `entries` leaves out.
        pub more_entries: i64,
        /// The revision of the network.
        pub revision: i64,
        /// The service that is dialed.
        pub service: EntityRef,
        /// The strategy by which the service chooses a terminator.
        pub strategy: String,
    }
}

detail! {
    /// Whether service policies allow a dial. Posture checks are not taken into account.
    pub struct PathAccess {
        /// Whether service policies allow the dial.
        pub allowed: bool,
        /// The names of the service policies that allow the dial.
        pub policies: Vec<String>,
        /// The reason, as a sentence.
        pub reason: String,
    }
}

detail! {
    /// A router where a dial can enter the network.
    pub struct PathEntry {
        /// Whether the router is connected.
        pub is_online: bool,
        /// Whether the dial can enter at the router. Only such a router lists terminators.
        pub is_usable: bool,
        /// The number of terminators that `terminators` leaves out.
        pub more_terminators: i64,
        /// The reason for which the dial cannot enter at the router; empty if it can.
        pub reason: String,
        /// The router.
        pub router: EntityRef,
        /// At most 256 terminators of the service, seen from the router; the dialed one comes first.
        pub terminators: Vec<PathTerminator>,
    }
}

detail! {
    /// A terminator of the service, seen from a router.
    pub struct PathTerminator {
        /// The binding with which the terminator's router dials.
        pub binding: String,
        /// A path that cannot be taken, and that is cheaper than every path that can, or the only
        /// path.
        pub blocked: Option<BlockedPath>,
        /// The number of circuits that the terminator carries. Each adds 2 to the dynamic cost, if
        /// the strategy counts circuits.
        pub circuits: u32,
        /// The cost of the terminator and of its path; null without a path.
        pub cost: Option<u64>,
        /// The dynamic cost of the terminator, from its circuits and failed dials.
        pub dynamic_cost: u16,
        /// The part of the dynamic cost that comes from failed dials.
        pub failure_cost: u32,
        /// The identity that hosts; null if none does.
        pub host: Option<EntityRef>,
        /// The id of the terminator.
        pub id: String,
        /// The instance id of the terminator; empty for none.
        pub instance_id: String,
        /// The paths to the terminator: first the path of the dial, then others by cost.
        pub paths: Vec<ExplainedPath>,
        /// The precedence of the terminator.
        pub precedence: PrecedenceWord,
        /// The router of the terminator.
        pub router: EntityRef,
        /// The probability of the terminator where chance decides, from 0 to 1.
        pub share: f64,
        /// The static cost of the terminator.
        pub static_cost: u16,
        /// What the dial does with the terminator.
        pub verdict: Verdict,
        /// The verdict, as a sentence.
        pub why: String,
    }
}

detail! {
    /// A path, and its cost.
    pub struct ExplainedPath {
        /// The cost of the whole path.
        pub cost: u64,
        /// The cost of this path minus the cost of the cheapest path to the same terminator.
        pub more: u64,
        /// The routers after the first one, each with the link that leads to it.
        pub steps: Vec<PathStep>,
    }
}

detail! {
    /// A path that cannot be taken.
    pub struct BlockedPath {
        /// The obstacles on the path, as sentences.
        pub by: Vec<String>,
        /// The cost that the path would have.
        pub cost: u64,
        /// The routers after the first one, each with the link that leads to it.
        pub steps: Vec<PathStep>,
    }
}

detail! {
    /// A step of a path: a link, and the router behind it.
    pub struct PathStep {
        /// The latency that the dialed router of the link measured, in nanoseconds.
        pub dest_latency: u64,
        /// Whether the link is out of use.
        pub down: bool,
        /// The id of the link.
        pub link: String,
        /// The cost of the link: its static cost and both latencies in milliseconds.
        pub link_cost: u64,
        /// The router behind the link.
        pub router: EntityRef,
        /// The cost of entering the router.
        pub router_cost: u32,
        /// The latency that the dialing router of the link measured, in nanoseconds.
        pub source_latency: u64,
        /// The part of the link's cost that does not depend on measurements.
        pub static_cost: i32,
    }
}
