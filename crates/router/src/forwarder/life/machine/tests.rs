//! Single stories, and what is bounded.

mod simulator;

use weft_wire::ctrl::REROUTE_ATTEMPT;

use super::*;

const QUIET: Duration = Duration::from_secs(5);

fn route(circuit: &str, attempt: u32, term: u64) -> Route {
    Route { circuit_id: circuit.to_owned(), attempt, term, ..Route::default() }
}

/// What a machine that knows its time answers to a route, or to an unroute at once.
struct Told(Machine, Instant);

impl Told {
    fn new() -> Self {
        Self(Machine::new(QUIET), Instant::now())
    }

    fn route(&mut self, from: &str, route: Route) -> Vec<Output> {
        let Self(machine, now) = self;
        let outputs =
            machine.step(*now, Input::Route { from: &from.into(), route: &route, takes_new: true });
        for output in &outputs {
            if let Output::Begin(ticket) = output {
                assert!(machine.step(*now, Input::Done(ticket)).is_empty());
            }
        }
        outputs
    }

    fn unroute(&mut self, from: &str, circuit: &str, term: u64) -> Vec<Output> {
        let unroute = Unroute { circuit_id: circuit.to_owned(), now: true, term };
        self.0.step(self.1, Input::Unroute { from: &from.into(), unroute: &unroute })
    }

    fn owner(&self) -> Option<String> {
        self.0.carried("x").map(|carried| carried.owner.to_string())
    }
}

fn is_refused(outputs: &[Output]) -> bool {
    matches!(outputs, [Output::Refuse(NotObeyed::NotOwner { .. })])
}

#[test]
fn a_circuit_has_one_owner_until_another_controller_has_a_higher_term() {
    let mut told = Told::new();
    told.route("a", route("x", 0, 0));
    // The controller of another program, or one that has lost the circuit.
    assert!(is_refused(&told.route("b", route("x", 0, 0))));
    assert!(is_refused(&told.unroute("b", "x", 0)));
    assert_eq!(told.owner().as_deref(), Some("a"));
    // It takes the circuit over.
    assert!(!is_refused(&told.route("b", route("x", REROUTE_ATTEMPT, 1))));
    assert_eq!(told.owner().as_deref(), Some("b"));
    let of = |told: &Told, owner: &str| told.0.all_carried(Some(owner)).len();
    assert_eq!((of(&told, "a"), of(&told, "b")), (0, 1));
    for term in [0, 1] {
        assert!(is_refused(&told.route("a", route("x", REROUTE_ATTEMPT, term))));
        assert!(is_refused(&told.unroute("a", "x", term)));
    }
    // The owner need not name its term.
    assert!(!is_refused(&told.route("b", route("x", REROUTE_ATTEMPT, 0))));
    assert_eq!(told.0.carried("x").unwrap().into_route().term, 1);
    let refused = NotObeyed::NotOwner { owner: "b".into(), sender: "a".into() };
    assert_eq!(refused.to_string(), "the circuit belongs to controller b, not to a");
    // Who has ended it still owns it while it is remembered.
    assert_eq!(told.unroute("b", "x", 0), [Output::TakeDown("x".into())]);
    assert!(is_refused(&told.route("a", route("x", REROUTE_ATTEMPT, 1))));
    told.1 += KEPT;
    told.0.step(told.1, Input::Tick);
    assert!(!is_refused(&told.route("a", route("x", 0, 0))));
}

#[test]
fn a_route_with_too_many_ways_is_refused_and_takes_nothing_over() {
    let mut told = Told::new();
    told.route("a", route("x", 0, 0));
    let with = |count| {
        let way = weft_wire::ctrl::route::Forward::default();
        Route { forwards: vec![way; count], ..route("x", REROUTE_ATTEMPT, 1) }
    };
    let why = NotObeyed::TooManyWays { count: MAX_WAYS + 1, most: MAX_WAYS };
    assert_eq!(told.route("b", with(MAX_WAYS + 1)), [Output::Refuse(why)]);
    assert_eq!(told.owner().as_deref(), Some("a"));
    assert!(matches!(told.route("b", with(MAX_WAYS))[..], [Output::Begin(_)]));
    assert_eq!(told.owner().as_deref(), Some("b"));
}

#[test]
fn of_too_many_circuits_that_are_over_the_oldest_is_forgotten() {
    let mut told = Told::new();
    for number in 0..MOST + 10 {
        let circuit = format!("c{number}");
        told.route("a", route(&circuit, 0, 0));
        told.unroute("a", &circuit, 0);
    }
    assert_eq!((told.0.circuits.len(), told.0.over.len()), (MOST, MOST));
    assert!(told.0.is_fault("c9") && !told.0.is_fault("c10"));
    // One that ends again and again takes no more room either.
    for _ in 0..MOST + 10 {
        told.route("a", route("c0", REROUTE_ATTEMPT, 0));
        told.unroute("a", "c0", 0);
    }
    assert_eq!((told.0.circuits.len(), told.0.over.len()), (1, MOST));
    told.0.step(told.1 + KEPT, Input::Tick);
    assert!(told.0.circuits.is_empty() && told.0.over.is_empty());
}

