use proptest::prelude::*;

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

    fn end(&self) -> End<'_> {
        End { key: &self.key, statement: &self.statement }
    }
}

/// Accepts statements about an end of this name.
fn of(name: &str) -> impl Fn(&str) -> Result<Stated<String>, String> {
    move |statement| {
        let (stated, print) = statement.split_once(' ').ok_or("no statement")?;
        if stated != name {
            return Err(format!("it is about {stated}"));
        }
        let print = hex::decode(print).map_err(|error| error.to_string())?;
        Ok(Stated { print: print.try_into().unwrap(), peer: stated.to_owned() })
    }
}

/// A connection: the keys of the agreement, as both ends have them.
struct Line {
    dialer: KeyPair,
    host: KeyPair,
    at_dialer: ConnectionKeys,
    at_host: ConnectionKeys,
}

impl Line {
    fn new() -> Self {
        let mut rng = rand::rng();
        let (dialer, host) =
            (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
        let at_dialer = dialer.client_session(&host.public_key()).unwrap();
        let at_host = host.server_session(&dialer.public_key()).unwrap();
        Self { dialer, host, at_dialer, at_host }
    }

    fn facts(&self) -> Facts<'_> {
        let (dialer, host) = (self.dialer.public_key(), self.host.public_key());
        Facts { service: "s1", circuit: "c1", dialer, host }
    }

    fn host<'a>(&'a self, end: &'a Made) -> Host<'a> {
        Host { facts: self.facts(), end: end.end(), keys: &self.at_host }
    }

    fn dialer<'a>(
        &'a self,
        end: &'a Made,
        memory: Option<Memory<String>>,
    ) -> (Dialer<'a, String>, Bytes) {
        Dialer::new(self.facts(), end.end(), &self.at_dialer, memory).unwrap()
    }
}

/// What both ends have after an exchange: at the dialer, and at the host.
type Both = (Proved<String>, Proved<String>);

fn full(line: &Line, alice: &Made, bob: &Made) -> Both {
    let (dialer, said) = line.dialer(alice, None);
    let AtHost::Proved(at_host, said) = line.host(bob).take(&said, of("alice"), |_| None).unwrap()
    else {
        panic!("nothing was remembered")
    };
    let AtDialer::Proved(at_dialer) = dialer.take(&said, of("bob")).unwrap() else {
        panic!("nothing was remembered")
    };
    (at_dialer, at_host)
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
    let both = full(&Line::new(), &alice, &bob);
    assert_eq!((&*both.0.memory.peer, &*both.1.memory.peer), ("bob", "alice"));
    let (known, kept) = (both.0.memory.clone(), both.1.memory.clone());
    assert_eq!(known.name, kept.name);
    assert!(!both.0.again && !both.1.again);
    talk(both);

    let line = Line::new();
    let (dialer, said) = line.dialer(&alice, Some(known.clone()));
    assert!(said.len() < 100, "{} bytes", said.len());
    let refuses = |_: &str| Err("nobody is asked".to_owned());
    let recalls = |name: &[u8; NAME]| (*name == kept.name).then(|| kept.clone());
    let AtHost::Proved(at_host, said) = line.host(&bob).take(&said, refuses, recalls).unwrap()
    else {
        panic!("it is remembered")
    };
    let AtDialer::Proved(at_dialer) = dialer.take(&said, refuses).unwrap() else {
        panic!("it is remembered")
    };
    assert!(at_dialer.again && at_host.again && at_host.memory.peer == "alice");
    talk((at_dialer, at_host));

    // A host that was restarted.
    let line = Line::new();
    let (dialer, said) = line.dialer(&alice, Some(known));
    let AtHost::Again(said) = line.host(&bob).take(&said, of("alice"), |_| None).unwrap() else {
        panic!("nothing is remembered")
    };
    let AtDialer::Again(dialer, said) = dialer.take(&said, of("bob")).unwrap() else {
        panic!("the host has forgotten")
    };
    let AtHost::Proved(at_host, said) = line.host(&bob).take(&said, of("alice"), |_| None).unwrap()
    else {
        panic!("it is a full proof")
    };
    assert!(matches!(
        dialer.take(&said, of("bob")).unwrap(),
        AtDialer::Proved(proved) if proved.memory.name == at_host.memory.name
    ));
}

