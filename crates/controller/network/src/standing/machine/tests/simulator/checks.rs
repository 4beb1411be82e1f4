//! What follows from an input, what holds after each step, and what holds when all is quiet.

use super::world::{Mail, Said, World};
use super::*;

/// Fails with a text unless this holds.
macro_rules! holds {
    ($what:expr, $($text:tt)*) => {
        if !$what {
            return Err(format!($($text)*));
        }
    };
}

/// What is to follow from an input.
#[derive(Debug, Default)]
pub(super) struct Expected {
    input: String,
    /// The router that is to be asked at once.
    ask_now: Option<Id>,
    /// The router that may be asked, and what it is to be asked about.
    asked: Option<(Id, Vec<(Id, u64)>)>,
    /// Terminators that are to be removed.
    removed: Vec<Id>,
    /// Terminators that are to be withdrawn.
    withdrawn: Vec<Id>,
    /// The terminator whose circuits are to be ended.
    ended: Option<Id>,
    /// The terminator whose right is lost.
    lapsed: Option<Id>,
    /// Terminators of a router with the states that they are to have, and a number that theirs is to exceed.
    states: Vec<(Id, Id, State, u64)>,
}

fn is_denied(state: State) -> bool {
    matches!(state, State::Denied | State::DialDenied)
}

impl World {
    fn state(&self, router: &Id, id: &Id) -> State {
        let known = self.machine.routers.get(router).and_then(|known| known.terminators.get(id));
        known.map_or(State::Settled, |open| open.state)
    }

    fn number(&self, router: &Id, id: &Id) -> Option<u64> {
        Some(self.machine.routers.get(router)?.terminators.get(id)?.number)
    }

    /// A terminator of this router is to be doubtful, under a number that was not used before.
    fn doubtful(&self, router: &Id, id: &Id) -> (Id, Id, State, u64) {
        let is_new = self.state(router, id) != State::Doubtful;
        let above = if is_new { self.machine.last_number() } else { 0 };
        (router.clone(), id.clone(), State::Doubtful, above)
    }

    fn is_connected(&self, router: &Id) -> bool {
        self.routers[self.index(router)].connection.is_some()
    }

