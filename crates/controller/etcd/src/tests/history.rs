//! A history of clients that create, delete and read by name at three controllers, while etcd is killed and frozen and
//! controllers are restarted. The log decides what was true: every answer is held against it.
//!
//! `WEFT_HISTORY_OPERATIONS` is the number of operations, `WEFT_HISTORY_SEED` the seed of what clients and faults do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use futures::StreamExt as _;
use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_kernel::Failure;
use weft_kernel::writer::{Deadlines, Decide, Writer};
use weft_model::Kind;
use weft_seeds::Dice;

use super::*;

const NAMES: usize = 12;
const CLIENTS: usize = 10;
const OPERATIONS: u64 = 600;

/// What a client asks for.
#[derive(Debug, Clone)]
enum Operation {
    /// A service of this id and name, if the name is free.
    Create(String, String),
    /// The end of the service of this name, if there is one.
    Delete(String),
    /// Which service has this name, as of now.
    Read(String),
}

/// What a client was told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// Done with this revision.
    Done(u64),
    /// The id that has the name at this revision.
    Seen(u64, Option<String>),
    /// The name is taken, or free.
    Refused,
    /// Nothing was done.
    NotDone,
    Unknown,
}

#[derive(Debug, Clone)]
struct Event {
    operation: Operation,
    answer: Answer,
    began: Instant,
    ended: Instant,
}

/// A controller without anything but its writer.
struct Controller {
    name: String,
    writer: Option<(Arc<Replica>, Writer)>,
}

struct World {
    server: Mutex<Server>,
    folder: tempfile::TempDir,
    controllers: Vec<tokio::sync::RwLock<Controller>>,
    history: Mutex<Vec<Event>>,
    left: AtomicU64,
    number: AtomicU64,
    is_over: AtomicBool,
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_agrees_with_the_log() {
    let Some(server) = Server::start(&[]) else { return };
    let seed = variable("WEFT_HISTORY_SEED", 1);
    let controllers = (1..=3)
        .map(|at| tokio::sync::RwLock::new(Controller { name: format!("c{at}"), writer: None }));
    let world = World {
        server: Mutex::new(server),
        folder: tempfile::tempdir().unwrap(),
        controllers: controllers.collect(),
        history: Mutex::default(),
        left: AtomicU64::new(variable("WEFT_HISTORY_OPERATIONS", OPERATIONS)),
        number: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    for controller in &world.controllers {
        world.start(&mut *controller.write().await).await;
    }
    let clients = async {
        let dice = (0..CLIENTS).map(|at| Dice(seed.wrapping_mul(1_000) + at as u64));
        futures::future::join_all(dice.map(|dice| world.client(dice))).await;
        world.is_over.store(true, Ordering::Release);
    };
    futures::join!(clients, world.faults(Dice(seed)));
    world.check(seed).await;
}

impl World {
    async fn start(&self, controller: &mut Controller) {
        let options = Options { log_limit: 1_000_000, ..Options::default() };
        let log = self.server.lock().log();
        let path = self.folder.path().join(&controller.name);
        let store = Arc::new(Replica::open(&path, options, Arc::new(log)).await.unwrap());
        let snapshot = weft_kernel::load(&*store).unwrap();
        let writer = Writer::start(store.clone(), snapshot, Deadlines::default());
        controller.writer = Some((store, writer));
    }

    async fn client(&self, mut dice: Dice) {
        while self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1))
            .is_ok()
        {
            let name = format!("name {}", dice.below(NAMES));
            let operation = match dice.below(5) {
                0 | 1 => {
                    let number = self.number.fetch_add(1, Ordering::AcqRel);
                    Operation::Create(format!("s{number}"), name)
                }
                2 | 3 => Operation::Delete(name),
                _ => Operation::Read(name),
            };
            let at = dice.below(self.controllers.len());
            let writer = {
                let controller = self.controllers[at].read().await;
                controller.writer.as_ref().map(|(_, writer)| writer.clone())
            };
            let Some(writer) = writer else { continue };
            let began = Instant::now();
            let answer = ask(&writer, &operation).await;
            let ended = Instant::now();
            if answer == Answer::NotDone {
                // It does not count.
                self.left.fetch_add(1, Ordering::AcqRel);
                tokio::time::sleep(dice.millis(200)).await;
            }
            self.history.lock().push(Event { operation, answer, began, ended });
        }
    }

