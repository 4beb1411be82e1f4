//! Controllers with their copies and callers, the shared log, and what happens between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use weft_seeds::{Dice, Played};

use super::log::{Entry, Log, digest};
use super::*;

/// How long everything is disturbed, and how long it is quiet afterwards, in ms.
const DISTURBED: u64 = 12_000;
const QUIET: u64 = 20_000;
const CUT_OFF: &str = "it is cut off";
/// After this time a request counts as unanswered.
const TIMEOUT: u64 = 2_000;

/// A request to the shared log.
#[derive(Debug, Clone)]
enum Request {
    Append { batch: BatchId, at: LogHead, count: u64 },
    Fence { ticket: Ticket, since: HeadVersion },
    Read { ticket: Ticket, since: HeadVersion },
    Fetch { after: Position, most: u64 },
    Reload,
    Connect { since: HeadVersion },
}

/// What happens at a time.
#[derive(Debug, Clone)]
enum Happening {
    /// A request reaches the shared log.
    Arrives(usize, u64, Request),
    /// An input reaches a controller.
    Reaches(usize, u64, Input),
    /// What was fetched reaches a controller.
    Brings(usize, u64, Vec<Entry>),
    /// A write to the copy ends.
    Writes(usize, u64, Vec<Entry>),
    /// The pause of a controller ends.
    Resumes(usize, u64),
    /// A caller does something.
    Calls(usize, u64),
    /// A controller is cut off, for so long.
    Cut(usize, u64),
    Heal(usize),
    Restart(usize),
    Shorten,
    Fence,
    Save,
    Restore,
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Commit {
        count: u64,
        base: u64,
    },
    Settle(BatchId),
    /// Since the log had this revision.
    Confirm {
        base: u64,
        since: u64,
    },
}

struct Node {
    machine: Machine,
    incarnation: u64,
    copy: Vec<Entry>,
    /// The revision from which on the copy has the log.
    floor: usize,
    fetched: Vec<Entry>,
    is_cut: bool,
    commits: BTreeMap<BatchId, Call>,
    questions: BTreeMap<Ticket, Call>,
    /// Batches with unknown outcome.
    unknown: Vec<BatchId>,
    is_stopped: bool,
    /// Whether its caller is to come.
    is_expected: bool,
}

pub(super) struct World {
    dice: Dice,
    shows: bool,
    now: u64,
    number: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    log: Log,
    saved: Option<Log>,
    was_restored: bool,
    nodes: Vec<Node>,
    /// Batches whose callers were told that they did not happen.
    never: BTreeSet<u128>,
    /// Batches whose callers were told their revision.
    done: BTreeMap<u128, u64>,
    taken: BTreeSet<usize>,
}

impl World {
    /// Plays a seed. Returns the rows that were taken.
    pub(super) fn play(seed: u64, table: &'static [Row], shows: bool) -> Played {
        let mut world = Self::new(seed, table, shows);
        world.disturb();
        world.run(table)?;
        world.check_end()?;
        for node in &world.nodes {
            world.taken.extend(node.machine.taken.iter().copied());
        }
        Ok(world.taken)
    }

    fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let dice = Dice(seed);
        let timeline = Timeline("one".into());
        let mut world = Self {
            dice,
            shows,
            now: 0,
            number: 0,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            log: Log::new(timeline),
            saved: None,
            was_restored: false,
            nodes: Vec::new(),
            never: BTreeSet::new(),
            done: BTreeMap::new(),
            taken: BTreeSet::new(),
        };
        for at in 0..1 + world.dice.below(3) {
            let node = Node {
                machine: machine(table, &[]),
                incarnation: 0,
                copy: Vec::new(),
                floor: 0,
                fetched: Vec::new(),
                is_cut: false,
                commits: BTreeMap::new(),
                questions: BTreeMap::new(),
                unknown: Vec::new(),
                is_stopped: false,
                is_expected: false,
            };
            world.nodes.push(node);
            world.later(1, Happening::Heal(at));
        }
        world
    }

    /// Plans everything that disturbs the controllers.
    fn disturb(&mut self) {
        let nodes = self.nodes.len();
        let restores = self.dice.once_in(3);
        for _ in 0..self.dice.below(12) {
            let (at, node) = (self.dice.below(DISTURBED as usize) as u64, self.dice.below(nodes));
            let happening = match self.dice.below(8) {
                0..=2 => Happening::Cut(node, 1 + self.dice.below(4_000) as u64),
                3 | 4 => Happening::Restart(node),
                5 => Happening::Shorten,
                6 => Happening::Fence,
                _ if restores => Happening::Save,
                _ => Happening::Shorten,
            };
            self.at(at, happening);
        }
        if restores {
            let at = self.dice.below(DISTURBED as usize) as u64;
            self.at(at / 2, Happening::Save);
            self.at(at.saturating_sub(40), Happening::Shorten);
            self.at(at, Happening::Restore);
        }
        for node in 0..nodes {
            // Later than the last word that a controller is cut off.
            self.at(DISTURBED + 4_000, Happening::Heal(node));
        }
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.number += 1;
        self.queue.push(Reverse((time, self.number)));
        self.happenings.insert(self.number, happening);
    }

    fn later(&mut self, below: usize, happening: Happening) {
        let time = self.now + 1 + self.dice.below(below) as u64;
        self.at(time, happening);
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        if self.shows {
            println!("{:>6} ms  {what}", self.now);
        }
    }

    fn is_quiet(&self) -> bool {
        self.now >= DISTURBED
    }

    fn run(&mut self, table: &'static [Row]) -> Result<(), String> {
        while let Some(Reverse((time, number))) = self.queue.pop() {
            if time > DISTURBED + QUIET {
                break;
            }
            self.now = time;
            let Some(happening) = self.happenings.remove(&number) else { continue };
            self.say(format_args!("{happening:?}"));
            self.happen(happening, table)?;
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening, table: &'static [Row]) -> Result<(), String> {
        match happening {
            Happening::Arrives(node, incarnation, request) => {
                self.arrive(node, incarnation, request)?;
            }
            Happening::Reaches(node, incarnation, input) if self.is_now(node, incarnation) => {
                self.input(node, input)?;
            }
            Happening::Brings(node, incarnation, entries) if self.is_now(node, incarnation) => {
                self.bring(node, entries)?;
            }
            Happening::Writes(node, incarnation, entries) if self.is_now(node, incarnation) => {
                self.write(node, entries)?;
            }
            Happening::Resumes(node, incarnation) if self.is_now(node, incarnation) => {
                let can_read = self.is_quiet() || !self.dice.once_in(4);
                let end = can_read.then(|| self.nodes[node].end());
                self.input(node, Input::Due(end))?;
            }
            Happening::Calls(node, incarnation) if self.is_now(node, incarnation) => {
                self.call(node)?;
            }
            Happening::Cut(node, time) => {
                self.nodes[node].is_cut = true;
                let incarnation = self.nodes[node].incarnation;
                let why = Input::Unreachable(CUT_OFF.to_owned());
                self.later(3_000, Happening::Reaches(node, incarnation, why));
                self.at(self.now + time, Happening::Heal(node));
            }
            Happening::Heal(node) => {
                self.nodes[node].is_cut = false;
                let (incarnation, since) = self.connection(node);
                self.later(20, Happening::Arrives(node, incarnation, Request::Connect { since }));
                self.call_again(node);
            }
            Happening::Restart(node) => self.restart(node, table),
            Happening::Shorten => {
                let kept = self.log.entries.len() - self.log.shortened;
                self.log.shortened += self.dice.below(kept + 1);
            }
            Happening::Fence => {
                self.log.fence();
                self.tell_heads();
            }
            Happening::Save => self.saved = Some(self.log.clone()),
            Happening::Restore => {
                if let Some(saved) = self.saved.take() {
                    self.was_restored |= saved.head != self.log.head;
                    self.log = saved;
                    (0..self.nodes.len()).for_each(|node| self.later(500, Happening::Heal(node)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_now(&self, node: usize, incarnation: u64) -> bool {
        self.nodes[node].incarnation == incarnation
    }

    fn connection(&self, node: usize) -> (u64, HeadVersion) {
        (self.nodes[node].incarnation, self.nodes[node].machine.version())
    }

    fn restart(&mut self, at: usize, table: &'static [Row]) {
        let node = &mut self.nodes[at];
        self.taken.extend(node.machine.taken.iter().copied());
        node.machine = machine(table, &node.copy);
        node.incarnation += 1;
        node.fetched.clear();
        node.commits.clear();
        node.questions.clear();
        node.unknown.clear();
        node.is_stopped = false;
        node.is_expected = false;
        if !node.is_cut {
            self.later(500, Happening::Heal(at));
        }
    }

    /// A request reaches the log, and its answer goes back.
    fn arrive(&mut self, node: usize, incarnation: u64, request: Request) -> Result<(), String> {
        let is_cut = self.nodes[node].is_cut;
        if is_cut && self.dice.once_in(2) {
            self.fail(node, incarnation, &request);
            return Ok(());
        }
        if !self.is_quiet() && self.dice.once_in(40) && matches!(request, Request::Append { .. }) {
            let Request::Append { batch, .. } = request else { return Ok(()) };
            let refused = Err(AppendError::Refused("the quota is used up".to_owned()));
            self.later(20, Happening::Reaches(node, incarnation, Input::Appended(batch, refused)));
            return Ok(());
        }
        let failed = request.clone();
        let answer = match request {
            Request::Append { batch, at, count } => {
                let appended = self.log.append(&at, batch, count);
                if appended.is_ok() {
                    if self.never.contains(&batch.0) && !self.was_restored {
                        return Err(format!(
                            "{batch} came after its caller was told that it did not happen"
                        ));
                    }
                    self.tell_heads();
                }
                Happening::Reaches(
                    node,
                    incarnation,
                    Input::Appended(batch, appended.map_err(AppendError::Moved)),
                )
            }
            Request::Fence { ticket, since } => {
                let head = Ok(self.log.fence());
                self.tell_heads();
                Happening::Reaches(node, incarnation, Input::Answered { ticket, since, head })
            }
            Request::Read { ticket, since } => {
                let head = Ok(self.log.head.clone());
                Happening::Reaches(node, incarnation, Input::Answered { ticket, since, head })
            }
            Request::Connect { since } => {
                let head = self.log.head.clone();
                Happening::Reaches(node, incarnation, Input::Head { head, since })
            }
            Request::Fetch { after, most } => self.fetch(node, incarnation, after, most),
            Request::Reload => {
                let entries = self.log.entries.clone();
                Happening::Brings(node, incarnation, entries)
            }
        };
        if is_cut || (!self.is_quiet() && self.dice.once_in(25)) {
            self.fail(node, incarnation, &failed);
            return Ok(());
        }
        let slow = if self.dice.once_in(10) { 1_500 } else { 30 };
        self.later(slow, answer);
        Ok(())
    }

    /// A request has no answer.
    fn fail(&mut self, node: usize, incarnation: u64, request: &Request) {
        let why = || "there was no answer".to_owned();
        let input = match request {
            Request::Append { batch, .. } => {
                Input::Appended(*batch, Err(AppendError::Unanswered(why())))
            }
            Request::Fence { ticket, since } | Request::Read { ticket, since } => {
                Input::Answered { ticket: *ticket, since: *since, head: Err(why()) }
            }
            Request::Fetch { .. } => Input::Fetched(Err(FetchFailure::Failed(why()))),
            Request::Reload => Input::Reloaded(Err(why())),
            Request::Connect { .. } if self.nodes[node].is_cut => return,
            Request::Connect { .. } => {
                let (incarnation, since) = self.connection(node);
                let again = Happening::Arrives(node, incarnation, Request::Connect { since });
                return self.at(self.now + 300, again);
            }
        };
        self.at(self.now + TIMEOUT, Happening::Reaches(node, incarnation, input));
    }

    fn fetch(&self, node: usize, incarnation: u64, after: Position, most: u64) -> Happening {
        let from = after.revision.0 as usize;
        let failed = |failure| Happening::Reaches(node, incarnation, Input::Fetched(Err(failure)));
        if from > self.log.entries.len() {
            return failed(FetchFailure::Diverged("the log is shorter".to_owned()));
        }
        if from < self.log.shortened {
            return failed(FetchFailure::TooOld);
        }
        if after.digest.is_some_and(|known| known != digest(&self.log.entries[..from])) {
            return failed(FetchFailure::Diverged("the digests differ".to_owned()));
        }
        let entries: Vec<Entry> =
            self.log.entries.iter().skip(from).take(most.min(5) as usize).copied().collect();
        if entries.is_empty() {
            return failed(FetchFailure::Failed("there is nothing".to_owned()));
        }
        Happening::Brings(node, incarnation, entries)
    }

    /// Tells every connected controller the head.
    fn tell_heads(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_cut || self.dice.once_in(4) {
                // The last head always comes.
                if !self.nodes[node].is_cut {
                    let (incarnation, since) = self.connection(node);
                    let connect = Request::Connect { since };
                    self.at(self.now + 1_000, Happening::Arrives(node, incarnation, connect));
                }
                continue;
            }
            let head = self.log.head.clone();
            let since = HeadVersion::default();
            let incarnation = self.nodes[node].incarnation;
            self.later(50, Happening::Reaches(node, incarnation, Input::Head { head, since }));
        }
    }

    /// What was fetched, or a checkpoint, has come.
    fn bring(&mut self, at: usize, entries: Vec<Entry>) -> Result<(), String> {
        let node = &mut self.nodes[at];
        if node.machine.copy == State::Reloading {
            if node.copy.len() as u64 != node.machine.end.revision.0 {
                let end = node.end();
                return self.input(at, Input::Reloaded(Ok((end, None))));
            }
            if entries.len() <= node.copy.len() {
                let why = "the checkpoint is older than the copy".to_owned();
                return self.input(at, Input::Reloaded(Err(why)));
            }
            node.floor = entries.len();
            node.copy = entries;
            let end = node.end();
            let head = (!self.dice.once_in(6)).then(|| self.log.head.clone());
            return self.input(at, Input::Reloaded(Ok((end, head))));
        }
        node.fetched = entries;
        self.input(at, Input::Fetched(Ok(())))
    }

    /// A write to the copy ends.
    fn write(&mut self, at: usize, entries: Vec<Entry>) -> Result<(), String> {
        if !self.is_quiet() && self.dice.once_in(20) {
            // What failed may be on the disk all the same.
            let reaches_the_disk = self.dice.once_in(2);
            let node = &mut self.nodes[at];
            if reaches_the_disk && node.copy.len() as u64 == node.machine.end.revision.0 {
                node.copy.extend(&entries);
            }
            return self.input(at, Input::Applied(Err("the disk is full".to_owned())));
        }
        let node = &mut self.nodes[at];
        if node.copy.len() as u64 != node.machine.end.revision.0 {
            let end = node.end();
            return self.input(at, Input::Applied(Ok((end, Vec::new()))));
        }
        node.copy.extend(&entries);
        if !self.was_restored && !self.log.entries.starts_with(&node.copy) {
            return Err(format!("the copy of {at} is not what the log has"));
        }
        let mut batches = entries;
        batches.dedup();
        let end = node.end();
        self.input(at, Input::Applied(Ok((end, batches))))
    }

    fn input(&mut self, at: usize, input: Input) -> Result<(), String> {
        self.say(format_args!("    {at} <- {input:?}"));
        for output in self.nodes[at].machine.step(input) {
            self.say(format_args!("    {at} -> {output:?}"));
            self.output(at, output)?;
        }
        let node = &mut self.nodes[at];
        let is_stopped = node.machine.copy == State::Stopped;
        node.is_stopped |= is_stopped;
        match &node.machine.obstacle {
            Some(why) if why != CUT_OFF && why != NOT_REACHED && !is_stopped => {
                Err(format!("{at} goes on: {why}"))
            }
            _ => Ok(()),
        }
    }

    fn send(&mut self, at: usize, request: Request) {
        let incarnation = self.nodes[at].incarnation;
        let slow = if self.dice.once_in(12) { 1_500 } else { 30 };
        self.later(slow, Happening::Arrives(at, incarnation, request));
    }

    fn output(&mut self, at: usize, output: Output) -> Result<(), String> {
        let incarnation = self.nodes[at].incarnation;
        match output {
            Output::Append { batch, at: head } => {
                let call = self.nodes[at].commits.get(&batch);
                let Some(Call::Commit { count, base }) = call.copied() else {
                    return Err(format!("{batch} is sent without a caller"));
                };
                if head.head.revision.0 != base {
                    return Err(format!("{batch} is sent for {head:?}, and was decided on {base}"));
                }
                self.send(at, Request::Append { batch, at: head, count });
            }
            Output::Fence { ticket, since } => self.send(at, Request::Fence { ticket, since }),
            Output::Read { ticket, since } => self.send(at, Request::Read { ticket, since }),
            Output::Fetch { after, most } => self.send(at, Request::Fetch { after, most }),
            Output::Reload => self.send(at, Request::Reload),
            Output::Apply => {
                let entries = std::mem::take(&mut self.nodes[at].fetched);
                self.later(20, Happening::Writes(at, incarnation, entries));
            }
            Output::ApplyOwn(batch) => {
                let Some(Call::Commit { count, .. }) = self.nodes[at].commits.get(&batch) else {
                    return Err(format!("{batch} is written without a caller"));
                };
                let entries = vec![batch; *count as usize];
                self.later(20, Happening::Writes(at, incarnation, entries));
            }
            Output::Pause => self.at(self.now + 500, Happening::Resumes(at, incarnation)),
            Output::Answer(batch, answer) => self.answered(at, batch, answer)?,
            Output::Lookup { batch, ticket, base } => {
                let node = &self.nodes[at];
                let found = node.copy.iter().rposition(|entry| *entry == batch);
                let found = found.filter(|found| *found >= node.floor);
                let floor = node.floor as u64;
                let is_definite = floor == 0 || base.is_some_and(|base| base.0 >= floor);
                if found.is_none() && !is_definite {
                    self.nodes[at].unknown.retain(|unknown| *unknown != batch);
                    return self.told(at, ticket, Err(CommitError::Forgotten(batch)));
                }
                self.settled(at, ticket, batch, found.map(|found| found as u64 + 1))?;
            }
            Output::Tell(ticket, answer) => match self.nodes[at].questions.get(&ticket) {
                Some(Call::Settle(batch)) if answer.is_ok() => {
                    self.settled(at, ticket, *batch, None)?;
                }
                _ => self.told(at, ticket, answer)?,
            },
        }
        Ok(())
    }

    /// A caller commits, asks for the outcome of its batches with unknown outcome first, or asks for the head.
    fn call(&mut self, at: usize) -> Result<(), String> {
        self.nodes[at].is_expected = false;
        if self.now > DISTURBED + QUIET / 2 && self.nodes[at].unknown.is_empty() {
            return Ok(());
        }
        self.number += 1;
        let (ticket, base) = (self.number, self.nodes[at].copy.len() as u64);
        if let Some(batch) = self.nodes[at].unknown.pop() {
            self.nodes[at].questions.insert(ticket, Call::Settle(batch));
            return self.input(at, Input::Settle { batch, ticket });
        }
        if self.dice.once_in(6) {
            let call = Call::Confirm { base, since: self.log.revision() };
            self.nodes[at].questions.insert(ticket, call);
            return self.input(at, Input::Confirm { base: Revision(base), ticket });
        }
        // A caller now and then gives up waiting and asks, and some controllers have two callers.
        for _ in 0..1 + usize::from(self.dice.once_in(8)) {
            self.number += 1;
            let batch = BatchId(u128::from(self.number));
            let count = 1 + self.dice.below(3) as u64;
            self.nodes[at].commits.insert(batch, Call::Commit { count, base });
            self.input(at, Input::Commit { batch, base: Revision(base), count })?;
            if self.dice.once_in(10) && self.nodes[at].commits.contains_key(&batch) {
                self.number += 1;
                let ticket = self.number;
                self.nodes[at].questions.insert(ticket, Call::Settle(batch));
                self.input(at, Input::Settle { batch, ticket })?;
            }
        }
        Ok(())
    }

    /// The caller of a batch has its answer.
    fn answered(
        &mut self,
        at: usize,
        batch: BatchId,
        answer: Result<Revision, CommitError>,
    ) -> Result<(), String> {
        let Some(Call::Commit { .. }) = self.nodes[at].commits.remove(&batch) else {
            return Err(format!("{batch} is answered twice"));
        };
        match answer {
            Ok(Revision(revision)) => self.check_done(at, batch, revision)?,
            Err(CommitError::Stale { head }) => {
                if (self.nodes[at].copy.len() as u64) < head.0 {
                    return Err(format!("{batch} is stale, and the copy has not reached {head:?}"));
                }
                self.check_never(batch)?;
            }
            Err(CommitError::Unavailable(_)) => self.check_never(batch)?,
            Err(CommitError::Unknown { .. }) => self.nodes[at].unknown.push(batch),
            Err(error) => return Err(format!("{batch}: {error}")),
        }
        self.call_again(at);
        Ok(())
    }

    fn call_again(&mut self, at: usize) {
        let incarnation = self.nodes[at].incarnation;
        if !self.nodes[at].has_caller() && !self.nodes[at].is_expected {
            self.nodes[at].is_expected = true;
            self.later(400, Happening::Calls(at, incarnation));
        }
    }

    fn check_done(&mut self, at: usize, batch: BatchId, revision: u64) -> Result<(), String> {
        self.done.insert(batch.0, revision);
        if self.never.contains(&batch.0) {
            return Err(format!("{batch} happened, and its caller was told that it did not"));
        }
        if self.was_restored {
            return Ok(());
        }
        if self.log.find(batch) != Some(revision) {
            return Err(format!("{batch} is at {:?}, not at {revision}", self.log.find(batch)));
        }
        if (self.nodes[at].copy.len() as u64) < revision {
            return Err(format!("{batch} is answered before the copy has it"));
        }
        Ok(())
    }

    fn check_never(&mut self, batch: BatchId) -> Result<(), String> {
        self.never.insert(batch.0);
        if self.done.contains_key(&batch.0)
            || (!self.was_restored && self.log.find(batch).is_some())
        {
            return Err(format!("{batch} is in the log, and its caller was told that it is not"));
        }
        Ok(())
    }

    /// The outcome of a batch was answered.
    fn settled(
        &mut self,
        at: usize,
        ticket: Ticket,
        batch: BatchId,
        revision: Option<u64>,
    ) -> Result<(), String> {
        if self.nodes[at].questions.remove(&ticket).is_none() {
            return Err(format!("question {ticket} is answered twice"));
        }
        self.nodes[at].unknown.retain(|unknown| *unknown != batch);
        match revision {
            Some(revision) => self.check_done(at, batch, revision)?,
            None => self.check_never(batch)?,
        }
        self.call_again(at);
        Ok(())
    }

    fn told(
        &mut self,
        at: usize,
        ticket: Ticket,
        answer: Result<(), CommitError>,
    ) -> Result<(), String> {
        let Some(call) = self.nodes[at].questions.remove(&ticket) else {
            return Err(format!("question {ticket} is answered twice"));
        };
        match (call, answer) {
            (Call::Confirm { base, since }, Ok(())) => {
                let during = since..=self.log.revision();
                if !self.was_restored && !during.contains(&base) {
                    return Err(format!("{base} was confirmed; the log was at {since} before"));
                }
            }
            (Call::Confirm { base, .. }, Err(CommitError::Stale { head })) => {
                if head.0 == base || (self.nodes[at].copy.len() as u64) < head.0 {
                    return Err(format!("{base} is stale at {head:?}"));
                }
            }
            (Call::Settle(_), Err(CommitError::Forgotten(_))) => {}
            (Call::Settle(batch), Err(CommitError::Unavailable(_))) => {
                // While the commit is not answered, its caller still waits for that.
                if !self.nodes[at].commits.contains_key(&batch)
                    && !self.done.contains_key(&batch.0)
                    && !self.never.contains(&batch.0)
                    && !self.nodes[at].unknown.contains(&batch)
                    && !self.nodes[at].is_stopped
                {
                    self.nodes[at].unknown.push(batch);
                }
            }
            (_, Err(CommitError::Unavailable(_))) => {}
            (call, answer) => return Err(format!("{call:?} is answered with {answer:?}")),
        }
        self.call_again(at);
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        if !self.log.is_whole() {
            return Err("a batch is in the log twice".to_owned());
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(batch) = node.commits.keys().next() {
                return Err(format!("{at}: {batch} was never answered"));
            }
            if let Some(ticket) = node.questions.keys().next() {
                return Err(format!("{at}: question {ticket} was never answered"));
            }
            if node.is_stopped {
                if !self.was_restored {
                    return Err(format!("{at} has stopped: {:?}", node.machine.obstacle));
                }
                continue;
            }
            if node.copy != self.log.entries {
                let (copy, log) = (node.copy.len(), self.log.entries.len());
                return Err(format!("{at} has {copy} change sets, or others, the log has {log}"));
            }
            if !node.unknown.is_empty() || !node.machine.batches.is_empty() {
                return Err(format!("{at} has batches with unknown outcome"));
            }
        }
        let kept =
            |(batch, revision): (&u128, &u64)| self.log.find(BatchId(*batch)) == Some(*revision);
        if !self.was_restored && !self.done.iter().all(kept) {
            return Err("a committed batch is not in the log".to_owned());
        }
        Ok(())
    }
}

impl Node {
    fn end(&self) -> Position {
        let revision = Revision(self.copy.len() as u64);
        Position { revision, digest: Some(digest(&self.copy)) }
    }

    fn has_caller(&self) -> bool {
        !self.commits.is_empty() || !self.questions.is_empty()
    }
}

fn machine(table: &'static [Row], copy: &[Entry]) -> Machine {
    let end = Position { revision: Revision(copy.len() as u64), digest: Some(digest(copy)) };
    let mut machine = Machine::new(Timeline("one".into()), end, crate::FORMAT);
    machine.table = table;
    machine
}
