//! The measurements of this router: cells that the data path adds to, under the names of metrics.
//!
//! A cell belongs to the part that counts; a metric is registered as a name with a closure that reads
//! cells. Rates and windows are brought up to date every five seconds, off the data path.

mod book;

use std::ops::AddAssign;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub(crate) use book::{Book, Carried};
use parking_lot::Mutex;
use weft_circuit::now;
use weft_metrics::usage::UsageDirection;
use weft_metrics::{
    Buckets, Counter, Histogram, MessageCounter, Registry, Report, Scope, Ticks, process,
};
use weft_xgress::Role;

/// The measurements of this router.
#[derive(Debug)]
pub(crate) struct Measures {
    registry: Arc<Registry>,
    /// The metrics that are registered while the router runs.
    scope: Mutex<Scope>,
    /// Data from and to dialing applications.
    pub(crate) ingress: Both,
    /// Data from and to hosting applications.
    pub(crate) egress: Both,
    /// Messages of circuits from and to other routers.
    pub(crate) fabric: Both,
    pub(crate) ends: Ends,
    pub(crate) edge: Edge,
    /// Routes that named a link which this router does not have.
    pub(crate) link_faults: Arc<Counter>,
    pub(crate) dials: Dials,
    /// How long dialing a link took.
    pub(crate) link_dials: Arc<Histogram>,
    /// Reports that were dropped because no controller accepted them in time.
    pub(crate) lost_reports: Arc<Counter>,
    /// Bytes of circuits that are not reported yet.
    pub(crate) book: Arc<Book>,
}

/// Both directions of one kind of traffic.
#[derive(Debug, Default, Clone)]
pub(crate) struct Both {
    /// Received messages.
    pub(crate) rx: Arc<MessageCounter>,
    /// Sent messages.
    pub(crate) tx: Arc<MessageCounter>,
}

/// Ends of circuits on this router.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) acks_rx: Arc<Ticks>,
    pub(crate) acks_tx: Arc<Ticks>,
    pub(crate) retransmissions: Arc<Counter>,
    pub(crate) duplicates: Arc<Counter>,
    /// The result of the last look at all ends.
    outstanding: Arc<Mutex<Outstanding>>,
}

/// Unacknowledged bytes of ends, and the ends that can send nothing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Outstanding {
    pub(crate) bytes: u64,
    pub(crate) payloads: u64,
    /// Ends whose own window is full.
    pub(crate) by_window: u64,
    /// Ends whose peer has no room.
    pub(crate) by_peer: u64,
}

impl AddAssign for Outstanding {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.payloads += more.payloads;
        self.by_window += more.by_window;
        self.by_peer += more.by_peer;
    }
}

impl Ends {
    /// Sets the result of a look at all ends.
    pub(crate) fn looked_at(&self, all: Outstanding) {
        *self.outstanding.lock() = all;
    }
}

/// Connections of SDKs.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    pub(crate) let_in: Arc<Counter>,
    pub(crate) refused: Arc<Counter>,
    pub(crate) bad_sessions: Arc<Counter>,
    pub(crate) ended: Arc<Counter>,
    /// Channels and listeners of identities that had as many as they may have.
    pub(crate) full: Arc<Counter>,
}

/// The results of dials of hosts.
#[derive(Debug, Default)]
pub(crate) struct Dials {
    pub(crate) answered: Arc<Counter>,
    pub(crate) failed: Arc<Counter>,
}

impl Default for Measures {
    fn default() -> Self {
        let registry = Registry::new(now());
        let measures = Self {
            scope: Mutex::new(registry.scope()),
            registry,
            ingress: Both::default(),
            egress: Both::default(),
            fabric: Both::default(),
            ends: Ends::default(),
            edge: Edge::default(),
            link_faults: Arc::default(),
            dials: Dials::default(),
            link_dials: Arc::new(Histogram::times()),
            lost_reports: Arc::default(),
            book: Arc::default(),
        };
        measures.register();
        measures
    }
}

impl Measures {
    /// Counts bytes that came from the application behind an end of a circuit, and says which way
    /// they go.
    pub(crate) fn came(&self, end: Role, bytes: usize) -> UsageDirection {
        let (flow, direction) = match end {
            Role::Initiator => (&self.ingress.rx, UsageDirection::IngressRx),
            Role::Terminator => (&self.egress.rx, UsageDirection::EgressRx),
        };
        flow.message(bytes);
        direction
    }

    /// Counts bytes that go to the application behind an end of a circuit, and says which way they
    /// go.
    pub(crate) fn goes(&self, end: Role, bytes: usize) -> UsageDirection {
        let (flow, direction) = match end {
            Role::Initiator => (&self.ingress.tx, UsageDirection::IngressTx),
            Role::Terminator => (&self.egress.tx, UsageDirection::EgressTx),
        };
        flow.message(bytes);
        direction
    }

    /// Registers more metrics for as long as the router runs.
    pub(crate) fn also(&self, register: impl FnOnce(&mut Scope)) {
        register(&mut self.scope.lock());
    }

