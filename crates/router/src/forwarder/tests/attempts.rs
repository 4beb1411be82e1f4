//! Attempts to set a circuit up: failed ones, overtaken ones, and ends that are over before their route stands.

use super::*;

#[test]
fn an_attempt_that_fails_leaves_the_circuit_to_the_one_after_it() {
    let (forwarder, _) = heard();
    let first = attempt(&forwarder, 0).unwrap();
    let second = attempt(&forwarder, 1).unwrap();
    drop(first);
    let end = dialed(&forwarder, &second, "out1");
    second.route(&hops("in1", "out1")).unwrap();
    drop(second);
    let known = forwarder.circuit("circuit").expect("known");
    assert!(Arc::ptr_eq(&known, end.circuit()));
    unroute(&forwarder, true);
    assert_eq!(forwarder.counts(), (0, 0));
}

#[test]
fn a_circuit_is_forgotten_with_the_last_attempt_that_fails() {
    let (forwarder, _) = heard();
    let (first, second) = (attempt(&forwarder, 0).unwrap(), attempt(&forwarder, 1).unwrap());
    drop(second);
    assert_eq!(forwarder.counts(), (1, 0));
    drop(first);
    assert_eq!(forwarder.counts(), (0, 0));
}

#[test]
fn an_attempt_that_was_overtaken_is_refused_and_ends_quietly() {
    let (forwarder, control) = heard();
    let first = attempt(&forwarder, 0).unwrap();
    let late = dialed(&forwarder, &first, "out0");
    let second = attempt(&forwarder, 1).unwrap();
    let _end = dialed(&forwarder, &second, "out1");
    second.route(&hops("in1", "out1")).unwrap();
    first.route(&hops("in0", "out0")).unwrap_err();
    forwarder.give_up("out0");
    drop((first, second));
    attempt(&forwarder, 0).unwrap_err();
    let circuit = forwarder.circuit("circuit").unwrap();
    assert_eq!((circuit.next("in0"), circuit.next("in1").as_deref()), (None, Some("out1")));
    assert!(late.is_closed());
    assert_eq!(forwarder.counts(), (1, 1));
    assert_eq!(*control.0.lock(), [""; 0]);
}

#[test]
fn an_attempt_takes_away_what_older_ones_left() {
    let (forwarder, control) = heard();
    let first = attempt(&forwarder, 0).unwrap();
    let late = dialed(&forwarder, &first, "out0");
    first.route(&hops("in0", "out0")).unwrap();
    drop(first);
    let second = attempt(&forwarder, 1).unwrap();
    assert!(late.is_closed());
    let _end = dialed(&forwarder, &second, "out1");
    second.route(&hops("in1", "out1")).unwrap();
    drop(second);
    assert_eq!(forwarder.counts(), (1, 1));
    assert_eq!(*control.0.lock(), [""; 0]);
    // A reroute is not counted as an attempt.
    let reroute = reroute(&forwarder);
    reroute.route(&hops("in1", "out1")).unwrap();
    drop(reroute);
    assert_eq!(forwarder.counts(), (1, 1));
}

#[test]
fn a_lost_answer_takes_down_only_what_its_own_route_has_set_up() {
    let (forwarder, _) = heard();
    let first = attempt(&forwarder, 0).unwrap();
    first.route(&[]).unwrap();
    unroute(&forwarder, true);
    // A dial with a circuit id that was in use before begins with attempt 0 again.
    let second = attempt(&forwarder, 0).unwrap();
    second.route(&[]).unwrap();
    forwarder.retract(first.ticket());
    assert_eq!(forwarder.counts().0, 1);
}

#[test]
fn an_end_that_is_over_before_its_route_stands_fails_the_route_alone() {
    let (forwarder, control) = heard();
    let first = attempt(&forwarder, 0).unwrap();
    let end = dialed(&forwarder, &first, "out0");
    end.abort();
    assert_eq!(*control.0.lock(), [""; 0]);
    first.route(&hops("in0", "out0")).unwrap_err();
    forwarder.give_up("out0");
    drop(first);
    assert_eq!(forwarder.counts(), (0, 0));
    let second = attempt(&forwarder, 1).unwrap();
    let end = dialed(&forwarder, &second, "out1");
    second.route(&hops("in1", "out1")).unwrap();
    end.abort();
    assert_eq!(*control.0.lock(), ["circuit"]);
    // A circuit that drains may still be rerouted.
    let reroute = reroute(&forwarder);
    reroute.route(&hops("in1", "out1")).unwrap();
}

#[test]
fn an_end_that_never_starts_is_told() {
    let (control, (timers, mut armed)) = (Arc::<Listener>::default(), Timers::observed());
    let control_seen = Arc::clone(&control) as Arc<dyn Control>;
    let forwarder = with(control_seen, timers);
    let first = attempt(&forwarder, 0).unwrap();
    let late = dialed(&forwarder, &first, "out0");
    let second = attempt(&forwarder, 1).unwrap();
    let live = dialed(&forwarder, &second, "out1");
    second.route(&hops("in1", "out1")).unwrap();
    first.route(&hops("in0", "out0")).unwrap_err();
    forwarder.give_up("out0");
    let mut due = Vec::new();
    while let Ok(one) = armed.try_recv() {
        due.push(one);
    }
    let fire = |of: &Arc<LocalEnd>| {
        let of_end = |end: &std::sync::Weak<LocalEnd>| std::ptr::eq(end.as_ptr(), &**of);
        for (at, _) in due.iter().filter(|(_, end)| of_end(end)) {
            of.on_timer(*at, *at);
        }
    };
    fire(&late);
    assert_eq!(*control.0.lock(), [""; 0], "of an end that was overtaken nothing is said");
    fire(&live);
    assert_eq!(*control.0.lock(), ["circuit"]);
}
