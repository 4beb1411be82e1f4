//! Caches the JSON of routers in service sessions. An identity may use hundreds of routers, every
//! session lists them all, and they rarely change.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use roaring::RoaringBitmap;
use serde_json::value::{RawValue, to_raw_value};
use weft_kernel::Result;
use weft_kernel::online::{Online, Seen};
use weft_model::entity::Router;
use weft_model::{Id, Kind, Snapshot, Table};

use crate::Failure;
use crate::domain::resources::known_routers::{in_order, in_session};

/// Texts kept beyond the number of routers, for routers that were deleted.
const SPARE: usize = 256;
/// Cached lists of routers: clients in one place use the same routers.
const LISTS: usize = 32;
const LONGEST: usize = 1 << 20;

/// The cached texts.
#[derive(Debug, Default)]
pub(crate) struct RouterTexts {
    each: RwLock<HashMap<Id, CachedText>>,
    /// Lists, the oldest first.
    lists: RwLock<VecDeque<List>>,
}

/// The text of a list of routers, and the state from which it was made.
#[derive(Debug)]
struct List {
    routers: RoaringBitmap,
    table: Arc<Table>,
    online: u64,
    text: Arc<RawValue>,
}

/// The text of a router, and the state from which it was made.
#[derive(Debug)]
struct CachedText {
    router: Arc<Router>,
    seen: Seen,
    text: Arc<RawValue>,
}

impl CachedText {
    fn is_of(&self, router: &Arc<Router>, seen: &Seen) -> bool {
        Arc::ptr_eq(&self.router, router) && self.seen.is(seen)
    }
}

impl RouterTexts {
    /// The routers with these ordinals, as a JSON array.
    pub(crate) fn of(
        &self,
        snapshot: &Snapshot,
        seen: &Online,
        routers: RoaringBitmap,
    ) -> Result<Arc<RawValue>> {
        let table = snapshot.shared_table(Kind::Router);
        // The version is read before the routers: if a router connects in between, the cached text
        // has an old version and is made anew.
        let online = seen.version();
        let is_same = |list: &&List| {
            list.online == online && Arc::ptr_eq(&list.table, table) && list.routers == routers
        };
        if let Some(list) = self.lists.read().iter().find(is_same) {
            return Ok(Arc::clone(&list.text));
        }
        let texts = self.each_of(snapshot, seen, &in_order(snapshot, seen, &routers))?;
        let texts: Vec<&RawValue> = texts.iter().map(|text| &**text).collect();
        let text = to_raw_value(&texts);
        let text: Arc<RawValue> =
            text.map_err(|error| Failure::unhandled(error.to_string()))?.into();
        if text.get().len() <= LONGEST {
            let mut lists = self.lists.write();
            // Lists of an older state are never used again.
            lists.retain(|list| list.online == online && Arc::ptr_eq(&list.table, table));
            if lists.len() >= LISTS {
                lists.pop_front();
            }
            let (table, text) = (Arc::clone(table), Arc::clone(&text));
            lists.push_back(List { routers, table, online, text });
        }
        Ok(text)
    }

    /// True if a list of the present routers is cached.
    #[cfg(test)]
    pub(crate) fn has_list(&self, snapshot: &Snapshot, seen: &Online) -> bool {
        let table = snapshot.shared_table(Kind::Router);
        let is_present =
            |list: &List| list.online == seen.version() && Arc::ptr_eq(&list.table, table);
        self.lists.read().iter().any(is_present)
    }

    /// The texts of these routers, in this order.
    fn each_of(
        &self,
        snapshot: &Snapshot,
        online: &Online,
        routers: &[Arc<Router>],
    ) -> Result<Vec<Arc<RawValue>>> {
        let seen = online.seen(routers.iter().map(|router| &router.base.id));
        let mut texts = Vec::with_capacity(routers.len());
        let mut made = Vec::new();
        {
            let cached = self.each.read();
            for (router, seen) in routers.iter().zip(seen) {
                match cached.get(&router.base.id).filter(|cached| cached.is_of(router, &seen)) {
                    Some(cached) => texts.push(Arc::clone(&cached.text)),
                    None => {
                        let text = to_raw_value(&in_session(online, router));
                        let text = text.map_err(|error| Failure::unhandled(error.to_string()))?;
                        let text: Arc<RawValue> = text.into();
                        texts.push(Arc::clone(&text));
                        made.push(CachedText { router: Arc::clone(router), seen, text });
                    }
                }
            }
        }
        if !made.is_empty() {
            let mut cached = self.each.write();
            if cached.len() >= snapshot.table(Kind::Router).len() + SPARE {
                cached.clear();
            }
            cached.extend(made.into_iter().map(|made| (made.router.base.id.clone(), made)));
        }
        Ok(texts)
    }
}
