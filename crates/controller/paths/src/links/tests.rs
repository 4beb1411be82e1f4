//! Reports of links and their results.

use proptest::prelude::*;

use super::*;

pub(super) fn reported(id: &str, to: &str, iteration: u32) -> RouterLink {
    RouterLink { id: id.into(), dest_router_id: to.into(), iteration, ..RouterLink::default() }
}

fn is_new(report: ReportedLinkOutcome) -> bool {
    matches!(report, ReportedLinkOutcome::New(_))
}

#[test]
fn reports_make_and_replace_links() {
    let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
    let report = |from, link: &RouterLink| links.report(from, link, INITIAL, Timestamp(1));
    assert!(is_new(report(&r1, &reported("l1", "r2", 1))));
    assert_eq!(links.get("l1").unwrap().cost(), 130_001);
    assert!(matches!(report(&r1, &reported("l1", "r2", 1)), ReportedLinkOutcome::Known(_)));
    assert_eq!(report(&r2, &reported("l1", "r1", 9)), ReportedLinkOutcome::Foreign);
    let measured = |router, nanos| links.measured(&Id::new(router), [("l1", nanos)].into_iter());
    assert_eq!(measured("r1", 10_900_000), AppliedLatencies { taken: 1, foreign: 0 });
    assert_eq!(measured("r2", 11_000_000).taken, 1);
    assert_eq!(measured("r3", 0), AppliedLatencies { taken: 0, foreign: 1 });
    assert_eq!(links.get("l1").unwrap().cost(), 22);
    assert!(is_new(report(&r1, &reported("l1", "r2", 2))));
    assert_eq!(links.get("l1").unwrap().cost(), 130_001);
    assert_eq!(links.missing(&r1, &[]), ["l1"]);
    assert!(links.missing(&r2, &[]).is_empty(), "it did not dial the link");
    assert!(links.missing(&r1, &[reported("l1", "r2", 2)]).is_empty());
}

#[test]
fn what_is_no_link_is_refused() {
    let (links, r1) = (Links::default(), Id::new("r1"));
    let long = "x".repeat(2_000);
    let whole = reported("l1", "r2", 1);
    for bad in [
        reported("", "r2", 1),
        reported(&long, "r2", 1),
        reported("l1", "", 1),
        reported("l1", "r1", 1),
        RouterLink { dial_address: long.clone(), ..whole.clone() },
        RouterLink { link_protocol: long.clone(), ..whole.clone() },
    ] {
        assert_eq!(links.report(&r1, &bad, INITIAL, Timestamp(1)), ReportedLinkOutcome::Malformed);
    }
    for number in 0..MAX_PER_ROUTER {
        let to = format!("x{}", number / MAX_PARALLEL);
        let link = reported(&format!("m{number}"), &to, 1);
        assert!(is_new(links.report(&r1, &link, INITIAL, Timestamp(1))));
    }
    assert_eq!(links.report(&r1, &whole, INITIAL, Timestamp(1)), ReportedLinkOutcome::TooMany);
    assert!(is_new(links.report(&Id::new("r2"), &reported("l1", "r1", 1), INITIAL, Timestamp(1))));
}

#[test]
fn two_routers_have_a_limit_of_links_between_them() {
    let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
    let report = |from: &Id, id: usize, to: &str| {
        links.report(from, &reported(&format!("l{id}"), to, 1), INITIAL, Timestamp(1))
    };
    for id in 0..MAX_PARALLEL {
        // Either router dials.
        let (from, to) = if id % 2 == 0 { (&r1, "r2") } else { (&r2, "r1") };
        assert!(is_new(report(from, id, to)));
    }
    assert_eq!(report(&r1, 99, "r2"), ReportedLinkOutcome::TooManyParallel);
    assert_eq!(report(&r2, 99, "r1"), ReportedLinkOutcome::TooManyParallel);
    assert!(is_new(report(&r1, 99, "r3")), "another router has its own");
    assert!(is_new(links.report(&r1, &reported("l0", "r2", 2), INITIAL, Timestamp(1))));
    links.fault("l1", 0).unwrap();
    assert!(is_new(report(&r1, 100, "r2")));
    // A link that is known leads nowhere else.
    let elsewhere = links.report(&r1, &reported("l99", "r2", 2), INITIAL, Timestamp(1));
    assert_eq!(elsewhere, ReportedLinkOutcome::Malformed);
}

#[test]
fn what_is_said_of_connections_has_a_limit_for_each_router() {
    let (links, r1) = (Links::default(), Id::new("r1"));
    let conn = |bytes: usize| LinkConn { local_addr: "x".repeat(bytes), ..LinkConn::default() };
    let state = |iteration, conns| LinkConnState { state_iteration: iteration, conns };
    let used = || {
        let table = links.table.read();
        table.by_router.get(&r1).map_or(0, |ends| ends.bytes)
    };
    let mut kept = 0;
    for number in 0..MAX_PER_ROUTER {
        let to = format!("x{}", number / MAX_PARALLEL);
        let mut link = reported(&format!("m{number}"), &to, 1);
        link.conn_state = Some(state(1, vec![conn(2_000), conn(2_000)]));
        let ReportedLinkOutcome::New(link) = links.report(&r1, &link, INITIAL, Timestamp(1)) else {
            panic!("{number}")
        };
        kept += link.connections.conns.len();
        assert!(used() <= MAX_BYTES);
    }
    assert!(kept > 2_000 && kept * 2_000 <= MAX_BYTES, "{kept}");
    let mut link = reported("m0", "x0", 2);
    link.conn_state = Some(state(1, vec![conn(MAX_CONNECTION_BYTES)]));
    assert_eq!(links.report(&r1, &link, INITIAL, Timestamp(1)), ReportedLinkOutcome::Malformed);
    assert!(!links.connections_changed("m9999", 1, state(2, vec![conn(5_000)])));
    assert!(links.connections_changed("m0", 1, state(2, Vec::new())));
    let before = used();
    assert!(links.connections_changed("m0", 1, state(3, vec![conn(100)])));
    assert_eq!(used(), before + CONNECTION + 100);
    links.take_of(&r1);
    assert_eq!(used(), 0);
}

