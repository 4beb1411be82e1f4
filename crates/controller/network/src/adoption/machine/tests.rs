//! Single transitions of the adoption of circuits, and its limits. The [`simulator`] plays routers.

mod simulator;

use weft_wire::ctrl::route::Forward;

use self::checks::LOOK;
use super::*;

const RETURN: Duration = Duration::from_secs(75);

struct Controller {
    machine: Machine,
    now: Instant,
}

fn route(circuit: &str, ways: &[(&str, &str, DestType)]) -> Route {
    let forwards = ways.iter().map(|(from, to, kind)| Forward {
        src_address: (*from).to_owned(),
        dst_address: (*to).to_owned(),
        dst_type: (*kind).into(),
    });
    Route { circuit_id: circuit.to_owned(), forwards: forwards.collect(), ..Route::default() }
}

/// The route of a router at the initiating end.
fn start(circuit: &str, link: &str) -> Route {
    route(circuit, &[("I", link, DestType::Link), (link, "I", DestType::Start)])
}

fn end(circuit: &str, link: &str) -> Route {
    route(circuit, &[(link, "E", DestType::End), ("E", link, DestType::Link)])
}

fn between(circuit: &str, link: &str, other: &str) -> Route {
    route(circuit, &[(link, other, DestType::Link), (other, link, DestType::Link)])
}

/// A route that makes a circuit whole, with a tag of so many bytes.
fn alone(number: usize, bytes: usize) -> Route {
    let ways = [("I", "E", DestType::End), ("E", "I", DestType::Start)];
    let tags = [("clientId".to_owned(), "x".repeat(bytes))].into();
    Route { tags, ..route(&format!("c{number:06}"), &ways) }
}

impl Controller {
    fn new() -> Self {
        let now = Instant::now();
        Self { machine: Machine::new(now, RETURN), now }
    }

    fn step(&mut self, input: Input<'_>) -> Vec<Output> {
        self.machine.step(self.now, input)
    }

    fn name(&mut self, router: &str, route: Route) -> Vec<Output> {
        let (router, standing) = (&Id::new(router), Standing::Open { at_router: 0 });
        self.step(Input::Named { router, route, standing })
    }

    /// Whether what a router names is put into the table of circuits.
    fn takes(&mut self, router: &str, route: Route) -> bool {
        matches!(self.name(router, route)[..], [Output::Put(..)])
    }

    /// Time passes. Returns what was due.
    fn pass(&mut self, time: Duration) -> Vec<Output> {
        self.now += time;
        self.step(Input::Tick)
    }

    /// A look at circuit `c`, whose path does not work, when some routers have named all their circuits.
    fn look(&mut self, far_end: Option<&str>, told: &[&str]) -> Vec<Output> {
        let far_end = |_: &Id, _: &str| far_end.map(Id::new);
        let has_told = |router: &Id| told.contains(&router.as_str());
        let (works, has_path, awaits_reports) = (false, false, &|| false);
        let (far_end, has_told) = (&far_end, &has_told);
        let sight = Sight { works, has_path, far_end, has_told, awaits_reports };
        self.step(Input::Looked { circuit: "c", sight })
    }

    fn end(&mut self, circuit: &str) {
        assert!(self.step(Input::Ended(circuit)).is_empty());
    }

    fn is_empty(&self) -> bool {
        let machine = &self.machine;
        machine.circuits.is_empty()
            && machine.shares.all().is_empty()
            && machine.in_part() == 0
            && machine.next_due().is_none()
    }
}

#[test]
fn one_router_fills_only_its_own_share() {
    let mut controller = Controller::new();
    let most = 100_000;
    let unknown = |number: usize| route(&format!("c{number}"), &[]);
    assert!((0..most).all(|number| controller.takes("r1", unknown(number))));
    assert!(!controller.takes("r1", unknown(most)), "it has begun as many as it may");
    assert!(controller.takes("r1", start("c7", "l")), "it named this one before");
    assert!(controller.takes("r2", unknown(most)) && controller.takes("r1", unknown(most)));
    controller.end("c7");
    controller.end("c7");
    assert!(controller.takes("r1", unknown(7)) && !controller.takes("r1", unknown(most + 1)));
    controller.end(&format!("c{most}"));
    assert_eq!(controller.machine.shares.of(&Id::new("r2")), Default::default());
}

#[test]
fn the_pieces_of_one_router_have_a_limit_in_bytes() {
    let mut controller = Controller::new();
    let piece = |number, bytes| {
        let whole = alone(number, bytes);
        Route { forwards: start("", "l").forwards, ..whole }
    };
    assert!(!controller.takes("r1", piece(0, 2_048)), "it is too long");
    assert!(controller.is_empty());
    let added = (0..100_000).take_while(|at| controller.takes("r1", piece(*at, 1_900)));
    let (added, most) = (added.count(), 64 << 20);
    assert!(added * 1_900 < most && (added + 2) * 2_000 > most, "{added}");
    assert!(controller.takes("r2", piece(0, 1_900)), "another has its own share");
    assert!(controller.takes("r1", piece(1, 1_900)), "it takes the place of another");
    (0..added).for_each(|number| controller.end(&format!("c{number:06}")));
    assert!(controller.is_empty());
}

