//! Single transitions of targets and links. The [`simulator`] plays whole networks.

mod dials;
mod simulator;

use std::rc::Rc;

use weft_config::router::Backoff;

use super::news::{FORGET, MAX_LISTENERS};
use super::target::{AWAITED, FIRST_WAIT, LONGEST_WAIT, STEADY};
use super::*;
use crate::seam::{ControllerId, LinkListener, PeerReport, PeerState};

const KEY: &str = "default->tls:r2->default";

/// A link, and the key that its peer has shown.
#[derive(Clone, Debug)]
struct Opened(Rc<Facts>, &'static str);

impl Handle for Opened {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn prove(&self, keys: &[String]) -> Result<(), String> {
        if keys.iter().any(|key| key == self.1) { Ok(()) } else { Err("another key".into()) }
    }
}

/// The middle of all chances, and ids in order.
struct Even(u32);

impl Random for Even {
    fn fraction(&mut self) -> f64 {
        0.5
    }

    fn link_id(&mut self) -> String {
        self.0 += 1;
        format!("m{}", self.0)
    }
}

/// Router `r1`.
struct Router {
    machine: Machine<Opened>,
    now: Instant,
    numbers: u64,
}

fn dialers() -> Vec<Dialer> {
    vec![Dialer {
        binding: String::new(),
        groups: vec!["default".into()],
        healthy: Backoff::healthy(),
        unhealthy: Backoff::unhealthy(),
    }]
}

fn peer(id: &str, state: PeerState) -> PeerReport {
    let listener = LinkListener {
        address: format!("tls:{id}:6004"),
        protocol: "tls".into(),
        groups: vec!["default".into()],
        local_binding: String::new(),
    };
    let (version, keys) = ("v2.1.0".into(), Vec::new());
    PeerReport { id: id.into(), version, state, listeners: vec![listener], keys }
}

/// Peer r2 with one listener at each of these addresses.
fn peer_at(addresses: &[&str]) -> PeerReport {
    let mut peer = peer("r2", PeerState::Healthy);
    let usual = peer.listeners.remove(0);
    let at = |address: &&str| LinkListener { address: (*address).to_owned(), ..usual.clone() };
    peer.listeners = addresses.iter().map(at).collect();
    peer
}

impl Router {
    fn new() -> Self {
        Self::with((32, 1_000))
    }

    fn with(limits: (usize, usize)) -> Self {
        let now = Instant::now();
        let machine = Machine::new("r1", dialers(), limits, now, Box::new(Even(0)));
        Self { machine, now, numbers: 0 }
    }

    /// A router that dials r2. Its link is m1.
    fn dialing() -> (Self, Dial) {
        let mut router = Self::new();
        router.news("a", peer("r2", PeerState::Healthy));
        let dial = router.dial();
        (router, dial)
    }

    fn step(&mut self, input: Input<Opened>) {
        self.machine.step(self.now, input);
    }

    fn news(&mut self, from: &str, peer: PeerReport) {
        self.step(Input::News { from: from.into(), news: vec![peer] });
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.step(Input::Tick);
    }

    /// The dials that have begun since the last call.
    fn dials(&mut self) -> Vec<Dial> {
        let dials = self.machine.outputs.drain(..).filter_map(|output| match output {
            Output::Dial(dial) => Some(dial),
            _ => None,
        });
        dials.collect()
    }

    fn dial(&mut self) -> Dial {
        let mut dials = self.dials();
        assert_eq!(dials.len(), 1, "{dials:?}");
        dials.remove(0)
    }

    /// Waits for the next dial. Returns the time that has passed.
    fn wait_for_dial(&mut self) -> (Duration, Dial) {
        let before = self.now;
        loop {
            if let Some(dial) = self.dials().pop() {
                return (self.now - before, dial);
            }
            self.now = self.now.max(self.machine.next_wake());
            self.step(Input::Tick);
        }
    }

    fn open(&mut self, id: &str, dialed: Option<&Dial>, is_free: bool) -> u64 {
        self.numbers += 1;
        let facts = Facts {
            number: self.numbers,
            key: dialed.map_or(KEY, |dial| &dial.key).to_owned(),
            id: id.into(),
            peer: "r2".into(),
            iteration: dialed.map_or(1, |dial| dial.iteration),
            dialed: dialed.map(|dial| dial.address.clone()),
            leaf: dialed.is_none().then(|| "leaf".into()),
        };
        self.step(Input::Opened { link: Opened(Rc::new(facts), "old"), is_free });
        self.numbers
    }

    fn dialed(&mut self, dial: &Dial) -> u64 {
        self.open(&dial.link.clone(), Some(dial), true)
    }

    fn accepted(&mut self, id: &str) -> u64 {
        self.open(id, None, true)
    }

    /// The outputs since the last call, as texts.
    fn out(&mut self) -> Vec<String> {
        let text = |output: Output<Opened>| match output {
            Output::Dial(dial) => format!("dial {} {}", dial.link, dial.iteration),
            Output::Reject(link, reason) => format!("reject {}: {}", link.0.id, reason),
            Output::Open(link) => format!("open {}", link.0.id),
            Output::Up(link) => format!("up {} {}", link.0.id, link.0.iteration),
            Output::Duplicate(link) => format!("duplicate {}", link.0.id),
            Output::Close(link, reason) => format!("close {}: {}", link.0.id, reason),
            Output::Withdraw(link) => format!("withdraw {}", link.0.id),
            Output::Fault(link) => format!("fault {} {}", link.0.id, link.0.iteration),
            Output::AskControllers => "ask".into(),
        };
        self.machine.outputs.drain(..).map(text).collect()
    }

    /// True if this link has its key.
    fn is_current(&self, number: u64) -> bool {
        self.machine.current_links().any(|link| link.0.number == number)
    }

    fn is_idle(&self) -> bool {
        self.machine.due.is_empty()
    }
}

#[test]
fn each_event_of_a_state_has_one_row() {
    for (at, row) in TABLE.iter().enumerate() {
        let same = |other: &Row| other.state == row.state && other.event == row.event;
        assert_eq!(TABLE.iter().position(same), Some(at), "{row:?}");
    }
}

#[test]
fn a_link_is_published_before_it_is_reported_and_withdrawn_before_its_fault() {
    let (mut router, dial) = Router::dialing();
    let number = router.dialed(&dial);
    assert_eq!(router.out(), ["open m1", "up m1 1"]);
    router.now += STEADY;
    router.step(Input::Closed(number));
    assert_eq!(router.out(), ["withdraw m1", "fault m1 1", "dial m1 2"]);
}

#[test]
fn both_ends_keep_the_same_of_two_links() {
    // r1 dialed m1, and r2 dialed another link at the same time.
    let (mut one, dial) = Router::dialing();
    one.dialed(&dial);
    one.accepted("z");
    let kept = "reject z: an open link with the same key stays";
    assert_eq!(one.out(), ["open m1", "up m1 1", kept]);
    let (mut two, dial) = Router::dialing();
    let former = two.dialed(&dial);
    let taken = two.accepted("A");
    assert!(two.is_current(taken));
    assert_eq!(two.out(), ["open m1", "up m1 1", "open A", "duplicate m1", "up A 1"]);
    two.pass(Duration::from_secs(59));
    assert!(two.out().is_empty());
    two.pass(Duration::from_secs(1));
    assert_eq!(two.out(), ["close m1: another link took its place"]);
    // The end of the duplicate changes nothing.
    two.step(Input::Closed(former));
    assert_eq!(two.out(), ["withdraw m1", "fault m1 1"]);
    two.accepted("C");
    assert_eq!(two.out(), ["reject C: an open link with the same key stays"]);
}

#[test]
fn a_peer_that_insists_wins_in_the_end() {
    let mut router = Router::new();
    let first = router.accepted("A");
    for _ in 0..5 {
        router.accepted("B");
        assert!(router.is_current(first));
    }
    router.out();
    let second = router.accepted("B");
    assert_eq!(router.out(), ["open B", "duplicate A", "up B 1"]);
    // The link with this id, dialed again in its next iteration.
    let third = router.accepted("B");
    assert!(router.is_current(third));
    assert_eq!(router.out(), ["open B", "close B: the link was dialed anew", "up B 1"]);
    // It is there again, so that its former connection is not reported.
    router.step(Input::Closed(second));
    assert_eq!(router.out(), ["withdraw B"]);
    router.pass(Duration::from_secs(75));
    assert_eq!(router.out(), ["close A: another link took its place"]);
}

#[test]
fn a_link_that_came_while_the_former_one_was_dialed_is_enough() {
    let mut router = Router::with((1, 9));
    router.news("a", peer("r3", PeerState::Healthy));
    router.dial();
    router.news("a", peer("r2", PeerState::Healthy));
    assert!(!router.is_idle(), "the only worker is busy");
    router.accepted("A");
    assert!(router.is_idle());
}

#[test]
fn removed_peers_lose_their_links_and_long_gone_ones_are_forgotten() {
    let (mut router, _) = Router::dialing();
    let number = router.accepted("A");
    router.out();
    router.news("a", peer("r2", PeerState::Removed));
    assert_eq!(router.out(), ["close A: the peer was removed, or has other listeners"]);
    router.step(Input::Closed(number));
    assert!(router.machine.targets.is_empty());

    router.news("a", peer("r3", PeerState::Healthy));
    router.news("a", peer("r3", PeerState::Unhealthy));
    router.pass(FORGET - Duration::from_secs(1));
    assert_eq!(router.machine.peers().count(), 1);
    router.pass(SWEEP);
    assert_eq!((router.machine.peers().count(), router.machine.targets.len()), (0, 0));
}

#[test]
fn a_link_whose_router_has_another_key_is_closed_if_it_was_dialed() {
    let named = |key: &str| PeerReport { keys: vec![key.into()], ..peer("r2", PeerState::Healthy) };
    let closed = "close m1: a controller names other keys of its router than before: another key";
    // The key is named while the link is open, or during the dial.
    for (is_first, expected) in [(true, vec![closed]), (false, vec!["open m1", "up m1 1", closed])]
    {
        let (mut router, dial) = Router::dialing();
        if is_first {
            router.dialed(&dial);
            router.news("a", named("old"));
            router.out();
        }
        router.news("a", named("new"));
        if !is_first {
            router.dialed(&dial);
        }
        assert_eq!(router.out(), expected);
    }
    // Of a router that dialed, controllers are asked. A refusal closes the link.
    let mut router = Router::new();
    router.accepted("A");
    router.out();
    router.news("a", PeerReport { listeners: Vec::new(), ..named("new") });
    assert_eq!(router.out(), ["ask"]);
    let waiting = router.machine.confirmed.awaited(router.now);
    assert_eq!(waiting, [("r2".to_owned(), "leaf".to_owned())]);
    let refused =
        Input::Refused { router: "r2".into(), leaf: "leaf".into(), reason: "unknown".into() };
    router.step(refused);
    assert_eq!(
        router.out(),
        ["close A: a controller refuses the certificate of its router: unknown"]
    );
}

#[test]
fn a_refusal_that_comes_between_hello_and_link_refuses_the_link() {
    let mut router = Router::new();
    let (id, leaf) = (|| "r2".to_owned(), || "leaf".to_owned());
    router.step(Input::Confirmed { router: id(), leaf: leaf() });
    assert!(router.machine.confirmed.accept_unasked("r2", "leaf", router.now));
    router.step(Input::Refused { router: id(), leaf: leaf(), reason: String::new() });
    router.accepted("A");
    assert_eq!(
        router.out(),
        ["reject A: a controller refuses the certificate of its router: it was accepted before"]
    );
    assert!(!router.machine.confirmed.accept_unasked("r2", "leaf", router.now));
}

#[test]
fn the_id_of_another_routers_link_or_of_an_end_is_refused_and_changes_nothing() {
    let mut router = Router::new();
    let number = router.accepted("A");
    router.out();
    let facts = Facts {
        number: 77,
        peer: "liar".into(),
        key: "liar".into(),
        ..Facts::clone(&router.machine.links().next().unwrap().0)
    };
    router.step(Input::Opened { link: Opened(Rc::new(facts), ""), is_free: true });
    router.open("end", None, false);
    assert_eq!(router.out(), ["reject A: its id is in use", "reject end: its id is in use"]);
    assert!(router.is_current(number) && router.machine.links().len() == 1);
}

#[test]
fn one_router_opens_few_links() {
    let mut router = Router::new();
    for number in 0..200 {
        router.accepted(&format!("{:03}", 200 - number));
    }
    assert_eq!(router.machine.links().len(), 64);
    let out = router.out();
    let is_refused = |text: &&String| text.ends_with("has as many links as it may");
    assert_eq!(out.iter().filter(is_refused).count(), 136);
}

#[test]
fn a_controllers_fault_closes_this_dial_of_the_link_and_no_later_one() {
    let (mut router, dial) = Router::dialing();
    router.step(Input::DialFailed(dial));
    let (_, dial) = router.wait_for_dial();
    router.dialed(&dial);
    router.out();
    let fault = |id: &str, iteration| Input::Fault { id: id.into(), iteration };
    router.step(fault("m1", 1));
    router.step(fault("unknown", 0));
    assert!(router.out().is_empty());
    router.step(fault("m1", 2));
    router.step(fault("m1", 0));
    assert_eq!(router.out(), ["close m1: a controller reports that the link broke"]);
}

#[test]
fn a_router_that_shuts_down_closes_its_links_and_makes_none() {
    let (mut router, dial) = Router::dialing();
    let number = router.accepted("A");
    router.out();
    router.step(Input::ShutDown);
    assert_eq!(router.out(), ["close A: the router is shutting down"]);
    router.step(Input::Closed(number));
    router.dialed(&dial);
    assert_eq!(router.out(), ["withdraw A", "fault A 1", "reject m1: the router is shutting down"]);
    router.pass(Duration::from_secs(3_600));
    assert!(router.out().is_empty());
}
