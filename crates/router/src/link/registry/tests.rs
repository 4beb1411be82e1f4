//! The dials of links and their times, and the choice between two links.

use weft_config::router::Backoff;

use super::*;

fn registry() -> Registry {
    let dialer = Dialer {
        binding: String::new(),
        groups: vec!["default".into()],
        healthy: Backoff::healthy(),
        unhealthy: Backoff::unhealthy(),
    };
    Registry::new("r1", vec![dialer])
}

fn peer(id: &str, state: PeerState) -> Peer {
    let listener = LinkListener {
        address: format!("tls:{id}:6004"),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        local_binding: String::new(),
    };
    let (version, keys) = ("v2.1.0".into(), Vec::new());
    Peer { id: id.into(), version, state, listeners: vec![listener], keys }
}

fn ctrl() -> ControllerId {
    "a".into()
}

fn ids() -> impl FnMut() -> String {
    let mut next = 0;
    move || {
        next += 1;
        format!("m{next}")
    }
}

fn link(number: u64, id: &str, is_dialed: bool) -> Candidate {
    let key = "default->tls:r2->default".to_owned();
    let dialed = is_dialed.then(|| "tls:r2:6004".to_owned());
    Candidate { number, key, id: id.into(), iteration: 1, dialed, since: Instant::now() }
}

/// A registry that dials a link of this id.
fn dialing(id: &str, now: Instant) -> Registry {
    let mut registry = registry();
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, || id.to_owned());
    registry.begin_dial(now).unwrap();
    registry
}

#[test]
fn other_dialers_want_other_links_and_leave_those_that_stand() {
    let now = Instant::now();
    let mut registry = dialing("A", now);
    let key = link(1, "A", true).key;
    assert_eq!(registry.register(link(1, "A", true)), Verdict::Taken);
    registry.set_dialers(Vec::new(), now, ids());
    assert!(registry.is_live(&key, 1) && registry.next_due().is_none());
    // When the link ends it is not dialed again, until a dialer for it is set.
    registry.closed(&key, 1, now);
    assert!(registry.next_due().is_none());
    registry.set_dialers(self::registry().dialers, now, ids());
    assert_eq!(registry.begin_dial(now).unwrap().key, key);
}

#[test]
fn a_dial_that_ends_after_its_router_was_removed_makes_no_link() {
    let now = Instant::now();
    let mut registry = dialing("A", now);
    registry.peer(&ctrl(), &peer("r2", PeerState::Removed), now, ids());
    let unwanted = Verdict::Unwanted(REMOVED);
    assert_eq!(registry.register(link(1, "A", true)), unwanted);
    // The next target for the same address has another id.
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, || "B".to_owned());
    assert_eq!(registry.register(link(2, "A", true)), unwanted);
    assert_eq!(registry.register(link(3, "B", true)), Verdict::Taken);
}

#[test]
fn a_peer_that_closes_every_link_is_not_dialed_without_a_pause() {
    let now = Instant::now();
    let mut registry = dialing("A", now);
    let mut waits = Vec::new();
    for number in 0..12 {
        registry.register(link(number, "A", true));
        let ended = Instant::now();
        registry.closed("default->tls:r2->default", number, ended);
        waits.push(registry.next_due().unwrap() - ended);
        registry.begin_dial(ended + LONGEST_WAIT).unwrap();
    }
    assert_eq!(waits[0], Duration::ZERO, "a link that breaks is back at once");
    assert!(waits.is_sorted() && waits[1] == FIRST_WAIT && waits[11] == LONGEST_WAIT);
    registry.register(link(50, "A", true));
    let later = Instant::now() + STEADY;
    registry.closed("default->tls:r2->default", 50, later);
    assert_eq!(registry.next_due(), Some(later), "it has been steady since");
}

#[test]
fn a_peer_is_dialed_and_again_after_a_growing_wait() {
    let (mut registry, now) = (registry(), Instant::now());
    assert!(registry.peer(&ctrl(), &peer("r1", PeerState::Healthy), now, ids()).is_empty());
    assert_eq!(registry.next_due(), None, "oneself is not dialed");
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, ids());
    let dial = registry.begin_dial(now).unwrap();
    assert_eq!(
        (dial.link.as_str(), dial.iteration, dial.key.as_str()),
        ("m1", 1, "default->tls:r2->default")
    );
    assert_eq!(registry.begin_dial(now), None);
    registry.failed(&dial, false, now, 0.5);
    assert_eq!(registry.next_due(), Some(now + Duration::from_secs(5)));
    let dial = registry.begin_dial(now + Duration::from_secs(5)).unwrap();
    assert_eq!((dial.link.as_str(), dial.iteration), ("m1", 2));
    registry.failed(&dial, false, now, 0.5);
    assert_eq!(registry.next_due(), Some(now + Duration::from_millis(7500)));
    // The router connects to a controller again: the dial is due at once.
    registry.peer(&ctrl(), &peer("r2", PeerState::Unhealthy), now, ids());
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, ids());
    assert_eq!(registry.next_due(), Some(now));
}

