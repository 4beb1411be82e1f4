//! What weft cannot keep, by entity and reason.

use std::collections::BTreeMap;

use serde::Serialize;

/// Most losses that are listed one by one; further ones are counted.
pub const MAX_LOSSES: usize = 100_000;
/// Most bytes of a text of the database that a loss shows.
const MAX_SHOWN: usize = 200;

/// Something of an entity, or an entity as a whole, that weft cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Kind of the entity, such as `identity`.
    pub kind: &'static str,
    /// Id of the entity.
    pub id: String,
    /// Name of the entity; empty if it has none.
    pub name: String,
    /// The field; empty if the entity as a whole is not taken.
    pub field: &'static str,
    /// Why it is lost.
    pub reason: String,
}

/// Something that clients or routers report anew, so that it is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reported {
    /// Kind of the entities.
    pub kind: &'static str,
    /// The field.
    pub field: &'static str,
    /// Number of entities that have it.
    pub count: u64,
    /// Who reports it, and when.
    pub reason: &'static str,
}

/// The losses found so far.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    listed: Vec<Loss>,
    unlisted: u64,
    reported: BTreeMap<(&'static str, &'static str), (u64, &'static str)>,
}

impl Losses {
    pub(crate) fn add(&mut self, mut loss: Loss) {
        if self.listed.len() < MAX_LOSSES {
            for text in [&mut loss.id, &mut loss.name, &mut loss.reason] {
                shorten(text);
            }
            self.listed.push(loss);
        } else {
            self.unlisted += 1;
        }
    }

    pub(crate) fn add_reported(
        &mut self,
        kind: &'static str,
        field: &'static str,
        reason: &'static str,
    ) {
        self.reported.entry((kind, field)).or_insert((0, reason)).0 += 1;
    }

    pub(crate) fn finish(self) -> (Vec<Loss>, u64, Vec<Reported>) {
        let reported = self.reported.into_iter().map(|((kind, field), (count, reason))| Reported {
            kind,
            field,
            count,
            reason,
        });
        let reported = reported.collect();
        (self.listed, self.unlisted, reported)
    }
}

/// Cuts a text at [`MAX_SHOWN`] bytes.
fn shorten(text: &mut String) {
    if text.len() > MAX_SHOWN {
        text.truncate(text.floor_char_boundary(MAX_SHOWN));
        text.push_str("...");
    }
}
