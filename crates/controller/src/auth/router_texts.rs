//! Routers as service sessions show them, written as JSON once and kept: an identity that may use
//! hundreds of routers is told all of them with every session, and they hardly ever change.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use serde_json::value::{RawValue, to_raw_value};
use weft_contract::resource::service_session::SessionEdgeRouter;
use weft_model::entity::Router;
use weft_model::{Id, Kind};

use crate::Failure;
use crate::domain::resources::edge_router::common;
use crate::domain::view::Context;
use crate::online::Seen;

/// Texts that are kept beyond the routers that there are, for those that were deleted.
const SPARE: usize = 256;

/// The texts of routers.
#[derive(Debug, Default)]
pub(crate) struct RouterTexts(RwLock<HashMap<Id, Known>>);

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
    /// The texts of these routers, in this order.
    pub(crate) fn of(
        &self,
        context: &Context,
        routers: &[Arc<Router>],
    ) -> Result<Vec<Arc<RawValue>>, Failure> {
        let seen = context.online().seen(routers.iter().map(|router| &router.base.id));
        let mut texts = Vec::with_capacity(routers.len());
        let mut made = Vec::new();
        {
            let known = self.0.read();
            for (router, seen) in routers.iter().zip(seen) {
                match known.get(&router.base.id).filter(|known| known.is_of(router, &seen)) {
                    Some(known) => texts.push(Arc::clone(&known.text)),
                    None => {
                        let shown = SessionEdgeRouter::new(common(context, router));
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
            let mut known = self.0.write();
            if known.len() >= context.snapshot().table(Kind::Router).len() + SPARE {
                known.clear();
            }
            known.extend(made.into_iter().map(|made| (made.router.base.id.clone(), made)));
        }
        Ok(texts)
    }
}