#[test]
fn a_lost_link_is_dialed_often_while_its_circuits_wait() {
    let now = Instant::now();
    let mut registry = dialing("A", now);
    registry.register(link(1, "A", true));
    let lost = now + STEADY;
    registry.closed("default->tls:r2->default", 1, lost);
    let mut dials = Vec::new();
    loop {
        let at = registry.next_due().unwrap();
        let dial = registry.begin_dial(at).unwrap();
        if at >= lost + AWAITED {
            registry.failed(&dial, false, at, 0.5);
            assert_eq!(registry.next_due(), Some(at + Duration::from_secs(5)), "then as usual");
            break;
        }
        dials.push(at - lost);
        // A peer that has not noticed the end of the link takes the dial for a duplicate.
        registry.failed(&dial, dials.len() % 2 == 0, at, 0.5);
    }
    assert_eq!(dials[..3], [0, 50, 150].map(Duration::from_millis));
    assert!(dials.windows(2).all(|two| two[1] - two[0] <= LONGEST_WAIT), "{dials:?}");
    assert!(dials.last().unwrap() > &Duration::from_secs(4) && dials.len() < 12, "{dials:?}");
}

#[test]
fn both_ends_keep_the_same_of_two_links() {
    let now = Instant::now();
    // r1 dialed A, r2 dialed B, at the same time: both keep A.
    let (mut one, mut two) = (dialing("A", now), dialing("B", now));
    assert_eq!(one.register(link(1, "A", true)), Verdict::Taken);
    assert_eq!(
        one.register(link(2, "B", false)),
        Verdict::Refused { close_after: Duration::from_secs(30) }
    );
    assert_eq!(two.register(link(1, "B", true)), Verdict::Taken);
    let replaces = two.register(link(2, "A", false));
    let close_after = Duration::from_secs(60);
    assert_eq!(
        replaces,
        Verdict::Replaces { number: 1, id: "B".into(), iteration: 1, close_after }
    );
    // The end of the replaced link changes nothing.
    two.closed("default->tls:r2->default", 1, now);
    assert_eq!(
        two.register(link(3, "C", false)),
        Verdict::Refused { close_after: Duration::from_secs(30) }
    );
}

#[test]
fn a_peer_that_insists_wins_in_the_end() {
    let mut registry = registry();
    registry.register(link(1, "A", false));
    for number in 0..5 {
        assert!(matches!(
            registry.register(link(10 + number, "B", false)),
            Verdict::Refused { .. }
        ));
    }
    assert!(matches!(registry.register(link(20, "B", false)), Verdict::Replaces { number: 1, .. }));
    // The link with this id, dialed again in its next iteration.
    assert!(matches!(
        registry.register(link(21, "B", false)),
        Verdict::Replaces { number: 20, .. }
    ));
}

#[test]
fn a_link_that_broke_is_dialed_at_once_and_one_that_came_meanwhile_is_enough() {
    let (mut registry, now) = (registry(), Instant::now());
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, ids());
    let dial = registry.begin_dial(now).unwrap();
    registry.register(link(1, &dial.link, true));
    let later = now + Duration::from_secs(100);
    registry.closed(&dial.key, 1, later);
    assert_eq!(registry.next_due(), Some(later));
    registry.register(link(2, "A", false));
    assert_eq!(registry.next_due(), None);
    assert_eq!(registry.begin_dial(later), None);
}

#[test]
fn removed_peers_lose_their_links_and_long_gone_ones_are_forgotten() {
    let (mut registry, now) = (registry(), Instant::now());
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, ids());
    registry.begin_dial(now).unwrap();
    registry.register(link(1, "A", false));
    assert_eq!(registry.peer(&ctrl(), &peer("r2", PeerState::Removed), now, ids()), [1]);
    assert_eq!(registry.targets().count(), 0);

    registry.peer(&ctrl(), &peer("r3", PeerState::Healthy), now, ids());
    registry.peer(&ctrl(), &peer("r3", PeerState::Unhealthy), now, ids());
    registry.sweep(now + FORGET - Duration::from_secs(1));
    assert_eq!(registry.peers().count(), 1);
    registry.sweep(now + FORGET);
    assert_eq!(
        (registry.peers().count(), registry.targets().count(), registry.next_due()),
        (0, 0, None)
    );
}

