//! Conversions of values between records, bodies, details and filters: the types of a member on
//! both sides choose the conversion.
//!
//! A member that needs another conversion names a function in the table of its kind
//! ([`super::fields`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use weft_contract::Timestamp as TimeWord;
use weft_contract::entity::{DialBind as DialBindWord, PrecedenceWord, Semantic as SemanticWord};
use weft_contract::json::{JsonMap as ContractMap, Tags};
use weft_contract::resource::ca::{
    ClaimLocation as LocationWord, ClaimMatcher as MatcherWord, ClaimParser as ParserWord,
};
use weft_contract::resource::config::Target as TargetWord;
use weft_contract::resource::external_jwt_signer::TargetToken as TokenWord;
use weft_contract::resource::revocation::RevocationType as RevocationWord;
use weft_kernel::{Failure, convert};
use weft_model::entity::{
    ClaimLocation, ClaimMatcher, ClaimParser, ConfigTarget, CtrlListener, EnrollmentMethod,
    IdentityType, PolicyType, PostureCheckType, Precedence, RevocationType, TargetToken,
    TerminatorStrategy, UriList,
};
use weft_model::filter::{Column, Type, Value, ValueVisitor};
use weft_model::{Empty, Id, JsonMap, Rare, Roles, Semantic, Timestamp, role};

use super::context::Context;

/// A value of a record that details hold as an `S`.
pub(crate) trait Show<S> {
    /// The value for a detail.
    fn show(&self) -> S;
}

/// A value of a body that records hold as an `M`.
pub(crate) trait Take<M> {
    /// The value for a record. A refusal names the member `member`, which is its name in the body.
    fn take(&self, member: &str) -> Result<M, Failure>;
}

/// A value of a record that filters compare.
pub(crate) trait Search {
    /// The type of the value, or of the elements of the set.
    const TYPE: Type;
    /// Whether the value is a set.
    const IS_SET: bool = false;

    /// The value; `Null` for a set.
    fn value(&self) -> Value<'_> {
        Value::Null
    }

    /// Shows the elements of the set.
    fn each(&self, _visit: ValueVisitor<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The symbol of a member, with the type of its value.
pub(crate) const fn column<R, T: Search>(
    name: &'static str,
    _member: fn(&R) -> &T,
    one: for<'a> fn(&'a Context, &'a R) -> Value<'a>,
    set: fn(&Context, &R, ValueVisitor<'_>) -> ControlFlow<()>,
) -> Column<Context, R> {
    let column = match T::IS_SET {
        true => Column::set(name, T::TYPE, set),
        false => Column::one(name, T::TYPE, one),
    };
    column.public()
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
    fn take(&self, _member: &str) -> Result<T, Failure> {
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

impl<K: Show<String>, M: Show<S>, S> Show<BTreeMap<String, S>> for BTreeMap<K, M> {
    fn show(&self) -> BTreeMap<String, S> {
        self.iter().map(|(key, value)| (key.show(), value.show())).collect()
    }
}

impl<T: Empty + Show<S>, S> Show<S> for Rare<T> {
    fn show(&self) -> S {
        (**self).show()
    }
}

impl Take<Arc<str>> for String {
    fn take(&self, _member: &str) -> Result<Arc<str>, Failure> {
        Ok(self.as_str().into())
    }
}

impl Take<Id> for String {
    fn take(&self, member: &str) -> Result<Id, Failure> {
        convert::id_field(member, self)
    }
}

/// The text of an optional member; `None` if the text is blank.
fn filled(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

impl Take<Option<Arc<str>>> for String {
    fn take(&self, _member: &str) -> Result<Option<Arc<str>>, Failure> {
        Ok(filled(self).map(Into::into))
    }
}

impl Take<Option<String>> for String {
    fn take(&self, _member: &str) -> Result<Option<String>, Failure> {
        Ok(filled(self).map(Into::into))
    }
}

impl Take<Option<Id>> for String {
    fn take(&self, member: &str) -> Result<Option<Id>, Failure> {
        filled(self).map(|id| convert::id_field(member, id)).transpose()
    }
}

/// Role attributes.
impl Take<Vec<Arc<str>>> for Vec<String> {
    fn take(&self, member: &str) -> Result<Vec<Arc<str>>, Failure> {
        role::attributes(self)
            .map_err(|error| Failure::field(member, error.to_string(), error.0.clone()))
    }
}

/// A set of ids.
impl Take<Vec<Id>> for Vec<String> {
    fn take(&self, member: &str) -> Result<Vec<Id>, Failure> {
        convert::id_set(member, self)
    }
}

/// The roles of a policy.
impl Take<Roles> for Vec<String> {
    fn take(&self, member: &str) -> Result<Roles, Failure> {
        convert::roles(member, self)
    }
}

impl Take<CtrlListener> for Vec<String> {
    fn take(&self, _member: &str) -> Result<CtrlListener, Failure> {
        Ok(CtrlListener { groups: self.clone() })
    }
}

impl<V: Take<M>, M> Take<BTreeMap<String, M>> for BTreeMap<String, V> {
    fn take(&self, member: &str) -> Result<BTreeMap<String, M>, Failure> {
        self.iter().map(|(key, value)| Ok((key.clone(), value.take(member)?))).collect()
    }
}

/// A map whose keys are ids.
impl<V: Take<M>, M: PartialEq + 'static> Take<Rare<BTreeMap<Id, M>>> for BTreeMap<String, V> {
    fn take(&self, member: &str) -> Result<Rare<BTreeMap<Id, M>>, Failure> {
        self.iter().map(|(key, value)| Ok((key.take(member)?, value.take(member)?))).collect()
    }
}

impl Take<JsonMap> for ContractMap {
    fn take(&self, _member: &str) -> Result<JsonMap, Failure> {
        Ok(self.clone().into())
    }
}

impl Take<JsonMap> for Tags {
    fn take(&self, _member: &str) -> Result<JsonMap, Failure> {
        Ok(convert::from_tags(self))
    }
}

impl Search for bool {
    const TYPE: Type = Type::Bool;

    fn value(&self) -> Value<'_> {
        Value::Bool(*self)
    }
}

impl Search for u16 {
    const TYPE: Type = Type::Int;

    fn value(&self) -> Value<'_> {
        Value::Int((*self).into())
    }
}

impl Search for u32 {
    const TYPE: Type = Type::Int;

    fn value(&self) -> Value<'_> {
        Value::Int((*self).into())
    }
}

impl Search for i64 {
    const TYPE: Type = Type::Int;

    fn value(&self) -> Value<'_> {
        Value::Int(*self)
    }
}