#[test]
fn old_faults_do_not_count() {
    let (links, r1) = (Links::default(), Id::new("r1"));
    links.report(&r1, &reported("l1", "r2", 3), INITIAL, Timestamp(1));
    assert!(links.fault("l1", 2).is_none());
    assert!(links.fault("l2", 0).is_none());
    assert_eq!(links.fault("l1", 3).unwrap().other_end("r1"), &Id::new("r2"));
    assert!(links.all().is_empty() && links.table.read().by_router.is_empty());
}

#[test]
fn state_of_connections_only_goes_forward() {
    let (links, r1) = (Links::default(), Id::new("r1"));
    links.report(&r1, &reported("l1", "r2", 1), INITIAL, Timestamp(1));
    let state = |n| LinkConnState { state_iteration: n, conns: Vec::new() };
    assert!(links.connections_changed("l1", 1, state(2)));
    assert!(!links.connections_changed("l1", 1, state(2)));
    assert!(!links.connections_changed("l1", 2, state(3)));
    assert!(!links.connections_changed("l9", 1, state(3)));
    assert_eq!(links.change("l1", Some(-200_000), Some(true)).unwrap().cost(), 0);
    assert_eq!(links.take_of(&r1).len(), 1);
}

#[test]
fn small_changes_of_latency_do_not_count_for_paths() {
    let (links, r1) = (Links::default(), Id::new("r1"));
    links.report(&r1, &reported("l1", "r2", 1), INITIAL, Timestamp(1));
    let counted = |millis: u64| {
        links.measured(&r1, [("l1", millis * 1_000_000)].into_iter());
        links.measured(&Id::new("r2"), [("l1", millis * 1_000_000)].into_iter());
        links.get("l1").unwrap().counted
    };
    assert_eq!(counted(10), 21);
    assert_eq!(counted(11), 21, "it may be rounding");
    assert_eq!(counted(12), 24, "it counts from the first of both reports");
    assert_eq!(counted(400), 801);
    assert_eq!(counted(410), 801, "some percent are noise");
    assert_eq!(counted(420), 801);
    assert_eq!(counted(430), 861, "but it adds up");
    // A change by an operator counts exactly.
    assert_eq!(links.change("l1", Some(2), None).unwrap().counted, 862);
}

#[test]
fn the_best_link_is_the_cheapest_usable_and_then_the_last() {
    let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
    for (id, from, to) in [("a", &r1, "r2"), ("b", &r2, "r1"), ("c", &r1, "r3"), ("0", &r1, "r2")] {
        links.report(from, &reported(id, to, 1), Duration::ZERO, Timestamp(1));
    }
    let best = |one, other| links.best(one, other).map(|(cost, id)| (cost, id.to_string()));
    assert_eq!(best(&r1, &r2), Some((1, "0".into())));
    links.change("0", None, Some(true));
    assert_eq!(best(&r1, &r2), Some((1, "b".into())));
    assert_eq!(best(&r2, &r1), Some((1, "b".into())));
    links.change("a", Some(0), None);
    assert_eq!(best(&r2, &r1), Some((0, "a".into())));
    assert_eq!(best(&r2, &Id::new("r3")), None);
    assert_eq!(links.neighbours(&r1), [Id::new("r2"), Id::new("r3")]);
    assert_eq!(links.at(&r2).len(), 3);
}

proptest! {
    /// The indexes agree with the table after any changes.
    #[test]
    fn indexes_follow_the_table(
        steps in prop::collection::vec((0u8..4, 0usize..4, 0usize..4, 0usize..6), 0..60),
    ) {
        let links = Links::default();
        let router = |n: usize| Id::new(&format!("r{n}"));
        for (number, (what, from, to, link)) in steps.into_iter().enumerate() {
            let id = format!("l{link}");
            match what {
                0 | 1 => {
                    let link = reported(&id, router(to).as_str(), number as u32 + 1);
                    links.report(&router(from), &link, INITIAL, Timestamp(1));
                }
                2 => drop(links.fault(&id, 0)),
                _ => drop(links.take_of(&router(from))),
            }
            let all = links.all();
            for n in 0..4 {
                let at = router(n);
                let mut own: Vec<_> = links.at(&at).iter().map(|it| it.id.clone()).collect();
                own.sort();
                let mut told: Vec<_> =
                    all.iter().filter(|it| it.has_end(at.as_str())).map(|it| it.id.clone()).collect();
                told.sort();
                prop_assert_eq!(own, told);
                let dialed = all.iter().filter(|it| it.source == at).count();
                let table = links.table.read();
                prop_assert_eq!(table.by_router.get(&at).map_or(0, |ends| ends.dialed), dialed);
            }
        }
    }
}
