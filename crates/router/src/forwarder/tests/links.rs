//! Links that close while circuits are led over them.

use tokio_util::sync::CancellationToken;
use weft_xgress::Class;

use super::super::circuit::ForwardingEntry;
use super::done::ways;
use super::idle::{self, written};
use super::*;

fn link(id: &str, iteration: u32) -> Arc<Link> {
    let outlet = Outlet::new(Budget::unlimited());
    Arc::new(Link { id: id.into(), peer: "peer".into(), iteration, outlet })
}

#[test]
fn a_route_over_a_link_that_has_closed_is_refused_with_the_dial_that_closed() {
    let (forwarder, control) = heard();
    let refused = |id: &str| {
        let path = ways(("in", ForwardKind::Start), (id, ForwardKind::Link));
        let refused = attempt(&forwarder, 0).unwrap().route(&path).unwrap_err();
        assert_eq!(refused.code, RouteErrorCode::InvalidLinkDestination);
    };
    refused("unknown");
    let (known, next) = (link("known", 4), link("known", 5));
    assert!(forwarder.register_link(&known));
    forwarder.unregister_link(&known);
    refused("known");
    // The end of the fourth dial is noticed after that of the fifth.
    assert!(forwarder.register_link(&next));
    forwarder.unregister_link(&next);
    forwarder.unregister_link(&known);
    refused("known");
    let faults = control.1.lock();
    assert_eq!(*faults, [("unknown".into(), 0), ("known".into(), 4), ("known".into(), 5)]);
}

#[test]
fn a_link_that_closes_while_a_route_is_set_takes_the_circuit_when_it_is_back() {
    let (forwarder, _) = heard();
    let first = link("link", 1);
    assert!(forwarder.register_link(&first));
    let set_up = attempt(&forwarder, 0).unwrap();
    let circuit = set_up.circuit();
    // The steps of a route, between which the link closes.
    let entry = ForwardingEntry { source: "in".into(), destination: "link".into() };
    circuit.set_entries(0, &[entry], |_| Some(Arc::clone(&first.outlet)), 0);
    forwarder.unregister_link(&first);
    forwarder.goes_over(circuit, &[], std::slice::from_ref(&first));
    assert_eq!(forwarder.circuits_over("link"), 1);
    let again = link("link", 2);
    assert!(forwarder.register_link(&again));
    assert!(Arc::ptr_eq(&circuit.hop("link").unwrap().outlet(), &again.outlet));
}

/// A payload for the other end, as an SDK with flow control of its own sends it.
fn payload(sequence: i32) -> Message {
    payload::Payload { sequence, ..payload::Payload::default() }.into_message("circuit")
}

/// A router that lies opens a link with the id of another router's, which is open, or is away while circuits wait.
#[test]
fn a_link_with_the_id_of_another_routers_is_noticed_before_it_is_registered() {
    let (forwarder, _) = heard();
    let of = |peer: &str, iteration: u32| {
        let outlet = Outlet::new(Budget::unlimited());
        Arc::new(Link { id: "link".into(), peer: peer.into(), iteration, outlet })
    };
    let (honest, lie, again) = (of("honest", 1), of("liar", 1), of("honest", 2));
    for link in [&honest, &lie] {
        assert!(forwarder.may_register(link));
    }
    assert!(forwarder.register_link(&honest));
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("in", ForwardKind::Start), ("link", ForwardKind::Link))).unwrap();
    for _ in 0..2 {
        assert!(!forwarder.may_register(&lie));
        assert!(!forwarder.register_link(&lie));
        assert!(forwarder.may_register(&again));
        forwarder.unregister_link(&honest);
    }
    unroute(&forwarder, true);
    assert!(forwarder.may_register(&lie));
}

