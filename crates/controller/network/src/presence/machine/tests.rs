//! Single transitions of the presence of routers. The [`simulator`] plays routers.

mod simulator;

use super::*;

const CHURN: Duration = Duration::from_secs(20);
const REPORT_TIME: Duration = Duration::from_secs(3);

/// A controller whose routers list their links, and may be used.
struct Controller {
    machine: Machine,
    now: Instant,
}

fn connection(number: u64) -> Connection {
    Connection { router: Id::new("r1"), number }
}

fn ids(names: &[&str]) -> HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Controller {
    fn new() -> Self {
        Self { machine: Machine::new(CHURN, REPORT_TIME), now: Instant::now() }
    }

    /// A controller to which router `r1` has connected.
    fn connected() -> Self {
        let mut controller = Self::new();
        let outputs = controller.connect(&connection(1), false, None);
        let one = connection(1);
        assert_eq!(outputs, [Output::Register(one.clone()), Output::Come(one)]);
        controller
    }

    fn step(&mut self, input: Input<'_>) -> Vec<Output> {
        self.machine.step(self.now, input)
    }

    fn connect(
        &mut self,
        connection: &Connection,
        is_dialed: bool,
        registered_answers: Option<bool>,
    ) -> Vec<Output> {
        let (lists_links, may_carry) = (true, true);
        self.step(Input::Connected(Newcomer {
            connection,
            is_dialed,
            lists_links,
            may_carry,
            registered_answers,
        }))
    }

    /// Whether a further connection is refused.
    fn refuses(&self, is_dialed: bool, registered_answers: Option<bool>) -> bool {
        let router = Id::new("r1");
        self.machine.keeps_place(self.now, &router, is_dialed, registered_answers).is_some()
    }

    /// Time passes. Returns what was due.
    fn pass(&mut self, time: Duration) -> Vec<Output> {
        self.now += time;
        self.step(Input::Tick)
    }

    fn part(&mut self, of: &Connection, source: Source, expected: &[&str]) -> bool {
        let outputs = self.step(Input::Part(of, source));
        if outputs.contains(&Output::Expect(of.clone())) {
            assert!(self.step(Input::Expected(of, source, ids(expected))).is_empty());
        }
        outputs.contains(&Output::Take)
    }

    fn named(&mut self, of: &Connection, source: Source, named: &[&str]) -> Vec<Output> {
        let circuits: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let (connection, circuits) = (of, circuits.as_slice());
        self.step(Input::Named { connection, source, circuits, is_last: true })
    }

    fn judge(&mut self, has_doubtful: bool, has_unheard_dialer: bool) -> Vec<Output> {
        let connection = &connection(1);
        self.step(Input::Judged { connection, has_doubtful, has_unheard_dialer })
    }

    /// Router `r1` answers that it has these links.
    fn list(&mut self, asked_at: Instant, links: &[&str]) -> Vec<Output> {
        let (connection, links, doubtful) = (&connection(1), &ids(links), &[][..]);
        self.step(Input::LinksListed { connection, asked_at, doubtful, links })
    }
}

fn link(id: &str, source: &str, destination: &str) -> Arc<Link> {
    simulator::link(id, &Id::new(source), &Id::new(destination), 1)
}

/// The router reports its circuits over a connection that was replaced, and that connection ends late.
#[test]
fn what_comes_late_from_a_connection_that_was_replaced_changes_nothing() {
    let mut controller = Controller::connected();
    let (one, two) = (connection(1), connection(2));
    assert!(controller.part(&one, Source::Report, &["c1"]));
    controller.now += CHURN;
    let outputs = controller.connect(&two, false, Some(true));
    let register = [Output::Register(two.clone()), Output::Close(one.clone())];
    assert_eq!(outputs[..2], register);
    assert_eq!(outputs[2..], [Output::Leave(one.router.clone()), Output::Come(two.clone())]);
    // The rest of the former report, and the end.
    assert!(controller.named(&one, Source::Report, &[]).is_empty());
    assert!(!controller.part(&one, Source::Report, &[]));
    controller.step(Input::CircuitEnded(&one, "c2"));
    let late = Input::Ended { connection: &one, may_carry: false };
    assert!(controller.step(late).is_empty());
    assert!(!controller.machine.has_reported(&one.router));
    assert!(!controller.machine.has_ended(&two, "c2"));
    // The new connection has its own report, and is asked for it.
    assert_eq!(controller.pass(REPORT_TIME), [Output::AskCircuits(two.clone())]);
    assert!(controller.part(&two, Source::Answer, &["c1"]));
    let outputs = controller.named(&two, Source::Answer, &[]);
    assert_eq!(outputs, [Output::NotCarried(two, ids(&["c1"])), Output::LookForGaps]);
}

