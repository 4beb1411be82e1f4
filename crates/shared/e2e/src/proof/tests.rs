use bytes::Bytes;
use proptest::prelude::*;

use super::messages::{Full, Kind, unsigned};
use super::*;
use crate::{KeyPair, Tag};

/// An end for tests: its statement is its name and the print of its key.
struct Made {
    key: EndKey,
    statement: String,
}

impl Made {
    fn new(name: &str) -> Self {
        let key = EndKey::generate().unwrap();
        let statement = format!("{name} {}", hex::encode(print(key.public())));
        Self { key, statement }
    }

    fn end(&self) -> ProvingEnd<'_> {
        ProvingEnd { key: &self.key, statement: &self.statement }
    }
}

/// Accepts statements about an end of this name.
fn of(name: &str) -> impl Fn(&str) -> Result<AcceptedStatement<String>, String> {
    move |statement| {
        let (stated, print) = statement.split_once(' ').ok_or("no statement")?;
        if stated != name {
            return Err(format!("it is about {stated}"));
        }
        let print = hex::decode(print).map_err(|error| error.to_string())?;
        Ok(AcceptedStatement { print: print.try_into().unwrap(), peer: stated.to_owned() })
    }
}

/// A connection: the keys of the agreement, as both ends have them.
struct Line {
    dialer: KeyPair,
    host: KeyPair,
    at_dialer: ConnectionKeys,
    at_host: ConnectionKeys,
    fresh: [u8; FRESH],
}

impl Line {
    fn new() -> Self {
        let mut rng = rand::rng();
        let (dialer, host) =
            (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
        let at_dialer = dialer.client_session(&host.public_key()).unwrap();
        let at_host = host.server_session(&dialer.public_key()).unwrap();
        Self { dialer, host, at_dialer, at_host, fresh: rand::random() }
    }

    fn facts(&self) -> ExchangeFacts<'_> {
        let (dialer, host) = (self.dialer.public_key(), self.host.public_key());
        ExchangeFacts { service: "s1", circuit: "c1", dialer, host, fresh: self.fresh }
    }

    /// The keys of the agreement, as an end has them.
    fn keys(&self, of_dialer: bool) -> &ConnectionKeys {
        if of_dialer { &self.at_dialer } else { &self.at_host }
    }

    /// The end that speaks first, and its message.
    fn first(&self, order: Order, end: ProvingEnd<'_>) -> (Speaker<'_>, Bytes) {
        let facts = self.facts();
        let (first, said) = match order {
            Order::DialerFirst => First::of_dialer(&facts, end).unwrap(),
            Order::HostFirst => First::of_host(&facts, end).unwrap(),
        };
        let keys = self.keys(order == Order::DialerFirst);
        (Speaker { first, facts, keys }, said)
    }

    /// The other end.
    fn second<'a>(&'a self, order: Order, end: &'a Made) -> Hearer<'a> {
        let keys = self.keys(order == Order::HostFirst);
        Hearer { order, second: Second { facts: self.facts(), end: end.end(), keys } }
    }

    /// The end of a host that has met the dialer, and its greeting.
    fn greets(&self, memory: &PeerMemory<String>) -> (Brief<String>, Met) {
        let host = Brief::of_host(&self.facts(), &self.at_host, memory.clone()).unwrap();
        let met = host.greets();
        (host, met)
    }

    /// What a dialer that has met the host does with its greeting.
    fn dials(
        &self,
        memory: &PeerMemory<String>,
        met: &Met,
    ) -> Result<(Proved<String>, Bytes), ProofError> {
        Brief::of_dialer(&self.facts(), &self.at_dialer, memory.clone()).unwrap().dials(met)
    }
}

/// Which end speaks first: Alice, who dials, or Bob, who hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    DialerFirst,
    HostFirst,
}

impl Order {
    const BOTH: [Self; 2] = [Self::DialerFirst, Self::HostFirst];

    /// What there is of both ends, that of the one that speaks first in front.
    fn of<T>(self, dialer: T, host: T) -> (T, T) {
        match self {
            Self::DialerFirst => (dialer, host),
            Self::HostFirst => (host, dialer),
        }
    }
}

/// The end that has spoken first.
struct Speaker<'a> {
    first: First,
    facts: ExchangeFacts<'a>,
    keys: &'a ConnectionKeys,
}

