//! An open link: its channels, its measurements, and its reports to controllers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_channel::{
    Batch, Behaviour, ChannelHandle, CloseReason, ConnectionParts, Established, Handler, Outbox,
    Reading, TraceFile, UnderlayInfo, UnderlayWaker,
};
use weft_circuit::Carries;
use weft_identity::ExpectedRouter;
use weft_wire::Message;
use weft_wire::hello::underlay;
use weft_wire::link::SplitPart;
use weft_wire::metrics::UNRESPONSIVE_LATENCY;
use weft_wire::payload::content_type::{ACK, CONTROL, PAYLOAD};

use super::Links;
use super::machine::{Facts, Handle};
use crate::forwarder::{Arrivals, BackToHops, DataOutbox, Foreign, Link, Outlet};
use crate::measures::{Both, LinkMeasures, Measures};
use crate::seam::{LinkConnection, LinkLatency, LinkReport};

/// Bytes that may wait for one link.
const LINK_BUDGET: u64 = 64 << 20;
/// A link whose peer leaves heartbeats unanswered for this long is reported with a latency that
/// makes paths avoid it.
const UNANSWERED: Duration = Duration::from_secs(30);

/// The channels of a link after their hellos: one channel, or the two of a split link.
pub(super) type Channels = Vec<(Option<SplitPart>, Established)>;

/// A link that was opened.
pub(super) struct LiveLink {
    pub(super) facts: Facts,
    pub(super) link: Arc<Link>,
    pub(super) protocol: String,
    /// The channels until the link is taken.
    unstarted: Mutex<Channels>,
    channels: Vec<(Option<SplitPart>, ChannelHandle)>,
    /// The number of changes of its connections, from 1.
    state: AtomicU32,
    latency: Mutex<Latency>,
    pub(super) measures: LinkMeasures,
    /// Messages whose circuit does not come over the link.
    pub(super) foreign: Arc<Foreign>,
    closed: AtomicBool,
    owner: Weak<Links>,
}

/// Round trips since the last report.
#[derive(Debug, Default)]
struct Latency {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl LiveLink {
    /// Makes a link of these channels, which are not started yet.
    pub(super) fn new(
        owner: &Arc<Links>,
        facts: Facts,
        protocol: &str,
        channels: Channels,
    ) -> Arc<Self> {
        let link = Link {
            id: facts.id.as_str().into(),
            peer: facts.peer.as_str().into(),
            iteration: facts.iteration,
            outlet: Outlet::new(owner.forwarder.budget().child(LINK_BUDGET)),
        };
        Arc::new(Self {
            facts,
            link: Arc::new(link),
            protocol: protocol.to_owned(),
            channels: channels.iter().map(|(part, channel)| (*part, channel.handle())).collect(),
            unstarted: Mutex::new(channels),
            state: AtomicU32::new(1),
            latency: Mutex::default(),
            measures: LinkMeasures::default(),
            foreign: Arc::default(),
            closed: AtomicBool::new(false),
            owner: Arc::downgrade(owner),
        })
    }

    /// Starts the channels.
    pub(super) fn start(self: &Arc<Self>, measures: &Measures, trace: Option<&TraceFile>) {
        let outlet = Arc::clone(&self.link.outlet);
        self.measures.register(measures, &self.link.id, move || outlet.dropped());
        let channels = std::mem::take(&mut *self.unstarted.lock());
        for (part, channel) in channels {
            if let Some(trace) = trace {
                trace.follow(&channel.handle());
            }
            channel.start(Arc::new(Traffic { live: Arc::clone(self), part }));
        }
    }

    /// True if this router dialed the link.
    pub(super) fn is_dialed(&self) -> bool {
        self.facts.dialed.is_some()
    }

    /// The address that was dialed; empty if the peer dialed.
    pub(super) fn address(&self) -> &str {
        self.facts.dialed.as_deref().unwrap_or_default()
    }

    /// The first channel of the link, which takes all kinds of messages.
    pub(super) fn channel(&self) -> Option<&ChannelHandle> {
        self.channels.first().map(|(_, channel)| channel)
    }

    /// Closes all channels of the link.
    pub(super) fn close(&self, reason: &str) {
        for (_, channel) in &self.channels {
            channel.close(reason.to_owned());
        }
    }

