//! The registry: every metric of a program, by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::buckets::Buckets;
use crate::report::{MetricValue, Rate, Report};

/// Interval at which [`Registry::tick`] is to be called. Rates are averages over steps of this
/// length.
pub const TICK: Duration = Duration::from_secs(5);
/// Length of a window. A distribution covers the current window and the one before.
const WINDOW: Duration = Duration::from_secs(60);
/// Most names of metrics. Further metrics are counted as refused and not reported.
const MAX_NAMES: usize = 200_000;

/// Every metric of a program, by name.
#[derive(Debug)]
pub struct Registry {
    began: Instant,
    inner: Mutex<Inner>,
    /// Number of names that found no room, since the start.
    refused: AtomicU64,
    /// Scopes that were dropped, with their names. It has its own lock because a scope may be
    /// dropped within a closure that [`Registry::read`] calls.
    gone: Mutex<Vec<(u64, Vec<Arc<str>>)>>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<Arc<str>, Registered>,
    numbers: u64,
    window_from: Option<Instant>,
}

#[derive(Debug)]
struct Registered {
    /// Id of the scope that registered the metric.
    scope: u64,
    source: Source,
}

enum Source {
    Gauge(Box<dyn Fn() -> i64 + Send + Sync>),
    Meter(Box<dyn Fn() -> u64 + Send + Sync>, Rates),
    Histogram(Read, Window),
    Timer(Read, Window, Rates),
}

type Read = Box<dyn Fn(&mut Buckets) + Send + Sync>;

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gauge(_) => "gauge",
            Self::Meter(..) => "meter",
            Self::Histogram(..) => "histogram",
            Self::Timer(..) => "timer",
        })
    }
}

/// Metrics that leave the registry together when the scope is dropped.
#[derive(Debug)]
pub struct Scope {
    registry: Arc<Registry>,
    number: u64,
    names: Vec<Arc<str>>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self {
            began: now,
            inner: Mutex::default(),
            refused: AtomicU64::new(0),
            gone: Mutex::default(),
        })
    }

    /// A new, empty scope.
    #[must_use]
    pub fn scope(self: &Arc<Self>) -> Scope {
        let mut inner = self.inner.lock();
        inner.numbers += 1;
        Scope { registry: Arc::clone(self), number: inner.numbers, names: Vec::new() }
    }

    /// Updates rates and windows; to be called every [`TICK`].
    pub fn tick(&self, now: Instant) {
        self.tidy();
        let inner = &mut *self.inner.lock();
        let from = *inner.window_from.get_or_insert(now);
        let is_over = now.saturating_duration_since(from) >= WINDOW;
        if is_over {
            inner.window_from = Some(now);
        }
        for entry in inner.entries.values_mut() {
            entry.source.tick(now, is_over);
        }
    }

    /// The report of all metrics at this moment.
    #[must_use]
    pub fn read(&self, now: Instant) -> Report {
        self.tidy();
        let since = now.saturating_duration_since(self.began);
        let inner = self.inner.lock();
        let entries = inner.entries.iter();
        entries.map(|(name, entry)| (name.to_string(), entry.source.value(since))).collect()
    }

    /// Number of names that were refused because the registry was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Removes the names of dropped scopes, unless a read is going on.
    fn tidy(&self) {
        let Some(mut inner) = self.inner.try_lock() else { return };
        let mut removed = Vec::new();
        for (scope, names) in std::mem::take(&mut *self.gone.lock()) {
            for name in names {
                if inner.entries.get(&name).is_some_and(|entry| entry.scope == scope) {
                    removed.extend(inner.entries.remove(&name));
                }
            }
        }
        // Closures may own other scopes, which end with them: the lock is released first.
        drop(inner);
        drop(removed);
    }

    fn add(&self, scope: u64, name: &Arc<str>, source: Source) -> bool {
        let inner = &mut *self.inner.lock();
        let is_full = inner.entries.len() >= MAX_NAMES;
        match inner.entries.entry(Arc::clone(name)) {
            // A link of the same id that came back.
            Entry::Occupied(mut known) => {
                known.insert(Registered { scope, source });
                true
            }
            Entry::Vacant(_) if is_full => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                false
            }
            Entry::Vacant(place) => {
                place.insert(Registered { scope, source });
                true
            }
        }
    }
}