impl Search for Timestamp {
    const TYPE: Type = Type::Time;

    fn value(&self) -> Value<'_> {
        Value::unix_millis(self.0)
    }
}

impl Search for String {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::text(self)
    }
}

impl Search for Arc<str> {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::text(self)
    }
}

impl Search for Id {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::text(self.as_str())
    }
}

/// Filters compare the JSON text.
impl Search for JsonMap {
    const TYPE: Type = Type::String;

    fn value(&self) -> Value<'_> {
        Value::Text(self.to_text().into())
    }
}

impl<T: Search> Search for Option<T> {
    const TYPE: Type = T::TYPE;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Search::value)
    }
}

impl<T: AsRef<str>> Search for Vec<T> {
    const TYPE: Type = Type::String;
    const IS_SET: bool = true;

    fn each(&self, visit: ValueVisitor<'_>) -> ControlFlow<()> {
        self.iter().try_for_each(|text| visit(Value::text(text.as_ref())))
    }
}

/// Filters compare the entries of a role list as they are written.
impl Search for Roles {
    const TYPE: Type = Type::String;
    const IS_SET: bool = true;

    fn each(&self, visit: ValueVisitor<'_>) -> ControlFlow<()> {
        self.to_strings().iter().try_for_each(|role| visit(Value::text(role)))
    }
}

/// The conversions of the choices of the model. A choice may have a type of its own for its words in
/// the APIs.
macro_rules! choices {
    ($($choice:ident $(= $word:ident)?,)*) => {
        $(
            impl Search for $choice {
                const TYPE: Type = Type::String;

                fn value(&self) -> Value<'_> {
                    Value::text(self.as_str())
                }
            }

            impl Show<String> for $choice {
                fn show(&self) -> String {
                    self.as_str().to_owned()
                }
            }

            $(
                impl Show<$word> for $choice {
                    fn show(&self) -> $word {
                        $word::parse(self.as_str()).unwrap_or_default()
                    }
                }

                impl Take<$choice> for $word {
                    fn take(&self, member: &str) -> Result<$choice, Failure> {
                        let word = self.as_str();
                        $choice::parse(word).ok_or_else(|| {
                            let known = $choice::ALL.iter().map(|choice| choice.as_str());
                            let known = known.collect::<Vec<_>>().join(" or ");
                            Failure::field(member, format!("must be {known}"), word)
                        })
                    }
                }
            )?
        )*

        #[cfg(test)]
        mod tests {
            #[test]
            fn every_choice_has_a_word() {
                $($(
                    for choice in super::$choice::ALL {
                        assert!(super::$word::WORDS.contains(&choice.as_str()), "{choice:?}");
                    }
                )?)*
            }
        }
    };
}

choices! {
    ClaimLocation = LocationWord,
    ClaimMatcher = MatcherWord,
    ClaimParser = ParserWord,
    ConfigTarget = TargetWord,
    EnrollmentMethod,
    IdentityType,
    PolicyType = DialBindWord,
    PostureCheckType,
    Precedence = PrecedenceWord,
    RevocationType = RevocationWord,
    Semantic = SemanticWord,
    TargetToken = TokenWord,
    TerminatorStrategy,
}
