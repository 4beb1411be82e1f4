//! Networks to which one thing happens after the other, chosen from what has gone wrong before.

use std::time::Duration;

use weft_simulator::{Event, Host, Kind, Layout, Summary, play};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wait(time: u64) -> Event {
    Event::Wait { time: seconds(time) }
}

fn dial(router: &str) -> Event {
    dial_as(router, false)
}

fn dial_as(router: &str, chooses_id: bool) -> Event {
    Event::Dial { router: router.into(), service: "mail".into(), controller: 0, chooses_id }
}

fn restart(router: &str, time: u64) -> Event {
    Event::Restart { router: router.into(), time: seconds(time) }
}

fn cut_off(router: &str, time: u64) -> Event {
    Event::CutOff { router: router.into(), controller: 0, time: seconds(time) }
}

fn unplug(link: &str, time: u64) -> Event {
    Event::Unplug { link: link.into(), time: seconds(time) }
}

/// Plays the events for each mix of the two programs in a mesh of routers, the last of which hosts.
fn play_mixed(routers: usize, links: &[(usize, usize)], events: &[Event], survivors: usize) {
    play_hosted(routers, links, &[routers], events, survivors);
}

/// Plays the events for each mix of the two programs in a mesh of routers, some of which host.
fn play_hosted(
    routers: usize,
    links: &[(usize, usize)],
    hosts: &[usize],
    events: &[Event],
    survivors: usize,
) {
    let hosts: Vec<String> = hosts.iter().map(|host| format!("r{host}")).collect();
    for mix in 0..1_u32 << routers {
        let kind = |at: usize| match mix >> at & 1 {
            0 => Kind::Weft,
            _ => Kind::Original,
        };
        let kinds: Vec<Kind> = (0..routers).map(kind).collect();
        let services = vec![("mail".to_owned(), hosts.clone())];
        let layout = Layout { services, ..Layout::of(&kinds, links) };
        let Summary { survived, events: happened, .. } = match play(&layout, events) {
            Ok(summary) => summary,
            Err(violation) => {
                panic!("{kinds:?}: {} {:#?}", violation.rule, violation.summary.events)
            }
        };
        assert_eq!(survived, survivors, "{kinds:?} {happened:#?}");
    }
}

/// A ring of three routers.
const RING: [(usize, usize); 3] = [(1, 2), (2, 3), (1, 3)];

#[test]
fn a_circuit_lives_while_the_router_at_its_end_is_not_heard() {
    let events = [dial("r1"), wait(3), cut_off("r1", 50), wait(5), unplug("r1-r3-2", 3), wait(60)];
    play_mixed(3, &RING, &events, 1);
}

#[test]
fn a_transit_is_lost_after_a_restart_of_the_controller() {
    let links = [(1, 2), (2, 4), (1, 3), (3, 4)];
    let controller = Event::RestartController { controller: 0, time: seconds(2) };
    let events =
        [dial("r1"), dial("r1"), wait(3), controller, wait(15), restart("r2", 20), wait(30)];
    play_mixed(4, &links, &events, 2);
    let controller = Event::RestartController { controller: 0, time: seconds(10) };
    let events = [dial("r1"), dial("r1"), wait(3), restart("r2", 60), controller, wait(60)];
    play_mixed(4, &links, &events, 2);
}

#[test]
fn a_transit_is_frozen() {
    let links = [(1, 2), (2, 4), (1, 3), (3, 4)];
    let freeze = Event::Freeze { router: "r2".into(), time: seconds(14) };
    let events = [dial("r1"), dial("r4"), wait(3), freeze, wait(1), unplug("r1-r2-0", 5), wait(30)];
    play_mixed(4, &links, &events, 2);
}

#[test]
fn a_router_at_an_end_has_restarted_and_its_circuit_moves_to_it_at_once() {
    // The link to the router is there again before the controller knows what the router carries.
    for router in ["r1", "r3"] {
        let events = [dial("r1"), wait(3), restart(router, 1), wait(30)];
        play_mixed(3, &RING, &events, 0);
    }
}

#[test]
fn a_link_is_back_while_the_controller_gets_no_answer_of_the_router_that_dials_it() {
    let links = [(1, 2)];
    let stall = Event::Stall { router: "r1".into(), controller: 0, time: seconds(34) };
    let events =
        [dial("r1"), wait(3), stall, wait(7), Event::Break { link: "r1-r2-0".into() }, wait(60)];
    play_mixed(2, &links, &events, 1);
}

#[test]
fn a_silent_host_leaves_nothing() {
    let host = Event::Hosts { router: "r3".into(), host: Host::IsSilent };
    let events = [host, dial("r1"), wait(2), dial("r2"), wait(60)];
    play_mixed(3, &RING, &events, 0);
}

#[test]
fn the_answer_of_an_end_to_a_move_is_lost_with_its_channel() {
    // The other end sends over the new path from then on, which the controller does not know.
    let slow = Event::Slow { router: "r3".into(), time: seconds(3) };
    let link = unplug("r1-r3-2", 1);
    let events = [dial("r1"), wait(3), slow, link, wait(5), cut_off("r3", 45), wait(130)];
    play_mixed(3, &RING, &events, 1);
}

#[test]
fn the_only_router_between_the_ends_answers_late() {
    let slow = Event::Slow { router: "r2".into(), time: seconds(11) };
    let events = [dial("r1"), wait(3), slow, unplug("r1-r2-0", 150), wait(70)];
    play_mixed(3, &[(1, 2), (1, 2), (2, 3)], &events, 1);
}

#[test]
fn a_link_is_back_while_a_router_between_the_ends_is_not_heard() {
    let events =
        [dial("r1"), wait(3), cut_off("r2", 120), wait(2), unplug("r1-r2-0", 30), wait(130)];
    play_mixed(3, &[(1, 2), (2, 3)], &events, 1);
}

