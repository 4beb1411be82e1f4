//! Open links: which of them are taken, and which of two with one key stays.

use std::time::Duration;

use super::link::OpenLink;
use super::table::{Action, Event, State};
use super::{Facts, Handle, Machine, Output, Reason};

/// A link that was preferred to this many others gives way to the next one, because the peer does not know
/// the link.
const MAX_REJECTED: u32 = 5;
/// Most links that one router may open.
const MAX_PER_PEER: usize = 64;
/// How long a link that a peer opened is kept although another one stays, for a peer that decides otherwise.
const REJECTED: Duration = Duration::from_secs(30);
/// How long a duplicate stays open if this router dialed it, for messages on their way.
const DIALED_DUPLICATE: Duration = Duration::from_secs(60);
/// How long a duplicate stays open if the peer dialed it, for messages on their way.
const ACCEPTED_DUPLICATE: Duration = Duration::from_secs(75);
/// The reason for closing a link whose target was removed during the dial.
const REMOVED: &str =
    "the router, or its listener or dialer for this link, was removed during the dial";
/// The reason for closing a link whose address the peer gave up during the dial.
const GIVEN_UP: &str = "the peer gave up the dialed address during the dial";

impl<L: Handle> Machine<L> {
    /// Takes or refuses a link that was opened.
    pub(super) fn on_opened(&mut self, handle: L, is_free: bool) {
        let facts = handle.facts().clone();
        if facts.dialed.is_some() {
            self.dialing = self.dialing.saturating_sub(1);
        }
        let refusal = self.refusal(&facts, is_free);
        let open = OpenLink { handle, state: State::Candidate, rejected: 0 };
        self.links.insert(facts.number, open);
        let event = if refusal.is_some() { Event::Refused } else { Event::Preferred };
        self.link_event(facts.number, event, refusal);
    }

    /// The reason to refuse a candidate, if there is one.
    fn refusal(&mut self, candidate: &Facts, is_free: bool) -> Option<Reason> {
        let Facts { peer, id, key, .. } = candidate;
        let same_id = self.by_id.get(id).and_then(|number| self.links.get(number));
        let is_others = same_id.is_some_and(|open| open.handle.facts().peer != *peer);
        let unwanted = self.unwanted(candidate);
        match &candidate.leaf {
            _ if self.is_shutting_down => return Some(Reason::ShuttingDown),
            _ if unwanted.is_some() => return unwanted,
            Some(_) if self.by_peer.get(peer).is_some_and(|all| all.len() >= MAX_PER_PEER) => {
                return Some(Reason::PeerFull);
            }
            Some(leaf) if self.confirmed.was_refused(peer, leaf) => {
                return Some(Reason::RouterRefused("it was accepted before".to_owned()));
            }
            _ if is_others || !is_free => return Some(Reason::IdInUse),
            _ => {}
        }
        let current = self.by_key.get(key).and_then(|number| self.links.get_mut(number))?;
        let is_preferred = current.handle.facts().id < *id && current.rejected < MAX_REJECTED;
        if !is_preferred || current.state == State::Closing {
            return None;
        }
        current.rejected += 1;
        let keep_for = if candidate.dialed.is_some() { Duration::ZERO } else { REJECTED };
        Some(Reason::OtherKept { keep_for })
    }

    /// The reason why this router does not want a link that it dialed, if there is one: peers and dialers
    /// may change during a dial.
    fn unwanted(&self, candidate: &Facts) -> Option<Reason> {
        let address = candidate.dialed.as_ref()?;
        let target = self.targets.get(&candidate.key).filter(|it| it.link == candidate.id);
        match target {
            Some(target) if target.leads_to(address) => None,
            Some(_) => Some(Reason::NotWanted(GIVEN_UP)),
            None => Some(Reason::NotWanted(REMOVED)),
        }
    }

    /// Carries out an action on a link.
    pub(super) fn act_on_link(&mut self, link: &L, action: Action, reason: Option<&Reason>) {
        let facts = link.facts();
        match (action, &facts.dialed) {
            (Action::EndDial, Some(address)) => {
                let dial = (facts.id.as_str(), facts.iteration);
                self.end_dial(&facts.key, dial, address, Event::DialRefused);
            }
            (Action::CheckKeys, Some(_)) => self.check_keys(facts.number),
            (Action::Take, _) => self.take(facts),
            (Action::Forget, _) => self.forget(facts),
            (Action::SetDeadline, dialed) => {
                let stay = if dialed.is_some() { DIALED_DUPLICATE } else { ACCEPTED_DUPLICATE };
                self.deadlines.insert((self.now + stay, facts.number));
            }
            _ => {
                let output = self.output(link, action, reason);
                self.outputs.extend(output);
            }
        }
    }

