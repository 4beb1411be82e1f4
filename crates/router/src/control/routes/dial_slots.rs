//! The slots of routes that dial: those that are being dialed, and those that wait for a worker.
//!
//! A host that does not answer keeps a worker until the time for its dial is over. Both parties of a route, the hosting
//! and the dialing identity, therefore have a share of the workers. A route begins once both of its parties have room;
//! until then it keeps none of them from others. Where too many routes wait, a new one takes the slot of the newest one
//! of the party for which most of them wait. Routes that dial nothing take no slot (`super`).
//!
//! Of the workers of a host a client may have all while nobody else wants one. A route that finds no worker free takes
//! over the worker of another client that has at least two more of those in question, of the host or of all, than its
//! own client: the one whose dial has been without an answer for the longest time, `SILENT` at least. So no client keeps
//! others from a host by dials that are never answered.
//!
//! The routes of the same two parties wait together, in a group of one of them. The oldest route of all groups whose
//! party has room is looked at next; if its other party has none, the routes move into the group of that one, which is
//! not looked at. Few parties are without room at a time, because each of them then has a large share of the workers:
//! so each route that comes or ends costs a few such looks, however many wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a dial is left alone although other clients want its worker.
pub(super) const SILENT: Duration = Duration::from_secs(1);

/// An identity for which a route is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Party {
    /// The hosting identity, or the terminator if that is not known.
    Host(Arc<str>),
    /// The dialing identity; empty if it is not known.
    Client(Arc<str>),
}

/// The two identities for which a route is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Parties {
    host: Party,
    client: Party,
}

impl Parties {
    /// The parties of a route to a terminator.
    pub(super) fn new(terminator: &str, host: Option<&str>, client: Option<&str>) -> Self {
        let host = host.map_or_else(|| format!("terminator {terminator}").into(), Arc::from);
        let client = client.unwrap_or_default().into();
        Self { host: Party::Host(host), client: Party::Client(client) }
    }

    fn each(&self) -> [&Party; 2] {
        [&self.host, &self.client]
    }

    fn other(&self, party: &Party) -> &Party {
        if self.host == *party { &self.client } else { &self.host }
    }
}

/// The slots of routes that dial.
#[derive(Debug)]
pub(crate) struct DialSlots(Mutex<Line>);

/// Most routes at the same time.
#[derive(Debug, Clone, Copy)]
struct Most {
    /// Waiting for a worker.
    waiting: usize,
    /// Being dialed.
    workers: usize,
}

impl Most {
    /// Most routes of a party that are being dialed. A client may be a gateway for many people, and a host for many
    /// services.
    fn workers_of(self, party: &Party) -> usize {
        match party {
            Party::Host(_) => self.workers.div_ceil(4),
            Party::Client(client) if client.is_empty() => self.workers,
            Party::Client(_) => self.workers.div_ceil(2),
        }
    }
}

#[derive(Debug)]
struct Line {
    most: Most,
    /// Routes that are being dialed, in the order in which they began.
    busy: BTreeMap<u64, Busy>,
    /// Routes that wait.
    count: usize,
    /// The number of the next route that waits or begins.
    next: u64,
    waiting: HashMap<Parties, Waiting>,
    shares: HashMap<Party, Share>,
    /// The groups whose party has room, by their oldest routes.
    open: BTreeSet<(u64, Party)>,
    /// The parties by the number of their waiting routes.
    by_count: BTreeSet<(usize, Party)>,
    /// How often a group was looked at.
    #[cfg(test)]
    looks: usize,
}

/// A route that is being dialed.
#[derive(Debug)]
struct Busy {
    parties: Parties,
    since: Instant,
    /// Cancelled when another route takes the worker over.
    gives_way: CancellationToken,
}

/// The worker of a route.
#[derive(Debug)]
struct Worker {
    number: u64,
    gives_way: CancellationToken,
}

