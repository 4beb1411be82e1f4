//! Messages that come over a link, and the choice of their next place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use parking_lot::Mutex;
use weft_metrics::usage::UsageDirection;
use weft_wire::Message;
use weft_wire::payload::{PayloadView, content_type};
use weft_xgress::Class;

use super::Forwarder;
use super::circuit::comes_from_host;
use super::destination::Link;
use super::flow::{CachedNext, Circuit};
use super::head::Head;

/// The table of known circuits is searched for ended ones once it holds more circuits than this.
const FIRST_PRUNE: usize = 256;

/// The shortest time between two log lines about one link.
const QUIET: Duration = Duration::from_secs(300);

/// Counts the messages that come over one link although no route of their circuit leads over the
/// link.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    count: AtomicU64,
    logged: Mutex<Option<(Instant, u64)>>,
}

impl Foreign {
    /// The number of messages so far.
    pub(crate) fn seen(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a message. Returns how many came since the last log line, if a line is due.
    fn note(&self, now: Instant) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock();
        let (at, before) = logged.unzip();
        if at.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            return None;
        }
        *logged = Some((now, count));
        Some(count.saturating_sub(before.unwrap_or_default()))
    }
}

/// Takes messages of circuits from one connection of a link, on its task.
pub(crate) struct Arrivals {
    forwarder: Arc<Forwarder>,
    /// The link that the messages come over, and the router at its other end.
    link: Arc<str>,
    peer: Arc<str>,
    foreign: Arc<Foreign>,
    /// Circuits of recent messages with their next place, so that the shared table is asked once for
    /// each circuit.
    cached: HashMap<Arc<str>, CachedCircuit>,
    prune_at: usize,
}

struct CachedCircuit {
    circuit: Arc<Circuit>,
    next: CachedNext,
}

impl Arrivals {
    /// `foreign` counts for all connections of the link.
    pub(crate) fn new(forwarder: Arc<Forwarder>, link: &Link, foreign: Arc<Foreign>) -> Self {
        let (link, peer) = (Arc::clone(&link.id), Arc::clone(&link.peer));
        Self { forwarder, link, peer, foreign, cached: HashMap::new(), prune_at: FIRST_PRUNE }
    }

    fn note_foreign(
        forwarder: &Forwarder,
        foreign: &Foreign,
        link: &str,
        peer: &str,
        circuit: &str,
    ) {
        forwarder.drops().foreign();
        if let Some(messages) = foreign.note(weft_circuit::now()) {
            tracing::warn!(
                link,
                peer,
                circuit,
                messages,
                "a router sent messages of circuits without a route over its link; they are dropped"
            );
        }
    }

    /// Passes on a payload, an ack or a control message that came over the link.
    pub(crate) fn take(&mut self, mut message: Message) {
        let view = match PayloadView::of(&message) {
            Ok(view) => view,
            Err(problem) => {
                self.forwarder.drops().malformed();
                tracing::debug!(link = %self.link, %problem, "dropped a message of a link");
                return;
            }
        };
        let head = Head::seen(message.content_type, &view);
        let from_host = comes_from_host(message.content_type, &view);
        self.prune();
        let found = find(&mut self.cached, &self.forwarder, view.circuit_id);
        let Some(CachedCircuit { circuit, next }) = found else {
            // The sender of a payload is told that its circuit is unknown; acks and control messages
            // often come late, when their circuit has ended.
            return match message.content_type {
                content_type::PAYLOAD => self.forwarder.unknown_circuit(view.circuit_id),
                _ => self.forwarder.drops().no_way(),
            };
        };
        let find = || {
            circuit.comes_over(&self.link, from_host);
            self.forwarder.next_of(circuit, &self.link)
        };
        let Some(next) = next.get(circuit, find) else {
            if circuit.next(&self.link).is_none() {
                let (link, peer) = (&self.link, &self.peer);
                Self::note_foreign(&self.forwarder, &self.foreign, link, peer, &circuit.id);
            } else {
                self.forwarder.no_way_on(circuit);
            }
            return;
        };
        circuit.hear();
        if head.class == Class::Payload {
            circuit.carried.add(UsageDirection::FabricRx, message.body.len());
        }
        if head.strip {
            message.headers.remove_all(&weft_wire::payload::NOT_FORWARDED);
        }
        let back = |head: Head, answer| {
            if let Some(hop) = circuit.hop(&self.link) {
                hop.push(head.class, head.sequence, answer);
            }
        };
        self.forwarder.pass(circuit, &next, head, message, back);
    }

    /// Forgets circuits that ended, once the table is large.
    fn prune(&mut self) {
        if self.cached.len() < self.prune_at {
            return;
        }
        self.cached.retain(|_, cached| !cached.circuit.has_ended());
        self.prune_at = FIRST_PRUNE.max(2 * self.cached.len());
    }
}

/// The circuit of this id: searched once among the known ones, and then in the shared table.
fn find<'a>(
    cached: &'a mut HashMap<Arc<str>, CachedCircuit>,
    forwarder: &Forwarder,
    circuit: &str,
) -> Option<&'a mut CachedCircuit> {
    let entry = match cached.entry_ref(circuit) {
        EntryRef::Occupied(entry) if !entry.get().circuit.has_ended() => {
            return Some(entry.into_mut());
        }
        entry => entry,
    };
    let Some(circuit) = forwarder.circuit(circuit) else {
        if let EntryRef::Occupied(ended) = entry {
            ended.remove();
        }
        return None;
    };
    let id = Arc::clone(&circuit.id);
    let cached = CachedCircuit { next: CachedNext::default(), circuit };
    Some(match entry {
        EntryRef::Occupied(mut ended) => {
            ended.insert(cached);
            ended.into_mut()
        }
        EntryRef::Vacant(place) => place.insert_with_key(id, cached),
    })
}
