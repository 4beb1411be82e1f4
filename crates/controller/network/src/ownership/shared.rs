//! What this controller owns and claims, under its locks.

use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use weft_wire::ctrl::ClaimCircuits;

use super::machine::Machine;
use crate::clock;
use crate::ids::tag;

/// How long a circuit counts as taken over on the word of a router. Another router of it that has not heard of the other
/// controller asks this one meanwhile, and is to keep the circuit. A router may lie, so that the word does not count for ever.
const TAKEN: Duration = Duration::from_secs(300);
/// Most circuits that are remembered so.
const MOST_TAKEN: usize = 250_000;
/// Most circuits whose end is remembered while a router may be about to name them.
const MOST_ENDED: usize = 10_000;

/// Whose circuits this controller owns.
#[derive(Debug)]
pub(crate) struct Ownership {
    pub(super) machine: Mutex<Machine>,
    pub(super) claims: RwLock<Claims>,
}

/// What is claimed at routers.
#[derive(Debug)]
pub(super) struct Claims {
    /// The tag with which the ids of this run begin: that of the controller, and that of the run.
    pub(super) run: String,
    /// The claim of the circuits that this controller has made.
    pub(super) own: ClaimCircuits,
    /// The claims of the circuits of controllers that have ended.
    pub(super) held: Vec<ClaimCircuits>,
    /// The tags of all other controllers.
    pub(super) others: Vec<String>,
    /// Circuits that another controller has taken over, as routers say, and when they said it.
    taken: HashMap<String, Instant>,
}

impl Ownership {
    /// Of a controller that is alone, or does not know the others yet.
    pub(crate) fn new(controller: &str, run: &str) -> Self {
        let tag = tag(controller);
        let run = format!("{tag}{run}");
        let own = ClaimCircuits {
            controller: controller.to_owned(),
            tag,
            changed_only: true,
            ..Default::default()
        };
        let claims =
            Claims { run, own, held: Vec::new(), others: Vec::new(), taken: HashMap::new() };
        Self { machine: Mutex::default(), claims: RwLock::new(claims) }
    }

    /// The tag with which the ids of this run begin.
    pub(crate) fn run(&self) -> String {
        self.claims.read().run.clone()
    }

    /// Whether only a circuit of this run can have this id.
    pub(crate) fn is_of_this_run(&self, circuit: &str) -> bool {
        circuit.starts_with(&self.claims.read().run)
    }

    /// The term of this controller for a circuit.
    pub(crate) fn term(&self, circuit: &str) -> u64 {
        let claims = self.claims.read();
        claims.held.iter().find(|held| circuit.starts_with(&held.tag)).unwrap_or(&claims.own).term
    }

    /// Whether a circuit belongs to another controller that is alive, or that another one has come for.
    pub(crate) fn is_elsewhere(&self, circuit: &str) -> bool {
        self.claims.read().is_elsewhere(circuit)
    }

    /// Whether the id of a circuit is of a controller. Routers that choose ids must not choose such a one.
    pub(crate) fn is_of_controller(&self, circuit: &str) -> bool {
        let claims = self.claims.read();
        let mut tags = claims.others.iter().chain([&claims.own.tag]);
        tags.any(|tag| circuit.starts_with(tag))
    }

    /// Whether a circuit of which a router says who has made it is this controller's.
    pub(crate) fn is_owned(&self, maker: &str, circuit: &str) -> bool {
        let claims = self.claims.read();
        let is_claimed = |claim: &ClaimCircuits| claim.controller == maker;
        let is_of_owned =
            maker.is_empty() || is_claimed(&claims.own) || claims.held.iter().any(is_claimed);
        is_of_owned && !claims.is_elsewhere(circuit)
    }

    /// Whether a circuit is of a controller whose circuits are held.
    pub(super) fn is_held(&self, circuit: &str) -> bool {
        self.claims.read().held.iter().any(|held| circuit.starts_with(&held.tag))
    }

    /// All that is claimed; nothing while this controller is alone.
    pub(super) fn all(&self) -> Vec<ClaimCircuits> {
        let claims = self.claims.read();
        let own = Some(&claims.own).filter(|own| own.term > 0);
        own.into_iter().chain(&claims.held).map(|claim| claims.sparing(claim.clone())).collect()
    }
}

impl Claims {
    /// A claim that takes nothing of others whose circuits are not held: they are alive, or another controller comes for
    /// them.
    pub(super) fn sparing(&self, claim: ClaimCircuits) -> ClaimCircuits {
        let is_held = |tag: &String| self.held.iter().any(|held| held.tag == *tag);
        let spared = self.others.iter().filter(|tag| **tag != claim.tag && !is_held(tag));
        ClaimCircuits { spared: spared.cloned().collect(), ..claim }
    }

    fn is_elsewhere(&self, circuit: &str) -> bool {
        let is_held = || self.held.iter().any(|held| circuit.starts_with(&held.tag));
        let is_others = || self.others.iter().any(|tag| circuit.starts_with(tag)) && !is_held();
        let is_taken = || self.taken.get(circuit).is_some_and(|at| clock::since(*at) < TAKEN);
        is_others() || is_taken()
    }