/// The waiting routes of the same two parties.
#[derive(Debug)]
struct Waiting {
    /// By the order in which they came. Each is given its worker when one is free; the sender is dropped when its slot
    /// is taken away.
    begins: BTreeMap<u64, oneshot::Sender<Worker>>,
    /// The party in whose group they are.
    at: Party,
}

/// The routes of one party.
#[derive(Debug)]
struct Share {
    /// Most routes that are being dialed.
    most: usize,
    busy: usize,
    /// All that wait.
    waiting: BTreeMap<u64, Parties>,
    /// The parties in the group of this one, by their oldest routes.
    group: BTreeSet<(u64, Parties)>,
}

impl Share {
    fn has_room(&self) -> bool {
        self.busy < self.most
    }

    /// The oldest route of the group, if the party has room.
    fn oldest(&self) -> Option<u64> {
        self.group.first().filter(|_| self.has_room()).map(|(number, _)| *number)
    }
}

/// The load of the workers that dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::control) struct Load {
    /// Routes that wait for a worker.
    pub(in crate::control) waiting: usize,
    /// Routes that are being dialed.
    pub(in crate::control) busy: usize,
    /// Most routes that are dialed at the same time.
    pub(in crate::control) workers: usize,
}

/// The slot of one route, until it is dropped.
#[derive(Debug)]
pub(super) struct DialSlot {
    slots: Arc<DialSlots>,
    parties: Parties,
    held: Held,
}

/// What a slot holds.
#[derive(Debug)]
enum Held {
    Worker(Worker),
    /// One of the slots to wait at, of this number, until the route begins.
    Waiting(u64, oneshot::Receiver<Worker>),
    /// Another route took the slot.
    Nothing,
}

/// How the wait for a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotOutcome {
    /// A worker is free for the route.
    Begun,
    /// The route was taken down before.
    GivenUp,
    /// Another route took the slot.
    Displaced,
}

impl DialSlots {
    pub(super) fn new(workers: usize, queue: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Line::new(Most { waiting: queue, workers: workers.max(1) }))))
    }

    /// The load of the workers.
    pub(in crate::control) fn load(&self) -> Load {
        let line = self.0.lock();
        Load { waiting: line.count, busy: line.busy.len(), workers: line.most.workers }
    }

    /// A slot for a route of these parties; none if too many routes wait, and for none of their parties more than for
    /// those of this one.
    pub(super) fn take(self: &Arc<Self>, parties: Parties) -> Option<DialSlot> {
        let mut line = self.0.lock();
        let held = if line.can_begin(&parties) || line.take_over(&parties) {
            Held::Worker(line.begin(&parties))
        } else {
            if line.count >= line.most.waiting && !line.displace(&parties) {
                return None;
            }
            let (begins, begun) = oneshot::channel();
            Held::Waiting(line.join(&parties, begins), begun)
        };
        Some(DialSlot { slots: Arc::clone(self), parties, held })
    }
}