/// A router that agrees on keys with both ends by itself, and passes their proofs on.
#[test]
fn a_router_that_answers_both_ends_itself_is_found_out() {
    let (alice, bob) = (Made::new("alice"), Made::new("bob"));
    let (towards_alice, towards_bob) = (Line::new(), Line::new());
    let (dialer, said) = towards_alice.dialer(&alice, None);
    let passed_on = towards_bob.host(&bob).take(&said, of("alice"), |_| None);
    assert_eq!(passed_on.unwrap_err(), ProofError::Forged);
    // It has nothing to answer the dialer: another connection's proof of the host is of no use.
    let (_, other) = towards_bob.dialer(&alice, None);
    let AtHost::Proved(_, answer) =
        towards_bob.host(&bob).take(&other, of("alice"), |_| None).unwrap()
    else {
        panic!("this one is honest")
    };
    assert_eq!(dialer.take(&answer, of("bob")).unwrap_err(), ProofError::Forged);
    // The same for ends that have met.
    let both = full(&Line::new(), &alice, &bob);
    let (dialer, said) = towards_alice.dialer(&alice, Some(both.0.memory.clone()));
    let kept = both.1.memory.clone();
    let passed_on = towards_bob.host(&bob).take(&said, of("alice"), |_| Some(kept.clone()));
    assert_eq!(passed_on.unwrap_err(), ProofError::Forged);
    let (_, other) = towards_bob.dialer(&alice, Some(both.0.memory));
    let AtHost::Proved(_, answer) =
        towards_bob.host(&bob).take(&other, of("alice"), |_| Some(kept)).unwrap()
    else {
        panic!("this one is honest")
    };
    assert_eq!(dialer.take(&answer, of("bob")).unwrap_err(), ProofError::Forged);
}

#[test]
fn what_is_sent_back_or_of_another_circuit_or_end_proves_nothing() {
    let (alice, bob, mallory) = (Made::new("alice"), Made::new("bob"), Made::new("mallory"));
    let line = Line::new();
    let (dialer, said) = line.dialer(&alice, None);
    assert!(matches!(dialer.take(&said, of("alice")), Err(ProofError::Form(_))), "its own message");
    let host = line.host(&bob);
    let about = host.take(&said, of("mallory"), |_| None).unwrap_err();
    assert_eq!(about, ProofError::Statement("it is about alice".into()));
    let other = Facts { circuit: "c2", ..line.facts() };
    let elsewhere = Host { facts: other, ..host }.take(&said, of("alice"), |_| None);
    assert_eq!(elsewhere.unwrap_err(), ProofError::Circuit);
    let other = Facts { service: "s2", ..line.facts() };
    let elsewhere = Host { facts: other, ..host }.take(&said, of("alice"), |_| None);
    assert_eq!(elsewhere.unwrap_err(), ProofError::Forged);
    // An old router tells no circuit.
    let unknown = Facts { circuit: "", ..line.facts() };
    assert!(Host { facts: unknown, ..host }.take(&said, of("alice"), |_| None).is_ok());
    // Somebody else's statement is no use without its key.
    let stolen = End { key: &mallory.key, statement: &alice.statement };
    let (_, said) = Dialer::<String>::new(line.facts(), stolen, &line.at_dialer, None).unwrap();
    assert_eq!(host.take(&said, of("alice"), |_| None).unwrap_err(), ProofError::Key);
}

#[test]
fn nothing_in_a_proof_can_be_changed() {
    let (alice, bob) = (Made::new("alice"), Made::new("bob"));
    let line = Line::new();
    let (_, said) = line.dialer(&alice, None);
    let AtHost::Proved(_, answer) = line.host(&bob).take(&said, of("alice"), |_| None).unwrap()
    else {
        panic!("nothing was remembered")
    };
    for at in 0..said.len() {
        let mut changed = said.to_vec();
        changed[at] ^= 1;
        assert!(line.host(&bob).take(&changed, of("alice"), |_| None).is_err(), "byte {at}");
    }
    for at in 0..answer.len() {
        let (dialer, _) = line.dialer(&alice, None);
        let mut changed = answer.to_vec();
        changed[at] ^= 1;
        assert!(dialer.take(&changed, of("bob")).is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(kind in 0u8..6, rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [&[kind][..], &rest].concat();
        if let Ok(message) = Message::read(&bytes) {
            prop_assert_eq!(&message.to_bytes()[..], &bytes[..]);
        }
    }
}