    /// Remembers a circuit that another controller has taken over; false if there is no other one.
    pub(super) fn note_taken(&mut self, circuit: &str, now: Instant) -> bool {
        if self.taken.len() >= MOST_TAKEN {
            self.taken.retain(|_, at| now.saturating_duration_since(*at) < TAKEN);
        }
        if !self.others.is_empty() && self.taken.len() < MOST_TAKEN {
            self.taken.insert(circuit.to_owned(), now);
        }
        !self.others.is_empty()
    }

    /// Forgets which circuits that begin with a tag were taken over.
    pub(super) fn forget_taken(&mut self, tag: &str) {
        self.taken.retain(|circuit, _| !circuit.starts_with(tag));
    }
}

/// The claims at one router that it has not answered.
#[derive(Debug, Default)]
pub(crate) struct OpenClaims(Mutex<OpenAnswers>);

#[derive(Debug, Default)]
struct OpenAnswers {
    count: usize,
    /// When the router is not waited for any more.
    until: Option<Instant>,
    /// Circuits of which the router has said meanwhile that they have ended.
    ended: HashSet<String>,
}

impl OpenClaims {
    /// Notes that a claim is sent; a router that says nothing for `patience` is not waited for.
    pub(crate) fn begin(&self, now: Instant, patience: Option<Duration>) {
        let mut open = self.0.lock();
        open.count += 1;
        open.until = patience.map(|patience| now + patience);
    }

    /// Notes that a claim is answered.
    pub(crate) fn end(&self) {
        let mut open = self.0.lock();
        open.count = open.count.saturating_sub(1);
        if open.count == 0 {
            open.ended.clear();
        }
    }

    /// Whether the router may have circuits of this controller that it has not named.
    pub(crate) fn is_awaited(&self, now: Instant) -> bool {
        let open = self.0.lock();
        open.count > 0 && open.until.is_none_or(|until| now < until)
    }

    /// Notes that a circuit has ended that the router may be about to name.
    pub(crate) fn note_ended(&self, circuit: &str) {
        let mut open = self.0.lock();
        if open.count > 0 && open.ended.len() < MOST_ENDED {
            open.ended.insert(circuit.to_owned());
        }
    }

    pub(crate) fn has_ended(&self, circuit: &str) -> bool {
        self.0.lock().ended.contains(circuit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_their_controller() {
        let (north, south) = (Ownership::new("north", "run1"), Ownership::new("south", "run2"));
        assert_eq!((north.run().len(), tag("north").len()), (8, 4));
        let made = format!("{}rest", north.run());
        assert!(north.is_of_this_run(&made) && !south.is_of_this_run(&made));
        assert!(!south.is_elsewhere(&made), "it does not know the other one");
        south.claims.write().others = vec![tag("north")];
        assert!(south.is_elsewhere(&made) && !south.is_elsewhere("chosen"));
        assert!(!south.is_owned("north", &made) && !south.is_owned("", &made));
        let held = ClaimCircuits {
            controller: "north".to_owned(),
            tag: tag("north"),
            term: 9,
            ..Default::default()
        };
        south.claims.write().held.push(held);
        assert!(!south.is_elsewhere(&made) && south.is_owned("north", &made));
        south.claims.write().others.push(tag("west"));
        let claims = south.claims.read();
        assert_eq!(claims.sparing(claims.own.clone()).spared, [tag("west")]);
        assert_eq!(claims.sparing(claims.held[0].clone()).spared, [tag("west")]);
        drop(claims);
        assert!(south.is_owned("north", "chosen") && !south.is_owned("west", "chosen"));
        assert_eq!((south.term(&made), south.term("chosen")), (9, 0));
        assert!(south.is_of_controller(&made) && south.is_of_controller(&south.run()));
        assert!(!south.is_of_controller("chosen"));
        assert!(south.claims.write().note_taken("chosen", clock::now()));
        assert!(south.is_elsewhere("chosen") && !south.is_owned("north", "chosen"));
        // The word of a router counts for a while, and for nothing where there is no other controller.
        assert!(south.claims.write().note_taken("long ago", clock::now() - TAKEN));
        assert!(!south.is_elsewhere("long ago"));
        assert!(!north.claims.write().note_taken("chosen", clock::now()));
        assert!(!north.is_elsewhere("chosen"));
        (0..MOST_TAKEN).for_each(|number| {
            south.claims.write().note_taken(&number.to_string(), clock::now());
        });
        assert_eq!(south.claims.read().taken.len(), MOST_TAKEN);
    }

    #[test]
    fn a_router_is_waited_for_as_long_as_it_answers() {
        let (open, now, patience) =
            (OpenClaims::default(), Instant::now(), Duration::from_secs(60));
        open.note_ended("before");
        open.begin(now, Some(patience));
        open.note_ended("x");
        assert!(open.has_ended("x") && !open.has_ended("before"));
        assert!(open.is_awaited(now) && !open.is_awaited(now + patience));
        open.begin(now, Some(patience));
        open.end();
        assert!(open.is_awaited(now) && open.has_ended("x"));
        open.end();
        assert!(!open.is_awaited(now) && !open.has_ended("x"));
        open.begin(now, None);
        assert!(open.is_awaited(now + patience * 100));
    }
}
