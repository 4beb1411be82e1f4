//! Counts of connections and bytes, by service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Counts of one service, for dialed or for hosted connections.
#[derive(Debug, Default)]
pub struct ServiceTraffic {
    open: AtomicU64,
    total: AtomicU64,
    failed: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Connections that are open.
    pub open: u64,
    /// Connections that were opened so far, closed ones included.
    pub total: u64,
    /// Connections that could not be made.
    pub failed: u64,
    /// Bytes that were sent into the network.
    pub sent: u64,
    /// Bytes that were received from the network.
    pub received: u64,
}

/// Counts a connection as open until the value is dropped.
#[derive(Debug)]
pub(crate) struct Opened(Arc<ServiceTraffic>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServiceTraffic {
    pub(crate) fn opened(self: &Arc<Self>) -> Opened {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        Opened(Arc::clone(self))
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The present counts.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counters {
            open: read(&self.open),
            total: read(&self.total),
            failed: read(&self.failed),
            sent: read(&self.sent),
            received: read(&self.received),
        }
    }
}

/// The counts by service.
#[derive(Debug, Default)]
pub struct TrafficRegistry(Mutex<BTreeMap<String, Arc<ServiceTraffic>>>);

impl TrafficRegistry {
    /// The counts of a service.
    #[must_use]
    pub fn of(&self, service: &str) -> Arc<ServiceTraffic> {
        let mut known = self.0.lock();
        if let Some(traffic) = known.get(service) {
            return Arc::clone(traffic);
        }
        Arc::clone(known.entry(service.to_owned()).or_default())
    }

    /// The number of open connections.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.0.lock().values().map(|traffic| traffic.counters().open).sum()
    }

    /// Removes services for which `keep` is false and that have no open connections.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.lock().retain(|service, traffic| keep(service) || traffic.counters().open > 0);
    }
}
