//! Single transitions of the standing of terminators. The [`simulator`] plays routers.

mod simulator;

use super::*;

const LIFE: Duration = Duration::from_secs(60);

/// Router `r1`, which is connected.
struct Router {
    machine: Machine,
    now: Instant,
    id: Id,
}

fn ids<const N: usize>(names: [&str; N]) -> [Id; N] {
    names.map(Id::new)
}

impl Router {
    fn new() -> Self {
        let (machine, now, id) = (Machine::new(LIFE), Instant::now(), Id::new("r1"));
        let mut router = Self { machine, now, id };
        let id = router.id.clone();
        assert!(router.step(Input::Connected(&id)).is_empty());
        router
    }

    fn step(&mut self, input: Input<'_>) -> Vec<Output> {
        self.machine.step(self.now, input)
    }

    fn doubt(&mut self, terminators: &[Id], at_once: bool) -> Vec<Output> {
        let router = self.id.clone();
        self.step(Input::Doubted { router: &router, terminators, at_once })
    }

    /// The terminators of the next question with their numbers, by name.
    fn ask(&mut self, due: impl Fn(&Id) -> Due) -> Vec<(Id, u64)> {
        let router = self.id.clone();
        match self.step(Input::Ask { router: &router, due: &due }).pop() {
            Some(Output::Ask { mut terminators, .. }) => {
                terminators.sort();
                terminators
            }
            other => {
                assert_eq!(other, None);
                Vec::new()
            }
        }
    }

    fn ask_all(&mut self) -> Vec<(Id, u64)> {
        self.ask(|_| Due::Now(Timestamp(1)))
    }

    /// Answers that the router hosts none of these terminators. Returns the names of those that are removed.
    fn deny(&mut self, terminators: &[(Id, u64)]) -> Vec<Id> {
        let answer = |(id, number): &(Id, u64)| Answer {
            terminator: id.clone(),
            is_hosted: false,
            number: *number,
        };
        let (router, answers) = (self.id.clone(), terminators.iter().map(answer));
        let answers: Vec<Answer> = answers.collect();
        removed(self.step(Input::Answered { router: &router, answers: &answers }))
    }

    fn deny_dial(&mut self, terminator: &Id, since: u64) -> Vec<Output> {
        let router = self.id.clone();
        let made = Timestamp(1);
        self.step(Input::DialDenied { router: &router, terminator, since, made })
    }
}

fn removed(outputs: Vec<Output>) -> Vec<Id> {
    let removals = outputs.into_iter().flat_map(|output| match output {
        Output::Remove(removal) => removal.terminators,
        _ => Vec::new(),
    });
    removals.map(|denied| denied.terminator).collect()
}

#[test]
fn only_what_was_asked_is_removed() {
    let (mut router, all) = (Router::new(), ids(["t1", "t2", "t3"]));
    router.doubt(&all, false);
    let asked = router.ask(|id| match id.as_str() {
        "t3" => Due::Later,
        _ => Due::Now(Timestamp(1)),
    });
    assert_eq!(asked.len(), 2);
    assert!(router.ask_all().is_empty(), "one question at a time");
    let [t1, t2] = [asked[0].clone(), asked[1].clone()];
    let answers = [t1, (t2.0, t2.1 + 77), (all[2].clone(), 0), (Id::new("t9"), 0)];
    assert_eq!(router.deny(&answers), [all[0].clone()]);
    let again = router.ask_all();
    assert_eq!(again.len(), 2, "t2 was not answered, t3 not asked yet");
    let without_numbers = again.into_iter().map(|(id, _)| (id, 0));
    assert_eq!(router.deny(&without_numbers.collect::<Vec<_>>()), all[1..]);
}

