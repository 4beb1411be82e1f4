//! Values of records that filters compare.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Type, Value, ValueVisitor};
use crate::{Choice, Id, JsonMap, Roles, Timestamp};

/// A value of a record that filters compare.
pub trait Searched {
    /// The type of the value, or of the elements of the set.
    const TYPE: Type;
    /// Whether the value is a set.
    const IS_SET: bool = false;
    /// Numbers that filters may say in place of texts.
    const NUMBERS: &'static [(i64, &'static str)] = &[];

    /// The value; `Null` for a set.
    fn value(&self) -> Value<'_> {
        Value::Null
    }

    /// Shows the elements of the set.
    fn each(&self, _visit: ValueVisitor<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Searched for bool {
    const TYPE: Type = Type::Bool;

    fn value(&self) -> Value<'_> {
        Value::Bool(*self)
    }
}

impl Searched for u16 {
    const TYPE: Type = Type::Int;

    fn value(&self) -> Value<'_> {
        Value::Int((*self).into())
    }
}

impl Searched for u32 {
    const TYPE: Type = Type::Int;

    fn value(&self) -> Value<'_> {
        Value::Int((*self).into())
    }
}

impl Searched for i64 {
    const TYPE: Type = Type::Int;

    fn value(&self) -> Value<'_> {
        Value::Int(*self)
    }
}

impl Searched for Timestamp {
    const TYPE: Type = Type::Time;

    fn value(&self) -> Value<'_> {
        Value::unix_millis(self.0)
    }
}

impl Searched for String {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::text(self)
    }
}

impl Searched for Arc<str> {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::text(self)
    }
}

impl Searched for Id {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::text(self.as_str())
    }
}

/// Filters compare the JSON text; a map without members is null.
impl Searched for JsonMap {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        match self.is_empty() {
            true => Value::Null,
            false => Value::Text(self.to_text().into()),
        }
    }
}

impl<T: Searched> Searched for Option<T> {
    const TYPE: Type = T::TYPE;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Searched::value)
    }
}

impl<T: AsRef<str>> Searched for Vec<T> {
    const TYPE: Type = Type::String;
    const IS_SET: bool = true;

    fn each(&self, visit: ValueVisitor<'_>) -> ControlFlow<()> {
        self.iter().try_for_each(|text| visit(Value::text(text.as_ref())))
    }
}

/// Filters compare the entries of a role list as they are written.
impl Searched for Roles {
    const TYPE: Type = Type::String;
    const IS_SET: bool = true;

    fn each(&self, visit: ValueVisitor<'_>) -> ControlFlow<()> {
        self.to_strings().iter().try_for_each(|role| visit(Value::text(role)))
    }
}

/// Filters compare the text.
impl<T: Choice> Searched for T {
    const TYPE: Type = Type::String;
    const NUMBERS: &'static [(i64, &'static str)] = <T as Choice>::NUMBERS;

    fn value(&self) -> Value<'_> {
        Value::text(self.as_str())
    }
}