impl Scope {
    /// Registers a gauge: `read` returns its value.
    pub fn gauge(
        &mut self,
        name: impl Into<Arc<str>>,
        read: impl Fn() -> i64 + Send + Sync + 'static,
    ) {
        self.add(name.into(), Source::Gauge(Box::new(read)));
    }

    /// Registers a meter: `read` returns the number of events since the start.
    pub fn meter(
        &mut self,
        name: impl Into<Arc<str>>,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        self.add(name.into(), Source::Meter(Box::new(read), Rates::default()));
    }

    /// Registers a histogram: `read` adds all values since the start.
    pub fn histogram(
        &mut self,
        name: impl Into<Arc<str>>,
        read: impl Fn(&mut Buckets) + Send + Sync + 'static,
    ) {
        self.add(name.into(), Source::Histogram(Box::new(read), Window::default()));
    }

    /// Registers a timer: `read` adds all times since the start.
    pub fn timer(
        &mut self,
        name: impl Into<Arc<str>>,
        read: impl Fn(&mut Buckets) + Send + Sync + 'static,
    ) {
        let source = Source::Timer(Box::new(read), Window::default(), Rates::default());
        self.add(name.into(), source);
    }

    fn add(&mut self, name: Arc<str>, source: Source) {
        if self.registry.add(self.number, &name, source) {
            self.names.push(name);
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.registry.gone.lock().push((self.number, std::mem::take(&mut self.names)));
        self.registry.tidy();
    }
}

impl Source {
    fn tick(&mut self, now: Instant, is_over: bool) {
        match self {
            Self::Gauge(_) => {}
            Self::Meter(read, rates) => rates.tick(read(), now),
            Self::Histogram(read, window) => {
                if is_over {
                    window.turn(all(read));
                }
            }
            Self::Timer(read, window, rates) => {
                let seen = all(read);
                rates.tick(seen.count(), now);
                if is_over {
                    window.turn(seen);
                }
            }
        }
    }

    fn value(&self, since: Duration) -> MetricValue {
        match self {
            Self::Gauge(read) => MetricValue::Int(read()),
            Self::Meter(read, rates) => MetricValue::Meter(rates.rate(read(), since)),
            Self::Histogram(read, window) => {
                let seen = all(read);
                MetricValue::histogram(window.recent(&seen).distribution(seen.count()))
            }
            Self::Timer(read, window, rates) => {
                let seen = all(read);
                let recent = window.recent(&seen).distribution(seen.count());
                MetricValue::timer(recent, rates.rate(seen.count(), since))
            }
        }
    }
}

fn all(read: &Read) -> Buckets {
    let mut seen = Buckets::default();
    read(&mut seen);
    seen
}

/// State of a histogram at the beginning of this window and of the one before.
#[derive(Debug, Default)]
struct Window {
    before: Buckets,
    current: Buckets,
}

impl Window {
    fn turn(&mut self, seen: Buckets) {
        self.before = std::mem::replace(&mut self.current, seen);
    }

    fn recent(&self, seen: &Buckets) -> Buckets {
        seen.since(&self.before)
    }
}

/// Exponentially weighted averages.
#[derive(Debug, Default)]
struct Rates {
    last: Option<(Instant, u64)>,
    /// Averages over 1, 5 and 15 minutes, in events per second.
    averages: [Option<f64>; 3],
}

const MINUTES: [f64; 3] = [1.0, 5.0, 15.0];

impl Rates {
    fn tick(&mut self, count: u64, now: Instant) {
        let Some((at, before)) = self.last.replace((now, count)) else {
            // Events before the first tick count as if they came within one tick.
            let first = count as f64 / TICK.as_secs_f64();
            self.averages = [Some(first); 3];
            return;
        };
        let passed = now.saturating_duration_since(at).as_secs_f64();
        if passed <= 0.0 {
            self.last = Some((at, before));
            return;
        }
        let rate = count.saturating_sub(before) as f64 / passed;
        for (average, minutes) in self.averages.iter_mut().zip(MINUTES) {
            let weight = 1.0 - (-passed / (60.0 * minutes)).exp();
            let known = average.unwrap_or(rate);
            *average = Some(known + weight * (rate - known));
        }
    }