/// What a claim gives the controller that makes it, and from whom it is taken.
fn claim(
    told: &mut Told,
    from: &str,
    of: &str,
    tag: &str,
    term: u64,
) -> (Vec<String>, Vec<String>) {
    let (controller, tag) = (of.to_owned(), tag.to_owned());
    let spared = vec!["zz".to_owned()];
    let claim = ClaimCircuits { controller, tag, term, changed_only: false, spared };
    let outputs = told.0.step(told.1, Input::Claim { from: &from.into(), claim: &claim });
    let (mut carried, mut taken) = (Vec::new(), Vec::new());
    for output in outputs {
        match output {
            Output::Carried(ids) => carried.extend(ids.iter().map(ToString::to_string)),
            Output::Taken { owner, circuits } => {
                taken.extend(circuits.iter().map(|id| format!("{id} of {owner}")));
            }
            other => panic!("{other:?}"),
        }
    }
    carried.sort();
    taken.sort();
    (carried, taken)
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn a_claim_takes_what_a_controller_has_made_or_owns_and_no_older_claim_takes_it_back() {
    let mut told = Told::new();
    // `xx` is the tag of `x`; a router has chosen the id of the other circuit.
    for (from, circuit) in [("x", "xx1"), ("x", "xx2"), ("x", "chosen"), ("z", "zz1")] {
        told.route(from, route(circuit, 0, 5));
    }
    told.unroute("x", "xx2", 0);
    let owned = |told: &Told, owner: &str| told.0.all_carried(Some(owner)).len();
    let nothing = (Vec::new(), Vec::new());
    assert_eq!(claim(&mut told, "y", "x", "xx", 5), nothing, "its term is not higher");
    let both = (texts(&["chosen", "xx1"]), texts(&["chosen of x", "xx1 of x"]));
    assert_eq!(claim(&mut told, "y", "x", "xx", 7), both);
    assert_eq!((owned(&told, "x"), owned(&told, "y"), owned(&told, "z")), (0, 2, 1));
    assert!(is_refused(&told.route("x", route("xx1", REROUTE_ATTEMPT, 5))));
    let mut taken = told.0.taken_from("x");
    taken.sort();
    assert_eq!(taken, ["chosen".into(), "xx1".into()]);
    // The same again, for a controller that connects once more. What the first controller makes meanwhile stays there.
    told.route("x", route("xx4", 0, 5));
    assert_eq!(claim(&mut told, "y", "x", "xx", 7), (both.0.clone(), Vec::new()));
    // The first controller is back, and then comes an old claim of the other one.
    let back = (texts(&["chosen", "xx1", "xx4"]), texts(&["chosen of y", "xx1 of y"]));
    assert_eq!(claim(&mut told, "x", "x", "xx", 8), back);
    told.route("x", route("xx3", 0, 8));
    assert_eq!(claim(&mut told, "y", "x", "xx", 7), nothing);
    assert_eq!((owned(&told, "x"), owned(&told, "y")), (4, 0));
    // A third one comes for the second with what that had from the first, and a claim of its own takes nothing.
    assert_eq!(claim(&mut told, "y", "x", "", 9).0.len(), 4);
    assert_eq!(claim(&mut told, "y", "y", "yy", 12), nothing);
    assert_eq!(claim(&mut told, "z", "y", "yy", 10).0.len(), 4);
    // A claim of nobody takes nothing.
    assert_eq!(claim(&mut told, "z", "", "", 99), nothing);
}

/// `z` had made a circuit, `x` had taken it over when this router came to carry it, and `z` was back. Then `x` ended, and
/// `y` came for its circuits: only this router believed that the circuit was one of them.
#[test]
fn a_claim_spares_what_a_controller_has_made_that_is_alive_whoever_this_router_had_it_from() {
    let mut told = Told::new();
    told.route("x", route("zz1", 0, 5));
    assert_eq!(claim(&mut told, "z", "z", "zz", 6), (texts(&["zz1"]), texts(&["zz1 of x"])));
    let nothing = (Vec::new(), Vec::new());
    assert_eq!(claim(&mut told, "y", "x", "xx", 7), nothing);
    assert!(!is_refused(&told.route("z", route("zz1", REROUTE_ATTEMPT, 6))));
    // It had missed that `z` was back.
    told.route("x", route("zz2", 0, 5));
    assert_eq!(claim(&mut told, "y", "x", "xx", 8), nothing);
    assert_eq!(claim(&mut told, "z", "z", "zz", 9).1, texts(&["zz2 of x"]));
}

#[test]
fn a_claim_voids_what_is_only_being_set_up() {
    let mut told = Told::new();
    let begun = route("xx1", 0, 5);
    let outputs =
        told.0.step(told.1, Input::Route { from: &"x".into(), route: &begun, takes_new: true });
    let [Output::Make { .. }, Output::Begin(ticket)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(claim(&mut told, "y", "x", "xx", 7), (Vec::new(), texts(&["xx1 of x"])));
    assert_eq!(told.0.check(ticket), Err(NotObeyed::Superseded));
    assert_eq!(told.0.step(told.1, Input::Failed(ticket)), [Output::TakeDown("xx1".into())]);
}