/// Both links of a router between the ends change while payloads wait for the former ones.
#[test]
fn what_waits_for_former_links_goes_with_the_first_message_over_a_new_one() {
    let (forwarder, _) = heard();
    let [_a, mut b, _c, mut d] = ["a", "b", "c", "d"].map(|id| idle::link(&forwarder, id));
    let between = |one: &str, other: &str| {
        let set_up = match one {
            "a" => attempt(&forwarder, 0).unwrap(),
            _ => reroute(&forwarder),
        };
        set_up.route(&ways((one, ForwardKind::Link), (other, ForwardKind::Link))).unwrap();
    };
    let arrives = |over: &str, sequence: i32| {
        let link = forwarder.link(over).unwrap();
        Arrivals::new(Arc::clone(&forwarder), &link, Arc::default()).take(payload(sequence));
    };
    between("a", "b");
    arrives("a", 1);
    between("c", "d");
    arrives("c", 2);
    let sequences = |connection: &mut DataOutbox| -> Vec<i32> {
        let sent = written(connection).into_iter();
        sent.map(|message| payload::Payload::from_message(&message).unwrap().sequence).collect()
    };
    assert_eq!((sequences(&mut b), sequences(&mut d)), (vec![], vec![1, 2]));
}

/// Leads the circuit over two links, both of which are there.
fn lead_over(forwarder: &Arc<Forwarder>, number: u32, [one, other]: [&str; 2]) {
    for id in [one, other] {
        assert!(forwarder.register_link(&link(id, 1)));
    }
    let set_up = attempt(forwarder, number).unwrap();
    set_up.route(&ways((one, ForwardKind::Link), (other, ForwardKind::Link))).unwrap();
}

