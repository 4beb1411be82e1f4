//! Whose circuits this controller owns, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!                        it ends                  a moment later, if this one leads
//!   another controller  ---------> (not held) -------------------------------------> held
//!                        <---------            <------------------------------------
//!                       it is back       it is back, this one leads no more, or was gone itself
//! ```
//!
//! Each controller owns the circuits that it has made as long as it is alive, which etcd decides. The leader holds those of
//! the others that are not. Whoever begins to own circuits claims them at the routers, with the moment at which that began
//! as the *term*. A later moment is a higher number for all controllers alike, so that a claim that comes late, of a
//! controller that stood still meanwhile, takes nothing back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The least time after the end of a controller until its circuits are claimed: one that is only restarted is back by then.
const RESTART: Duration = Duration::from_millis(1_500);
/// The interval at which the circuits that are held are claimed again: a controller that has only lost etcd goes on to make
/// circuits, and a claim may have been lost.
const AGAIN: Duration = Duration::from_secs(30);

/// What is known of the controllers.
#[derive(Clone, Debug, Default)]
pub struct Roster<'a> {
    /// When this was so: a number that grows whenever a controller begins to be alive or ends.
    pub moment: u64,
    /// Since when this controller is alive without a break, as such a number.
    pub since: u64,
    /// Whether this controller leads.
    pub leads: bool,
    /// The ids of the others that are members.
    pub others: Vec<&'a str>,
    /// The ids of those that are alive.
    pub alive: Vec<&'a str>,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// This controller owns what it has made, with this term.
    Own { term: u64 },
    /// The same, after it was not alive for a while: another one may have taken its circuits over.
    OwnAgain { term: u64 },
    /// Claim the circuits of a controller that has ended, for the first time or once more.
    Hold { controller: String, term: u64, is_again: bool },
    /// The circuits of a controller are not this controller's any more.
    LetGo { controller: String },
}

/// A controller that is not alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Its circuits are claimed at this time.
    Due(Instant),
    /// They were claimed, and are at this time again.
    Held(Instant),
}

/// Whose circuits this controller owns.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    since: u64,
    ended: BTreeMap<String, Ended>,
}