    /// A scope for metrics that are registered as long as it lives.
    pub(crate) fn scope(&self) -> Scope {
        self.registry.scope()
    }

    /// Brings rates and windows up to date.
    pub(crate) fn tick(&self, now: Instant) {
        self.registry.tick(now);
    }

    /// All metrics at this moment.
    pub(crate) fn read(&self) -> Report {
        self.registry.read(now())
    }

    fn register(&self) {
        let mut scope = self.scope.lock();
        process::register(&mut scope);
        for (name, both) in
            [("ingress", &self.ingress), ("egress", &self.egress), ("fabric", &self.fabric)]
        {
            both.register(&mut scope, name);
        }
        let mut count = |name: &'static str, counter: &Arc<Counter>| {
            let counter = Arc::clone(counter);
            scope.meter(name, move || counter.get());
        };
        count("xgress.retransmissions", &self.ends.retransmissions);
        count("edge.connect.successes", &self.edge.let_in);
        count("edge.connect.failures", &self.edge.refused);
        count("edge.invalid_api_tokens", &self.edge.bad_sessions);
        count("edge.disconnects", &self.edge.ended);
        count("weft.edge.refused", &self.edge.full);
        count("faults.link", &self.link_faults);
        count("weft.dials.successes", &self.dials.answered);
        count("weft.dials.failures", &self.dials.failed);
        count("weft.reports.dropped", &self.lost_reports);
        let registry = Arc::downgrade(&self.registry);
        scope.gauge("weft.metrics.not_measured", move || {
            let refused = registry.upgrade().map_or(0, |registry| registry.refused());
            i64::try_from(refused).unwrap_or(i64::MAX)
        });
        for (name, ticks) in
            [("xgress.rx.acks", &self.ends.acks_rx), ("xgress.tx.acks", &self.ends.acks_tx)]
        {
            let ticks = Arc::clone(ticks);
            scope.meter(name, move || ticks.get());
        }
        type Field = fn(&Outstanding) -> u64;
        let gauges: [(&str, Field); 4] = [
            ("xgress.tx_unacked_payload_bytes", |all| all.bytes),
            ("xgress.tx_unacked_payloads", |all| all.payloads),
            ("xgress.blocked_by_local_window", |all| all.by_window),
            ("xgress.blocked_by_remote_window", |all| all.by_peer),
        ];
        for (name, of) in gauges {
            let outstanding = Arc::clone(&self.ends.outstanding);
            let read = move || i64::try_from(of(&outstanding.lock())).unwrap_or(i64::MAX);
            scope.gauge(name, read);
        }
        let times = Arc::clone(&self.link_dials);
        scope.timer("pool.link.dialer.work_timer", move |all| times.add_to(all));
    }
}

impl Both {
    /// Registers both directions below this name.
    pub(crate) fn register(&self, scope: &mut Scope, below: &str) {
        for (direction, flow) in [("rx", &self.rx), ("tx", &self.tx)] {
            let name = |what: &str| format!("{below}.{direction}.{what}");
            let of = || Arc::clone(flow);
            let flow = of();
            scope.meter(name("bytesrate"), move || flow.bytes());
            let flow = of();
            scope.meter(name("msgrate"), move || flow.seen().messages);
            let flow = of();
            scope.histogram(name("msgsize"), move |all: &mut Buckets| *all = flow.seen().sizes);
        }
    }
}

/// The measurements of one link.
#[derive(Debug)]
pub(crate) struct LinkMeasures {
    pub(crate) traffic: Both,
    /// Round trips.
    pub(crate) latency: Arc<Histogram>,
    /// How long messages wait for the link.
    pub(crate) queue_time: Arc<Histogram>,
    scope: OnceLock<Scope>,
}

impl Default for LinkMeasures {
    fn default() -> Self {
        let times = || Arc::new(Histogram::times());
        let (latency, queue_time) = (times(), times());
        Self { traffic: Both::default(), latency, queue_time, scope: OnceLock::new() }
    }
}

impl LinkMeasures {
    /// Registers the metrics of a link for as long as this value lives; `dropped` counts the
    /// messages that its queue dropped.
    pub(crate) fn register(
        &self,
        measures: &Measures,
        link: &str,
        dropped: impl Fn() -> u64 + Clone + Send + Sync + 'static,
    ) {
        let mut scope = measures.scope();
        self.traffic.register(&mut scope, &format!("link.{link}"));
        for (name, times) in [("latency", &self.latency), ("queue_time", &self.queue_time)] {
            let times = Arc::clone(times);
            scope.histogram(format!("link.{link}.{name}"), move |all| times.add_to(all));
        }
        // Payloads of an end on this router wait in the end: only forwarded messages are ever
        // dropped.
        for name in ["dropped_msgs", "dropped_fwd_msgs"] {
            scope.meter(format!("link.{name}:{link}"), dropped.clone());
        }
        let _ = self.scope.set(scope);
    }
}
