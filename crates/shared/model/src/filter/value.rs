//! Values of records, their types and comparisons.

use std::borrow::Cow;
use std::cmp::Ordering;

use time::OffsetDateTime;

use super::ast::{Literal, Op};

/// The type of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Type {
    /// Text, compared bytewise.
    String,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number with a fraction.
    Float,
    /// A point in time.
    #[strum(serialize = "datetime")]
    Time,
    /// Any type (tags). The right side of an operation decides: a text is compared with the text of the value,
    /// `true` and `false` with a boolean (other values are false), and for a number or a time a value of
    /// another type counts as null.
    Any,
}

impl Type {
    /// The literal that a symbol of this type is compared with: a text is compared with the decimal text of a
    /// number. `None` if the two cannot be compared.
    pub(super) fn compared_with(self, literal: &Literal) -> Option<Literal> {
        use Literal::{Bool, Float, Int, Text, Time};
        match (self, literal) {
            (Self::String, Int(_) | Float(_)) => Some(Text(literal.to_text())),
            (Self::String, Text(_))
            | (Self::Bool, Bool(_))
            | (Self::Int | Self::Float, Int(_) | Float(_))
            | (Self::Time, Time(_))
            | (Self::Any, _) => Some(literal.clone()),
            _ => None,
        }
    }

    /// The literal that a symbol of this type is compared with, as an element of a list: a number may also be
    /// listed as its text.
    pub(super) fn listed_with(self, literal: &Literal) -> Option<Literal> {
        match (self, literal) {
            (Self::Int | Self::Float, Literal::Text(_)) => Some(literal.clone()),
            _ => self.compared_with(literal),
        }
    }

    /// True if a symbol of this type is ordered between bounds.
    pub(super) fn has_ranges(self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Time | Self::Any)
    }

    /// True if the symbol has a text for `contains`.
    pub(super) fn has_text(self) -> bool {
        matches!(self, Self::String | Self::Int | Self::Float | Self::Any)
    }
}

impl Literal {
    /// The text that `contains` searches for and that texts are compared with; a number in decimal, without
    /// an exponent.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Float(value) => value.to_string(),
            other => other.to_string(),
        }
    }

    /// Name of the literal's type, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Int(_) | Self::Float(_) => "number",
            Self::Bool(_) => "bool",
            Self::Time(_) => "datetime",
        }
    }
}

impl Op {
    /// True if the operator holds for a left side in this order to the right side.
    pub(super) fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Value of a symbol.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// A point in time.
    Time(OffsetDateTime),
}

impl<'a> Value<'a> {
    /// A borrowed text.
    pub fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// A time in milliseconds since 1970; null outside the range of the calendar.
    pub fn unix_millis(millis: i64) -> Self {
        // Divided in two steps, because this runs for every record of a list and wide divisions are
        // slow.
        let nanos = millis.rem_euclid(1000) as u32 * 1_000_000;
        OffsetDateTime::from_unix_timestamp(millis.div_euclid(1000))
            .and_then(|whole| whole.replace_nanosecond(nanos))
            .map_or(Self::Null, Self::Time)
    }

    /// True if there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Order of this value to a literal; `None` if it is null or of another type. With a text the value's text
    /// is compared. With a boolean, every value but `true` is false.
    pub fn compare(&self, literal: &Literal) -> Option<Ordering> {
        match (self, literal) {
            (value, Literal::Text(b)) => value.as_text().map(|a| a.as_ref().cmp(b.as_str())),
            (value, Literal::Bool(b)) => Some(matches!(value, Self::Bool(true)).cmp(b)),
            (Self::Time(a), Literal::Time(b)) => Some(a.cmp(b)),
            (Self::Int(a), Literal::Int(b)) => Some(a.cmp(b)),
            (Self::Int(a), Literal::Float(b)) => (*a as f64).partial_cmp(b),
            (Self::Float(a), Literal::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Float(a), Literal::Float(b)) => a.partial_cmp(b),
            _ => None,
        }
    }

    /// The text that is compared with texts: text as it is, numbers in decimal, `true` or `false`.
    pub(super) fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Bool(value) => Some(Cow::Borrowed(if *value { "true" } else { "false" })),
            Self::Int(value) => Some(Cow::Owned(value.to_string())),
            Self::Float(value) => Some(Cow::Owned(value.to_string())),
            Self::Null | Self::Time(_) => None,
        }
    }

    /// Order in a sorted list: null first, then by value. A column has values of one type; other
    /// types are ordered as in this enum.
    pub fn sort_order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Time(a), Self::Time(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Float(_) => 3,
            Self::Text(_) => 4,
            Self::Time(_) => 5,
        }
    }
}

/// True if the text in upper case contains the needle, which is in upper case.
pub(super) fn contains_folded(text: &str, needle: &str) -> bool {
    if !text.is_ascii() {
        return upper_case(text).contains(needle);
    }
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    let Some((first, rest)) = needle.split_first() else { return true };
    let same = |a: &u8, b: &u8| a.to_ascii_uppercase() == *b;
    let starts = memchr::memchr2_iter(*first, first.to_ascii_lowercase(), text);
    let mut behind = starts.filter_map(|at| text.get(at + 1..at + needle.len()));
    behind.any(|behind| behind.iter().zip(rest).all(|(a, b)| same(a, b)))
}

/// Upper case, character by character. A character without a single upper-case character is
/// unchanged.
pub(super) fn upper_case(text: &str) -> String {
    text.chars()
        .map(|c| {
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(single), None) => single,
                _ => c,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn folding_by_bytes_is_folding_by_characters(
            text in "[a-cA-C1ßéÉǆ]{0,8}", needle in "[a-cA-C1ßéÉǆ]{0,3}",
        ) {
            let needle = upper_case(&needle);
            prop_assert_eq!(contains_folded(&text, &needle), upper_case(&text).contains(&needle));
        }

        #[test]
        fn times_are_what_they_are_in_nanoseconds(millis in prop_oneof![
            any::<i64>(), -400_000_000_000_000_i64..260_000_000_000_000, -5000_i64..5000,
        ]) {
            let nanos = i128::from(millis) * 1_000_000;
            let expected = OffsetDateTime::from_unix_timestamp_nanos(nanos)
                .map_or(Value::Null, Value::Time);
            prop_assert_eq!(Value::unix_millis(millis), expected);
        }
    }
}