#[test]
fn a_connection_keeps_its_place_while_it_is_young_or_was_dialed_and_answers() {
    let mut controller = Controller::connected();
    assert!(controller.refuses(false, Some(false)), "it is young");
    assert!(!controller.refuses(false, None), "its channel has closed");
    let refused = controller.connect(&connection(2), false, Some(true));
    let already = AlreadyConnected { router: Id::new("r1"), seconds: 0 };
    assert_eq!(refused, [Output::Refuse(already.into())]);
    controller.now += CHURN;
    assert!(!controller.refuses(false, Some(true)));
    assert!(controller.refuses(true, Some(false)), "a dialed connection replaces none");

    let mut controller = Controller::new();
    controller.connect(&connection(1), true, None);
    controller.now += CHURN;
    assert!(controller.refuses(false, Some(true)), "it was dialed and answers");
    assert!(!controller.refuses(false, Some(false)));
    controller.step(Input::Stop);
    let refused = controller.connect(&connection(2), false, None);
    assert_eq!(refused, [Output::Refuse(NotConnected::Stopping)]);
}

/// Parts of both would be mixed otherwise, and the last part of the answer would end the report.
#[test]
fn a_report_counts_more_than_an_answer_that_is_being_handled() {
    let mut controller = Controller::connected();
    let one = connection(1);
    controller.pass(REPORT_TIME);
    assert!(controller.part(&one, Source::Answer, &["c1", "c2"]));
    assert!(controller.part(&one, Source::Report, &["c1", "c2"]));
    assert!(controller.named(&one, Source::Answer, &["c1"]).is_empty());
    assert!(!controller.part(&one, Source::Answer, &[]));
    let outputs = controller.named(&one, Source::Report, &["c2"]);
    assert_eq!(outputs, [Output::NotCarried(one.clone(), ids(&["c1"])), Output::LookForGaps]);
    assert!(controller.machine.has_reported(&one.router));
    assert!(!controller.part(&one, Source::Report, &[]), "it reports once");
}

#[test]
fn a_router_without_an_answer_is_asked_for_ever_and_seldom_after_some_failures() {
    let mut controller = Controller::connected();
    let one = connection(1);
    for number in 0..20 {
        let time = if number < FAILURES { REPORT_TIME } else { SELDOM };
        assert!(controller.pass(time - Duration::from_millis(1)).iter().all(is_about_links));
        let asked = controller.pass(Duration::from_millis(1));
        assert!(asked.contains(&Output::AskCircuits(one.clone())), "{number}: {asked:?}");
        assert!(controller.step(Input::CircuitsUnanswered(&one)).is_empty());
    }
    assert!(controller.part(&one, Source::Report, &[]), "it may report at any time");
}

fn is_about_links(output: &Output) -> bool {
    matches!(output, Output::JudgeLinks(..))
}

#[test]
fn a_router_whose_report_stops_is_asked() {
    let mut controller = Controller::connected();
    let one = connection(1);
    assert!(controller.part(&one, Source::Report, &["c1"]));
    controller.pass(CHECK);
    controller.judge(false, false);
    assert!(controller.pass(REST - CHECK - Duration::from_millis(1)).is_empty());
    assert_eq!(controller.pass(Duration::from_millis(1)), [Output::AskCircuits(one)]);
}

#[test]
fn ended_circuits_are_remembered_until_the_report_is_complete_and_no_more_than_some() {
    let mut controller = Controller::connected();
    let one = connection(1);
    (0..=MOST_ENDED).for_each(|at| {
        controller.step(Input::CircuitEnded(&one, &format!("c{at}")));
    });
    let has_ended =
        |it: &Controller, at: usize| it.machine.has_ended(&connection(1), &format!("c{at}"));
    assert!(has_ended(&controller, MOST_ENDED - 1) && !has_ended(&controller, MOST_ENDED));
    controller.part(&one, Source::Report, &[]);
    controller.named(&one, Source::Report, &[]);
    controller.step(Input::CircuitEnded(&one, "c0"));
    assert!(!has_ended(&controller, 0));
}

