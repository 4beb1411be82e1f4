//! The next place of the messages from one address of a circuit.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use weft_circuit::{Hop, HopFlow};

use super::{circuit::Circuit, sdk_queue::SdkQueue};

/// The next place of a payload.
pub(crate) enum Next<E, F> {
    /// To an end on this router.
    Local(Arc<E>),
    /// To an end at an SDK.
    Sdk(Arc<SdkQueue<F>>),
    /// To another router.
    Link(Arc<Hop<F>>),
}

/// The next place for payloads of one source, looked up once for every change of the circuit's ways. The
/// reference is weak, because two ends that lead to each other would never be dropped.
pub(crate) struct Cached<E, F>(ArcSwapOption<(u32, Target<E, F>)>);

enum Target<E, F> {
    Local(Weak<E>),
    Sdk(Weak<SdkQueue<F>>),
    Link(Weak<Hop<F>>),
}

impl<E, F> Default for Cached<E, F> {
    fn default() -> Self {
        Self(ArcSwapOption::empty())
    }
}

impl<E, F: HopFlow> Cached<E, F> {
    /// The next place, looked up with `find` if it is unknown or the ways have changed; `None` if
    /// the messages have no next place.
    pub(crate) fn get(
        &self,
        circuit: &Circuit<F>,
        find: impl FnOnce() -> Option<Next<E, F>>,
    ) -> Option<Next<E, F>> {
        let generation = circuit.generation();
        if let Some((known, target)) = self.0.load().as_deref()
            && *known == generation
        {
            return target.upgrade();
        }
        let found = find()?;
        let target = match &found {
            Next::Local(end) => Target::Local(Arc::downgrade(end)),
            Next::Sdk(end) => Target::Sdk(Arc::downgrade(end)),
            Next::Link(hop) => Target::Link(Arc::downgrade(hop)),
        };
        self.0.store(Some(Arc::new((generation, target))));
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