impl Machine {
    /// Takes note of the roster, and says what follows from it.
    pub(crate) fn step(&mut self, now: Instant, roster: &Roster<'_>) -> Vec<Output> {
        let mut outputs = Vec::new();
        let since = std::mem::replace(&mut self.since, roster.since);
        match roster.since {
            term if since == 0 => outputs.push(Output::Own { term }),
            term if since != term => outputs.push(Output::OwnAgain { term }),
            _ => {}
        }
        let is_alive = |controller: &str| roster.alive.contains(&controller);
        self.ended.retain(|controller, ended| {
            let stays = roster.leads && !is_alive(controller) && since == roster.since;
            if !stays && matches!(ended, Ended::Held(_)) {
                outputs.push(Output::LetGo { controller: controller.clone() });
            }
            stays
        });
        let ended = roster.others.iter().filter(|other| roster.leads && !is_alive(other));
        for controller in ended {
            let known = self.ended.entry((*controller).to_owned());
            known.or_insert(Ended::Due(now + RESTART));
        }
        for (controller, ended) in &mut self.ended {
            let (Ended::Due(at) | Ended::Held(at)) = *ended;
            if at <= now {
                let (term, is_again) = (roster.moment, matches!(ended, Ended::Held(_)));
                *ended = Ended::Held(now + AGAIN);
                outputs.push(Output::Hold { controller: controller.clone(), term, is_again });
            }
        }
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that is told a roster at a time, in seconds.
    struct Told(Machine, Instant);

    impl Told {
        fn at(&mut self, seconds: f64, roster: &Roster<'_>) -> Vec<Output> {
            self.0.step(self.1 + Duration::from_secs_f64(seconds), roster)
        }
    }

    fn roster(moment: u64, alive: &'static [&'static str]) -> Roster<'static> {
        let others = vec!["north", "south"];
        Roster { moment, since: 3, leads: true, others, alive: alive.to_vec() }
    }

    fn hold(controller: &str, term: u64) -> Output {
        Output::Hold { controller: controller.to_owned(), term, is_again: false }
    }

    fn let_go(controller: &str) -> Output {
        Output::LetGo { controller: controller.to_owned() }
    }

    #[test]
    fn the_leader_holds_the_circuits_of_those_that_are_not_alive() {
        let mut told = Told(Machine::default(), Instant::now());
        let all = ["own", "north", "south"].as_slice();
        assert_eq!(told.at(0., &roster(10, all)), [Output::Own { term: 3 }]);
        assert_eq!(told.at(1., &roster(11, &["own", "north"])), []);
        assert_eq!(told.at(3., &roster(13, &["own", "north"])), [hold("south", 13)]);
        assert_eq!(told.at(4., &roster(14, &["own", "north"])), [], "it is said once");
        // It is removed from the members, and still held.
        let removed = Roster { others: vec!["north"], ..roster(15, &["own", "north"]) };
        assert_eq!(told.at(5., &removed), []);
        let again = Output::Hold { controller: "south".to_owned(), term: 15, is_again: true };
        assert_eq!(told.at(33., &removed), [again]);
        assert_eq!(told.at(34., &roster(16, all)), [let_go("south")]);
        assert_eq!(told.at(35., &roster(17, all)), []);
    }

    #[test]
    fn one_that_is_restarted_keeps_its_circuits() {
        let mut told = Told(Machine::default(), Instant::now());
        let all = ["own", "north", "south"].as_slice();
        told.at(0., &roster(10, all));
        told.at(1., &roster(11, &["own", "north"]));
        assert_eq!(told.at(2.4, &roster(12, all)), []);
        // The next end is counted anew.
        assert_eq!(told.at(3.1, &roster(13, &["own", "north"])), []);
        assert_eq!(told.at(5.1, &roster(14, &["own", "north"])), [hold("south", 14)]);
    }

    #[test]
    fn whoever_leads_no_more_lets_go_and_the_next_one_holds_with_a_later_term() {
        let mut told = Told(Machine::default(), Instant::now());
        told.at(0., &roster(10, &["own", "north"]));
        assert_eq!(told.at(2., &roster(12, &["own", "north"])), [hold("south", 12)]);
        let led = Roster { leads: false, ..roster(13, &["own", "north"]) };
        assert_eq!(told.at(3., &led), [let_go("south")]);
        assert_eq!(told.at(9., &led), []);
        told.at(10., &roster(20, &["own"]));
        let both = [hold("north", 22), hold("south", 22)];
        assert_eq!(told.at(12., &roster(22, &["own"])), both);
    }

    #[test]
    fn one_that_was_not_alive_owns_anew_what_it_has_made() {
        let mut told = Told(Machine::default(), Instant::now());
        let all = ["own", "north", "south"].as_slice();
        told.at(0., &roster(10, all));
        let back = |moment, since| Roster { since, ..roster(moment, all) };
        assert_eq!(told.at(1., &back(21, 20)), [Output::OwnAgain { term: 20 }]);
        assert_eq!(told.at(2., &back(22, 20)), []);
        // What it had of another one is let go, and claimed anew if it leads still.
        let alone = |moment, since| Roster { since, ..roster(moment, &["own", "north"]) };
        told.at(3., &alone(23, 20));
        assert_eq!(told.at(5., &alone(24, 20)), [hold("south", 24)]);
        let later = [Output::OwnAgain { term: 30 }, let_go("south")];
        assert_eq!(told.at(6., &alone(31, 30)), later);
        assert_eq!(told.at(8., &alone(32, 30)), [hold("south", 32)]);
        told.at(9., &back(33, 30));
        // The state outside was put back, and counts from less on.
        assert_eq!(told.at(10., &back(6, 5)), [Output::OwnAgain { term: 5 }]);
    }
}