    pub(super) fn expect(&self, input: &Input<'_>) -> Expected {
        let mut expected = Expected::default();
        match input {
            Input::Connected(router) => expected.input = format!("connected {router}"),
            Input::Lost(router) => expected.input = format!("lost {router}"),
            Input::Doubted { router, terminators, at_once } => {
                expected.input = format!("doubted {router} {terminators:?} {at_once}");
                if self.is_connected(router) {
                    let is_removed = |id: &Id| self.state(router, id) == State::DialDenied;
                    let is_any = terminators.iter().any(is_removed);
                    let now = is_any || (*at_once && !terminators.is_empty());
                    expected.ask_now = now.then(|| (*router).clone());
                    let doubtful = |id: &Id| self.doubtful(router, id);
                    expected.states = terminators.iter().map(doubtful).collect();
                }
            }
            Input::Reported { router, terminator } => {
                expected.input = format!("reported {router} {terminator}");
                if self.is_connected(router) {
                    let is_removed = self.state(router, terminator) == State::DialDenied;
                    expected.ask_now = is_removed.then(|| (*router).clone());
                    expected.states.push(self.doubtful(router, terminator));
                }
            }
            Input::Answered { router, answers } => {
                expected.input = format!("answered {router}");
                for answer in *answers {
                    let id = &answer.terminator;
                    let is_it =
                        answer.number == 0 || self.number(router, id) == Some(answer.number);
                    if self.state(router, id) == State::Asked && is_it {
                        let state = if answer.is_hosted { State::Settled } else { State::Denied };
                        expected.states.push(((*router).clone(), id.clone(), state, 0));
                        if !answer.is_hosted {
                            expected.removed.push(id.clone());
                        }
                    }
                }
            }
            Input::DialDenied { router, terminator, since, .. } => {
                expected.input = format!("dial denied {router} {terminator} {since}");
                let said = self.said[*terminator].last().copied();
                let reported = self.reported.get(*terminator).copied().unwrap_or_default();
                let connection = self.routers[self.index(router)].connection;
                let is_old = said.is_some_and(|said| {
                    reported > said.asked || connection != Some(said.connection)
                });
                if self.is_connected(router) && is_old {
                    expected.ask_now = Some((*router).clone());
                    expected.states.push(self.doubtful(router, terminator));
                } else if self.is_connected(router) && !is_denied(self.state(router, terminator)) {
                    expected.removed.push((*terminator).clone());
                    let (router, terminator) = ((*router).clone(), (*terminator).clone());
                    expected.states.push((router, terminator, State::DialDenied, 0));
                }
            }
            Input::Ask { router, due } => {
                expected.input = format!("ask {router}");
                let may_ask = |asked: Instant| self.now - asked >= ANSWER_TIME;
                if let Some(known) = self.machine.routers.get(*router)
                    && self.routers[self.index(router)].asked.is_none_or(may_ask)
                {
                    let is_due = |id: &Id, open: &Open| {
                        !is_denied(open.state) && matches!(due(id), Due::Now(_))
                    };
                    let due = known.terminators.iter().filter(|(id, open)| is_due(id, open));
                    let mut due: Vec<_> = due.map(|(id, open)| (id.clone(), open.number)).collect();
                    due.sort();
                    expected.asked = Some(((*router).clone(), due));
                }
            }
            Input::Tick => expected.input = "tick".into(),
            Input::Removed { router, terminators, all } => {
                expected.input = format!("removed {router} {terminators:?} {all}");
                for denied in terminators.iter().filter(|it| self.machine.may_remove(router, it)) {
                    let id = &denied.terminator;
                    let is_dialed = self.state(router, id) == State::DialDenied;
                    if is_dialed && !all {
                        expected.ask_now = Some((*router).clone());
                    }
                    expected.states.push(match all {
                        true => ((*router).clone(), id.clone(), State::Settled, 0),
                        false => self.doubtful(router, id),
                    });
                }
            }
            Input::PassedOver(id) => {
                expected.input = format!("passed over {id}");
                expected.lapsed = Some((*id).clone());
            }
            Input::Expire => {
                expected.input = "expire".into();
                let rights = self.machine.rights.iter();
                let over = rights
                    .filter(|(_, (state, at))| *state == State::Lapsed && self.now - *at >= LIFE);
                expected.withdrawn = over.map(|(id, _)| id.clone()).collect();
                expected.withdrawn.sort();
            }
            Input::Withdrawn { terminator, is_removed } => {
                expected.input = format!("withdrawn {terminator} {is_removed}");
                expected.ended = is_removed.then(|| (*terminator).clone());
            }
        }
        expected.removed.sort();
        expected
    }

    /// True if a router has said that it does not host a terminator on its present connection, and was asked or dialed
    /// after it has reported the terminator.
    fn is_good(&self, terminator: &Id, said: Said) -> bool {
        let stored = &self.model[terminator];
        let connection = self.routers[stored.router].connection;
        connection == Some(said.connection) && said.asked >= stored.heard
    }

