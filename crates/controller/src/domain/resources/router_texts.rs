//! Routers as service sessions show them, written as JSON once and kept: an identity that may use
//! hundreds of routers is told all of them with every session, and they hardly ever change.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use roaring::RoaringBitmap;
use serde_json::value::{RawValue, to_raw_value};
use weft_contract::resource::service_session::SessionEdgeRouter;
use weft_kernel::online::{Online, Seen};
use weft_model::entity::Router;
use weft_model::{Id, Kind, Snapshot, Table};

use crate::Failure;
use crate::domain::resources::known_routers::{common, in_order};

/// Texts that are kept beyond the routers that there are, for those that were deleted.
const SPARE: usize = 256;
/// Lists of routers that are kept, and the longest: clients in one place use the same routers.
const LISTS: usize = 32;
const LONGEST: usize = 1 << 20;

/// The texts of routers.
#[derive(Debug, Default)]
pub(crate) struct RouterTexts {
    each: RwLock<HashMap<Id, Known>>,
    /// The oldest first.
    lists: RwLock<VecDeque<List>>,
}

/// The text of a list of routers with what it was made of.
#[derive(Debug)]
struct List {
    routers: RoaringBitmap,
    table: Arc<Table>,
    online: u64,
    text: Arc<RawValue>,
}

/// A text with what it was made of.
#[derive(Debug)]
struct Known {
    router: Arc<Router>,
    seen: Seen,
    text: Arc<RawValue>,
}

impl Known {
    fn is_of(&self, router: &Arc<Router>, seen: &Seen) -> bool {
        Arc::ptr_eq(&self.router, router) && self.seen.is(seen)
    }
}

impl RouterTexts {
    /// The routers with these ordinals, as an array.
    pub(crate) fn of(
        &self,
        snapshot: &Snapshot,
        seen: &Online,
        routers: RoaringBitmap,
    ) -> Result<Arc<RawValue>, Failure> {
        let table = snapshot.shared_table(Kind::Router);
        // Read before what it is about: who changes it meanwhile makes the text an old one.
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
            // Those that nobody will ask for again.
            lists.retain(|list| list.online == online && Arc::ptr_eq(&list.table, table));
            if lists.len() >= LISTS {
                lists.pop_front();
            }
            let (table, text) = (Arc::clone(table), Arc::clone(&text));
            lists.push_back(List { routers, table, online, text });
        }
        Ok(text)
    }

    /// The texts of these routers, in this order.
    fn each_of(
        &self,
        snapshot: &Snapshot,
        online: &Online,
        routers: &[Arc<Router>],
    ) -> Result<Vec<Arc<RawValue>>, Failure> {
        let seen = online.seen(routers.iter().map(|router| &router.base.id));
        let mut texts = Vec::with_capacity(routers.len());
        let mut made = Vec::new();
        {
            let known = self.each.read();
            for (router, seen) in routers.iter().zip(seen) {
                match known.get(&router.base.id).filter(|known| known.is_of(router, &seen)) {
                    Some(known) => texts.push(Arc::clone(&known.text)),
                    None => {
                        let shown = SessionEdgeRouter::new(common(online, router));
                        let text = to_raw_value(&shown);
                        let text = text.map_err(|error| Failure::unhandled(error.to_string()))?;
                        let text: Arc<RawValue> = text.into();
                        texts.push(Arc::clone(&text));
                        made.push(Known { router: Arc::clone(router), seen, text });
                    }
                }
            }
        }
        if !made.is_empty() {
            let mut known = self.each.write();
            if known.len() >= snapshot.table(Kind::Router).len() + SPARE {
                known.clear();
            }
            known.extend(made.into_iter().map(|made| (made.router.base.id.clone(), made)));
        }
        Ok(texts)
    }
}