    /// Kills and freezes etcd and restarts controllers, until the clients are done.
    async fn faults(&self, mut dice: Dice) {
        while !self.is_over.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(500) + dice.millis(1_500)).await;
            match dice.below(3) {
                0 => {
                    self.server.lock().kill();
                    tokio::time::sleep(dice.millis(500)).await;
                    tokio::task::block_in_place(|| self.server.lock().run());
                }
                1 => {
                    self.server.lock().signal("STOP");
                    tokio::time::sleep(dice.millis(3_000)).await;
                    self.server.lock().signal("CONT");
                }
                _ => {
                    let at = dice.below(self.controllers.len());
                    let mut controller = self.controllers[at].write().await;
                    if let Some((store, writer)) = controller.writer.take() {
                        drop(writer);
                        store.close().await.unwrap();
                    }
                    self.start(&mut controller).await;
                }
            }
        }
    }

    /// Holds every answer against the log.
    async fn check(&self, seed: u64) {
        let controller = self.controllers[0].read().await;
        let (store, _) = controller.writer.as_ref().unwrap();
        let last = commit(store, put("last", "last")).await.0;
        let states = replay(store, last).await;
        let history = std::mem::take(&mut *self.history.lock());
        let mut counts = BTreeMap::<&str, usize>::new();
        for event in &history {
            // Revisions that were told before the operation began, and of writes that began after it had ended.
            let revision = |other: &Event| match other.answer {
                Answer::Done(revision) | Answer::Seen(revision, _) => Some(revision),
                _ => None,
            };
            let earlier = history.iter().filter(|other| other.ended < event.began);
            let from = earlier.filter_map(revision).max().unwrap_or_default();
            let is_write = |other: &&Event| matches!(other.answer, Answer::Done(_));
            let later = history.iter().filter(is_write).filter(|other| other.began > event.ended);
            let to = later.filter_map(revision).min().map_or(last, |first| first - 1);
            let problem = problem(event, &states, from..=to);
            assert_eq!(problem, None, "seed {seed}: {event:?} between {from} and {to}");
            let kind = match event.answer {
                Answer::Done(_) => "done",
                Answer::Seen(..) => "seen",
                Answer::Refused => "refused",
                Answer::NotDone => "not done",
                Answer::Unknown => "unknown",
            };
            *counts.entry(kind).or_default() += 1;
        }
        println!("seed {seed}: {counts:?} in {last} revisions");
        for kind in ["done", "seen", "refused"] {
            assert!(counts.contains_key(kind), "no operation was {kind}: {counts:?}");
        }
    }
}

/// The names and their ids after each revision, and the ids that were ever created, by revision.
struct States {
    names: Vec<BTreeMap<String, String>>,
    created: BTreeMap<String, Vec<u64>>,
}

async fn replay(store: &Replica, last: u64) -> States {
    let mut names = vec![BTreeMap::new()];
    let mut created = BTreeMap::<String, Vec<u64>>::new();
    let mut log = store.follow(Revision(0));
    while names.len() as u64 <= last {
        let committed = log.next().await.unwrap().unwrap();
        let mut now: BTreeMap<String, String> = names.last().unwrap().clone();
        for change in &committed.change_set.changes {
            match change {
                Change::Put(Entity::Service(service)) => {
                    let id = service.base.id.to_string();
                    created.entry(id.clone()).or_default().push(committed.revision.0);
                    now.insert(service.name.to_string(), id);
                }
                change => now.retain(|_, id| *id != change.id().to_string()),
            }
        }
        names.push(now);
    }
    States { names, created }
}

/// What is wrong with an answer, if the log had one of these revisions while the operation ran.
fn problem(
    event: &Event,
    states: &States,
    during: std::ops::RangeInclusive<u64>,
) -> Option<&'static str> {
    let at = |revision: u64| &states.names[revision as usize];
    let created = |id: &String| states.created.get(id).map_or(&[] as &[u64], Vec::as_slice);
    match (&event.operation, &event.answer) {
        (Operation::Create(id, name), Answer::Done(revision)) => {
            let is_right = at(revision - 1).get(name).is_none() && created(id) == [*revision];
            (!is_right || !during.contains(revision)).then_some("it was not created then")
        }
        (Operation::Delete(name), Answer::Done(revision)) => {
            let is_right = at(revision - 1).contains_key(name) && !at(*revision).contains_key(name);
            (!is_right || !during.contains(revision)).then_some("it was not deleted then")
        }
        (Operation::Read(name), Answer::Seen(revision, id)) => {
            let is_right = at(*revision).get(name) == id.as_ref();
            (!is_right || !during.contains(revision)).then_some("it was not so then")
        }
        (Operation::Create(_, name), Answer::Refused) => {
            let is_right = during.into_iter().any(|revision| at(revision).contains_key(name));
            (!is_right).then_some("the name was free all the time")
        }
        (Operation::Delete(name), Answer::Refused) => {
            let is_right = during.into_iter().any(|revision| !at(revision).contains_key(name));
            (!is_right).then_some("the name was taken all the time")
        }
        (Operation::Create(id, _), Answer::NotDone) => {
            (!created(id).is_empty()).then_some("it was done")
        }
        (Operation::Create(id, _), Answer::Unknown) => {
            (created(id).len() > 1).then_some("it was done twice")
        }
        _ => None,
    }
}

/// Asks a controller, and returns its answer.
async fn ask(writer: &Writer, operation: &Operation) -> Answer {
    let answer = writer.submit(decide(operation.clone())).await;
    match answer {
        Ok(done) => match operation {
            Operation::Read(name) => {
                let found = done.snapshot.by_name::<Service>(name);
                Answer::Seen(
                    done.snapshot.revision().0,
                    found.map(|found| found.base.id.to_string()),
                )
            }
            _ => Answer::Done(done.revision.0),
        },
        Err(failure) if failure.field_name() == Some("name") => Answer::Refused,
        Err(failure) if failure.code() == ErrorCode::OutcomeUnknown => Answer::Unknown,
        Err(_) => Answer::NotDone,
    }
}

fn decide(operation: Operation) -> Decide {
    Box::new(move |tip| {
        let mut change = ChangeSet::default();
        match &operation {
            Operation::Create(id, name) => {
                if tip.by_name::<Service>(name).is_some() {
                    return Err(Failure::field("name", "it is taken", name.as_str()));
                }
                change.changes.push(Change::Put(service(id, name)));
            }
            Operation::Delete(name) => {
                let Some(found) = tip.by_name::<Service>(name) else {
                    return Err(Failure::field("name", "it is free", name.as_str()));
                };
                change.changes.push(Change::Delete(Kind::Service, found.base.id.clone()));
            }
            Operation::Read(_) => {}
        }
        Ok(change)
    })
}