    /// Notes that a channel has closed. True for the first channel.
    fn ended(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Adds a measured round trip.
    pub(super) fn measured(&self, rtt: Duration) {
        let nanos = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        self.measures.latency.add(nanos);
        let mut latency = self.latency.lock();
        latency.min = if latency.count == 0 { nanos } else { latency.min.min(nanos) };
        latency.max = latency.max.max(nanos);
        latency.count += 1;
        latency.sum += u128::from(nanos);
    }

    /// The measurements since the last call; for a peer that does not answer, a latency that makes
    /// paths avoid the link. `None` if there is nothing new.
    pub(super) fn take_latency(&self) -> Option<LinkLatency> {
        let id = self.link.id.to_string();
        let silent = self.channel().map(|channel| channel.liveness());
        if silent.is_some_and(|one| one.outstanding.is_some_and(|time| time > UNANSWERED)) {
            *self.latency.lock() = Latency::default();
            let nanos = UNRESPONSIVE_LATENCY.unsigned_abs();
            let mean = nanos as f64;
            return Some(LinkLatency { id, count: 1, mean, min: nanos, max: nanos });
        }
        let latency = std::mem::take(&mut *self.latency.lock());
        if latency.count == 0 {
            return None;
        }
        let mean = latency.sum as f64 / latency.count as f64;
        Some(LinkLatency { id, count: latency.count, mean, min: latency.min, max: latency.max })
    }

    /// Records how long messages have waited since the last call.
    pub(super) fn look_at_queue(&self, now: Instant) {
        for wait in self.link.outlet.probe().take(now) {
            self.measures.queue_time.took(wait);
        }
    }

    /// The connections of the link.
    pub(super) fn connections(&self) -> Vec<LinkConnection> {
        let of = |(part, channel): &(Option<SplitPart>, ChannelHandle)| {
            let kind = |info: &UnderlayInfo| match part {
                Some(SplitPart::Payload) => "payload".to_owned(),
                Some(SplitPart::Ack) => "ack".to_owned(),
                None if info.kind.is_empty() => "single".to_owned(),
                None => info.kind.clone(),
            };
            let network = if self.protocol == "dtls" { "udp" } else { "tcp" };
            let connection = |info: UnderlayInfo| LinkConnection {
                kind: kind(&info),
                local: format!("{network}:{}", info.local),
                remote: format!("{network}:{}", info.remote),
            };
            channel.underlays().into_iter().map(connection).collect::<Vec<_>>()
        };
        self.channels.iter().flat_map(of).collect()
    }

    /// The report of the link to controllers.
    pub(super) fn report(&self) -> LinkReport {
        LinkReport {
            id: self.link.id.to_string(),
            peer: self.link.peer.to_string(),
            protocol: self.protocol.clone(),
            address: self.address().to_owned(),
            iteration: self.facts.iteration,
            state: self.state.load(Ordering::Acquire),
            connections: self.connections(),
        }
    }

    /// Counts a change of the connections since the last report.
    pub(super) fn connections_changed(&self) {
        self.state.fetch_add(1, Ordering::AcqRel);
    }
}

impl Handle for Arc<LiveLink> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn prove(&self, keys: &[String]) -> Result<(), String> {
        let Some(channel) = self.channel() else { return Ok(()) };
        let expected = ExpectedRouter::new(self.facts.peer.clone(), keys.to_vec());
        let proof = expected.prove(&channel.peer().certificates);
        proof.map(|_| ()).map_err(|problem| problem.to_string())
    }
}

/// Handles one channel of a link.
struct Traffic {
    live: Arc<LiveLink>,
    part: Option<SplitPart>,
}

impl Behaviour for Traffic {
    fn attach(
        &self,
        info: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        let live = &self.live;
        let Some(owner) = live.owner.upgrade() else {
            return ConnectionParts { handler: Box::new(Deaf), outbox: None };
        };
        let is_for_acks = info.kind == underlay::LINK_ACK || self.part == Some(SplitPart::Ack);
        let carries = if is_for_acks { Carries::Acks } else { Carries::Payloads };
        let forwarder = &owner.forwarder;
        let weak = Arc::downgrade(forwarder);
        let back = BackToHops { forwarder: weak, link: Arc::clone(&live.link.id) };
        let data = live.link.outlet.open(carries, waker.clone()).giving_back_to(Arc::new(back));
        let outbox =
            ToPeer { data, live: Arc::clone(live), fabric: forwarder.measures().fabric.clone() };
        let arrivals = Arrivals::new(Arc::clone(forwarder), &live.link, Arc::clone(&live.foreign));
        let fabric = forwarder.measures().fabric.clone();
        let handler = FromPeer { live: Arc::clone(live), arrivals, fabric };
        ConnectionParts { handler: Box::new(handler), outbox: Some(Box::new(outbox)) }
    }

    fn closed(&self, reason: &CloseReason) {
        if !self.live.ended() {
            return;
        }
        // The other half of a split link is closed, too.
        self.live.close("the link is closed");
        if let Some(owner) = self.live.owner.upgrade() {
            owner.closed(&self.live, reason);
        }
    }
}

/// Takes the messages of one connection.
struct FromPeer {
    live: Arc<LiveLink>,
    arrivals: Arrivals,
    fabric: Both,
}

impl Handler for FromPeer {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        match message.content_type {
            PAYLOAD | ACK | CONTROL => {
                for all in [&self.live.measures.traffic, &self.fabric] {
                    all.rx.message(message.body.len());
                }
                self.arrivals.take(message);
            }
            other => tracing::trace!(content_type = other, "ignored a message of a link"),
        }
        Reading::Continue
    }

    fn on_heartbeat(&mut self, rtt: Duration) {
        self.live.measured(rtt);
    }
}

/// Serves one connection, and counts the messages that leave over it.
struct ToPeer {
    data: DataOutbox,
    live: Arc<LiveLink>,
    fabric: Both,
}

impl Outbox for ToPeer {
    fn notice(&mut self) {
        self.data.notice();
    }

    fn wake_at(&self) -> Option<Instant> {
        self.data.wake_at()
    }

    fn fill(&mut self, batch: &mut Batch) {
        let before = batch.len();
        self.data.fill(batch);
        for message in batch.from(before) {
            for all in [&self.live.measures.traffic, &self.fabric] {
                all.tx.message(message.body.len());
            }
        }
    }

    fn flushed(&mut self) {
        self.data.flushed();
    }

    fn give_back(&mut self, unsent: Vec<Message>) {
        self.data.give_back(unsent);
    }
}

/// A handler that ignores messages, for a router that has stopped.
struct Deaf;

impl Handler for Deaf {
    fn on_message(&mut self, _: Message, _: &ChannelHandle) -> Reading {
        Reading::Continue
    }
}