#[test]
fn a_router_without_an_answer_is_asked_again_and_one_that_is_away_is_not() {
    let (mut router, [t1]) = (Router::new(), ids(["t1"]));
    router.doubt(std::slice::from_ref(&t1), true);
    let asked = router.ask_all();
    router.now += ANSWER_TIME - Duration::from_millis(1);
    assert!(router.ask_all().is_empty());
    router.now += Duration::from_millis(1);
    assert_eq!(router.ask_all(), asked);
    assert_eq!(router.step(Input::Tick), [Output::AskNow(router.id.clone())]);
    let id = router.id.clone();
    router.step(Input::Lost(&id));
    assert!(router.step(Input::Tick).is_empty(), "nobody is looked at");
    assert!(router.doubt(&[t1], true).is_empty() && router.ask_all().is_empty());
    assert!(router.deny(&asked).is_empty());
}

#[test]
fn a_terminator_that_is_reported_while_it_is_removed_stays_and_is_asked_about() {
    let (mut router, [t1]) = (Router::new(), ids(["t1"]));
    router.doubt(std::slice::from_ref(&t1), false);
    let asked = router.ask_all();
    assert_eq!(router.deny(&asked), std::slice::from_ref(&t1));
    let denied = Denied { terminator: t1.clone(), number: asked[0].1, made: Timestamp(1) };
    let id = router.id.clone();
    assert!(router.machine.may_remove(&id, &denied));
    router.step(Input::Reported { router: &id, terminator: &t1 });
    assert!(!router.machine.may_remove(&id, &denied));
    let again = router.ask_all();
    // The removal that was not carried out ends after the router has denied the terminator again.
    assert_eq!(router.deny(&again), std::slice::from_ref(&t1));
    router.step(Input::Removed {
        router: &id,
        terminators: std::slice::from_ref(&denied),
        all: false,
    });
    let anew = Denied { number: again[0].1, ..denied };
    assert!(router.machine.may_remove(&id, &anew));
}

#[test]
fn a_refused_dial_removes_a_terminator_unless_the_refusal_is_older_than_a_report_or_connection() {
    let (mut router, [t1, t2]) = (Router::new(), ids(["t1", "t2"]));
    let since = router.machine.last_number();
    let id = router.id.clone();
    router.step(Input::Reported { router: &id, terminator: &t1 });
    let ask_now = [Output::AskNow(id.clone())];
    assert_eq!(router.deny_dial(&t1, since), ask_now);
    assert_eq!(removed(router.deny_dial(&t2, since)), std::slice::from_ref(&t2));
    assert!(router.deny_dial(&t2, since).is_empty(), "it is being removed");
    router.step(Input::Lost(&id));
    assert!(router.deny_dial(&t2, since).is_empty());
    router.step(Input::Connected(&id));
    assert_eq!(router.deny_dial(&t2, since), ask_now);
}

#[test]
fn a_terminator_whose_host_has_lost_its_right_is_withdrawn_once_and_in_time() {
    let (mut router, [t1]) = (Router::new(), ids(["t1"]));
    router.step(Input::PassedOver(&t1));
    router.now += LIFE / 2;
    router.step(Input::PassedOver(&t1));
    assert!(router.step(Input::Expire).is_empty());
    router.now += LIFE / 2;
    assert_eq!(router.step(Input::Expire), [Output::Withdraw(vec![t1.clone()])]);
    assert!(router.step(Input::Expire).is_empty());
    let end = router.step(Input::Withdrawn { terminator: &t1, is_removed: true });
    assert_eq!(end, [Output::EndCircuits(t1.clone())]);
    assert!(router.machine.rights.is_empty());
}

#[test]
fn lost_rights_are_limited() {
    let mut router = Router::new();
    (0..=MAX_LAPSED).for_each(|at| {
        router.step(Input::PassedOver(&Id::new(&format!("t{at}"))));
    });
    router.now += LIFE;
    let [Output::Withdraw(ids)] = &router.step(Input::Expire)[..] else { panic!() };
    assert_eq!(ids.len(), MAX_LAPSED);
}
