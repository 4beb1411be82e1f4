//! Trees of paths that avoid some routers, kept for one version of the graph.
//!
//! While a router refuses circuits, many dials look for paths around it. The first of them computes
//! the tree, and the others use it. With more pairs of a dialer and avoided routers than trees have
//! room, the trees stay, and further paths are searched for one by one.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::graph::Graph;
use super::path::Path;
use super::tree::Tree;

/// Most bytes of kept trees, and the most trees.
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

/// Trees for one version of the graph.
#[derive(Debug, Default)]
struct DetourCache {
    version: u64,
    detours: Vec<Detour>,
}

/// Kept trees around avoided routers.
#[derive(Debug, Default)]
pub(crate) struct Detours(Mutex<DetourCache>);

impl Detours {
    /// The cheapest path from a router to another through none of the avoided routers. If there is
    /// no room for a further tree, the search ends at the target and keeps nothing.
    pub(crate) fn path(
        &self,
        graph: &Graph,
        source: u32,
        to: u32,
        mut avoided: Vec<u32>,
    ) -> Option<Path> {
        avoided.sort_unstable();
        avoided.dedup();
        let around = || graph.around(&avoided);
        match self.place(graph, source, &avoided) {
            Some(tree) => tree.get_or_init(|| Tree::grow(&around(), source, None)).path(graph, to),
            None => Tree::grow(&around(), source, Some(to)).path(graph, to),
        }
    }

    /// The place of a tree; none if there is no room for it, or if the version of the graph is over.
    fn place(&self, graph: &Graph, source: u32, avoided: &[u32]) -> Option<Arc<OnceLock<Tree>>> {
        let mut kept = self.0.lock();
        if kept.version != graph.version() {
            if kept.version > graph.version() {
                return None;
            }
            *kept = DetourCache { version: graph.version(), ..DetourCache::default() };
        }
        let is_it = |one: &&Detour| one.source == source && one.avoided == avoided;
        if let Some(known) = kept.detours.iter().find(is_it) {
            return Some(Arc::clone(&known.tree));
        }
        let most = (MAX_BYTES / Tree::bytes(graph.size())).clamp(1, MAX_TREES);
        if kept.detours.len() >= most {
            return None;
        }
        let tree = Arc::<OnceLock<Tree>>::default();
        let detour = Detour { source, avoided: avoided.to_vec(), tree: Arc::clone(&tree) };
        kept.detours.push(detour);
        Some(tree)
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

    fn place(detours: &Detours, graph: &Graph, source: u32, avoided: u32) -> Arc<OnceLock<Tree>> {
        detours.place(graph, source, &[avoided]).unwrap()
    }

    #[test]
    fn a_tree_serves_all_who_avoid_the_same_routers() {
        let (detours, first) = (Detours::default(), graph(1));
        assert_eq!(detours.path(&first, 0, 2, vec![1, 1]), None);
        let tree = place(&detours, &first, 0, 1);
        assert_eq!(tree.get().unwrap().cost(2), None);
        assert!(!Arc::ptr_eq(&tree, &place(&detours, &first, 2, 1)));
        assert!(detours.path(&first, 0, 2, vec![2]).is_some(), "a path may end there");
        assert_eq!(detours.path(&graph(2), 0, 2, vec![1]), None);
        assert_eq!(detours.0.lock().detours.len(), 1, "trees of the former version are gone");
        // A task that still has the former version of the graph changes nothing.
        let later = place(&detours, &graph(2), 0, 1);
        assert_eq!(detours.path(&first, 0, 2, vec![1]), None);
        assert!(Arc::ptr_eq(&later, &place(&detours, &graph(2), 0, 1)));
    }

    #[test]
    fn kept_trees_stay_and_further_paths_are_found_without_them() {
        let (detours, graph) = (Detours::default(), graph(1));
        let most = MAX_TREES as u32;
        assert_eq!(detours.path(&graph, 0, 2, vec![1]), None);
        let first = place(&detours, &graph, 0, 1);
        for number in 10..10 + 2 * most {
            assert!(detours.path(&graph, 0, 2, vec![number]).is_some());
        }
        assert_eq!(detours.0.lock().detours.len(), MAX_TREES);
        assert!(Arc::ptr_eq(&first, &place(&detours, &graph, 0, 1)));
        assert!(detours.place(&graph, 2, &[1]).is_none());
        assert_eq!(detours.path(&graph, 2, 0, vec![1]), None);
        assert_eq!(detours.path(&graph, 2, 1, vec![1]).unwrap().nodes.len(), 2);
    }
}