#[test]
fn a_router_of_a_failed_attempt_hears_late_that_it_has_failed() {
    // The nearer host is dialed first, and its router is not heard. The circuit to the other one has the same id.
    let slow = Event::Slow { router: "r2".into(), time: seconds(4) };
    let stall = Event::Stall { router: "r2".into(), controller: 0, time: seconds(15) };
    let events = [slow, wait(2), dial_as("r1", true), wait(2), stall, wait(60)];
    play_hosted(4, &[(1, 2), (1, 3), (3, 4)], &[2, 4], &events, 1);
}

#[test]
fn a_router_at_an_end_restarts_between_the_two_steps_of_a_move() {
    // It has been told no way to its end since it started: the second step is about the way from there.
    let slow = Event::Slow { router: "r1".into(), time: seconds(4) };
    let moment = Event::Wait { time: Duration::from_millis(500) };
    let link = unplug("r1-r3-0", 60);
    let dials = std::iter::repeat_n(dial("r3"), 5);
    let then = [wait(3), slow, link, moment, restart("r3", 1), wait(60)];
    let events: Vec<Event> = dials.chain(then).collect();
    play_hosted(3, &[(1, 3), (1, 2), (2, 3)], &[1], &events, 0);
}

#[test]
fn circuits_that_wait_for_a_slow_router_need_it_no_more() {
    // Between its two late answers a link is back over which they go without it.
    let slow = Event::Slow { router: "r2".into(), time: seconds(12) };
    let dials = std::iter::repeat_n(dial("r1"), 5);
    let link = unplug("r1-r3-0", 18);
    let events: Vec<Event> = dials.chain([wait(3), slow, link, wait(120)]).collect();
    play_mixed(3, &[(1, 3), (1, 2), (2, 3)], &events, 5);
}

#[test]
fn the_answer_to_a_move_is_lost_long_after_the_circuit_has_lost_its_path() {
    // Its payloads take the new path, which the controller does not know.
    let slow = Event::Slow { router: "r1".into(), time: seconds(4) };
    let moment = Event::Wait { time: Duration::from_millis(12_500) };
    let (host, link) = (cut_off("r3", 6), unplug("r1-r3-2", 150));
    let events = [dial("r1"), wait(3), slow, host, link, moment, cut_off("r1", 35), wait(130)];
    play_mixed(3, &RING, &events, 1);
}

#[test]
fn a_link_is_away_while_a_router_tells_a_new_controller_what_it_carries() {
    // The router at one end is not heard. In the list of a router of the original, a link that is away looks like an
    // end that has closed.
    let stall = Event::Stall { router: "r1".into(), controller: 0, time: seconds(34) };
    let controller = Event::RestartController { controller: 0, time: seconds(2) };
    let link = unplug("r1-r2-0", 8);
    let events = [dial("r1"), wait(3), stall, wait(1), controller, link, wait(120)];
    play_mixed(2, &[(1, 2)], &events, 1);
    play_mixed(3, &[(1, 2), (2, 3)], &events, 1);
}

#[test]
fn a_router_tells_that_it_carries_a_circuit_while_the_circuit_moves_around_it() {
    // A new controller has heard the ends only. The other way is free a moment later.
    let (cost, slow) = (
        Event::Cost { link: "r1-r3-2".into(), cost: 50 },
        Event::Slow { router: "r3".into(), time: seconds(8) },
    );
    let controller = Event::RestartController { controller: 0, time: seconds(2) };
    let agree = Event::Agree { within: seconds(25) };
    let events =
        [cost, dial("r1"), wait(3), slow, cut_off("r2", 14), controller, wait(25), agree, wait(5)];
    play_mixed(4, &[(1, 2), (2, 4), (1, 3), (3, 4)], &events, 1);
}

#[test]
fn a_link_is_back_while_one_end_is_not_heard_and_the_router_that_dials_it_does_not_answer() {
    let stall = Event::Stall { router: "r3".into(), controller: 0, time: seconds(29) };
    let link = Event::Break { link: "r3-r2-1".into() };
    let events = [dial("r1"), wait(3), stall, wait(16), link, wait(1), cut_off("r2", 30), wait(60)];
    play_hosted(3, &[(1, 3), (3, 2)], &[2], &events, 1);
}

#[test]
fn a_router_reports_stray_payloads_of_a_circuit_that_is_being_moved_to_it() {
    // One end sends over the new path already when a link of that path goes away: the circuit is told the path again.
    for moment in 0..15 {
        let slow = |router: &str| Event::Slow { router: router.into(), time: seconds(9) };
        let events = [
            Event::Cost { link: "r1-r4-2".into(), cost: 50 },
            dial("r1"),
            wait(3 + moment),
            slow("r1"),
            slow("r3"),
            unplug("r1-r2-0", 200),
            wait(5),
            unplug("r4-r3-3", 8),
            wait(38),
            Event::Agree { within: seconds(4) },
            wait(60),
        ];
        play_hosted(4, &[(1, 2), (2, 3), (1, 4), (4, 3)], &[3], &events, 1);
    }
}

#[test]
fn the_router_of_the_host_restarts_while_the_router_of_the_dialer_has_not_answered() {
    // It has said that it carries nothing before the circuit is made.
    let slow = Event::Slow { router: "r1".into(), time: seconds(7) };
    let moment = Event::Wait { time: Duration::from_millis(600) };
    let agree = Event::Agree { within: seconds(5) };
    let events = [slow, wait(2), dial("r1"), moment, restart("r2", 1), wait(12), agree];
    play_mixed(2, &[(1, 2)], &events, 0);
}
