//! Former circuits and former paths: circuits that ended, and routers that circuits went over.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use weft_model::Id;

/// Most circuits whose past is remembered. Circuits that ended are not adopted again, and routers
/// report bytes of a circuit minutes after the circuit has left them.
const REMEMBERED: usize = 131_072;
/// Most routers that are remembered for one circuit.
const MAX_PAST: usize = 32;

/// Circuits that ended or took another path.
#[derive(Debug, Default)]
pub(super) struct CircuitHistory {
    by_id: HashMap<Arc<str>, FormerCircuit>,
    order: VecDeque<Arc<str>>,
}

/// The past of a circuit.
#[derive(Debug)]
struct FormerCircuit {
    /// Service and terminator.
    used: [Id; 2],
    /// Routers that the circuit went over.
    nodes: Vec<Id>,
    has_ended: bool,
}

impl CircuitHistory {
    /// Whether a circuit of this id ended here.
    pub(super) fn has_ended(&self, id: &str) -> bool {
        self.by_id.get(id).is_some_and(|former| former.has_ended)
    }

    /// The service and the terminator of a circuit that went over the router.
    pub(super) fn used_over(&self, id: &str, router: &str) -> Option<[Id; 2]> {
        let former = self.by_id.get(id)?;
        let went_over = former.nodes.iter().any(|node| node.as_str() == router);
        went_over.then(|| former.used.clone())
    }

    /// Notes that a circuit over these routers has ended, or leaves its path.
    pub(super) fn note(&mut self, id: &str, used: [Id; 2], nodes: &[Id], has_ended: bool) {
        if let Some(former) = self.by_id.get_mut(id) {
            former.has_ended |= has_ended;
            former.used = used;
            for node in nodes {
                if former.nodes.len() < MAX_PAST && !former.nodes.contains(node) {
                    former.nodes.push(node.clone());
                }
            }
            return;
        }
        let id: Arc<str> = id.into();
        let former = FormerCircuit { used, nodes: nodes.to_vec(), has_ended };
        self.by_id.insert(Arc::clone(&id), former);
        self.order.push_back(id);
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.by_id.remove(&oldest);
            }
        }
    }
}
