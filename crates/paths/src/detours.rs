//! Trees of paths that avoid some routers, kept for one version of the graph.
//!
//! While a router refuses circuits, many dials look for paths around it. The first of them computes
//! the tree, and the others use it.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::graph::Graph;
use super::tree::Tree;

/// Most bytes of kept trees, and most of them.
const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_TREES: usize = 256;

/// The tree of a router, and the routers that it avoids, sorted.
#[derive(Debug)]
struct Detour {
    source: u32,
    avoided: Vec<u32>,
    /// Set by the first task that needs it; others wait meanwhile.
    tree: Arc<OnceLock<Tree>>,
}

/// Trees for one version of the graph, the oldest first.
#[derive(Debug, Default)]
struct Kept {
    version: u64,
    detours: VecDeque<Detour>,
}

/// Kept trees around avoided routers.
#[derive(Debug, Default)]
pub(crate) struct Detours(Mutex<Kept>);

impl Detours {
    /// The tree of a router whose paths lead through none of the avoided routers.
    pub(crate) fn get(
        &self,
        graph: &Graph,
        source: u32,
        mut avoided: Vec<u32>,
    ) -> Arc<OnceLock<Tree>> {
        avoided.sort_unstable();
        avoided.dedup();
        let tree = self.place(graph, source, &avoided);
        tree.get_or_init(|| Tree::grow(&graph.around(&avoided), source, None));
        tree
    }

    fn place(&self, graph: &Graph, source: u32, avoided: &[u32]) -> Arc<OnceLock<Tree>> {
        let mut kept = self.0.lock();
        if kept.version != graph.version() {
            if kept.version > graph.version() {
                // For a task that has an old version.
                return Arc::default();
            }
            *kept = Kept { version: graph.version(), ..Kept::default() };
        }
        let is_it = |one: &&Detour| one.source == source && one.avoided == avoided;
        if let Some(known) = kept.detours.iter().find(is_it) {
            return Arc::clone(&known.tree);
        }
        let most = (MAX_BYTES / Tree::bytes(graph.size())).clamp(1, MAX_TREES);
        while kept.detours.len() >= most {
            kept.detours.pop_front();
        }
        let tree = Arc::<OnceLock<Tree>>::default();
        let detour = Detour { source, avoided: avoided.to_vec(), tree: Arc::clone(&tree) };
        kept.detours.push_back(detour);
        tree
    }
}

#[cfg(test)]
mod tests {
    use weft_model::Id;

    use super::*;

    fn graph(version: u64) -> Graph {
        let mut graph = Graph::new(0);
        let ids = ["r0", "r1", "r2"].map(Id::new);
        ids.iter().for_each(|id| graph.add_router(id, 1, false));
        graph.add_link("l0", &ids[0], &ids[1], 1);
        graph.add_link("l1", &ids[1], &ids[2], 1);
        graph.set_version(version);
        graph
    }

    #[test]
    fn a_tree_serves_all_who_avoid_the_same_routers() {
        let (detours, first) = (Detours::default(), graph(1));
        let tree = detours.get(&first, 0, vec![1, 1]);
        assert_eq!(tree.get().unwrap().cost(2), None);
        assert!(Arc::ptr_eq(&tree, &detours.get(&first, 0, vec![1])));
        assert!(!Arc::ptr_eq(&tree, &detours.get(&first, 2, vec![1])));
        let other = detours.get(&first, 0, vec![2]);
        assert!(other.get().unwrap().cost(2).is_some(), "a path may end there");
        let later = detours.get(&graph(2), 0, vec![1]);
        assert!(!Arc::ptr_eq(&tree, &later));
        assert_eq!(detours.0.lock().detours.len(), 1);
        // A task with the former version disturbs nothing.
        assert_eq!(detours.get(&first, 0, vec![1]).get().unwrap().version(), 1);
        assert!(Arc::ptr_eq(&later, &detours.get(&graph(2), 0, vec![1])));
    }

    #[test]
    fn few_trees_are_kept() {
        let (detours, graph) = (Detours::default(), graph(1));
        for number in 0..2 * MAX_TREES as u32 {
            detours.get(&graph, 0, vec![number]);
        }
        assert_eq!(detours.0.lock().detours.len(), MAX_TREES);
    }
}
