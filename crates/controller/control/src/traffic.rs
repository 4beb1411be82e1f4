//! Counts the messages on the channel to a router.

use std::sync::Arc;

use weft_channel::{ChannelHandle, Tap, TraceFile, TraceTap};
use weft_metrics::{Buckets, Histogram, Scope, SmallMessageCounter};
use weft_model::Id;
use weft_wire::Message;

/// Counts the messages of a channel.
#[derive(Debug)]
struct Traffic {
    rx: Arc<SmallMessageCounter>,
    tx: Arc<SmallMessageCounter>,
    /// Writes messages to the trace file, if there is one.
    trace: Option<TraceTap>,
}

impl Tap for Traffic {
    fn received(&self, message: &Message) {
        self.rx.message(message.body.len());
        self.trace.iter().for_each(|trace| trace.received(message));
    }

    fn sent(&self, message: &Message) {
        self.tx.message(message.body.len());
        self.trace.iter().for_each(|trace| trace.sent(message));
    }
}

/// The metrics of one router's channel, which exist as long as this value.
#[derive(Debug)]
pub struct ChannelMetrics {
    latency: Arc<Histogram>,
    _scope: Scope,
}

impl ChannelMetrics {
    /// Begins to measure; called before the channel starts.
    pub fn begin(
        mut scope: Scope,
        router: &Id,
        channel: &ChannelHandle,
        trace: Option<&TraceFile>,
    ) -> Self {
        let trace = trace.map(|file| file.tap(channel));
        let traffic = Traffic { rx: Arc::default(), tx: Arc::default(), trace };
        for (way, flow) in [("rx", &traffic.rx), ("tx", &traffic.tx)] {
            let name = |what: &str| format!("ctrl.{way}.{what}:{router}");
            let of = || Arc::clone(flow);
            let flow = of();
            scope.meter(name("bytesrate"), move || flow.bytes());
            let flow = of();
            scope.meter(name("msgrate"), move || flow.seen().messages);
            let flow = of();
            scope.histogram(name("msgsize"), move |all: &mut Buckets| *all = flow.seen().sizes);
        }
        let latency = Arc::new(Histogram::times());
        let times = Arc::clone(&latency);
        scope.histogram(format!("ctrl.latency:{router}"), move |all| times.add_to(all));
        channel.tap(Arc::new(traffic));
        Self { latency, _scope: scope }
    }

    /// Notes a round trip.
    pub fn round_trip(&self, rtt: std::time::Duration) {
        self.latency.took(rtt);
    }
}
