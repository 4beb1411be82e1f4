//! The circuits that the table finds, and the limit on their number.

use super::{sample as circuit, *};

/// A dialer of which no identity is known.
fn of(client: &str) -> Dialer<'_> {
    Dialer { client, identity: None }
}

#[test]
fn the_circuits_of_a_dialing_identity_are_counted_until_they_end() {
    let circuits = Circuits::default();
    let (r1, laptop, other) = (Id::new("r1"), Id::new("laptop"), Id::new("other"));
    let by = |identity| Dialer { client: "s", identity: Some((identity, 2)) };
    assert_eq!(circuits.reserve("c1", by(&laptop), &r1), Ok(()));
    assert!(circuits.attempt("c1", 0, std::slice::from_ref(&r1)) && circuits.rename("c1", "c2"));
    let dialed = |id: &str, dialer: &Id| {
        let mut circuit = circuit(id, &["r1"], &[]);
        circuit.tags.client = Some(dialer.clone());
        Arc::new(circuit)
    };
    assert!(circuits.put(dialed("c2", &laptop)));
    assert!(circuits.adopt(dialed("c3", &laptop), || {}));
    assert_eq!(circuits.reserve("c4", by(&laptop), &r1), Err(NotReserved::Dialer));
    assert_eq!(circuits.reserve("c4", by(&other), &r1), Ok(()));
    assert!(circuits.put(dialed("c3", &other)), "another dialer is told");
    assert_eq!((circuits.dialed_by(&laptop), circuits.dialed_by(&other)), (1, 2));
    // What a router alone reports uses up nobody's limit.
    let mut reported = circuit("c5", &["r1"], &[]);
    reported.tags.client = Some(laptop.clone());
    reported.tags.reported_by = Some(r1.clone());
    assert!(circuits.adopt(Arc::new(reported), || {}));
    assert_eq!(circuits.dialed_by(&laptop), 1);
    for id in ["c2", "c3", "c5"] {
        circuits.remove(id).unwrap();
    }
    circuits.release("c4");
    let tables = circuits.0.read();
    assert!(tables.by_dialer.is_empty() && tables.making.dialed_by(&other) == 0);
}

#[test]
fn an_id_is_reserved_once_and_given_back() {
    let circuits = Circuits::default();
    let r1 = Id::new("r1");
    assert_eq!(circuits.reserve("c1", of("client"), &r1), Ok(()));
    assert_eq!(circuits.reserve("c1", of("client"), &r1), Err(NotReserved::Taken));
    assert!(circuits.get("c1").is_none() && circuits.is_known("c1"));
    assert!(circuits.remove("c1").is_none());
    circuits.release("c1");
    assert!(!circuits.put(Arc::new(circuit("c1", &["r1"], &[]))));
    assert!(circuits.is_empty());
}

#[test]
fn what_routers_tell_of_leaves_room_for_dials() {
    let circuits = Circuits::within(8);
    let adopted = (0..8).filter(|number| {
        circuits.adopt(Arc::new(circuit(&format!("c{number}"), &["r1"], &[])), || {})
    });
    assert_eq!(adopted.count(), 6);
    let reserve = |id: &str| circuits.reserve(id, of("client"), &Id::new("r1"));
    assert_eq!((reserve("d1"), reserve("d2")), (Ok(()), Ok(())));
    assert_eq!(reserve("d3"), Err(NotReserved::Full));
}