    fn rate(&self, count: u64, since: Duration) -> Rate {
        let [m1, m5, m15] = self.averages.map(Option::unwrap_or_default);
        let mean = count as f64 / since.as_secs_f64().max(1.0);
        Rate { count, m1, m5, m15, mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{Counter, Histogram};

    fn rate(report: &Report, name: &str) -> Rate {
        match report.get(name) {
            Some(MetricValue::Meter(rate)) => *rate,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rates_follow_what_is_counted() {
        let start = Instant::now();
        let registry = Registry::new(start);
        let counter = Arc::new(Counter::default());
        let mut scope = registry.scope();
        let cell = Arc::clone(&counter);
        scope.meter("m", move || cell.get());
        let mut now = start;
        for _ in 0..240 {
            now += TICK;
            counter.add(50);
            registry.tick(now);
        }
        let steady = rate(&registry.read(now), "m");
        assert_eq!(steady.count, 12_000);
        for seen in [steady.m1, steady.m5, steady.m15, steady.mean] {
            assert!((seen - 10.0).abs() < 0.1, "{steady:?}");
        }
        for _ in 0..24 {
            now += TICK;
            registry.tick(now);
        }
        let quiet = rate(&registry.read(now), "m");
        assert!(quiet.m1 < 1.5 && quiet.m5 > 6.0 && quiet.m15 > 8.0, "{quiet:?}");
    }

    #[test]
    fn distributions_forget_after_two_windows() {
        let start = Instant::now();
        let registry = Registry::new(start);
        let times = Arc::new(Histogram::times());
        let mut scope = registry.scope();
        let cells = Arc::clone(&times);
        scope.histogram("h", move |all| cells.add_to(all));
        let seen = |now| match registry.read(now).remove("h") {
            Some(MetricValue::Histogram(seen)) => *seen,
            other => panic!("{other:?}"),
        };
        times.add(1000);
        registry.tick(start);
        assert_eq!((seen(start).count, seen(start).mean), (1, 1000.0));
        for minute in 1..=2 {
            assert_eq!(seen(start).mean, 1000.0);
            registry.tick(start + minute * WINDOW);
        }
        let later = seen(start + 2 * WINDOW);
        assert_eq!((later.count, later.mean, later.p99), (1, 0.0, 0.0));
        times.add(50);
        assert_eq!(seen(start).mean, 50.0);
    }

    #[test]
    fn names_go_with_their_scope_unless_another_has_them() {
        let registry = Registry::new(Instant::now());
        let read = |registry: &Registry| registry.read(Instant::now());
        let mut one = registry.scope();
        one.gauge("a", || 1);
        one.gauge("b", || 1);
        let mut other = registry.scope();
        other.gauge("b", || 2);
        drop(one);
        assert_eq!(read(&registry), Report::from([("b".to_owned(), MetricValue::Int(2))]));
        drop(other);
        assert!(read(&registry).is_empty());
    }

    #[test]
    fn a_scope_may_end_while_its_registry_is_read() {
        let registry = Registry::new(Instant::now());
        let mut scope = registry.scope();
        let mut other = registry.scope();
        other.gauge("other", || 1);
        let ends = Mutex::new(Some(other));
        scope.gauge("ends another", move || i64::from(ends.lock().take().is_some()));
        assert_eq!(registry.read(Instant::now()).len(), 2);
        assert_eq!(registry.read(Instant::now()).len(), 1);
    }

    #[test]
    fn names_are_bounded() {
        let registry = Registry::new(Instant::now());
        let mut scope = registry.scope();
        for at in 0..MAX_NAMES + 3 {
            scope.gauge(at.to_string(), || 0);
        }
        assert_eq!((registry.read(Instant::now()).len(), registry.refused()), (MAX_NAMES, 3));
    }
}