/// The router at the other end is lost while it is found out whether there is one.
#[test]
fn a_doubt_that_comes_while_links_are_judged_is_judged_again() {
    let mut controller = Controller::connected();
    let (one, router) = (connection(1), [Id::new("r1")]);
    controller.step(Input::Part(&one, Source::Report));
    assert_eq!(controller.pass(CHECK), [Output::JudgeLinks(one.clone(), HashSet::new())]);
    assert!(controller.step(Input::Doubted(&router)).is_empty());
    assert!(controller.judge(false, false).is_empty());
    assert_eq!(controller.pass(CHECK), [Output::JudgeLinks(one.clone(), HashSet::new())]);
    // It has just connected: a link may have broken while it was away.
    assert_eq!(controller.judge(true, false), [Output::AskLinks(one.clone())]);
    controller.list(controller.now, &[]);
    controller.pass(CHECK);
    assert!(controller.judge(true, false).is_empty(), "it reports what breaks from now on");
}

#[test]
fn a_link_may_be_back_until_somebody_has_been_asked_since_it_broke() {
    let mut controller = Controller::connected();
    let dialer = Id::new("r2");
    controller.pass(CHECK);
    controller.judge(false, false);
    let link = link("l1", "r2", "r1");
    assert!(controller.step(Input::LinkBroke(&link)).is_empty());
    let asked_at = controller.now;
    let dialers = HashSet::from([dialer.clone()]);
    assert_eq!(controller.pass(CHECK), [Output::JudgeLinks(connection(1), dialers.clone())]);
    // The dialer answers, and stops answering later.
    assert!(controller.judge(false, false).is_empty());
    assert_eq!(controller.pass(CHECK), [Output::JudgeLinks(connection(1), dialers)]);
    assert_eq!(controller.judge(false, true), [Output::AskLinks(connection(1))]);
    assert!(controller.list(asked_at, &["l1"]).is_empty(), "it was asked before the link broke");
    assert!(controller.machine.may_have_link(&dialer, &HashSet::new()));
    controller.list(controller.now, &[]);
    assert!(!controller.machine.may_have_link(&dialer, &HashSet::new()));
    let asked_at = controller.now;
    controller.now += CHECK;
    // The link is back, and breaks again while the answer is on its way.
    controller.step(Input::BrokeAgain(&connection(1).router, "l1"));
    assert!(controller.list(asked_at, &["l1"]).is_empty());
    assert_eq!(controller.list(controller.now + CHECK, &["l1"]), [Output::Restore(link)]);
    assert!(controller.machine.broken.is_empty());
}

#[test]
fn nobody_waits_for_a_link_for_long_or_whose_routers_tell_of_it() {
    let mut controller = Controller::connected();
    controller.step(Input::LinkBroke(&link("l1", "r2", "r3")));
    controller.step(Input::LinkBroke(&link("l2", "r1", "r3")));
    controller.pass(RETURN - Duration::from_millis(1));
    assert!(controller.machine.may_have_link(&Id::new("r2"), &HashSet::new()));
    controller.step(Input::ShutOut(&Id::new("r1")));
    assert!(!controller.machine.may_have_link(&Id::new("r1"), &HashSet::new()));
    controller.pass(Duration::from_millis(1));
    assert!(controller.machine.broken.is_empty());
}

#[test]
fn links_that_may_come_back_are_limited() {
    let mut controller = Controller::new();
    (0..20_001).for_each(|at| {
        let dialer = format!("d{}", at / 400);
        controller.step(Input::LinkBroke(&link(&format!("l{at}"), &dialer, "r3")));
    });
    assert!(!controller.machine.broken.has_room(&Id::new("other")));
    assert!(controller.machine.broken.get(&Id::new("r3"), "l20000").is_none());
}

#[test]
fn a_router_whose_links_break_again_and_again_leaves_others_their_room() {
    let (mut machine, now) = (Machine::new(Duration::ZERO, Duration::ZERO), Instant::now());
    let broke = |machine: &mut Machine, id: &str, dialer: &str| {
        let link = link(id, dialer, "r9");
        machine.step(now, Input::LinkBroke(&link));
    };
    (0..1_000).for_each(|number| broke(&mut machine, &format!("m{number}"), "mallory"));
    assert_eq!(machine.broken.dialed_by(&Id::new("mallory")).count(), 500);
    broke(&mut machine, "l", "other");
    assert!(machine.may_have_link(&Id::new("other"), &HashSet::new()));
}