impl Speaker<'_> {
    fn take(self, message: &[u8], name: &str) -> Result<Proved<String>, ProofError> {
        self.first.take(&self.facts, self.keys, message, of(name))
    }
}

/// The end that answers.
#[derive(Clone, Copy)]
struct Hearer<'a> {
    order: Order,
    second: Second<'a>,
}

impl<'a> Hearer<'a> {
    fn take(&self, message: &[u8], name: &str) -> Result<(Proved<String>, Bytes), ProofError> {
        match self.order {
            Order::DialerFirst => self.second.hears_dialer(message, of(name)),
            Order::HostFirst => self.second.hears_host(message, of(name)),
        }
    }

    /// The same end of a connection about which it knows something else.
    fn with(self, facts: ExchangeFacts<'a>) -> Self {
        Self { second: Second { facts, ..self.second }, ..self }
    }
}

/// What both ends have after an exchange: at the dialer, and at the host.
type Both = (Proved<String>, Proved<String>);

fn full(line: &Line, alice: &Made, bob: &Made) -> Both {
    full_in(Order::HostFirst, line, alice, bob)
}

fn full_in(order: Order, line: &Line, alice: &Made, bob: &Made) -> Both {
    let ((one, other), names) = (order.of(alice, bob), order.of("alice", "bob"));
    let (first, said) = line.first(order, one.end());
    let (at_second, said) = line.second(order, other).take(&said, names.0).unwrap();
    let at_first = first.take(&said, names.1).unwrap();
    order.of(at_first, at_second)
}

/// Checks that both directions work.
fn talk((mut dialer, mut host): Both) {
    let sealed = dialer.sealer.seal(b"question", Tag::Push).unwrap();
    assert_eq!(host.opener.open(&sealed).unwrap().plaintext, &b"question"[..]);
    let sealed = host.sealer.seal(b"answer", Tag::Push).unwrap();
    assert_eq!(dialer.opener.open(&sealed).unwrap().plaintext, &b"answer"[..]);
}

#[test]
fn ends_prove_themselves_and_briefly_when_they_meet_again() {
    let (alice, bob) = (Made::new("alice"), Made::new("bob"));
    for order in Order::BOTH {
        let both = full_in(order, &Line::new(), &alice, &bob);
        assert_eq!((&*both.0.memory.peer, &*both.1.memory.peer), ("bob", "alice"));
        let (known, kept) = (both.0.memory.clone(), both.1.memory.clone());
        assert_eq!(known.name, kept.name);
        assert!(!both.0.again && !both.1.again);
        talk(both);

        let line = Line::new();
        let (host, met) = line.greets(&kept);
        assert_eq!(met.name, known.name);
        let (at_dialer, said) = line.dials(&known, &met).unwrap();
        assert_eq!(said.len(), MAC);
        let at_host = host.hosts(&said).unwrap();
        assert!(at_dialer.again && at_host.again);
        assert_eq!((&*at_dialer.memory.peer, &*at_host.memory.peer), ("bob", "alice"));
        talk((at_dialer, at_host));
    }
}

/// A router that agrees on keys with both ends by itself, and passes their proofs on.
#[test]
fn a_router_that_answers_both_ends_itself_is_found_out() {
    let (alice, bob) = (Made::new("alice"), Made::new("bob"));
    let (towards_alice, towards_bob) = (Line::new(), Line::new());
    for order in Order::BOTH {
        let ((one, other), names) = (order.of(&alice, &bob), order.of("alice", "bob"));
        let (towards_one, towards_other) = order.of(&towards_alice, &towards_bob);
        let (first, said) = towards_one.first(order, one.end());
        let passed_on = towards_other.second(order, other).take(&said, names.0);
        assert_eq!(passed_on.unwrap_err(), ProofError::Forged);
        // It has nothing to answer the first end: another connection's proof of the other one is of no use.
        let (_, of_another) = towards_other.first(order, one.end());
        let answered = towards_other.second(order, other).take(&of_another, names.0);
        let answer = answered.unwrap().1;
        assert_eq!(first.take(&answer, names.1).unwrap_err(), ProofError::Forged);
    }
    // The same for ends that have met.
    let both = full(&Line::new(), &alice, &bob);
    let (known, kept) = (both.0.memory, both.1.memory);
    let (host, met) = towards_bob.greets(&kept);
    assert_eq!(towards_alice.dials(&known, &met).unwrap_err(), ProofError::Forged);
    let (_, said) = towards_alice.dials(&known, &towards_alice.greets(&kept).1).unwrap();
    assert_eq!(host.hosts(&said).unwrap_err(), ProofError::Forged);
}

