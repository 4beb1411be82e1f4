//! Evaluation: does a record match a plan?
//!
//! A comparison is false if the left side is null or, for a symbol of any type, of another type
//! than the right side; only `!=`, `not contains` and `not icontains` are true then. A boolean has no
//! null: what is not true is false. `not in` and `not between` are the negations of `in` and `between`
//! (docs/protocol/management-api.md 2.5, semantics).

use std::cmp::Ordering;
use std::ops::ControlFlow::{self, Break, Continue};

use super::ast::{Literal, Op};
use super::plan::{Check, Condition, Leaf, Members, Path, Plan, Quantifier, SubQuery, Values};
use super::schema::{Record, SymbolId};
use super::value::{Value, contains_folded};
use crate::meter::{Meter, Part};

impl Plan {
    /// True if the record matches. The record must be of the kind that the plan was bound to.
    pub fn matches(&self, record: &dyn Record) -> bool {
        self.holds(record, &Meter::default())
    }

    /// True if the record matches and the search is not given up.
    pub(super) fn holds(&self, record: &dyn Record, meter: &Meter) -> bool {
        self.condition.holds(record, meter) && meter.check().is_ok()
    }
}

impl Condition {
    /// Whether the record meets the condition; any answer once the search has to end.
    fn holds(&self, record: &dyn Record, meter: &Meter) -> bool {
        if !meter.spend(Part::Tests, 1) {
            return false;
        }
        match self {
            Self::Constant(value) => *value,
            Self::All(parts) => parts.iter().all(|part| part.holds(record, meter)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(record, meter)),
            Self::Not(inner) => !inner.holds(record, meter),
            Self::Value(path, check) => path.value_holds(record, check, meter),
            Self::Elements(path, quantifier, check) => {
                // Both quantifiers stop at the first element that decides.
                let decisive = *quantifier == Quantifier::AnyOf;
                let mut result = !decisive;
                let _ = path.visit(record, meter, &mut |value| {
                    if !meter.spend(Part::Tests, check.units(&value)) {
                        return Break(());
                    }
                    if check.holds(&value) == decisive {
                        result = decisive;
                        return Break(());
                    }
                    Continue(())
                });
                result
            }
            Self::Count(members, check) => {
                let count = members.count(record, u64::MAX, meter);
                check.holds(&Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
            }
            Self::Empty(members) => members.count(record, 1, meter) == 0,
        }
    }
}

impl Path {
    fn value_holds(&self, record: &dyn Record, check: &Check, meter: &Meter) -> bool {
        let holds =
            |value: &Value<'_>| meter.spend(Part::Tests, check.units(value)) && check.holds(value);
        if self.hops.is_empty() {
            return match &self.leaf {
                Leaf::One(symbol) => holds(&record.value(*symbol)),
                Leaf::Key(symbol, key) => holds(&record.keyed(*symbol, key)),
                Leaf::Set(_) => false,
            };
        }
        let mut result = None;
        let _ = self.visit(record, meter, &mut |value| {
            result = Some(holds(&value));
            Break(())
        });
        // A link that leads nowhere is null.
        result.unwrap_or_else(|| check.holds(&Value::Null))
    }

