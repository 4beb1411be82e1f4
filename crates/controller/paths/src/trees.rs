//! Keeps trees, one for each router at which somebody dialed, within a limit of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use super::tree::Tree;

/// Most bytes of kept trees: enough for all routers of a network with 4,700 routers. In a larger
/// network the trees that were used last are kept.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// When there is no room for a further tree, one tree in this many is dropped, the least recently used
/// ones first. Several are dropped at once, because finding them takes time in proportion to all trees.
const SHARE_THAT_GOES: usize = 8;

/// The cached tree of one router. It is locked while the tree is computed or updated, so that
/// others wait instead of doing the same work.
#[derive(Debug, Default)]
struct CachedTree {
    tree: Mutex<Option<Arc<Tree>>>,
    used: AtomicU64,
}

/// The trees, by number of their router.
#[derive(Debug)]
pub struct Trees {
    trees: RwLock<HashMap<u32, Arc<CachedTree>>>,
    /// Counts uses of trees.
    asked: AtomicU64,
    max_bytes: usize,
}

impl Default for Trees {
    fn default() -> Self {
        Self::within(MAX_BYTES)
    }
}

impl Trees {
    fn within(max_bytes: usize) -> Self {
        Self { trees: RwLock::default(), asked: AtomicU64::new(0), max_bytes }
    }

    /// Passes the cached tree of a router, over a graph of `size` routers, to `renew`, and locks
    /// it meanwhile.
    pub fn with<T>(
        &self,
        source: u32,
        size: usize,
        renew: impl FnOnce(&mut Option<Arc<Tree>>) -> T,
    ) -> T {
        let known = self.trees.read().get(&source).cloned();
        let cached = known.unwrap_or_else(|| self.make_tree(source, size));
        cached.used.store(self.asked.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        renew(&mut cached.tree.lock())
    }

    fn make_tree(&self, source: u32, size: usize) -> Arc<CachedTree> {
        let most = (self.max_bytes / Tree::bytes(size)).max(1);
        let mut trees = self.trees.write();
        if trees.len() >= most && !trees.contains_key(&source) {
            let mut used: Vec<(u64, u32)> =
                trees.iter().map(|(at, it)| (it.used.load(Ordering::Relaxed), *at)).collect();
            used.sort_unstable();
            let going = trees.len() - most + 1 + most / SHARE_THAT_GOES;
            for (_, at) in used.into_iter().take(going) {
                trees.remove(&at);
            }
        }
        let cached = trees.entry(source).or_default();
        // A new tree counts as used; otherwise it would be the first to be dropped.
        cached.used.store(self.asked.load(Ordering::Relaxed), Ordering::Relaxed);
        Arc::clone(cached)
    }

    /// Drops all trees.
    pub fn clear(&self) {
        self.trees.write().clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.trees.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::*;

    #[test]
    fn the_least_used_go_when_there_is_no_room() {
        let graph = Graph::new(0);
        let trees = Trees::within(Tree::bytes(0) * 16);
        let mut grown = 0;
        let mut get = |source: u32| {
            trees.with(source, 0, |known| {
                grown += usize::from(known.is_none());
                known.get_or_insert_with(|| Arc::new(Tree::grow(&graph, source, None)));
            });
            grown
        };
        for source in 0..16 {
            get(source);
        }
        assert_eq!(get(0), 16, "it is kept");
        assert_eq!(get(16), 17);
        assert_eq!(get(0), 17, "it was used last");
        assert_eq!(get(1), 18, "it had to go");
        assert!(trees.len() <= 16);
        trees.clear();
        assert_eq!(trees.len(), 0);
    }
}
