//! The next place of the messages from one address of a circuit.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weft_circuit::{HopFlow, HopQueue};

use super::circuit::Circuit;
use super::sdk_queue::SdkQueue;

/// The next place of a payload.
pub(crate) enum Next<E, F> {
    /// To an end on this router.
    Local(Arc<E>),
    /// To an end at an SDK.
    Sdk(Arc<SdkQueue<F>>),
    /// To another router.
    Link(Arc<HopQueue<F>>),
}

/// The next place for payloads of one source, looked up once for every change of the circuit's entries. The
/// reference is weak, because two ends that lead to each other would never be dropped.
pub(crate) struct CachedNext<E, F>(Option<(u32, Target<E, F>)>);

enum Target<E, F> {
    Local(Weak<E>),
    Sdk(Weak<SdkQueue<F>>),
    Link(Weak<HopQueue<F>>),
}

impl<E, F> Default for CachedNext<E, F> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E, F: HopFlow> CachedNext<E, F> {
    fn new(generation: u32, next: &Next<E, F>) -> Self {
        let target = match next {
            Next::Local(end) => Target::Local(Arc::downgrade(end)),
            Next::Sdk(end) => Target::Sdk(Arc::downgrade(end)),
            Next::Link(hop) => Target::Link(Arc::downgrade(hop)),
        };
        Self(Some((generation, target)))
    }

    /// The place that was found in this generation; `Some(None)` if it is gone.
    fn of(&self, generation: u32) -> Option<Option<Next<E, F>>> {
        let (cached, target) = self.0.as_ref()?;
        (*cached == generation).then(|| target.upgrade())
    }

    /// The next place, looked up with `find` if it is unknown or the entries have changed; `None` if
    /// the messages have no next place.
    pub(crate) fn get(
        &mut self,
        circuit: &Circuit<F>,
        find: impl FnOnce() -> Option<Next<E, F>>,
    ) -> Option<Next<E, F>> {
        let generation = circuit.generation();
        if let Some(cached) = self.of(generation) {
            return cached;
        }
        let found = find()?;
        *self = Self::new(generation, &found);
        Some(found)
    }
}

/// [`CachedNext`] for a source that several tasks can reach. One of them reads payloads at a time, so that the lock
/// is free. Making and dropping it costs nothing, which counts with thousands of circuits a second.
pub(crate) struct SharedNext<E, F>(Mutex<CachedNext<E, F>>);

impl<E, F> Default for SharedNext<E, F> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E, F: HopFlow> SharedNext<E, F> {
    /// As [`CachedNext::get`]. The lock is not held while `find` looks.
    pub(crate) fn get(
        &self,
        circuit: &Circuit<F>,
        find: impl FnOnce() -> Option<Next<E, F>>,
    ) -> Option<Next<E, F>> {
        let generation = circuit.generation();
        if let Some(cached) = self.0.lock().of(generation) {
            return cached;
        }
        let found = find()?;
        *self.0.lock() = CachedNext::new(generation, &found);
        Some(found)
    }
}

impl<E, F> Target<E, F> {
    fn upgrade(&self) -> Option<Next<E, F>> {
        match self {
            Self::Local(end) => end.upgrade().map(Next::Local),
            Self::Sdk(end) => end.upgrade().map(Next::Sdk),
            Self::Link(hop) => hop.upgrade().map(Next::Link),
        }
    }
}