#[test]
fn what_ends_in_the_making_is_not_put() {
    let circuits = Circuits::default();
    let (r1, r2, r3) = (Id::new("r1"), Id::new("r2"), Id::new("r3"));
    let put = || circuits.put(Arc::new(circuit("c1", &["r1", "r2"], &["l1"])));
    circuits.reserve("c1", of("client"), &r1).unwrap();
    assert!(circuits.attempt("c1", 0, &[r1.clone(), r3.clone()]));
    let fault = |router, attempt| circuits.fault_in_making("c1", router, attempt);
    assert_eq!(fault(&r3, None), FaultInMaking::Ends { attempt: 0 });
    assert!(!put(), "ended by a router on its way");
    // The fault of the former attempt does not count for the next one.
    assert!(circuits.attempt("c1", 1, &[r1.clone(), r2.clone()]));
    assert_eq!(fault(&r3, None), FaultInMaking::Ignored, "not on its way any more");
    assert_eq!(fault(&r1, Some(0)), FaultInMaking::Ignored, "the end of the former attempt");
    assert!(circuits.end_in_making_of("other", &r1).is_empty());
    assert!(circuits.end_in_making_at(&r3).is_empty());
    let mut has_gone_with_it = false;
    let up = Arc::new(circuit("c1", &["r1", "r2"], &["l1"]));
    assert!(circuits.put_with(up, || has_gone_with_it = true) && has_gone_with_it);
    assert_eq!(fault(&r2, None), FaultInMaking::NotInMaking);
    circuits.remove("c1").unwrap();

    circuits.reserve("c1", of("client"), &r1).unwrap();
    assert_eq!(circuits.end_in_making_of("client", &r1), ["c1".into()]);
    assert!(!circuits.attempt("c1", 0, &[r1, r2]), "ended for good");
    assert!(!circuits.put_with(Arc::new(circuit("c1", &["r1"], &[])), || panic!("not put")));
    circuits.release("c1");
    assert!(circuits.is_empty());
}

#[test]
fn what_is_renamed_in_the_making_is_the_same() {
    let circuits = Circuits::default();
    let r1 = Id::new("r1");
    circuits.reserve("c1", of("client"), &r1).unwrap();
    circuits.reserve("c3", of("client"), &r1).unwrap();
    assert!(!circuits.rename("c1", "c3") && !circuits.rename("c9", "c2"));
    assert!(circuits.attempt("c1", 0, std::slice::from_ref(&r1)));
    let ends = circuits.fault_in_making("c1", &r1, Some(0));
    assert_eq!(ends, FaultInMaking::Ends { attempt: 0 });
    assert!(circuits.rename("c1", "c2") && !circuits.is_known("c1"));
    assert!(circuits.put(Arc::new(circuit("c2", &["r1"], &[]))));
    assert!(!circuits.rename("c2", "c4"), "not in the making");
    // A circuit that was ended in the making stays ended under another id.
    circuits.end_in_making_of("client", &r1);
    assert!(circuits.rename("c3", "c5") && !circuits.attempt("c5", 1, &[r1]));
}

#[test]
fn links_are_followed_through_moves() {
    let circuits = Circuits::default();
    circuits.reserve("c1", of("client"), &Id::new("r1")).unwrap();
    let first = Arc::new(circuit("c1", &["r1", "r2"], &["l1"]));
    assert!(circuits.put(Arc::clone(&first)));
    circuits.release("c1");
    assert_eq!(circuits.over_link("l1").len(), 1);
    let path = Path { nodes: first.path.nodes.clone(), links: vec!["l2".into()], cost: 1 };
    assert!(circuits.put(Arc::new(first.moved(path))));
    assert!(circuits.over_link("l1").is_empty());
    assert_eq!(circuits.over_link("l2").len(), 1);
    assert!(!circuits.has_ended("c1"));
    assert!(circuits.remove("c1").is_some());
    assert!(circuits.has_ended("c1") && circuits.over_link("l2").is_empty());
    assert!(circuits.adopt(Arc::new(circuit("c2", &["r1"], &[])), || {}));
    assert!(!circuits.adopt(Arc::new(circuit("c2", &["r1"], &[])), || panic!("not taken up")));
    // The end may come between the report of a router and the adoption.
    assert!(!circuits.adopt(Arc::new(circuit("c1", &["r1"], &[])), || panic!("it has ended")));
}

#[test]
fn a_circuit_is_known_to_routers_that_it_went_over() {
    let circuits = Circuits::default();
    let first = Arc::new(circuit("c1", &["r1", "r2"], &["l1"]));
    assert!(circuits.adopt(Arc::clone(&first), || {}));
    let over = |router: &str| circuits.used_over("c1", router).is_some();
    assert!(over("r1") && over("r2") && !over("r3"));
    let path = Path { nodes: vec![Id::new("r1"), Id::new("r3")], ..first.path.clone() };
    assert!(circuits.put(Arc::new(first.moved(path))));
    assert!(over("r1") && over("r2") && over("r3") && !over("r4"));
    assert!(!circuits.has_ended("c1"), "it has moved");
    circuits.remove("c1").unwrap();
    assert!(over("r1") && over("r2") && over("r3") && !over("r4"));
    assert_eq!(circuits.used_over("c2", "r1"), None);
}

