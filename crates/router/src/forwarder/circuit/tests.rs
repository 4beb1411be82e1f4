//! The entries of a circuit: how they change, and what is kept of former ones.

use weft_wire::ctrl::REROUTE_ATTEMPT;

use super::routes::{AHEAD_FOR, LEFT, LEFT_FOR};
use super::*;
use crate::forwarder::{Circuit, Outlet};

fn entry(source: &str, destination: &str) -> ForwardingEntry {
    ForwardingEntry { source: source.into(), destination: destination.into() }
}

fn outlet() -> Arc<Outlet> {
    Outlet::new(weft_limits::Budget::unlimited())
}

#[test]
fn entries_are_replaced_by_source_and_can_be_put_back() {
    let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
    let to_link = |id: &str| (id == "link").then(|| Arc::clone(&link));
    let before = circuit.set_entries(0, &[entry("a", "b"), entry("b", "a")], to_link, 0);
    assert!(before.entries.is_empty());
    let before = circuit.set_entries(REROUTE_ATTEMPT, &[entry("a", "link")], to_link, 0);
    assert_eq!(circuit.next("a").as_deref(), Some("link"));
    assert_eq!(circuit.next("b").as_deref(), Some("a"));
    assert!(Arc::ptr_eq(&circuit.hop("link").unwrap().outlet(), &link));
    circuit.restore_entries(before, |_| None);
    assert_eq!(circuit.next("a").as_deref(), Some("b"));
    assert_eq!(circuit.next("x"), None);
    assert!(circuit.hop("link").is_none());
}

#[test]
fn what_waits_for_a_link_moves_to_the_one_that_takes_its_place() {
    let (circuit, one, other) = (Circuit::new("c", "ctrl".into()), outlet(), outlet());
    let links = |id: &str| match id {
        "one" => Some(Arc::clone(&one)),
        "other" => Some(Arc::clone(&other)),
        _ => None,
    };
    circuit.set_entries(0, &[entry("end", "one"), entry("one", "end")], links, 0);
    let hop = circuit.hop("one").unwrap();
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "other"), entry("other", "end")], links, 0);
    assert!(circuit.hop("one").is_none());
    assert!(Arc::ptr_eq(&circuit.hop("other").unwrap(), &hop));
    assert!(Arc::ptr_eq(&hop.outlet(), &other));
    // Payloads that were on their way over the former link still arrive.
    assert_eq!(circuit.next("one").as_deref(), Some("end"));
    assert_eq!(&*circuit.links(), ["other".into()]);
}

/// A payload in the queue of a hop.
fn payload(sequence: i32) -> weft_wire::Message {
    let payload = weft_wire::payload::Payload { sequence, ..Default::default() };
    payload.into_message("c")
}

#[test]
fn a_route_that_is_taken_back_leaves_what_was_queued() {
    let (circuit, one, two) = (Circuit::new("c", "ctrl".into()), outlet(), outlet());
    let links = |id: &str| match id {
        "one" => Some(Arc::clone(&one)),
        "two" => Some(Arc::clone(&two)),
        _ => None,
    };
    circuit.set_entries(0, &[entry("end", "one"), entry("one", "end")], links, 0);
    let hop = circuit.hop("one").unwrap();
    hop.push(weft_xgress::Class::Payload, 1, payload(1));
    let moved = [entry("end", "two"), entry("two", "end")];
    let before = circuit.set_entries(0, &moved, links, 0);
    assert!(Arc::ptr_eq(&hop.outlet(), &two));
    // The first link has closed and come back meanwhile.
    let again = outlet();
    circuit.restore_entries(before, |id| (id == "one").then(|| Arc::clone(&again)));
    assert!(Arc::ptr_eq(&circuit.hop("one").unwrap(), &hop) && circuit.hop("two").is_none());
    assert!(Arc::ptr_eq(&hop.outlet(), &again) && hop.has_messages());
    assert_eq!((circuit.next("end").as_deref(), circuit.next("two")), (Some("one"), None));
}

#[test]
fn a_way_that_was_left_is_forgotten_after_a_while() {
    let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
    let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
    circuit.set_entries(0, &[entry("end", "one"), entry("one", "end")], links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "other"), entry("other", "end")], links, 0);
    circuit.forget(LEFT_FOR - 1);
    assert_eq!(circuit.next("one").as_deref(), Some("end"), "payloads still arrive");
    let generation = circuit.generation();
    circuit.forget(LEFT_FOR);
    assert_eq!(circuit.next("one"), None);
    assert_ne!(circuit.generation(), generation, "looked-up places are looked up again");
    assert_eq!(circuit.next("end").as_deref(), Some("other"));
    assert_eq!(circuit.next("other").as_deref(), Some("end"));
    // An entry that is used again is not forgotten.
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "one"), entry("one", "end")], links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "other"), entry("other", "end")], links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "one"), entry("one", "end")], links, 0);
    circuit.forget(LEFT_FOR);
    assert_eq!(circuit.next("one").as_deref(), Some("end"));
    assert_eq!(circuit.next("other"), None);
}