    /// The output of an action on a link.
    fn output(&self, link: &L, action: Action, reason: Option<&Reason>) -> Option<Output<L>> {
        let (facts, link) = (link.facts(), link.clone());
        let is_back = self.by_id.get(&facts.id).is_some_and(|number| *number != facts.number);
        Some(match action {
            Action::Reject => Output::Reject(link, reason?.clone()),
            Action::Close => Output::Close(link, reason?.clone()),
            Action::Open => Output::Open(link),
            Action::ReportUp => Output::Up(link),
            Action::ReportDuplicate => Output::Duplicate(link),
            Action::Withdraw => Output::Withdraw(link),
            Action::ReportFault if !is_back => Output::Fault(link),
            _ => return None,
        })
    }

    /// Gives its key to a link.
    fn take(&mut self, facts: &Facts) {
        let former = self.by_key.insert(facts.key.clone(), facts.number);
        let same_id = self.by_id.insert(facts.id.clone(), facts.number);
        self.by_peer.entry(facts.peer.clone()).or_default().insert(facts.number);
        self.target_event(&facts.key, Event::LinkTaken);
        if let (Some(address), Some(target)) = (&facts.dialed, self.targets.get_mut(&facts.key)) {
            target.reached(address);
        }
        if let Some(number) = same_id {
            self.link_event(number, Event::Renewed, Some(Reason::Renewed));
        }
        if let Some(number) = former.filter(|number| Some(*number) != same_id) {
            self.link_event(number, Event::Superseded, None);
        }
    }

    /// Forgets a link that has closed.
    fn forget(&mut self, facts: &Facts) {
        let number = facts.number;
        self.deadlines.retain(|(_, of)| *of != number);
        if let Some(of_peer) = self.by_peer.get_mut(&facts.peer) {
            of_peer.remove(&number);
            if of_peer.is_empty() {
                self.by_peer.remove(&facts.peer);
            }
        }
        if self.by_id.get(&facts.id) == Some(&number) {
            self.by_id.remove(&facts.id);
        }
        if self.by_key.get(&facts.key) == Some(&number) {
            self.by_key.remove(&facts.key);
            self.target_event(&facts.key, Event::LinkEnded);
        }
    }

    /// Closes a link for this reason.
    pub(super) fn must_close(&mut self, number: u64, reason: Reason) {
        self.link_event(number, Event::MustClose, Some(reason));
    }

    /// A controller reports that a link broke: it is closed here, too.
    pub(super) fn on_fault(&mut self, id: &str, iteration: u32) {
        let open = self.by_id.get(id).and_then(|number| self.links.get(number));
        let facts = open.map(|open| open.handle.facts());
        let broken = facts.filter(|facts| iteration == 0 || iteration >= facts.iteration);
        if let Some(number) = broken.map(|facts| facts.number) {
            self.must_close(number, Reason::Fault);
        }
    }

    /// A controller refuses a router. If the router was accepted without an answer before, its links are
    /// closed.
    pub(super) fn on_refused(&mut self, router: &str, leaf: &str, reason: &str) {
        if !self.confirmed.refuse(router, leaf, self.now) {
            return;
        }
        for number in self.numbers_with(router) {
            let shown = self.links.get(&number).and_then(|it| it.handle.facts().leaf.as_deref());
            if shown == Some(leaf) {
                self.must_close(number, Reason::RouterRefused(reason.to_owned()));
            }
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.is_shutting_down = true;
        let all: Vec<u64> = self.links.keys().copied().collect();
        all.into_iter().for_each(|number| self.must_close(number, Reason::ShuttingDown));
    }

    /// Checks the key that the peer of a link has shown, if a controller names keys of it. A link that this
    /// router dialed is closed if the key is another one. Of a link that the other router dialed, with the
    /// key that it shows to controllers, these are asked.
    pub(super) fn check_keys(&mut self, number: u64) {
        let Some(handle) = self.links.get(&number).map(|open| open.handle.clone()) else { return };
        let facts = handle.facts();
        let Some(keys) = self.peers.get(&facts.peer).and_then(|known| known.keys()) else { return };
        let Err(problem) = handle.prove(keys) else { return };
        match &facts.leaf {
            Some(leaf) if self.confirmed.ask_again(&facts.peer, leaf) => {
                self.outputs.push_back(Output::AskControllers);
            }
            _ => self.must_close(number, Reason::OtherKeys(problem)),
        }
    }

    /// The numbers of the links with a router.
    pub(super) fn numbers_with(&self, peer: &str) -> Vec<u64> {
        self.by_peer.get(peer).into_iter().flatten().copied().collect()
    }

    /// All links.
    pub(in crate::link) fn links(&self) -> impl ExactSizeIterator<Item = &L> {
        self.links.values().map(|open| &open.handle)
    }

    /// The links that have their keys: all but duplicates.
    pub(in crate::link) fn current_links(&self) -> impl Iterator<Item = &L> {
        self.by_key.values().filter_map(|it| self.links.get(it)).map(|open| &open.handle)
    }
}
