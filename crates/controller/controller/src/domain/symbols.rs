//! Tables of symbols for the filter language: the columns every kind has, and short ways to write
//! the others (docs/protocol/management-api.md 2.5).

use std::ops::ControlFlow;

use serde_json::Value as Json;
use weft_model::Timestamp;
use weft_model::entity::{Base, OfKind};
use weft_model::filter::{Column, Symbols, Type, Value};

use super::context::Context;

/// The value of a tag.
pub(crate) fn tag<'a>(base: &'a Base, key: &str) -> Value<'a> {
    match base.tags.get(key) {
        Some(Json::Bool(value)) => Value::Bool(*value),
        Some(Json::String(text)) => Value::text(text),
        Some(Json::Number(number)) => match number.as_i64() {
            Some(value) => Value::Int(value),
            None => number.as_f64().map_or(Value::Null, Value::Float),
        },
        _ => Value::Null,
    }
}

/// A point in time.
pub(crate) fn at<'a>(at: Timestamp) -> Value<'a> {
    Value::unix_millis(at.0)
}

/// A text that may be absent.
pub(crate) fn maybe<S: AsRef<str>>(text: &Option<S>) -> Value<'_> {
    text.as_ref().map_or(Value::Null, |text| Value::text(text.as_ref()))
}

/// Shows the elements of a set of texts.
pub(crate) fn each<'t, S: AsRef<str> + 't>(
    texts: impl IntoIterator<Item = &'t S>,
    visit: &mut dyn FnMut(Value<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    texts.into_iter().try_for_each(|text| visit(Value::text(text.as_ref())))
}

/// The table of a kind, with the columns of every kind before its own.
pub(crate) const fn symbols<R: OfKind>(
    kind: &'static str,
    columns: &'static [Column<Context, R>],
) -> Symbols<Context, R> {
    Symbols { kind, id: |record| record.base().id.as_str(), shared: R::SHARED, columns }
}

/// The columns of every kind.
trait Shared: OfKind {
    const SHARED: &'static [Column<Context, Self>] = &[
        Column::<Context, Self>::one("id", Type::String, |_, it| Value::text(it.id().as_str()))
            .public(),
        Column::<Context, Self>::one("createdAt", Type::Time, |_, it| at(it.base().created_at))
            .public(),
        Column::<Context, Self>::one("updatedAt", Type::Time, |_, it| at(it.base().updated_at))
            .public(),
        Column::<Context, Self>::one("isSystem", Type::Bool, |_, it| {
            Value::Bool(it.base().is_system)
        })
        .public(),
        Column::<Context, Self>::map("tags", |_, it, key| tag(it.base(), key)).public(),
    ];
}

impl<R: OfKind> Shared for R {}