#[test]
fn a_circuit_moves_back_to_a_link_in_two_steps() {
    let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
    let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
    circuit.set_entries(0, &[entry("end", "one"), entry("one", "end")], links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("other", "end")], links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "other")], links, 0);
    // It moves back before the entry was forgotten, and entries are forgotten between the two steps.
    let back = LEFT_FOR * 3 / 2;
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("one", "end")], links, back);
    circuit.forget(back + LEFT_FOR);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", "one")], links, back + LEFT_FOR);
    assert_eq!(circuit.next("one").as_deref(), Some("end"));
    // What was sent over the link that it has left arrives for as long as after any other move.
    circuit.forget(back + LEFT_FOR * 2 - 1);
    assert_eq!(circuit.next("other").as_deref(), Some("end"));
    circuit.forget(back + LEFT_FOR * 2);
    assert_eq!(circuit.next("other"), None);
    assert_eq!(circuit.next("one").as_deref(), Some("end"));
}

#[test]
fn a_move_that_stops_after_its_first_step_leaves_no_way_for_ever() {
    let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
    let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
    circuit.set_entries(0, &[entry("end", "one"), entry("one", "end")], links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("other", "end")], links, 0);
    circuit.forget(AHEAD_FOR);
    assert_eq!(circuit.next("other"), None);
    assert_eq!(circuit.next("one").as_deref(), Some("end"));
}

#[test]
fn of_many_left_entries_the_one_that_was_just_named_stays() {
    let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
    let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
    circuit.set_entries(0, &[entry("end", "l0"), entry("l0", "end")], links, 0);
    for number in 1..=LEFT {
        let to = format!("l{number}");
        circuit.set_entries(REROUTE_ATTEMPT, &[entry(&to, "end")], links, 0);
        circuit.set_entries(REROUTE_ATTEMPT, &[entry("end", &to)], links, 0);
    }
    // The oldest of the entries that were left is named again, and then another one beside it.
    for to in ["l0", "new"] {
        circuit.set_entries(REROUTE_ATTEMPT, &[entry(to, "end")], links, 0);
    }
    let next = |link: &str| circuit.next(link);
    assert_eq!((next("l0").as_deref(), next("new").as_deref()), (Some("end"), Some("end")));
    assert_eq!((next("l1"), next("l2")), (None, Some("end".into())));
}

#[test]
fn in_transit_each_direction_keeps_what_waits_for_it() {
    let (circuit, a, b, c) = (Circuit::new("c", "ctrl".into()), outlet(), outlet(), outlet());
    let links = |id: &str| match id {
        "a" => Some(Arc::clone(&a)),
        "b" => Some(Arc::clone(&b)),
        "c" => Some(Arc::clone(&c)),
        _ => None,
    };
    circuit.set_entries(0, &[entry("a", "b"), entry("b", "a")], links, 0);
    let (to_a, to_b) = (circuit.hop("a").unwrap(), circuit.hop("b").unwrap());
    // The path comes in over another link now, and leaves over the same link as before.
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("c", "b"), entry("b", "c")], links, 0);
    assert!(Arc::ptr_eq(&circuit.hop("b").unwrap(), &to_b));
    assert!(Arc::ptr_eq(&circuit.hop("c").unwrap(), &to_a));
    assert!(Arc::ptr_eq(&to_a.outlet(), &c));
    assert_eq!(circuit.next("a").as_deref(), Some("b"));
}

/// Outlets of links that are named by single letters.
fn links(names: &[&str]) -> impl Fn(&str) -> Option<Arc<Outlet>> + use<> {
    let all: Vec<_> = names.iter().map(|name| ((*name).to_owned(), outlet())).collect();
    move |id| all.iter().find(|(name, _)| name == id).map(|(_, outlet)| Arc::clone(outlet))
}

/// A payload of one of the ends.
fn of_end(sequence: i32, is_host: bool) -> weft_wire::Message {
    use weft_wire::payload::{Flags, Payload};
    let flags = if is_host { Flags::ORIGINATOR } else { Flags::NONE };
    Payload { sequence, flags, ..Payload::default() }.into_message("c")
}

fn push(circuit: &Circuit, link: &str, sequence: i32, is_host: bool) {
    let message = of_end(sequence, is_host);
    circuit.hop(link).unwrap().push(weft_xgress::Class::Payload, sequence, message);
}

/// The payloads that wait for a link.
fn waiting(circuit: &Circuit, link: &str) -> Vec<i32> {
    let taken = circuit.hop(link).unwrap().take_out(|_| true);
    let mut queue = weft_xgress::TransitQueue::new(&weft_limits::Budget::unlimited());
    queue.put_first(taken);
    std::iter::from_fn(|| queue.pop()).map(|one| one.sequence).collect()
}

/// The entries between two links.
fn pair(one: &str, other: &str) -> [ForwardingEntry; 2] {
    [entry(one, other), entry(other, one)]
}