/// A router that has recorded a connection opens it once more at the host, whose keys of the agreement may be those of
/// before: a host has one key pair for each listener.
#[test]
fn what_was_recorded_proves_nothing_and_is_not_opened_once_more() {
    let (alice, bob) = (Made::new("alice"), Made::new("bob"));
    let recorded = Line::new();
    let (_, said) = recorded.first(Order::DialerFirst, alice.end());
    let (_, hosts) = recorded.first(Order::HostFirst, bob.end());
    let (_, answer) = recorded.second(Order::HostFirst, &alice).take(&hosts, "bob").unwrap();
    let both = full(&recorded, &alice, &bob);
    // A host that speaks first says another ML-KEM key each time, also if its fresh bytes were the same.
    let (host, _) = recorded.first(Order::HostFirst, bob.end());
    assert_eq!(host.take(&answer, "alice").unwrap_err(), ProofError::Forged);
    let again = Line { fresh: [9; FRESH], ..recorded };
    let taken = again.second(Order::DialerFirst, &bob).take(&said, "alice");
    assert_eq!(taken.unwrap_err(), ProofError::Forged);
    let (host, _) = again.first(Order::HostFirst, bob.end());
    assert_eq!(host.take(&answer, "alice").unwrap_err(), ProofError::Forged);
    // The same for ends that have met.
    let recorded = Line { fresh: [7; FRESH], ..again };
    let (host, met) = recorded.greets(&both.1.memory);
    let (mut at_dialer, said) = recorded.dials(&both.0.memory, &met).unwrap();
    let order = at_dialer.sealer.seal(b"pay 100 EUR", Tag::Push).unwrap();
    assert!(host.hosts(&said).unwrap().opener.open(&order).is_ok());
    let again = Line { fresh: [9; FRESH], ..recorded };
    let (host, other) = again.greets(&both.1.memory);
    assert_eq!(host.hosts(&said).unwrap_err(), ProofError::Forged);
    // Nor if it is told both proofs of now.
    let (_, said) = again.dials(&both.0.memory, &other).unwrap();
    let mut at_host = again.greets(&both.1.memory).0.hosts(&said).unwrap();
    assert!(at_host.opener.open(&order).is_err());
}

#[test]
fn what_is_sent_back_or_of_another_circuit_or_end_proves_nothing() {
    let (alice, bob, mallory) = (Made::new("alice"), Made::new("bob"), Made::new("mallory"));
    let line = Line::new();
    let other = ExchangeFacts { circuit: "c2", ..line.facts() };
    let service = ExchangeFacts { service: "s2", ..line.facts() };
    for order in Order::BOTH {
        let ((one, two), names) = (order.of(&alice, &bob), order.of("alice", "bob"));
        let (first, said) = line.first(order, one.end());
        let back = first.take(&said, names.0);
        assert!(matches!(back, Err(ProofError::Form(_))), "its own message");
        let second = line.second(order, two);
        let about = second.take(&said, "mallory").unwrap_err();
        assert_eq!(about, ProofError::Statement(format!("it is about {}", names.0)));
        let elsewhere = second.with(other).take(&said, names.0);
        assert_eq!(elsewhere.unwrap_err(), ProofError::Circuit);
        let elsewhere = second.with(service).take(&said, names.0);
        assert_eq!(elsewhere.unwrap_err(), ProofError::Forged);
        // An old router tells no circuit.
        let unknown = ExchangeFacts { circuit: "", ..line.facts() };
        assert!(second.with(unknown).take(&said, names.0).is_ok());
        // Somebody else's statement is no use without its key.
        let stolen = ProvingEnd { key: &mallory.key, statement: &one.statement };
        let (_, said) = line.first(order, stolen);
        assert_eq!(second.take(&said, names.0).unwrap_err(), ProofError::Key);
    }
    // What an end says is no proof in the other order.
    for order in Order::BOTH {
        let ((one, two), names) = (order.of(&alice, &bob), order.of("alice", "bob"));
        let turned = Order::BOTH.into_iter().find(|it| *it != order).unwrap();
        let (_, said) = line.first(order, one.end());
        let (_, answer) = line.second(order, two).take(&said, names.0).unwrap();
        let heard = line.second(turned, one).take(&answer, names.1);
        assert!(matches!(heard, Err(ProofError::Form(_))));
        let (first, _) = line.first(turned, two.end());
        assert!(matches!(first.take(&said, names.0), Err(ProofError::Form(_))));
    }

    // The same for ends that have met.
    let (at_dialer, at_host) = full(&line, &alice, &bob);
    let (known, kept) = (at_dialer.memory, at_host.memory);
    let (host, met) = line.greets(&kept);
    for facts in [other, service] {
        let elsewhere = Brief::of_dialer(&facts, &line.at_dialer, known.clone()).unwrap();
        assert_eq!(elsewhere.dials(&met).unwrap_err(), ProofError::Forged);
    }
    assert_eq!(host.hosts(&met.mac).unwrap_err(), ProofError::Forged, "its own MAC");
    let (_, said) = line.dials(&known, &met).unwrap();
    for facts in [other, service] {
        let elsewhere = Brief::of_host(&facts, &line.at_host, kept.clone()).unwrap();
        assert_eq!(elsewhere.hosts(&said).unwrap_err(), ProofError::Forged);
    }
    // Another meeting of the same ends.
    let (_, at_host) = full(&line, &alice, &bob);
    let (_, met) = line.greets(&at_host.memory);
    assert_eq!(line.dials(&known, &met).unwrap_err(), ProofError::Forged);
}

