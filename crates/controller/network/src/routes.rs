//! Routes: the messages that tell each router on a path its part, and the answers
//! (docs/protocol/control-plane.md 12.3, 12.4).

use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use weft_model::Id;
use weft_model::entity::Terminator;
use weft_paths::path::Path;
use weft_wire::ctrl::route::{Egress, Forward};
use weft_wire::ctrl::{Context, DestType, REROUTE_ATTEMPT, Route, RouteError, RouteResult};
use weft_wire::{PeerData, ProtoBody as _, StringMap};

use super::circuits::Circuit;

/// Log channels in a route, as bits: the selection and the establishment of a path.
const LOG_CHANNELS: u32 = 3;

/// The contents of the routes of one attempt.
#[derive(Debug)]
pub struct RouteSpec<'a> {
    /// The circuit.
    pub circuit: &'a str,
    /// Number of the attempt.
    pub attempt: u32,
    /// The path.
    pub path: &'a Path,
    /// Address of the initiating end.
    pub ingress: &'a str,
    /// Address of the terminating end.
    pub egress: &'a str,
    /// The terminator that the last router dials, with the initiator's peer data; none if it is
    /// dialed already.
    pub dial: Option<(&'a Terminator, &'a PeerData)>,
    /// The time limit of the attempt.
    pub timeout: Duration,
    /// Tags of the circuit.
    pub tags: &'a StringMap,
    /// The term of the controller.
    pub term: u64,
}

impl RouteSpec<'_> {
    /// The route of each router, in the order of the path.
    pub fn routes(&self) -> Vec<(Id, Route)> {
        let hops = hops(self.path, self.ingress, self.egress).enumerate();
        hops.map(|(at, (node, hops))| (node.clone(), self.route(at, hops))).collect()
    }

    fn route(&self, at: usize, hops: [Hop<'_>; 2]) -> Route {
        let is_last = at + 1 == self.path.nodes.len();
        let mut forwards = hops.map(Forward::from).to_vec();
        if is_last && at > 0 {
            // The way back comes first, as peers expect in the route of the last router.
            forwards.reverse();
        }
        let egress = self.dial.filter(|_| is_last).map(|(terminator, peer_data)| Egress {
            binding: terminator.binding.to_string(),
            address: self.egress.to_owned(),
            destination: terminator.address.to_string(),
            peer_data: peer_data.clone(),
        });
        let term = self.term;
        Route {
            egress,
            term,
            ..bare(self.circuit, self.attempt, forwards, self.timeout, self.tags)
        }
    }
}

/// The body of a route that changes the ways of a circuit, without these ways
/// ([`Route::message_with`] adds them).
pub(super) fn reroute(circuit: &Circuit, timeout: Duration) -> Bytes {
    let tags = circuit.tags.to_map();
    let route = bare(&circuit.id, REROUTE_ATTEMPT, Vec::new(), timeout, &tags);
    Route { term: circuit.term, ..route }.to_body()
}

fn bare(
    circuit: &str,
    attempt: u32,
    forwards: Vec<Forward>,
    timeout: Duration,
    tags: &StringMap,
) -> Route {
    let fields = [
        ("circuitId".to_owned(), circuit.to_owned()),
        ("attemptNumber".to_owned(), attempt.to_string()),
    ];
    let mut route = Route {
        circuit_id: circuit.to_owned(),
        attempt,
        egress: None,
        forwards,
        context: Some(Context { fields: fields.into(), channel_mask: LOG_CHANNELS }),
        timeout: 0,
        tags: tags.clone(),
        term: 0,
    };
    route.set_time_left(i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX));
    route
}

/// One forwarding rule of a router: payloads from one address go to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop<'a> {
    /// The address of the source.
    pub from: &'a str,
    /// The address of the destination.
    pub to: &'a str,
    /// The type of the destination.
    pub kind: DestType,
}

/// The forwarding rules of each router on a path, in both directions.
pub(super) fn hops<'a>(
    path: &'a Path,
    ingress: &'a str,
    egress: &'a str,
) -> impl Iterator<Item = (&'a Id, [Hop<'a>; 2])> {
    let last = path.nodes.len().saturating_sub(1);
    let link = move |at: usize| path.links.get(at).map(String::as_str).unwrap_or_default();
    path.nodes.iter().enumerate().map(move |(at, node)| {
        let (before, before_kind) = match at {
            0 => (ingress, DestType::Start),
            _ => (link(at - 1), DestType::Link),
        };
        let (after, after_kind) = match at {
            _ if at == last => (egress, DestType::End),
            _ => (link(at), DestType::Link),
        };
        let there = Hop { from: before, to: after, kind: after_kind };
        (node, [there, Hop { from: after, to: before, kind: before_kind }])
    })
}

impl From<Hop<'_>> for Forward {
    fn from(hop: Hop<'_>) -> Self {
        Self {
            src_address: hop.from.to_owned(),
            dst_address: hop.to.to_owned(),
            dst_type: hop.kind.into(),
        }
    }
}