#[test]
fn in_transit_over_two_other_links_what_is_queued_moves_with_the_first_message() {
    let (circuit, links) = (Circuit::new("c", "ctrl".into()), links(&["a", "b", "c", "d"]));
    circuit.set_entries(0, &pair("a", "b"), &links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &pair("c", "d"), &links, 0);
    for sequence in 0..3 {
        push(&circuit, "b", sequence, false);
        push(&circuit, "a", sequence + 10, true);
    }
    push(&circuit, "d", 3, false);
    // Messages over the former links, and control messages, say nothing.
    circuit.comes_over("a", Some(false));
    circuit.comes_over("c", None);
    assert!(circuit.hop("b").unwrap().has_messages() && circuit.hop("a").unwrap().has_messages());
    circuit.comes_over("d", Some(true));
    assert_eq!(waiting(&circuit, "d"), [0, 1, 2, 3]);
    assert_eq!(waiting(&circuit, "c"), [10, 11, 12]);
    assert!(!circuit.has_waiting());
    // Payloads that are still on their way over the former links go on over them.
    assert_eq!(circuit.next("a").as_deref(), Some("b"));
    push(&circuit, "b", 4, false);
    circuit.comes_over("c", Some(false));
    assert_eq!(waiting(&circuit, "b"), [4]);
}

#[test]
fn in_another_position_what_is_queued_goes_the_way_of_its_direction() {
    let (circuit, links) = (Circuit::new("c", "ctrl".into()), links(&["a", "b", "c"]));
    circuit.set_entries(0, &pair("a", "b"), &links, 0);
    // The host is behind b.
    push(&circuit, "b", 0, false);
    push(&circuit, "a", 10, true);
    // From now on the dialer is behind b, and the host behind c.
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("c", "b")], &links, 0);
    circuit.comes_over("c", Some(true));
    circuit.set_entries(REROUTE_ATTEMPT, &[entry("b", "c")], &links, 0);
    circuit.comes_over("c", Some(true));
    assert_eq!((waiting(&circuit, "c"), waiting(&circuit, "b")), (vec![0], vec![10]));
    assert_eq!(&*circuit.links(), ["b".into(), "c".into()]);
}

#[test]
fn links_that_nothing_goes_over_any_more_are_forgotten_with_what_is_queued() {
    let (circuit, links) = (Circuit::new("c", "ctrl".into()), links(&["a", "b", "c", "d"]));
    circuit.set_entries(0, &pair("a", "b"), &links, 0);
    push(&circuit, "b", 0, false);
    circuit.forget(500);
    circuit.set_entries(REROUTE_ATTEMPT, &pair("c", "d"), &links, 1000);
    let former = circuit.hop("b").unwrap();
    let late = AHEAD_FOR + 1000;
    // The move may have failed: while nothing comes over the new links, the former ones stay.
    circuit.forget(late);
    circuit.forget(late + AHEAD_FOR);
    assert_eq!(circuit.links().len(), 4);
    push(&circuit, "d", 1, false);
    circuit.forget(late + 2 * AHEAD_FOR);
    assert_eq!((circuit.next("a"), circuit.next("b")), (None, None));
    assert_eq!(circuit.next("c").as_deref(), Some("d"));
    assert_eq!(circuit.links().len(), 2);
    assert_eq!((former.bytes(), waiting(&circuit, "d")), (0, vec![1]));
}

#[test]
fn links_of_a_move_that_has_failed_are_forgotten_once_the_circuit_goes_on() {
    let (circuit, links) = (Circuit::new("c", "ctrl".into()), links(&["a", "b", "c", "d"]));
    circuit.set_entries(0, &pair("a", "b"), &links, 0);
    circuit.set_entries(REROUTE_ATTEMPT, &pair("c", "d"), &links, 1000);
    push(&circuit, "b", 0, false);
    circuit.forget(AHEAD_FOR + 999);
    assert_eq!(circuit.next("c").as_deref(), Some("d"), "it may be moved yet");
    push(&circuit, "a", 1, true);
    circuit.forget(AHEAD_FOR + 1000);
    assert_eq!((circuit.next("c"), circuit.next("d")), (None, None));
    assert_eq!(circuit.next("a").as_deref(), Some("b"));
}

#[test]
fn a_circuit_that_is_moved_again_and_again_remembers_few_links() {
    let names: Vec<String> = (0..200).map(|number| format!("l{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (circuit, links) = (Circuit::new("c", "ctrl".into()), links(&names));
    circuit.set_entries(0, &pair("l0", "l1"), &links, 0);
    push(&circuit, "l1", 0, false);
    for moved in names.chunks(2).skip(1) {
        let new = pair(moved[0], moved[1]);
        circuit.set_entries(REROUTE_ATTEMPT, &new, &links, 1000);
        circuit.forget_surplus(&new, 1000);
    }
    assert_eq!(circuit.links().len(), 2 * (LEFT + 1));
    assert_eq!(circuit.next("l198").as_deref(), Some("l199"));
    assert_eq!(circuit.next("l0").as_deref(), Some("l1"), "the only one that was ever used");
}
