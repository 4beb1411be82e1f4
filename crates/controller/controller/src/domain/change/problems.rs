//! The mistakes of a document, and the refusal that lists them.

use serde_json::Value;
use weft_contract::resource::change::{MAX_PROBLEMS, Problem};
use weft_contract::{Cause, ErrorCode};
use weft_kernel::{Failure, Result};

use super::document::DocumentEntity;
use super::section::{self, SECTIONS};

/// Why an entry cannot be read: a member, and its mistake.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The member, dotted.
    pub(super) field: String,
    /// The mistake.
    pub(super) reason: String,
    /// Whether the member names an entity that the document has yet to make.
    pub(super) is_coming: bool,
    /// The section and the name of an entity that was named and does not exist.
    pub(super) sought: Option<(usize, String)>,
}

impl Wrong {
    pub(super) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), is_coming: false, sought: None }
    }
}

/// Why an entry cannot be decided.
pub(super) enum Refusal {
    /// The resource of the entry refuses it.
    Failure(Failure),
    /// The entry cannot be read.
    Wrong(Vec<Wrong>),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The mistakes found so far, at most [`MAX_PROBLEMS`], and the number of further ones.
#[derive(Clone, Default)]
pub(super) struct Problems {
    found: Vec<(Problem, Option<(usize, String)>)>,
    more: usize,
}

impl Problems {
    /// Adds a mistake. `name` and `field` are empty where there is none.
    pub(super) fn add(
        &mut self,
        section: &str,
        index: usize,
        name: &str,
        field: &str,
        reason: impl Into<String>,
    ) {
        if self.is_full() {
            self.more += 1;
            return;
        }
        let problem = Problem {
            field: field.to_owned(),
            index: i64::try_from(index).unwrap_or(i64::MAX),
            name: name.to_owned(),
            reason: reason.into(),
            section: section.to_owned(),
        };
        self.found.push((problem, None));
    }

    /// Whether there is no room for further mistakes: they are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MAX_PROBLEMS
    }

    /// Whether there are no mistakes.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds a mistake of an entry.
    pub(super) fn of(&mut self, entry: &DocumentEntity, field: &str, reason: impl Into<String>) {
        self.add(entry.section().kind().plural, entry.index, &entry.name, field, reason);
    }

    /// Adds a member of an entry that cannot be read.
    pub(super) fn wrong(&mut self, entry: &DocumentEntity, wrong: Wrong) {
        let has_room = !self.is_full();
        self.of(entry, &wrong.field, wrong.reason);
        if let Some((_, sought)) = self.found.last_mut().filter(|_| has_room) {
            *sought = wrong.sought;
        }
    }

    /// Adds the mistakes of a failure with which the resource of an entry refused it.
    pub(super) fn refused(&mut self, entry: &DocumentEntity, failure: &Failure) {
        let field = failure.field_name().unwrap_or_default();
        self.of(entry, field, reason(failure));
    }

    /// Adds the reason why an entity that the document leaves out cannot be deleted.
    pub(super) fn kept(&mut self, section: &str, name: &str, failure: &Failure) {
        self.add(section, 0, name, "", format!("cannot be deleted: {}", reason(failure)));
    }

    /// Adds to each name that was not found the one that was probably meant: `near` looks for it.
    pub(super) fn suggest(&mut self, near: impl Fn(usize, &str) -> Option<String>) {
        for (problem, sought) in &mut self.found {
            let near = sought.as_ref().and_then(|(section, name)| near(*section, name));
            if let Some(near) = near {
                problem.reason.push_str(&format!("; did you mean `{near}`?"));
            }
        }
    }

    /// Succeeds if there are no mistakes; otherwise fails with a refusal that lists them, in the order of
    /// the sections and of the document.
    pub(super) fn none(mut self) -> Result<()> {
        self.found.sort_by_key(|(problem, _)| (section::place(&problem.section), problem.index));
        let Some((first, _)) = self.found.first() else { return Ok(()) };
        let mut place = first.section.clone();
        if !first.name.is_empty() {
            place.push_str(&format!(" `{}`", first.name));
        }
        if !first.field.is_empty() {
            place.push_str(&format!(", {}", first.field));
        }
        let mut reason = first.reason.clone();
        let others = self.found.len() - 1 + self.more;
        if others > 0 {
            reason.push_str(&format!(" (and {others} more, see data)"));
        }
        let problems: Vec<&Problem> = self.found.iter().map(|(problem, _)| problem).collect();
        let mut cause = Cause::field(&place, reason, "");
        cause.data = serde_json::to_value(problems).ok();
        Err(Failure::new(ErrorCode::CouldNotValidate).with_cause(cause))
    }
}

/// The name of a section, by its place in the table.
pub(super) fn section_name(place: usize) -> &'static str {
    SECTIONS.get(place).map_or("", |it| it.kind().plural)
}

/// The reason of a failure as one sentence.
fn reason(failure: &Failure) -> String {
    let Some(cause) = failure.cause() else { return failure.code().message().to_owned() };
    let reason = cause.reason.clone().or_else(|| cause.message.clone());
    let mut text = reason.unwrap_or_else(|| failure.code().message().to_owned());
    let value = cause.value.as_ref().and_then(Value::as_str).filter(|value| !value.is_empty());
    if let Some(value) = value.filter(|value| !text.contains(*value)) {
        text.push_str(&format!(" (`{value}`)"));
    }
    text
}