/// The tasks that wait for answers to routes, by circuit.
#[derive(Debug, Default)]
pub struct PendingAttempts(Mutex<HashMap<String, PendingAttempt>>);

#[derive(Debug)]
struct PendingAttempt {
    attempt: u32,
    routers: Vec<Id>,
    /// Those of the routers that have answered.
    answered: Vec<Id>,
    answers: mpsc::Sender<RouteAnswer>,
}

/// What the task that makes a circuit waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAnswer {
    /// A router has set up its route, with this data, or refuses it.
    Router(Id, Result<PeerData, RouteError>),
    /// The circuit has ended.
    Ended,
}

/// The answers of one attempt; dropping it ends the wait.
#[derive(Debug)]
pub struct Answers<'a> {
    waiting: &'a PendingAttempts,
    circuit: String,
    answers: mpsc::Receiver<RouteAnswer>,
}

/// The use of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerDelivery {
    /// The answer went to the task that waits for it.
    Yes,
    /// The answer belongs to another attempt, or to a router that was not asked or has answered before.
    Ignored,
    /// The circuit is not in the making.
    Nobody,
}

impl PendingAttempts {
    /// Waits for the answers of an attempt from these routers.
    pub fn begin(&self, circuit: &str, attempt: u32, routers: &[Id]) -> Answers<'_> {
        // Each router answers once, and the circuit ends once.
        let (sender, answers) = mpsc::channel(routers.len() + 1);
        let (routers, answered) = (routers.to_vec(), Vec::new());
        let waiter = PendingAttempt { attempt, routers, answered, answers: sender };
        self.0.lock().insert(circuit.to_owned(), waiter);
        Answers { waiting: self, circuit: circuit.to_owned(), answers }
    }

    /// Delivers the answer of a router: the first one, so that a router that answers again and again takes no room
    /// from the answers of others.
    pub fn deliver(&self, router: &Id, result: RouteResult) -> AnswerDelivery {
        let mut waiting = self.0.lock();
        let Some(waiter) = waiting.get_mut(&result.circuit_id) else {
            return AnswerDelivery::Nobody;
        };
        let is_asked = waiter.attempt == result.attempt && waiter.routers.contains(router);
        if !is_asked || waiter.answered.contains(router) {
            return AnswerDelivery::Ignored;
        }
        waiter.answered.push(router.clone());
        match waiter.answers.try_send(RouteAnswer::Router(router.clone(), result.result)) {
            Ok(()) => AnswerDelivery::Yes,
            Err(_) => AnswerDelivery::Ignored,
        }
    }

    /// Tells the task that makes a circuit that the circuit has ended, or that this attempt at it has.
    pub fn end(&self, circuit: &str, attempt: Option<u32>) {
        let waiting = self.0.lock();
        let waiter = waiting.get(circuit);
        let is_meant =
            |waiter: &&PendingAttempt| attempt.is_none_or(|attempt| attempt == waiter.attempt);
        if let Some(waiter) = waiter.filter(is_meant) {
            // Without room, it was told before.
            let _ = waiter.answers.try_send(RouteAnswer::Ended);
        }
    }

    /// Runs `done` unless the router is being asked for a route of the circuit. It runs before
    /// another attempt can begin.
    pub fn unless_asked(&self, circuit: &str, router: &Id, done: impl FnOnce()) {
        let waiting = self.0.lock();
        if !waiting.get(circuit).is_some_and(|waiter| waiter.routers.contains(router)) {
            done();
        }
    }
}

impl Answers<'_> {
    /// The next answer.
    pub async fn next(&mut self) -> Option<RouteAnswer> {
        self.answers.recv().await
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        self.waiting.0.lock().remove(&self.circuit);
    }
}

#[cfg(test)]
mod tests {
    use weft_model::{Base, Timestamp};

    use super::*;

    fn path(nodes: &[&str], links: &[&str]) -> Path {
        Path {
            nodes: nodes.iter().map(|id| Id::new(id)).collect(),
            links: links.iter().map(|id| (*id).to_owned()).collect(),
            cost: 0,
        }
    }

    fn terminator() -> Terminator {
        Terminator {
            base: Base::new(Id::new("t"), Timestamp(0)),
            binding: "transport".into(),
            address: "tcp:h:80".into(),
            ..Terminator::default()
        }
    }

    fn routes(path: &Path, dial: bool) -> Vec<(Id, Route)> {
        let (terminator, none) = (terminator(), PeerData::new());
        let spec = RouteSpec {
            circuit: "c1",
            attempt: 0,
            path,
            ingress: "I",
            egress: "E",
            dial: dial.then_some((&terminator, &none)),
            timeout: Duration::from_secs(10),
            tags: &StringMap::new(),
            term: 0,
        };
        spec.routes()
    }

