//! Conversions of values between records, bodies, details and filters: the types of a member on
//! both sides choose the conversion.
//!
//! A member that needs another conversion names a function in the table of its kind
//! ([`super::fields`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use weft_contract::json::{JsonMap as ContractMap, Tags};
use weft_contract::{ListOrNull, Timestamp as TimeWord, Word};
use weft_kernel::{Failure, Result, convert};
use weft_model::entity::{CtrlListener, UriList};
use weft_model::filter::{Column, Searched, Value, ValueVisitor};
use weft_model::{Choice, Empty, Id, JsonMap, Roles, Sparse, Timestamp, role};

use super::context::Context;

/// A value of a record that details hold as an `S`.
pub(crate) trait Show<S> {
    /// The value for a detail.
    fn show(&self) -> S;
}

/// A value of a body that records hold as an `M`.
pub(crate) trait Take<M> {
    /// The value for a record. A refusal names the member `member`, which is its name in the body.
    fn take(&self, member: &str) -> Result<M>;
}

/// The symbol of a member, with the type of its value.
pub(crate) const fn column<R, T: Searched>(
    name: &'static str,
    _member: fn(&R) -> &T,
    one: for<'a> fn(&'a Context, &'a R) -> Value<'a>,
    set: fn(&Context, &R, ValueVisitor<'_>) -> ControlFlow<()>,
) -> Column<Context, R> {
    let column = match T::IS_SET {
        true => Column::set(name, T::TYPE, set),
        false => Column::one(name, T::TYPE, one),
    };
    column.public().numbered(T::NUMBERS)
}

/// A type that records, bodies and details share.
trait Same: Clone {}

impl Same for bool {}
impl Same for u16 {}
impl Same for i64 {}
impl Same for String {}

impl<T: Same> Show<T> for T {
    fn show(&self) -> T {
        self.clone()
    }
}

impl<T: Same> Take<T> for T {
    fn take(&self, _member: &str) -> Result<T> {
        Ok(self.clone())
    }
}

impl Show<String> for Arc<str> {
    fn show(&self) -> String {
        (**self).to_owned()
    }
}

impl Show<String> for Id {
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Show<i64> for u32 {
    fn show(&self) -> i64 {
        (*self).into()
    }
}

impl Show<TimeWord> for Timestamp {
    fn show(&self) -> TimeWord {
        convert::time(*self)
    }
}

impl Show<ContractMap> for JsonMap {
    fn show(&self) -> ContractMap {
        convert::json(self)
    }
}

impl Show<Vec<String>> for Roles {
    fn show(&self) -> Vec<String> {
        self.to_strings()
    }
}

impl Show<ListOrNull<String>> for Roles {
    fn show(&self) -> ListOrNull<String> {
        self.to_strings().into()
    }
}

impl Show<Vec<String>> for CtrlListener {
    fn show(&self) -> Vec<String> {
        self.groups.clone()
    }
}

impl Show<Vec<String>> for UriList {
    fn show(&self) -> Vec<String> {
        self.uris.clone()
    }
}

impl<M: Show<S>, S> Show<Option<S>> for Option<M> {
    fn show(&self) -> Option<S> {
        self.as_ref().map(Show::show)
    }
}

/// An absent value is shown as the empty text.
impl<M: Show<String>> Show<String> for Option<M> {
    fn show(&self) -> String {
        self.as_ref().map(Show::show).unwrap_or_default()
    }
}

impl<M: Show<S>, S> Show<Vec<S>> for Vec<M> {
    fn show(&self) -> Vec<S> {
        self.iter().map(Show::show).collect()
    }
}

impl<M: Show<S>, S> Show<ListOrNull<S>> for Vec<M> {
    fn show(&self) -> ListOrNull<S> {
        ListOrNull(self.iter().map(Show::show).collect())
    }
}

impl<K: Show<String>, M: Show<S>, S> Show<BTreeMap<String, S>> for BTreeMap<K, M> {
    fn show(&self) -> BTreeMap<String, S> {
        self.iter().map(|(key, value)| (key.show(), value.show())).collect()
    }
}

impl<T: Empty + Show<S>, S> Show<S> for Sparse<T> {
    fn show(&self) -> S {
        (**self).show()
    }
}

impl Take<Arc<str>> for String {
    fn take(&self, _member: &str) -> Result<Arc<str>> {
        Ok(self.as_str().into())
    }
}

impl Take<Id> for String {
    fn take(&self, member: &str) -> Result<Id> {
        convert::id_field(member, self)
    }
}

/// The text of an optional member; `None` if the text is blank.
fn filled(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

impl Take<Option<Arc<str>>> for String {
    fn take(&self, _member: &str) -> Result<Option<Arc<str>>> {
        Ok(filled(self).map(Into::into))
    }
}

impl Take<Option<String>> for String {
    fn take(&self, _member: &str) -> Result<Option<String>> {
        Ok(filled(self).map(Into::into))
    }
}

impl Take<Option<Id>> for String {
    fn take(&self, member: &str) -> Result<Option<Id>> {
        filled(self).map(|id| convert::id_field(member, id)).transpose()
    }
}

/// Role attributes.
impl Take<Vec<Arc<str>>> for Vec<String> {
    fn take(&self, member: &str) -> Result<Vec<Arc<str>>> {
        role::attributes(self)
            .map_err(|error| Failure::field(member, error.to_string(), error.value()))
    }
}

/// A set of ids.
impl Take<Vec<Id>> for Vec<String> {
    fn take(&self, member: &str) -> Result<Vec<Id>> {
        convert::id_set(member, self)
    }
}

/// The roles of a policy.
impl Take<Roles> for Vec<String> {
    fn take(&self, member: &str) -> Result<Roles> {
        convert::roles(member, self)
    }
}

impl Take<CtrlListener> for Vec<String> {
    fn take(&self, _member: &str) -> Result<CtrlListener> {
        Ok(CtrlListener { groups: self.clone() })
    }
}

impl<V: Take<M>, M> Take<BTreeMap<String, M>> for BTreeMap<String, V> {
    fn take(&self, member: &str) -> Result<BTreeMap<String, M>> {
        self.iter().map(|(key, value)| Ok((key.clone(), value.take(member)?))).collect()
    }
}

/// A map whose keys are ids.
impl<V: Take<M>, M: PartialEq + 'static> Take<Sparse<BTreeMap<Id, M>>> for BTreeMap<String, V> {
    fn take(&self, member: &str) -> Result<Sparse<BTreeMap<Id, M>>> {
        self.iter().map(|(key, value)| Ok((key.take(member)?, value.take(member)?))).collect()
    }
}

impl Take<JsonMap> for ContractMap {
    fn take(&self, _member: &str) -> Result<JsonMap> {
        Ok(self.clone().into())
    }
}

impl Take<JsonMap> for Tags {
    fn take(&self, _member: &str) -> Result<JsonMap> {
        Ok(convert::from_tags(self))
    }
}

/// The word of a choice in the APIs, for a field that is `shown by` it.
pub(crate) fn word<C: Choice, W: Word + Default>(choice: &C) -> W {
    convert::word(*choice)
}

/// The choice that a word of the APIs names, for a field that is `set by` it.
pub(crate) fn choice<W: Word, C: Choice>(word: &W) -> Result<C> {
    Ok(convert::choice(*word))
}