#[test]
fn a_circuit_that_is_led_over_ever_other_links_remembers_few() {
    let (forwarder, _) = heard();
    lead_over(&forwarder, 0, ["one 0", "other 0"]);
    for number in 1..50 {
        lead_over(
            &forwarder,
            REROUTE_ATTEMPT,
            [&format!("one {number}"), &format!("other {number}")],
        );
    }
    let circuit = forwarder.circuit("circuit").unwrap();
    assert!(circuit.links().len() < 20, "{}", circuit.links().len());
    assert_eq!((forwarder.circuits_over("one 0"), forwarder.circuits_over("one 49")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_link_that_a_circuit_has_left_is_forgotten_by_a_look_at_idle_circuits() {
    let (forwarder, _) = heard();
    lead_over(&forwarder, 0, ["one", "other"]);
    lead_over(&forwarder, REROUTE_ATTEMPT, ["third", "other"]);
    let circuit = forwarder.circuit("circuit").unwrap();
    let long = Duration::from_secs(3600);
    forwarder.report_idle(long);
    assert_eq!(circuit.next("one").as_deref(), Some("other"), "messages still come");
    tokio::time::advance(Duration::from_secs(11)).await;
    forwarder.report_idle(long);
    assert_eq!((circuit.next("one"), circuit.next("third").as_deref()), (None, Some("other")));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_link_that_is_away_is_reported_as_often_as_the_file_says() {
    /// How often the circuit is reported while the link is away for a minute.
    async fn reports(faults: Duration) -> usize {
        let (forwarder, control) = heard();
        let (first, other) = (link("first", 1), link("other", 1));
        for link in [&first, &other] {
            assert!(forwarder.register_link(link));
        }
        let set_up = attempt(&forwarder, 0).unwrap();
        set_up.route(&ways(("first", ForwardKind::Link), ("other", ForwardKind::Link))).unwrap();
        let never = Duration::ZERO;
        let intervals = ReportIntervals { faults, idle: never, idle_after: never };
        let stop = CancellationToken::new();
        let reporting = tokio::spawn(Arc::clone(&forwarder).report(intervals, stop.clone()));
        let reported = || std::mem::take(&mut *control.2.lock());
        let pass = || tokio::time::sleep(Duration::from_secs(60));
        // A link that is there, whatever waits for it, and one that is away without anything to send.
        set_up.circuit().hop("other").unwrap().push(Class::Payload, 1, payload(1));
        pass().await;
        forwarder.unregister_link(&first);
        pass().await;
        assert_eq!(reported(), [""; 0]);
        forwarder.unregister_link(&other);
        pass().await;
        let found = reported();
        assert!(found.iter().all(|circuit| circuit == "circuit"), "{found:?}");
        assert!(forwarder.register_link(&link("other", 2)));
        pass().await;
        assert_eq!(reported(), [""; 0], "the link is back");
        stop.cancel();
        reporting.await.unwrap();
        found.len()
    }
    assert_eq!(reports(Duration::from_secs(2)).await, 30);
    assert_eq!(reports(Duration::from_secs(15)).await, 4);
    assert_eq!(reports(Duration::ZERO).await, 0);
}

#[test]
fn what_an_end_has_sent_over_a_link_that_is_away_is_reported() {
    let (forwarder, control) = heard();
    let known = link("link", 1);
    assert!(forwarder.register_link(&known));
    let set_up = attempt(&forwarder, 0).unwrap();
    let end = dialed(&forwarder, &set_up, "out");
    set_up.route(&ways(("out", ForwardKind::End), ("link", ForwardKind::Link))).unwrap();
    forwarder.unregister_link(&known);
    let reported = || {
        forwarder.report_faults();
        std::mem::take(&mut *control.2.lock())
    };
    assert_eq!(reported(), [""; 0]);
    end.write("data".into()).unwrap();
    assert_eq!(reported(), ["circuit"]);
}

#[test]
fn what_a_connection_took_and_did_not_write_goes_first_over_the_next_one() {
    let (forwarder, _) = heard();
    let mut connection = idle::link(&forwarder, "link");
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("in", ForwardKind::Start), ("link", ForwardKind::Link))).unwrap();
    let hop = set_up.circuit().hop("link").unwrap();
    hop.push(weft_xgress::Class::Payload, 3, payload(3));
    let back = BackToHops { forwarder: Arc::downgrade(&forwarder), link: "link".into() };
    weft_circuit::Unsent::unsent(&back, vec![payload(1), payload(2)]);
    let sent: Vec<Message> = written(&mut connection);
    assert_eq!(sent, [1, 2, 3].map(payload));
}

/// A route of the same attempt comes twice, the second time over another link, and is taken back because its end
/// has closed. The link of the first one is away meanwhile.
#[test]
fn a_link_that_comes_back_after_a_route_was_taken_back_takes_what_was_queued() {
    let (forwarder, _) = heard();
    let (first, other) = (link("first", 1), link("other", 1));
    for link in [&first, &other] {
        assert!(forwarder.register_link(link));
    }
    let set_up = attempt(&forwarder, 0).unwrap();
    let end = dialed(&forwarder, &set_up, "out");
    let path = |id: &str| ways(("out", ForwardKind::End), (id, ForwardKind::Link));
    set_up.route(&path("first")).unwrap();
    forwarder.unregister_link(&first);
    let hop = set_up.circuit().hop("first").unwrap();
    hop.push(weft_xgress::Class::Payload, 1, payload(1));
    end.abort();
    set_up.route(&path("other")).unwrap_err();
    assert_eq!((forwarder.circuits_over("first"), forwarder.circuits_over("other")), (1, 0));
    let again = link("first", 2);
    let mut port = again.outlet.open(Carries::Payloads, UnderlayWaker::default());
    assert!(forwarder.register_link(&again));
    port.notice();
    let sequences = std::iter::from_fn(|| port.pull(now())).filter_map(|message| {
        payload::Payload::from_message(&message).ok().map(|payload| payload.sequence)
    });
    assert!(sequences.into_iter().any(|sequence| sequence == 1), "what was queued is sent");
    unroute(&forwarder, true);
    assert_eq!(forwarder.circuits_over("first"), 0);
}

/// The rest of an end is carried out when the circuit is back already.
#[test]
fn a_circuit_that_has_come_back_stays_in_the_index_of_its_link() {
    let (forwarder, _) = heard();
    lead_over(&forwarder, 0, ["one", "other"]);
    let former = forwarder.circuit("circuit").unwrap();
    unroute(&forwarder, true);
    lead_over(&forwarder, REROUTE_ATTEMPT, ["one", "other"]);
    forwarder.goes_over(&former, &["one".into(), "other".into()], &[]);
    assert_eq!(["one", "other"].map(|link| forwarder.circuits_over(link)), [1, 1]);
}