/// Each circuit is found by each of its keys and by no other key, whatever happens to circuits.
#[test]
fn circuits_are_found_by_what_they_have() {
    let circuits = Circuits::default();
    let ids = |found: Vec<Arc<Circuit>>| -> Vec<String> {
        found.iter().map(|it| it.id.clone()).collect()
    };
    let by = |router: &str| ids(circuits.at(&Id::new(router)));
    for number in 0..1_200 {
        let one = circuit(&format!("c{number:04}"), &["r1", "r2"], &["l1"]);
        assert!(circuits.adopt(Arc::new(one), || {}));
    }
    assert_eq!((by("r1").len(), circuits.count_over("l1")), (1_200, 1_200));
    assert_eq!(ids(circuits.of_client("client")).len(), 1_200);
    let one = circuit("c0007", &["r1", "r3", "r2"], &["l2", "l3"]);
    let one = Circuit { client: "other".into(), terminator: Id::new("u"), ..one };
    assert!(circuits.put(Arc::new(one)));
    for found in [
        by("r3"),
        ids(circuits.over_link("l2")),
        ids(circuits.of_client("other")),
        ids(circuits.to_terminator(&Id::new("u"))),
    ] {
        assert_eq!(found, ["c0007"]);
    }
    assert_eq!((by("r2").len(), circuits.over_link("l1").len()), (1_200, 1_199));
    assert_eq!(circuits.to_terminator(&Id::new("t")).len(), 1_199);
    circuits.remove("c0007").unwrap();
    assert!(by("r3").is_empty() && circuits.of_client("other").is_empty());
    let (all, behind) = circuits.part_over("l1", None, 2_000);
    assert_eq!((all.len(), behind), (1_199, None));
    let (first, behind) = circuits.part_over("l1", None, 600);
    assert_eq!((&first[..], behind.as_ref()), (&all[..600], first.last()));
    assert_eq!(circuits.part_over("l1", behind, 600), (all[600..].to_vec(), None));
}

#[test]
fn circuits_of_a_part_are_sorted_by_the_end_at_which_fewer_routers_are() {
    let circuits = Circuits::default();
    for number in 0..12 {
        let (from, to) = (format!("r{}", number % 4), format!("s{}", number % 3));
        let one = circuit(&format!("c{number:02}"), &[&from, &to], &["l1"]);
        assert!(circuits.adopt(Arc::new(one), || {}));
    }
    let number = |id: &Arc<str>| id.trim_start_matches('c').parse::<usize>().unwrap();
    let ends = |id: &Arc<str>| (number(id) % 3, number(id) % 4);
    let (part, _) = circuits.part_over("l1", None, 100);
    assert_eq!(part.len(), 12);
    assert!(part.is_sorted_by_key(ends), "{part:?}");
}

/// One circuit after the other is at the end of the table or at its beginning, and never are two.
#[test]
fn others_get_the_lock_while_all_circuits_are_read() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    let circuits = Circuits::default();
    let adopt = |id: &str| assert!(circuits.adopt(Arc::new(circuit(id, &["r1"], &[])), || {}));
    for number in 0..5 * TURN / 2 {
        adopt(&format!("c{number:05}"));
    }
    let is_over = AtomicBool::new(false);
    let move_it = || {
        let id = |at: usize| format!("{}{at}", ["a", "z"][at % 2]);
        adopt(&id(0));
        for at in (1..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
            circuits.remove(&id(at - 1)).unwrap();
            adopt(&id(at));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(move_it);
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut is_seen_twice = false;
        while !is_seen_twice && Instant::now() < deadline {
            let all = circuits.all();
            assert!(all.is_sorted_by(|one, other| one.id < other.id));
            assert!(all.len() >= 5 * TURN / 2);
            let ends = [all.first(), all.last()].map(|it| it.map(|it| &it.id[..1]));
            is_seen_twice = ends == [Some("a"), Some("z")];
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(is_seen_twice, "the lock is held until all circuits are read");
    });
}