impl Line {
    fn new(most: Most) -> Self {
        Self {
            most,
            busy: BTreeMap::new(),
            count: 0,
            next: 0,
            waiting: HashMap::new(),
            shares: HashMap::new(),
            open: BTreeSet::new(),
            by_count: BTreeSet::new(),
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Changes the share of a party, and its slots in the orders of shares. A share without routes is forgotten.
    fn change(&mut self, party: &Party, with: impl FnOnce(&mut Share)) {
        let most = self.most.workers_of(party);
        let share = self.shares.entry(party.clone()).or_insert_with(|| Share {
            most,
            busy: 0,
            waiting: BTreeMap::new(),
            group: BTreeSet::new(),
        });
        let before = (share.waiting.len(), share.oldest());
        with(share);
        let after = (share.waiting.len(), share.oldest());
        if share.busy == 0 && share.waiting.is_empty() {
            self.shares.remove(party);
        }
        if before.0 != after.0 {
            self.by_count.remove(&(before.0, party.clone()));
            if after.0 > 0 {
                self.by_count.insert((after.0, party.clone()));
            }
        }
        if before.1 != after.1 {
            if let Some(oldest) = before.1 {
                self.open.remove(&(oldest, party.clone()));
            }
            self.open.extend(after.1.map(|oldest| (oldest, party.clone())));
        }
    }

    fn has_room(&self, party: &Party) -> bool {
        self.shares.get(party).is_none_or(Share::has_room)
    }

    fn can_begin(&self, parties: &Parties) -> bool {
        self.busy.len() < self.most.workers
            && parties.each().into_iter().all(|party| self.has_room(party))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn begin(&mut self, parties: &Parties) -> Worker {
        let worker = Worker { number: self.number(), gives_way: CancellationToken::new() };
        let (since, gives_way) = (Instant::now(), worker.gives_way.clone());
        self.busy.insert(worker.number, Busy { parties: parties.clone(), since, gives_way });
        parties.each().into_iter().for_each(|party| self.change(party, |share| share.busy += 1));
        worker
    }

    /// Gives the worker of a route back, unless another one has taken it over.
    fn end(&mut self, number: u64) {
        if self.free(number).is_some() {
            self.go_on();
        }
    }

    fn free(&mut self, number: u64) -> Option<Busy> {
        let ended = self.busy.remove(&number)?;
        for party in ended.parties.each() {
            self.change(party, |share| share.busy -= 1);
        }
        Some(ended)
    }

    /// Takes a worker away from the client that has most of them, of the host or of all, so that a route of these
    /// parties can begin. False if the client of the route has as many as it may have, if nobody has two more, or if all
    /// of that client's dials began a short time ago.
    fn take_over(&mut self, parties: &Parties) -> bool {
        if !self.has_room(&parties.client) {
            return false;
        }
        let of_host = !self.has_room(&parties.host);
        let mut clients: HashMap<&Party, (usize, u64)> = HashMap::new();
        for (number, busy) in &self.busy {
            if !of_host || busy.parties.host == parties.host {
                clients.entry(&busy.parties.client).or_insert((0, *number)).0 += 1;
            }
        }
        let own = clients.get(&parties.client).map_or(0, |(count, _)| *count);
        let greatest = clients.values().copied().max().filter(|(count, _)| *count >= own + 2);
        let oldest = greatest.map(|(_, oldest)| oldest);
        let oldest = oldest.filter(|it| self.busy[it].since.elapsed() >= SILENT);
        let Some(taken) = oldest.and_then(|number| self.free(number)) else { return false };
        taken.gives_way.cancel();
        true
    }

    /// Adds a route that waits; returns its number.
    fn join(&mut self, parties: &Parties, begins: oneshot::Sender<Worker>) -> u64 {
        let number = self.number();
        self.count += 1;
        for party in parties.each() {
            self.change(party, |share| drop(share.waiting.insert(number, parties.clone())));
        }
        if let Some(known) = self.waiting.get_mut(parties) {
            known.begins.insert(number, begins);
        } else {
            let waits_for_client = self.has_room(&parties.host) && !self.has_room(&parties.client);
            let at = if waits_for_client { &parties.client } else { &parties.host }.clone();
            self.change(&at, |share| share.group.extend([(number, parties.clone())]));
            let begins = [(number, begins)].into();
            self.waiting.insert(parties.clone(), Waiting { begins, at });
        }
        number
    }

    /// Takes a route out of those that wait. None if it does not wait.
    fn leave(&mut self, parties: &Parties, number: u64) -> Option<oneshot::Sender<Worker>> {
        let known = self.waiting.get_mut(parties)?;
        let oldest = *known.begins.first_key_value()?.0;
        let begins = known.begins.remove(&number)?;
        let next = known.begins.first_key_value().map(|(next, _)| *next);
        if oldest == number {
            let at = known.at.clone();
            self.change(&at, |share| {
                share.group.remove(&(number, parties.clone()));
                share.group.extend(next.map(|next| (next, parties.clone())));
            });
        }
        if next.is_none() {
            self.waiting.remove(parties);
        }
        for party in parties.each() {
            self.change(party, |share| drop(share.waiting.remove(&number)));
        }
        self.count -= 1;
        Some(begins)
    }

    /// Takes the slot of the newest route of the party for which most routes wait. False if no party has two more than
    /// each party of the new route, so that nothing would be gained.
    fn displace(&mut self, parties: &Parties) -> bool {
        let waiting = |party: &Party| self.shares.get(party).map_or(0, |share| share.waiting.len());
        let own = parties.each().into_iter().map(waiting).max().unwrap_or_default();
        let greatest = self.by_count.last().filter(|(count, _)| *count >= own + 2);
        let newest =
            greatest.and_then(|(_, party)| self.shares.get(party)?.waiting.last_key_value());
        let Some((number, of)) = newest.map(|(number, of)| (*number, of.clone())) else {
            return false;
        };
        self.leave(&of, number).is_some()
    }

    /// Begins a route that waits.
    fn begin_waiting(&mut self, parties: &Parties, number: u64) {
        if let Some(begins) = self.leave(parties, number) {
            // Whoever no longer listens drops the slot, and the worker with it.
            let _ = begins.send(self.begin(parties));
        }
    }

    /// Begins what can begin now, in the order in which it came.
    fn go_on(&mut self) {
        while self.busy.len() < self.most.workers {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let Some((number, party)) = self.open.first().cloned() else { return };
            let group = self.shares.get(&party).and_then(|share| share.group.first());
            let Some((_, parties)) = group.cloned() else { return };
            let other = parties.other(&party).clone();
            if self.has_room(&other) {
                self.begin_waiting(&parties, number);
                continue;
            }
            let moves = (number, parties.clone());
            self.change(&party, |share| {
                share.group.remove(&moves);
            });
            self.change(&other, |share| share.group.extend([moves]));
            if let Some(known) = self.waiting.get_mut(&parties) {
                known.at = other;
            }
        }
    }
}

impl DialSlot {
    /// Waits for a worker.
    pub(super) async fn begin(&mut self, given_up: &CancellationToken) -> SlotOutcome {
        let begun = match &mut self.held {
            Held::Worker(_) => return SlotOutcome::Begun,
            Held::Nothing => return SlotOutcome::Displaced,
            Held::Waiting(_, begins) => tokio::select! {
                biased;
                begun = begins => begun,
                () = given_up.cancelled() => return SlotOutcome::GivenUp,
            },
        };
        let (held, turn) = match begun {
            Ok(worker) => (Held::Worker(worker), SlotOutcome::Begun),
            Err(_) => (Held::Nothing, SlotOutcome::Displaced),
        };
        self.held = held;
        turn
    }

    /// Looks whether a route that still waits may take over the worker of another client. Called now and then: the dials
    /// of others become old enough by time alone.
    pub(super) fn press(&self) {
        let Held::Waiting(number, _) = &self.held else { return };
        let mut line = self.slots.0.lock();
        let waits =
            line.waiting.get(&self.parties).is_some_and(|it| it.begins.contains_key(number));
        if waits && line.take_over(&self.parties) {
            line.begin_waiting(&self.parties, *number);
        }
    }

    /// Cancelled when another route takes over the worker of this one.
    pub(super) fn gives_way(&self) -> CancellationToken {
        match &self.held {
            Held::Worker(worker) => worker.gives_way.clone(),
            _ => CancellationToken::new(),
        }
    }
}

impl Drop for DialSlot {
    fn drop(&mut self) {
        let mut line = self.slots.0.lock();
        let worker = match &mut self.held {
            Held::Worker(worker) => Some(worker.number),
            Held::Waiting(number, _) if line.leave(&self.parties, *number).is_some() => None,
            // It began, or was displaced, and did not notice.
            Held::Waiting(_, begins) => begins.try_recv().ok().map(|worker| worker.number),
            Held::Nothing => None,
        };
        if let Some(number) = worker {
            line.end(number);
        }
    }
}

#[cfg(test)]
mod tests;