    #[test]
    fn the_end_of_a_circuit_is_an_answer_and_finds_room() {
        let (waiting, r1) = (PendingAttempts::default(), Id::new("r1"));
        waiting.end("c1", None);
        let mut answers = waiting.begin("c1", 0, std::slice::from_ref(&r1));
        let answer =
            RouteResult { circuit_id: "c1".into(), attempt: 0, result: Ok(PeerData::new()) };
        assert_eq!(waiting.deliver(&r1, answer), AnswerDelivery::Yes);
        waiting.end("c1", Some(1));
        (0..3).for_each(|_| waiting.end("c1", Some(0)));
        let is_set = RouteAnswer::Router(r1, Ok(PeerData::new()));
        assert_eq!(answers.answers.try_recv(), Ok(is_set));
        assert_eq!(answers.answers.try_recv(), Ok(RouteAnswer::Ended));
        assert!(answers.answers.try_recv().is_err());
    }

    #[test]
    fn a_router_that_answers_again_and_again_leaves_the_others_their_room() {
        let (waiting, liar, other) =
            (PendingAttempts::default(), Id::new("liar"), Id::new("other"));
        let answer =
            || RouteResult { circuit_id: "c1".into(), attempt: 0, result: Ok(PeerData::new()) };
        let _answers = waiting.begin("c1", 0, &[liar.clone(), other.clone()]);
        assert_eq!(waiting.deliver(&liar, answer()), AnswerDelivery::Yes);
        for _ in 0..100 {
            assert_eq!(waiting.deliver(&liar, answer()), AnswerDelivery::Ignored);
        }
        assert_eq!(waiting.deliver(&other, answer()), AnswerDelivery::Yes);
        waiting.unless_asked("c1", &liar, || panic!("it is still on the path"));
    }

    #[test]
    fn a_path_of_one_router() {
        // The example of docs/protocol/control-plane.md 26.4, without the context.
        let mut routes = routes(&path(&["r1"], &[]), true);
        assert_eq!(routes.len(), 1);
        let (_, mut route) = routes.remove(0);
        route.context = None;
        let expected = "0a0263311a180a097472616e73706f72741201451a087463703a683a3830\
                        22080a01491201451801220 60a01451201493080c8afa025"
            .replace(' ', "");
        assert_eq!(hex::encode(route.to_body()), expected);
    }

    #[test]
    fn a_path_of_three_routers() {
        let of = |route: &Route| -> Vec<(String, String, i32)> {
            let forwards = route.forwards.iter();
            forwards.map(|f| (f.src_address.clone(), f.dst_address.clone(), f.dst_type)).collect()
        };
        let expect = |list: &[(&str, &str, DestType)]| -> Vec<(String, String, i32)> {
            let list = list.iter();
            list.map(|(a, b, kind)| ((*a).into(), (*b).into(), i32::from(*kind))).collect()
        };
        use DestType::{End, Link, Start};
        let routes = routes(&path(&["r0", "r1", "r2"], &["l1", "l2"]), true);
        assert_eq!(of(&routes[0].1), expect(&[("I", "l1", Link), ("l1", "I", Start)]));
        assert_eq!(of(&routes[1].1), expect(&[("l1", "l2", Link), ("l2", "l1", Link)]));
        assert_eq!(of(&routes[2].1), expect(&[("E", "l2", Link), ("l2", "E", End)]));
        let dials: Vec<bool> = routes.iter().map(|(_, route)| route.egress.is_some()).collect();
        assert_eq!(dials, [false, false, true]);
    }

    #[test]
    fn a_reroute_dials_nothing() {
        assert!(routes(&path(&["r1"], &[]), false)[0].1.egress.is_none());
    }

    #[test]
    fn only_those_asked_are_heard() {
        let waiting = PendingAttempts::default();
        let (r1, r2) = (Id::new("r1"), Id::new("r2"));
        let result =
            |attempt| RouteResult { circuit_id: "c1".into(), attempt, result: Ok(PeerData::new()) };
        assert_eq!(waiting.deliver(&r1, result(0)), AnswerDelivery::Nobody);
        let mut answers = waiting.begin("c1", 1, std::slice::from_ref(&r1));
        assert_eq!(waiting.deliver(&r1, result(0)), AnswerDelivery::Ignored);
        assert_eq!(waiting.deliver(&r2, result(1)), AnswerDelivery::Ignored);
        assert_eq!(waiting.deliver(&r1, result(1)), AnswerDelivery::Yes);
        let is_set = RouteAnswer::Router(r1.clone(), Ok(PeerData::new()));
        assert_eq!(answers.answers.try_recv(), Ok(is_set));
        let is_asked = |router| {
            let mut is_asked = true;
            waiting.unless_asked("c1", router, || is_asked = false);
            is_asked
        };
        assert!(is_asked(&r1) && !is_asked(&r2));
        drop(answers);
        assert!(!is_asked(&r1));
        assert_eq!(waiting.deliver(&r1, result(1)), AnswerDelivery::Nobody);
    }
}
