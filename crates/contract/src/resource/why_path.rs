//! Why a dial takes the way it takes: weft's own operation, decided on one look at the network.

use crate::entity::{EntityRef, Precedence, detail, words};
use crate::operation::{Access, Operation, detail as get};
use crate::permission::{Action, Subject};

/// The most routers over which a dial could enter that are explained.
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

words! {
    /// The result for a terminator.
    pub enum Verdict {
        /// It is dialed.
        Chosen = "chosen",
        /// Chance decides between it and others.
        Chance = "chance",
        /// It costs more than the one that is dialed.
        Dearer = "dearer",
        /// One of a better precedence is there.
        Precedence = "precedence",
        /// Its router cannot be reached.
        NoPath = "noPath",
        /// Its router is not connected.
        Offline = "offline",
        /// It is another instance than the one that is asked for.
        OtherInstance = "otherInstance",
    }
}

detail! {
    /// Why a dial takes the way it takes.
    pub struct PathExplanation {
        /// Whether policies allow the dial.
        pub access: PathAccess,
        /// The routers over which it could enter the network: those that can be used first.
        pub entries: Vec<PathEntry>,
        /// The identity or router that dials.
        pub from: EntityRef,
        /// The instance that is asked for; empty is any without one.
        pub instance: String,
        /// Whether some other paths were not looked for because it would have taken too long.
        pub is_cut: bool,
        /// How many entries there are besides.
        pub more_entries: i64,
        /// The revision of the network.
        pub revision: i64,
        /// The service.
        pub service: EntityRef,
        /// How the service chooses among its terminators.
        pub strategy: String,
    }
}

detail! {
    /// Whether policies allow a dial; posture is not looked at.
    pub struct PathAccess {
        /// Whether they do.
        pub allowed: bool,
        /// The service policies that do, by name.
        pub policies: Vec<String>,
        /// In words.
        pub reason: String,
    }
}

detail! {
    /// A router over which a dial could enter the network.
    pub struct PathEntry {
        /// Whether it is connected.
        pub is_online: bool,
        /// Whether the dial can enter here; only then the terminators are listed.
        pub is_usable: bool,
        /// How many terminators there are besides.
        pub more_terminators: i64,
        /// Why it cannot be used; empty if it can.
        pub reason: String,
        /// The router.
        pub router: EntityRef,
        /// The terminators of the service as seen from here, the dialed one first.
        pub terminators: Vec<PathTerminator>,
    }
}

detail! {
    /// A terminator, as it is seen from a router.
    pub struct PathTerminator {
        /// How its router dials.
        pub binding: String,
        /// A path that is cheaper than those that can be taken, or would be the only one.
        pub blocked: Option<BlockedPath>,
        /// Circuits that it carries; each costs 2 where the strategy looks at experience.
        pub circuits: u32,
        /// Its cost with the cost of its path; null without a path.
        pub cost: Option<u64>,
        /// Its dynamic cost, from circuits and failures.
        pub dynamic_cost: u16,
        /// The present cost of its failed dials.
        pub failure_cost: u32,
        /// The identity that hosts; null if none does.
        pub host: Option<EntityRef>,
        /// Its id.
        pub id: String,
        /// Terminators with the same one are one host.
        pub instance_id: String,
        /// The paths to it: first the path of a dial, then others by cost.
        pub paths: Vec<ExplainedPath>,
        /// Whether it comes first, as usual, or last.
        pub precedence: Precedence,
        /// Its router.
        pub router: EntityRef,
        /// How likely it is dialed where chance decides, from 0 to 1.
        pub share: f64,
        /// Its own cost.
        pub static_cost: u16,
        /// The result.
        pub verdict: Verdict,
        /// The result in words.
        pub why: String,
    }
}

detail! {
    /// A path, and its cost.
    pub struct ExplainedPath {
        /// The whole cost.
        pub cost: u64,
        /// How much more that is than the cheapest path to the same terminator.
        pub more: u64,
        /// The routers that are entered, each with the link that leads there.
        pub steps: Vec<PathStep>,
    }
}

detail! {
    /// A path that cannot be taken.
    pub struct BlockedPath {
        /// The obstacles on the path, in words.
        pub by: Vec<String>,
        /// The cost that it would have.
        pub cost: u64,
        /// The routers that it would enter.
        pub steps: Vec<PathStep>,
    }
}

detail! {
    /// A step of a path: a link, and the router behind it.
    pub struct PathStep {
        /// The latency measured by the router that was dialed, in nanoseconds.
        pub dest_latency: u64,
        /// Whether the link was taken out of use.
        pub down: bool,
        /// Id of the link.
        pub link: String,
        /// The cost of the link: its static cost and both latencies in milliseconds.
        pub link_cost: u64,
        /// The router.
        pub router: EntityRef,
        /// The cost of entering the router.
        pub router_cost: u32,
        /// The latency measured by the router that dialed, in nanoseconds.
        pub source_latency: u64,
        /// Part of the link's cost that does not depend on measurements.
        pub static_cost: i32,
    }
}
