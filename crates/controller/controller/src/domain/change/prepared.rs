//! Prepared entries of a document: the slow and random steps of an entry run once, and the same plan can be
//! decided again on another snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use weft_contract::Verb;
use weft_kernel::{Caller, Result};
use weft_model::{Id, Meter};

use super::document::Document;
use super::section::Step;
use crate::Controller;
use crate::domain::change::moved::moved;

/// Prepared entries, by their place in the document and their phase.
pub(super) type Prepared = BTreeMap<(usize, Phase), Ready>;

/// The phase of an entry. An entry may be decided twice: first without the references that cannot
/// be made yet, then with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Without those references.
    Partial,
    /// With all references.
    Whole,
}

/// A prepared entry.
#[derive(Clone)]
pub(super) struct Ready {
    verb: Verb,
    pub(super) id: Id,
    body: Map<String, Value>,
    pub(super) step: Arc<dyn Step>,
}

/// Where prepared entries come from.
pub(super) enum Source<'a> {
    /// Each entry is prepared when it is needed, while the meter lets the plan go on.
    Fresh { controller: &'a Controller, made: Prepared, meter: &'a Meter },
    /// The entries were prepared for an earlier plan. They are used only where the entry of the
    /// document still asks for the same.
    Known(&'a Prepared),
}

impl Source<'_> {
    /// Prepares the entry at this place of a document, in this phase and with this body, unless it is prepared. An
    /// entry that makes its entity has no id yet. Fails if the entries are those of an earlier plan, and none of
    /// them asks for the same.
    pub(super) async fn ready(
        &mut self,
        caller: &Caller,
        document: &Document,
        (at, phase): (usize, Phase),
        verb: Verb,
        id: Option<Id>,
        body: Map<String, Value>,
    ) -> Result<Ready> {
        let fits = |known: &Ready| {
            known.verb == verb && id.as_ref().is_none_or(|id| *id == known.id) && known.body == body
        };
        match self {
            Self::Known(prepared) => {
                prepared.get(&(at, phase)).filter(|known| fits(known)).cloned().ok_or_else(moved)
            }
            Self::Fresh { controller, made, .. } => {
                if let Some(known) = made.get(&(at, phase)).filter(|known| fits(known)) {
                    return Ok(known.clone());
                }
                let entry = document.entries.get(at).ok_or_else(moved)?;
                let id = id.unwrap_or_else(|| controller.kernel().ids().entity());
                let section = entry.section();
                let step = section.prepare(controller, caller, &body, verb, &id).await?;
                let ready = Ready { verb, id, body, step };
                made.insert((at, phase), ready.clone());
                Ok(ready)
            }
        }
    }
}