#[test]
fn a_peer_is_healthy_while_any_controller_says_so() {
    let (mut registry, now) = (registry(), Instant::now());
    let (ours, other): (ControllerId, ControllerId) = (ctrl(), "b".into());
    let healthy = peer("r2", PeerState::Healthy);
    let unhealthy = peer("r2", PeerState::Unhealthy);
    registry.peer(&ours, &healthy, now, ids());
    let dial = registry.begin_dial(now).unwrap();
    // Another controller has lost the peer, or never had it.
    registry.peer(&other, &unhealthy, now, ids());
    registry.failed(&dial, false, now, 0.5);
    assert_eq!(registry.next_due(), Some(now + Backoff::healthy().min));
    registry.sweep(now + FORGET);
    assert_eq!(registry.peers().collect::<Vec<_>>(), [("r2", "v2.1.0", true)]);
    registry.peer(&other, &healthy, now, ids());
    registry.peer(&ours, &unhealthy, now, ids());
    registry.sweep(now + FORGET);
    assert_eq!(registry.peers().count(), 1);
    registry.peer(&other, &unhealthy, now, ids());
    registry.sweep(now + FORGET);
    assert_eq!(registry.peers().count(), 0);
}

#[test]
fn more_dials_than_may_wait_come_later() {
    let (mut registry, now) = (registry(), Instant::now());
    for id in ["r2", "r3", "r4", "r5"] {
        registry.peer(&ctrl(), &peer(id, PeerState::Healthy), now, ids());
    }
    registry.bound_queue(3, now, || 0.0);
    let mut begun = 0;
    while registry.begin_dial(now).is_some() {
        begun += 1;
    }
    assert_eq!(begun, 3);
    let later = registry.next_due().unwrap();
    assert!(later > now);
    assert!(registry.begin_dial(later).is_some());
}

#[test]
fn listeners_with_one_key_make_one_link_and_are_dialed_in_turn() {
    let (mut registry, now) = (registry(), Instant::now());
    let mut both = peer("r2", PeerState::Healthy);
    let mut second = both.listeners[0].clone();
    second.address = "tls:r2:7000".into();
    both.listeners.push(second);
    assert!(registry.peer(&ctrl(), &both, now, ids()).is_empty());
    let mut at = now;
    let mut dialed = Vec::new();
    for _ in 0..3 {
        at += Duration::from_secs(3600);
        let dial = registry.begin_dial(at).unwrap();
        dialed.push(dial.address.clone());
        registry.failed(&dial, false, at, 0.5);
    }
    assert_eq!(dialed, ["tls:r2:6004", "tls:r2:7000", "tls:r2:6004"]);
    let dial = registry.begin_dial(at + Duration::from_secs(3600)).unwrap();
    let link = Candidate { dialed: Some(dial.address.clone()), ..link(7, &dial.link, true) };
    assert_eq!(registry.register(link), Verdict::Taken);
    // The link stays whatever the order of the listeners, and while the one that it leads to is there.
    assert!(registry.peer(&ctrl(), &both, now, ids()).is_empty());
    both.listeners.reverse();
    assert!(registry.peer(&ctrl(), &both, now, ids()).is_empty());
    both.listeners.truncate(1);
    assert_eq!(both.listeners[0].address, dial.address);
    assert!(registry.peer(&ctrl(), &both, now, ids()).is_empty());
    both.listeners[0].address = "tls:r2:6004".into();
    assert_eq!(registry.peer(&ctrl(), &both, now, ids()), [7]);
}

#[test]
fn few_addresses_of_one_router_are_dialed() {
    let (mut registry, now) = (registry(), Instant::now());
    let mut many = peer("r2", PeerState::Healthy);
    let listener = many.listeners[0].clone();
    many.listeners = (0..1_000)
        .map(|port| LinkListener {
            address: format!("tls:r2:{port}"),
            local_binding: format!("eth{port}"),
            ..listener.clone()
        })
        .collect();
    registry.peer(&ctrl(), &many, now, ids());
    assert_eq!(registry.targets().count(), MAX_LISTENERS);
}

#[test]
fn another_address_closes_the_link_to_the_old_one() {
    let (mut registry, now) = (registry(), Instant::now());
    registry.peer(&ctrl(), &peer("r2", PeerState::Healthy), now, ids());
    let dial = registry.begin_dial(now).unwrap();
    registry.register(link(7, &dial.link, true));
    let mut moved = peer("r2", PeerState::Healthy);
    moved.listeners[0].address = "tls:elsewhere:6004".into();
    assert_eq!(registry.peer(&ctrl(), &moved, now, ids()), [7]);
    registry.closed(&dial.key, 7, now);
    assert_eq!(registry.begin_dial(now).unwrap().address, "tls:elsewhere:6004");
    // A router without listeners is not dialed.
    moved.listeners.clear();
    assert!(registry.peer(&ctrl(), &moved, now, ids()).is_empty());
    assert_eq!(registry.targets().count(), 0);
}