    /// Passes every value of the path to a visitor, until the search has to end.
    fn visit(
        &self,
        record: &dyn Record,
        meter: &Meter,
        visit: &mut dyn FnMut(Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        walk(record, &self.hops, meter, &mut |end| match &self.leaf {
            Leaf::One(symbol) => visit(end.value(*symbol)),
            Leaf::Key(symbol, key) => visit(end.keyed(*symbol, key)),
            Leaf::Set(symbol) => {
                end.each(*symbol, &mut |value| match meter.spend(Part::Tests, 1) {
                    true => visit(value),
                    false => Break(()),
                })
            }
        })
    }
}

/// Follows the links and passes every record at their end to a visitor, until the search has to end.
fn walk(
    record: &dyn Record,
    hops: &[SymbolId],
    meter: &Meter,
    visit: &mut dyn FnMut(&dyn Record) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match hops.split_first() {
        None => visit(record),
        Some((hop, rest)) => record.follow(*hop, &mut |linked| match meter.spend(Part::Tests, 1) {
            true => walk(linked, rest, meter, visit),
            false => Break(()),
        }),
    }
}

impl Members {
    /// Number of members; counting may stop at `enough`.
    fn count(&self, record: &dyn Record, enough: u64, meter: &Meter) -> u64 {
        if let Some(sub_query) = &self.sub_query {
            return self.count_selected(record, sub_query, enough, meter);
        }
        let mut count = 0;
        let _ = self.path.visit(record, meter, &mut |_| {
            count += 1;
            if count >= enough { Break(()) } else { Continue(()) }
        });
        count
    }

    fn count_selected(
        &self,
        record: &dyn Record,
        sub_query: &SubQuery,
        enough: u64,
        meter: &Meter,
    ) -> u64 {
        let window = sub_query.limit.unwrap_or(u64::MAX).min(enough);
        let needed = sub_query.skip.saturating_add(window);
        if window == 0 {
            return 0;
        }
        let (Leaf::One(link) | Leaf::Set(link) | Leaf::Key(link, _)) = &self.path.leaf;
        let mut matched = 0;
        let _ = walk(record, &self.path.hops, meter, &mut |end| {
            end.follow(*link, &mut |linked| {
                matched += u64::from(sub_query.condition.holds(linked, meter));
                let is_enough = matched >= needed || meter.check().is_err();
                if is_enough { Break(()) } else { Continue(()) }
            })
        });
        matched.saturating_sub(sub_query.skip).min(window)
    }
}

impl Check {
    pub(super) fn holds(&self, value: &Value<'_>) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::NotNull => !value.is_null(),
            Self::True => matches!(value, Value::Bool(true)),
            Self::Compare(op, literal) => match value.compare(literal) {
                Some(order) => op.accepts(order),
                None => *op == Op::NotEqual,
            },
            Self::In(values) => values.contain(value),
            Self::Between(low, high) => {
                let bounds = value.compare(low).zip(value.compare(high));
                bounds.is_some_and(|(low, high)| low.is_ge() && high.is_lt())
            }
            Self::Contains { negated, needle } => {
                value.as_text().map_or(*negated, |text| text.contains(needle) != *negated)
            }
            Self::ContainsFolded { negated, needle } => {
                value.as_text().map_or(*negated, |text| contains_folded(&text, needle) != *negated)
            }
        }
    }
}

impl Values {
    /// Sorts the values of a list, which are of one type, for searching.
    pub(super) fn new(mut values: Vec<Literal>) -> Self {
        values.sort_by(search_order);
        values.dedup();
        Self(values)
    }

    /// True if the list contains the value.
    fn contain(&self, value: &Value<'_>) -> bool {
        let ints = self.0.partition_point(|literal| matches!(literal, Literal::Int(_)));
        let Some((ints, others)) = self.0.split_at_checked(ints) else { return false };
        [ints, others].into_iter().any(|part| {
            part.binary_search_by(|literal| {
                value.compare(literal).map_or(Ordering::Less, Ordering::reverse)
            })
            .is_ok()
        })
    }
}

/// Order for searching: integers before fractions, each by value; values of other types by value.
fn search_order(a: &Literal, b: &Literal) -> Ordering {
    match (a, b) {
        (Literal::Text(a), Literal::Text(b)) => a.cmp(b),
        (Literal::Int(a), Literal::Int(b)) => a.cmp(b),
        (Literal::Float(a), Literal::Float(b)) => a.total_cmp(b),
        (Literal::Bool(a), Literal::Bool(b)) => a.cmp(b),
        (Literal::Time(a), Literal::Time(b)) => a.cmp(b),
        (Literal::Int(_), Literal::Float(_)) => Ordering::Less,
        _ => Ordering::Greater,
    }
}