#[test]
fn nothing_in_a_proof_can_be_changed() {
    let (alice, bob) = (Made::new("alice"), Made::new("bob"));
    let line = Line::new();
    for order in Order::BOTH {
        let ((one, other), names) = (order.of(&alice, &bob), order.of("alice", "bob"));
        let (first, said) = line.first(order, one.end());
        let second = line.second(order, other);
        let (_, answer) = second.take(&said, names.0).unwrap();
        assert!(first.take(&answer, names.1).is_ok());
        for at in 0..said.len() {
            let mut changed = said.to_vec();
            changed[at] ^= 1;
            assert!(second.take(&changed, names.0).is_err(), "byte {at}");
        }
        // An answer is to one first message, whose keys are new each time: any other end refuses it unchanged.
        for at in (0..answer.len()).step_by(5) {
            let (first, said) = line.first(order, one.end());
            let (_, answer) = second.take(&said, names.0).unwrap();
            let mut changed = answer.to_vec();
            changed[at] ^= 1;
            assert!(first.take(&changed, names.1).is_err(), "byte {at}");
        }
    }
    let (at_dialer, at_host) = full(&line, &alice, &bob);
    for at in 0..MAC {
        let (host, mut met) = line.greets(&at_host.memory);
        let mut said = line.dials(&at_dialer.memory, &met).unwrap().1.to_vec();
        said[at] ^= 1;
        assert_eq!(host.hosts(&said).unwrap_err(), ProofError::Forged, "byte {at}");
        met.mac[at] ^= 1;
        let dialed = line.dials(&at_dialer.memory, &met);
        assert_eq!(dialed.unwrap_err(), ProofError::Forged, "byte {at}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(kind in 0u8..6, rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [&[kind][..], &rest].concat();
        for kind in [Kind::Dialer, Kind::Host, Kind::FirstHost, Kind::SecondDialer] {
            let _ = Full::read(kind, &bytes);
        }
    }

    #[test]
    fn what_is_written_is_read(circuit in "[a-z]{0,9}", sent in prop::collection::vec(any::<u8>(), 0..200)) {
        let made = Made::new("alice");
        let said = unsigned(Kind::Host, &circuit, made.end(), &sent);
        let signed = said.signed().to_vec();
        let said = said.with(b"signature");
        let full = Full::read(Kind::Host, &said).unwrap();
        prop_assert_eq!((full.circuit, full.statement), (&*circuit, &*made.statement));
        prop_assert_eq!((full.key, full.sent), (made.key.public(), &sent[..]));
        prop_assert_eq!((full.signature, full.signed), (&b"signature"[..], &signed[..]));
        prop_assert!(Full::read(Kind::Dialer, &said).is_err());
        for end in 0..said.len() {
            prop_assert!(Full::read(Kind::Host, &said[..end]).is_err());
        }
    }
}