/// A peer with one listener at each of these addresses.
fn peer_at(addresses: &[&str]) -> Peer {
    let mut peer = peer("r2", PeerState::Healthy);
    let usual = peer.listeners.remove(0);
    let at = |address: &&str| LinkListener { address: (*address).to_owned(), ..usual.clone() };
    peer.listeners = addresses.iter().map(at).collect();
    peer
}

#[test]
fn a_dial_to_an_address_that_was_given_up_makes_no_link() {
    let now = Instant::now();
    let mut registry = registry();
    registry.peer(&ctrl(), &peer_at(&["tls:r2:6004"]), now, || "A".to_owned());
    let dial = registry.begin_dial(now).unwrap();
    let moved = peer_at(&["tls:elsewhere:6004", "tls:other:6004"]);
    assert!(registry.peer(&ctrl(), &moved, now, ids()).is_empty());
    assert_eq!(registry.register(link(1, "A", true)), Verdict::Unwanted(GIVEN_UP));
    assert!(!registry.is_live(&dial.key, 1));
    // The first of the new addresses is dialed at once.
    registry.failed(&dial, true, now, 0.5);
    let dial = registry.begin_dial(now).unwrap();
    assert_eq!((dial.address.as_str(), dial.iteration), ("tls:elsewhere:6004", 2));
    // The same if the dial to the former address fails.
    registry.peer(&ctrl(), &peer_at(&["tls:other:6004", "tls:r2:6004"]), now, ids());
    registry.failed(&dial, false, now, 0.5);
    let dial = registry.begin_dial(now).unwrap();
    assert_eq!((dial.address.as_str(), dial.iteration), ("tls:other:6004", 3));
    let opened = Candidate { dialed: Some(dial.address), ..link(2, "A", true) };
    assert_eq!(registry.register(opened), Verdict::Taken);
}

#[test]
fn a_dial_to_an_address_that_is_there_again_or_beside_others_makes_a_link() {
    let now = Instant::now();
    let mut registry = dialing("A", now);
    registry.peer(&ctrl(), &peer_at(&["tls:elsewhere:6004"]), now, ids());
    registry.peer(&ctrl(), &peer_at(&["tls:elsewhere:6004", "tls:r2:6004"]), now, ids());
    assert_eq!(registry.register(link(1, "A", true)), Verdict::Taken);
    // The link counts as one to the address that was dialed.
    assert!(registry.peer(&ctrl(), &peer_at(&["tls:r2:6004"]), now, ids()).is_empty());
    assert_eq!(registry.peer(&ctrl(), &peer_at(&["tls:elsewhere:6004"]), now, ids()), [1]);
}

#[test]
fn the_end_of_a_dial_says_nothing_of_the_target_that_took_the_place_of_its_own() {
    let now = Instant::now();
    let mut registry = registry();
    registry.peer(&ctrl(), &peer_at(&["tls:r2:6004"]), now, || "A".to_owned());
    let former = registry.begin_dial(now).unwrap();
    registry.peer(&ctrl(), &peer_at(&[]), now, ids());
    assert_eq!(registry.register(link(1, "A", true)), Verdict::Unwanted(REMOVED));
    registry.peer(&ctrl(), &peer_at(&["tls:r2:6004"]), now, || "B".to_owned());
    registry.begin_dial(now).unwrap();
    registry.failed(&former, false, now, 0.5);
    assert_eq!(registry.next_due(), None, "the dial of B is under way");
}

#[test]
fn other_keys_of_a_router_are_tried_at_once_and_no_controller_without_keys_takes_them_away() {
    let now = Instant::now();
    let mut registry = registry();
    let peer = |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Peer { keys, ..peer("r2", PeerState::Healthy) }
    };
    let other: ControllerId = "b".into();
    registry.peer(&ctrl(), &peer(&["old"]), now, ids());
    let dial = registry.begin_dial(now).unwrap();
    assert_eq!(dial.keys, ["old"]);
    registry.failed(&dial, false, now, 0.5);
    assert!(registry.begin_dial(now).is_none(), "it waits");
    registry.peer(&ctrl(), &peer(&["new"]), now, ids());
    let dial = registry.begin_dial(now).unwrap();
    assert_eq!(dial.keys, ["new"]);
    registry.failed(&dial, false, now, 0.5);
    registry.peer(&other, &peer(&[]), now, ids());
    assert!(registry.begin_dial(now).is_none(), "nothing is new");
    // The controller that named them is not heard of the router any more.
    registry.peer(&ctrl(), &Peer { state: PeerState::Unhealthy, ..peer(&[]) }, now, ids());
    registry.peer(&other, &peer(&[]), now, ids());
    assert_eq!(registry.begin_dial(now).unwrap().keys, Vec::<String>::new());
}