#[test]
fn whole_circuits_count_for_who_named_them_until_they_end() {
    let mut controller = Controller::new();
    let named = (0..100_000).take_while(|at| controller.takes("r1", alone(*at, 1_900))).count();
    assert!(named * 1_900 < 64 << 20 && (named + 2) * 1_920 > 64 << 20, "{named}");
    assert!(!controller.takes("r1", alone(named, 1_900)));
    assert_eq!(controller.machine.in_part(), 0, "what did not fit is forgotten");
    assert!(controller.takes("r2", alone(named, 1_900)));
    controller.end("c000000");
    controller.end("c000000");
    assert!(
        controller.takes("r1", alone(0, 1_900)) && !controller.takes("r1", alone(named + 1, 1_900))
    );
    (0..=named).for_each(|number| controller.end(&format!("c{number:06}")));
    assert!(controller.is_empty());
}

#[test]
fn each_report_delays_the_look_for_a_limited_time() {
    let mut controller = Controller::new();
    let second = Duration::from_secs(1);
    let look = || vec![Output::Look("c".into())];
    controller.takes("a", start("c", "l"));
    assert!(controller.pass(second * 4).is_empty());
    for _ in 0..25 {
        controller.takes("a", start("c", "l"));
        assert!(controller.pass(second).is_empty());
    }
    assert_eq!(controller.pass(second), look());
    controller.takes("a", start("c", "l"));
    assert!(controller.look(Some("b"), &["b"]).is_empty(), "it was seen before the last report");
}

#[test]
fn routes_are_sent_again_once_the_path_works_if_a_move_wants_it() {
    let mut controller = Controller::new();
    controller.takes("a", alone(0, 0));
    let circuit = "c000000";
    let stranded = |sends_again| Input::Stranded { circuit, sends_again };
    for sends_again in [false, true, false] {
        controller.step(stranded(sends_again));
    }
    let (far_end, has_told) = (&|_: &Id, _: &str| None, &|_: &Id| true);
    let sight = Sight { works: true, has_path: false, far_end, has_told, awaits_reports: &|| true };
    let looked = || Input::Looked { circuit, sight };
    assert_eq!(controller.pass(LOOK), [Output::Look(circuit.into())]);
    let again = Output::Move(circuit.into(), MoveReason::Lost);
    assert_eq!(controller.step(looked()), [again]);
    controller.step(stranded(false));
    assert_eq!(controller.pass(LOOK).len(), 1);
    assert!(controller.step(looked()).is_empty(), "they were sent");
}

/// A router that only asks about a circuit may have the end that is missing, until it has named its circuits.
#[test]
fn a_circuit_about_which_a_router_has_asked_is_not_torn() {
    let mut controller = Controller::new();
    assert!(controller.takes("a", route("c", &[])));
    controller.now += RETURN;
    assert_eq!(controller.pass(LOOK), [Output::Look("c".into())]);
    assert!(controller.look(None, &[]).is_empty());
    // News has it looked at again.
    assert!(controller.step(Input::News).is_empty());
    assert_eq!(controller.pass(LOOK), [Output::Look("c".into())]);
    assert!(controller.look(None, &["b"]).is_empty());
    // What the router says later counts, and nothing less.
    assert!(controller.takes("a", start("c", "l")));
    assert!(controller.name("a", route("c", &[])).is_empty());
    assert_eq!(controller.pass(LOOK), [Output::Look("c".into())]);
    assert_eq!(controller.look(Some("b"), &["a", "b"]), [Output::Remove("c".into())]);
    let unroute = Output::Unroute { router: Id::new("b"), circuit: "c".into() };
    assert_eq!(controller.name("b", end("c", "l")), [unroute], "it comes too late");
    controller.end("c");
    assert!(controller.is_empty());
}

/// Its links and ends are gone, as routers of another program say.
#[test]
fn a_circuit_that_its_router_names_without_ways_is_torn() {
    let mut controller = Controller::new();
    assert!(controller.takes("a", route("c", &[])));
    assert_eq!(controller.pass(LOOK), [Output::Look("c".into())]);
    assert_eq!(controller.look(None, &["a"]), [Output::Remove("c".into())]);
}

#[test]
fn a_router_between_the_ends_takes_its_piece_back() {
    let mut controller = Controller::new();
    let (ab, bd) = ("ab", "bd");
    controller.takes("a", start("c", ab));
    controller.takes("b", between("c", ab, "bx"));
    controller.takes("d", end("c", bd));
    let not_carried = |it: &mut Controller, router: &str| {
        it.step(Input::NotCarried { router: &Id::new(router), circuit: "c" })
    };
    let outputs = not_carried(&mut controller, "b");
    let [Output::Put(_, assembled)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(assembled.path.nodes, ["a", "d"].map(Id::new));
    assert!(not_carried(&mut controller, "b").is_empty());
    assert_eq!(not_carried(&mut controller, "d"), [Output::Remove("c".into())], "it has an end");
}

/// The last router reports a circuit while the circuit moves to another path.
#[test]
fn a_circuit_that_has_become_whole_while_it_moves_may_move() {
    let mut controller = Controller::new();
    controller.takes("a", start("c", "ab"));
    controller.takes("b", end("c", "ab"));
    assert_eq!(controller.machine.in_part(), 0);
    let outputs = controller.step(Input::Moved { circuit: "c", bytes: 5 });
    assert_eq!(outputs, [Output::Complete(BTreeMap::new())]);
    controller.end("c");
    assert!(controller.is_empty());
}