    /// What a step has done.
    pub(super) fn check(&self, expected: &Expected, outputs: &[Output]) -> Result<(), String> {
        let (mut removed, mut withdrawn, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for output in outputs {
            match output {
                Output::AskNow(router) if expected.input == "tick" => {
                    holds!(self.is_connected(router), "{router} is away and is asked");
                }
                Output::AskNow(router) => {
                    holds!(expected.ask_now.as_ref() == Some(router), "asks at once: {expected:?}");
                }
                Output::Ask { router, terminators } => {
                    let may_ask = expected.asked.as_ref().is_some_and(|(of, _)| of == router);
                    holds!(may_ask, "a second question: {expected:?}");
                    asked.clone_from(terminators);
                }
                Output::Remove(removal) => {
                    removed.extend(removal.terminators.iter().map(|it| it.terminator.clone()));
                }
                Output::Withdraw(ids) => withdrawn.clone_from(ids),
                Output::EndCircuits(id) => {
                    holds!(expected.ended.as_ref() == Some(id), "ends circuits: {expected:?}");
                }
            }
        }
        let has = |wanted: &Output| outputs.contains(wanted);
        let is_asked = expected.ask_now.clone().is_none_or(|router| has(&Output::AskNow(router)));
        holds!(is_asked, "does not ask at once: {expected:?} {outputs:?}");
        let is_ended = expected.ended.clone().is_none_or(|id| has(&Output::EndCircuits(id)));
        holds!(is_ended, "circuits stay: {expected:?}");
        holds!(removed == expected.removed, "removes {removed:?}: {expected:?}");
        holds!(withdrawn == expected.withdrawn, "withdraws {withdrawn:?}: {expected:?}");
        let to_ask = expected.asked.as_ref().map_or(&[][..], |(_, due)| due);
        holds!(asked == to_ask, "asks about {asked:?}: {expected:?}");
        holds!(asked.iter().all(|(_, number)| *number > 0), "asks without a number: {asked:?}");
        let has_right = |id: &Id| !self.machine.rights.contains_key(id);
        holds!(!expected.lapsed.as_ref().is_some_and(has_right), "is not noted: {expected:?}");
        for (router, id, state, above) in &expected.states {
            let is = self.state(router, id);
            let number = self.number(router, id);
            holds!(is == *state, "{id} is {is:?}: {expected:?}");
            let is_new = number.is_none_or(|number| number > *above);
            holds!(is_new, "{id} keeps the number {number:?}: {expected:?}");
        }
        Ok(())
    }

    /// What holds after each step.
    pub(super) fn check_tables(&self) -> Result<(), String> {
        let removals: Vec<&Denied> = self.mail.values().flat_map(removals).collect();
        for played in &self.routers {
            let Some(known) = self.machine.routers.get(&played.id) else {
                holds!(played.connection.is_none(), "{} is not known", played.id);
                continue;
            };
            holds!(played.connection.is_some(), "{} is away and known", played.id);
            let is_waiting = played.asked.is_some();
            holds!((known.state == State::Waiting) == is_waiting, "{known:?} {:?}", played.asked);
            for (id, open) in &known.terminators {
                let is_removed =
                    removals.iter().any(|it| it.terminator == *id && it.number == open.number);
                holds!(!is_denied(open.state) || is_removed, "{id} stays: {open:?}");
                let is_open = !matches!(open.state, State::Settled) && open.number > 0;
                holds!(is_open, "{id} is open: {open:?}");
            }
        }
        for (id, (state, _)) in &self.machine.rights {
            let is_on_its_way =
                |mail: &Mail| matches!(mail, Mail::Withdraw(ids) if ids.contains(id));
            let is_withdrawn = self.mail.values().any(is_on_its_way);
            let is_known = matches!(state, State::Lapsed | State::Withdrawn);
            holds!(is_known, "the right to {id} is {state:?}");
            // One after the other is removed, so that a part of the mail may be opened.
            holds!(*state == State::Lapsed || is_withdrawn || self.is_withdrawing, "{id} stays");
        }
        Ok(())
    }

    /// A terminator is about to be removed: its router does not host it.
    pub(super) fn check_removal(&self, denied: &Denied) -> Result<(), String> {
        let id = &denied.terminator;
        let is_good = self.said[id].iter().any(|said| self.is_good(id, *said));
        holds!(is_good, "{id} is removed after its router has reported it");
        Ok(())
    }

    /// Nothing is open, and everybody waits for nothing.
    pub(super) fn check_open_questions(&self) -> Result<(), String> {
        for (router, known) in &self.machine.routers {
            // A lost question about what was settled otherwise is not asked again.
            let is_free = known.state == State::Free || self.now - known.since >= ANSWER_TIME;
            holds!(is_free, "{router} is {:?}", known.state);
            holds!(known.terminators.is_empty(), "{router} has {:?}", known.terminators);
        }
        holds!(self.machine.rights.is_empty(), "{:?}", self.machine.rights);
        Ok(())
    }

    /// The model has no terminator that its router does not host.
    pub(super) fn check_quiet(&self) -> Result<(), String> {
        for (id, stored) in &self.model {
            let is_hosted = self.routers[stored.router].hosts.contains(id);
            holds!(is_hosted, "{id} is not hosted and stays");
        }
        Ok(())
    }
}

fn removals(mail: &Mail) -> &[Denied] {
    match mail {
        Mail::Remove(removal) => &removal.terminators,
        _ => &[],
    }
}
