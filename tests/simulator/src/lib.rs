//! A whole network in one thread, under a simulated clock: one to three controllers as they are ([`weft_network`]),
//! routers that do what a controller can see of a router, and wires that delay, stop and break. The seed of a run says
//! which network it is, and what happens to it when.
//!
//! ```text
//!  controllers: the network of weft ── wires ── routers of weft and of the original: ways, ends, reports
//!                                             │ links that break and are dialed again
//!                                             payloads from end to end
//! ```
//!
//! The rules of every run:
//! - a dial is answered in time, and makes no circuit for a session that has ended, or over a router without its route;
//! - a circuit whose payloads arrive is not ended by anybody but its ends, whatever happens to the controller;
//! - a circuit whose path has broken is moved within a minute while there is another path, and kept for some seconds
//!   while there is none;
//! - when the faults are over, all circuits that live carry payloads, controllers and routers agree on all of them, no
//!   circuit has two controllers, and each controller has the terminators that routers host;
//! - when the circuits have ended, nothing is left of them anywhere.
//!
//! A run ends with the first rule that is broken, and names it. The same seed makes the same network and the same faults;
//! the order in which the controller looks at its tables is not fixed, so that a seed may have to be run a few times.

mod controller;
mod dial;
mod event;
mod happen;
mod hosting;
mod journal;
mod layout;
mod mesh;
mod random;
mod reports;
mod router;
pub mod rows;
mod run;

use std::time::Duration;

pub use event::Event;
pub use layout::Layout;
pub use mesh::{Host, Kind};
use random::Random;
pub use run::Summary;
use run::{Plan, Run};

/// A run in which a rule was broken.
#[derive(Debug)]
pub struct Violation {
    /// The rule.
    pub rule: String,
    /// What happened until then.
    pub summary: Summary,
}

/// Runs the network of a seed, to which something happens again and again for some time.
///
/// # Errors
/// When a rule is broken.
pub fn run(seed: u64, time: Duration) -> Result<Summary, Box<Violation>> {
    let random = Random::new(seed);
    simulate(&Layout::any(&random), random.any(), Plan::Chance(time))
}

/// Runs a network to which these events happen, each at once after the one before.
///
/// # Errors
/// When a rule is broken.
pub fn play(layout: &Layout, events: &[Event]) -> Result<Summary, Box<Violation>> {
    simulate(layout, 1, Plan::Script(events))
}

fn simulate(layout: &Layout, seed: u64, plan: Plan<'_>) -> Result<Summary, Box<Violation>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_time().start_paused(true).build() {
        Ok(runtime) => runtime,
        Err(problem) => panic!("no runtime: {problem}"),
    };
    runtime.block_on(async {
        let run = Run::new(layout, seed);
        match run.go(plan).await {
            Ok(()) => Ok(run.summary()),
            Err(rule) => Err(Box::new(Violation { rule, summary: run.summary() })),
        }
    })
}
