//! The times and the ends of dials.

use super::*;

#[test]
fn other_dialers_want_other_links_and_leave_those_that_are_open() {
    let (mut router, dial) = Router::dialing();
    let number = router.dialed(&dial);
    router.step(Input::Dialers(Vec::new()));
    assert!(router.is_current(number));
    // When the link ends it is not dialed again, until a dialer for it is set.
    router.step(Input::Closed(number));
    assert_eq!(router.out(), ["open m1", "up m1 1", "withdraw m1", "fault m1 1"]);
    router.step(Input::Dialers(dialers()));
    assert_eq!(router.dial().key, KEY);
}

#[test]
fn a_dial_that_ends_after_its_router_was_removed_makes_no_link() {
    let (mut router, dial) = Router::dialing();
    router.news("a", peer("r2", PeerState::Removed));
    router.dialed(&dial);
    let rejected = "reject m1: the router, or its listener or dialer for this link, was removed during the dial";
    assert_eq!(router.out(), [rejected]);
    // The next target for the same address has another id.
    router.news("a", peer("r2", PeerState::Healthy));
    let next = router.dial();
    router.dialed(&dial);
    assert_eq!(router.out(), [rejected]);
    router.dialed(&next);
    assert_eq!(router.out(), ["open m2", "up m2 1"]);
}

#[test]
fn a_peer_that_closes_every_link_is_not_dialed_without_a_pause() {
    let (mut router, mut dial) = Router::dialing();
    let mut waits = Vec::new();
    for _ in 0..12 {
        let number = router.dialed(&dial);
        router.dials();
        router.step(Input::Closed(number));
        let (wait, next) = router.wait_for_dial();
        waits.push(wait);
        dial = next;
    }
    assert_eq!(waits[0], Duration::ZERO, "a link that breaks is back at once");
    assert!(waits.is_sorted() && waits[1] == FIRST_WAIT && waits[11] == LONGEST_WAIT);
    let number = router.dialed(&dial);
    router.dials();
    router.now += STEADY;
    router.step(Input::Closed(number));
    assert_eq!(router.wait_for_dial().0, Duration::ZERO, "it has been steady since");
}

#[test]
fn a_peer_is_dialed_and_again_after_a_growing_wait() {
    let mut router = Router::new();
    router.news("a", peer("r1", PeerState::Healthy));
    assert!(router.is_idle() && router.dials().is_empty(), "oneself is not dialed");
    router.news("a", peer("r2", PeerState::Healthy));
    let dial = router.dial();
    assert_eq!((dial.link.as_str(), dial.iteration, dial.key.as_str()), ("m1", 1, KEY));
    router.step(Input::DialFailed(dial));
    let (wait, dial) = router.wait_for_dial();
    assert_eq!((wait, dial.link.as_str(), dial.iteration), (Duration::from_secs(5), "m1", 2));
    router.step(Input::DialFailed(dial));
    assert_eq!(router.machine.next_wake(), router.now + Duration::from_millis(7500));
    // The router connects to a controller again: the dial begins at once.
    router.news("a", peer("r2", PeerState::Unhealthy));
    assert!(router.dials().is_empty());
    router.news("a", peer("r2", PeerState::Healthy));
    assert_eq!(router.dial().iteration, 3);
}

#[test]
fn a_lost_link_is_dialed_often_while_its_circuits_wait() {
    let (mut router, dial) = Router::dialing();
    let number = router.dialed(&dial);
    router.now += STEADY;
    let lost = router.now;
    router.step(Input::Closed(number));
    let mut dial = router.dial();
    let mut dials = vec![Duration::ZERO];
    while router.now < lost + AWAITED {
        // A router that has taken the id of the link makes no difference.
        match dials.len() % 2 {
            0 => _ = router.open("m1", Some(&dial), false),
            _ => router.step(Input::DialFailed(dial)),
        }
        (_, dial) = router.wait_for_dial();
        dials.push(router.now - lost);
    }
    router.step(Input::DialFailed(dial));
    assert_eq!(router.wait_for_dial().0, Duration::from_secs(5), "then as usual");
    dials.pop();
    assert_eq!(dials[..3], [0, 50, 150].map(Duration::from_millis));
    assert!(dials.windows(2).all(|two| two[1] - two[0] <= LONGEST_WAIT), "{dials:?}");
    assert!(dials.last().unwrap() > &Duration::from_secs(4) && dials.len() < 12, "{dials:?}");
}

#[test]
fn a_peer_is_healthy_while_any_controller_says_so() {
    let mut router = Router::new();
    let healthy = || peer("r2", PeerState::Healthy);
    let unhealthy = || peer("r2", PeerState::Unhealthy);
    router.news("a", healthy());
    let dial = router.dial();
    // Another controller has lost the peer, or never had it.
    router.news("b", unhealthy());
    router.step(Input::DialFailed(dial));
    assert_eq!(router.wait_for_dial().0, Backoff::healthy().min);
    router.pass(FORGET);
    assert_eq!(router.machine.peers().collect::<Vec<_>>(), [("r2", "v2.1.0", true)]);
    router.news("b", healthy());
    router.news("a", unhealthy());
    router.pass(FORGET);
    assert_eq!(router.machine.peers().count(), 1);
    router.news("b", unhealthy());
    router.pass(FORGET);
    assert_eq!(router.machine.peers().count(), 0);
}

