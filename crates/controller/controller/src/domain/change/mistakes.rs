//! All mistakes of a document that cannot be carried out: those with which its entries were refused, and
//! further ones of the same entries.

use weft_contract::{Verb, defaults};
use weft_kernel::gate;

use super::document::DocumentEntity;
use super::form;
use super::plan::Work;
use super::prepared::Source;
use super::problems::{Problems, Refusal};
use super::section::SECTIONS;

/// Number of entities of a kind that are looked at for a name that was probably meant.
const LOOKED_AT: usize = 10_000;

impl Work<'_> {
    /// The mistakes of the document, with the refusals of its entries.
    pub(super) async fn mistakes(&self, refused: Vec<(usize, Refusal)>) -> Problems {
        let mut problems = self.document.problems.clone();
        // An entity that could not be made is told with its own mistake.
        let is_own = |refusal: &Refusal| match refusal {
            Refusal::Failure(_) => true,
            Refusal::Wrong(wrong) => wrong.iter().any(|it| !it.is_coming),
        };
        let has_own = !problems.is_empty() || refused.iter().any(|(_, it)| is_own(it));
        for (at, refusal) in refused {
            let Some(entry) = self.document.entries.get(at) else { continue };
            let mut told = Vec::new();
            match refusal {
                Refusal::Failure(failure) => {
                    told.extend(failure.field_name().map(str::to_owned));
                    problems.refused(entry, &failure);
                }
                Refusal::Wrong(wrong) => {
                    for wrong in wrong.into_iter().filter(|it| !(has_own && it.is_coming)) {
                        told.push(wrong.field.clone());
                        problems.wrong(entry, wrong);
                    }
                }
            }
            if !problems.is_full() && !told.is_empty() {
                self.more_of(entry, told, &mut problems).await;
            }
        }
        problems.suggest(|section, name| self.meant(section, name));
        problems
    }

    /// Adds further mistakes of an entry: with the members left out that were told, its resource reads the
    /// others.
    async fn more_of(&self, entry: &DocumentEntity, told: Vec<String>, problems: &mut Problems) {
        let Source::Fresh { controller, .. } = &self.source else { return };
        let (section, kind) = (entry.section(), entry.section().kind());
        let existing = self.existing(entry);
        let reader = self.reader(kind, existing.as_ref());
        let mut body = reader.read(entry.section, &entry.members).0.body;
        defaults::fill(kind, &mut body);
        let verb = if existing.is_some() { Verb::Replace } else { Verb::Create };
        let id = match &existing {
            Some(entity) => entity.id().clone(),
            None => controller.kernel().ids().entity(),
        };
        for field in told {
            body.remove(top(&field));
        }
        while !problems.is_full() && self.goes_on() {
            let prepared = section.prepare(controller, self.caller, &body, verb, &id).await;
            let Err(failure) = prepared else { return };
            // A member that the body does not have is one that was told, or follows from one.
            let Some(field) = failure.field_name() else { return };
            if body.remove(top(field)).is_none() {
                return;
            }
            problems.refused(entry, &failure);
        }
    }

    /// The name of an entity that was probably meant: of the document, or of the network if the caller may
    /// read entities of the kind.
    fn meant(&self, place: usize, name: &str) -> Option<String> {
        let section = SECTIONS.get(place)?;
        let entries = self.document.entries.iter();
        let own = entries.filter(|it| it.section == place && !it.is_only_read);
        let own: Vec<&str> = own.map(|it| it.name.as_str()).take(LOOKED_AT).collect();
        let may_read = gate::reads(self.caller, section.kind().plural);
        let table = self.tip.table(section.model()).iter();
        let there = table.filter(|entity| may_read && section.holds(entity)).take(LOOKED_AT);
        let there: Vec<String> = there.map(form::name).collect();
        let known = own.into_iter().chain(there.iter().map(String::as_str));
        weft_config::nearest(name, known).map(str::to_owned)
    }
}

/// The member of the body that a field is in.
fn top(field: &str) -> &str {
    field.split(['.', '[']).next().unwrap_or(field)
}