#[test]
fn more_dials_than_may_wait_come_later() {
    let mut router = Router::with((1, 2));
    let news = ["r2", "r3", "r4", "r5"].map(|id| peer(id, PeerState::Healthy)).to_vec();
    router.step(Input::News { from: "a".into(), news });
    let mut begun = 0;
    while let Some(dial) = router.dials().pop() {
        router.step(Input::DialFailed(dial));
        begun += 1;
    }
    assert_eq!(begun, 3);
    assert_eq!(router.wait_for_dial().0, Duration::from_secs(5));
}

#[test]
fn listeners_with_one_key_make_one_link_and_are_dialed_in_turn() {
    let mut router = Router::new();
    let mut both = peer_at(&["tls:r2:6004", "tls:r2:7000"]);
    router.news("a", both.clone());
    let mut dial = router.dial();
    let mut dialed = Vec::new();
    for _ in 0..3 {
        dialed.push(dial.address.clone());
        router.step(Input::DialFailed(dial));
        (_, dial) = router.wait_for_dial();
    }
    assert_eq!(dialed, ["tls:r2:6004", "tls:r2:7000", "tls:r2:6004"]);
    router.dialed(&dial);
    router.out();
    // The link stays whatever the order of the listeners, and while the one that it leads to is there.
    router.news("a", both.clone());
    both.listeners.reverse();
    router.news("a", both.clone());
    both.listeners.truncate(1);
    assert_eq!(both.listeners[0].address, dial.address);
    router.news("a", both.clone());
    assert!(router.out().is_empty());
    router.news("a", peer_at(&["tls:r2:6004"]));
    assert_eq!(router.out(), ["close m1: the peer was removed, or has other listeners"]);
}

#[test]
fn few_addresses_of_one_router_are_dialed() {
    let mut router = Router::new();
    let mut many = peer("r2", PeerState::Healthy);
    let listener = many.listeners[0].clone();
    let at = |port: u32| LinkListener { local_binding: format!("eth{port}"), ..listener.clone() };
    many.listeners = (0..1_000).map(at).collect();
    router.news("a", many);
    assert_eq!(router.machine.targets.len(), MAX_LISTENERS);
}

#[test]
fn another_address_closes_the_link_to_the_old_one() {
    let (mut router, dial) = Router::dialing();
    let number = router.dialed(&dial);
    router.out();
    router.news("a", peer_at(&["tls:elsewhere:6004"]));
    assert_eq!(router.out(), ["close m1: the peer was removed, or has other listeners"]);
    router.step(Input::Closed(number));
    assert_eq!(router.dial().address, "tls:elsewhere:6004");
    // A router without listeners is not dialed.
    router.news("a", peer_at(&[]));
    assert!(router.machine.targets.is_empty());
}

#[test]
fn a_dial_to_an_address_that_was_given_up_makes_no_link() {
    let (mut router, dial) = Router::dialing();
    router.news("a", peer_at(&["tls:elsewhere:6004", "tls:other:6004"]));
    router.dialed(&dial);
    let given_up = "reject m1: the peer gave up the dialed address during the dial";
    // The first of the new addresses is dialed at once.
    let dialed = router.machine.dialing;
    assert_eq!((router.out(), dialed), (vec![given_up.into(), "dial m1 2".into()], 1));
    // The same if the dial to the former address fails.
    let dial = Dial { iteration: 2, address: "tls:elsewhere:6004".into(), ..dial };
    router.news("a", peer_at(&["tls:other:6004", "tls:r2:6004"]));
    router.step(Input::DialFailed(dial));
    let dial = router.dial();
    assert_eq!((dial.address.as_str(), dial.iteration), ("tls:other:6004", 3));
    router.dialed(&dial);
    assert_eq!(router.out(), ["open m1", "up m1 3"]);
}

#[test]
fn a_dial_to_an_address_that_is_there_again_or_beside_others_makes_a_link() {
    let (mut router, dial) = Router::dialing();
    router.news("a", peer_at(&["tls:elsewhere:6004"]));
    router.news("a", peer_at(&["tls:elsewhere:6004", "tls:r2:6004"]));
    router.dialed(&dial);
    assert_eq!(router.out(), ["open m1", "up m1 1"]);
    // The link counts as one to the address that was dialed.
    router.news("a", peer_at(&["tls:r2:6004"]));
    assert!(router.out().is_empty());
    router.news("a", peer_at(&["tls:elsewhere:6004"]));
    assert_eq!(router.out().len(), 1);
}

#[test]
fn the_end_of_a_dial_says_nothing_of_the_target_that_took_the_place_of_its_own() {
    let (mut router, former) = Router::dialing();
    router.news("a", peer_at(&[]));
    router.news("a", peer_at(&["tls:r2:6004"]));
    assert_eq!(router.dial().link, "m2");
    router.step(Input::DialFailed(former));
    assert!(router.is_idle(), "the dial of m2 is under way");
}

#[test]
fn other_keys_of_a_router_are_tried_at_once_and_no_controller_without_keys_takes_them_away() {
    let mut router = Router::new();
    let peer = |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        PeerReport { keys, ..peer("r2", PeerState::Healthy) }
    };
    router.news("a", peer(&["old"]));
    let dial = router.dial();
    assert_eq!(dial.keys, ["old"]);
    router.step(Input::DialFailed(dial));
    assert!(router.dials().is_empty(), "it waits");
    router.news("a", peer(&["new"]));
    let dial = router.dial();
    assert_eq!(dial.keys, ["new"]);
    router.step(Input::DialFailed(dial));
    router.news("b", peer(&[]));
    assert!(router.dials().is_empty(), "nothing is new");
    // The controller that named them does not hear the router any more.
    router.news("a", PeerReport { state: PeerState::Unhealthy, ..peer(&[]) });
    router.news("b", peer(&[]));
    assert_eq!(router.dial().keys, Vec::<String>::new());
}
