//! The content of answers, as constants, from which the API descriptions are made.
//!
//! One row of the [`detail!`](crate::entity) macro is both a member of the type and its
//! description, so the two cannot differ. Request bodies describe themselves by
//! [`Field`](crate::shape::Field)s.

use std::collections::BTreeMap;

use crate::json::ListOrNull;
use crate::shape::{FieldType, Plain};

/// The type of a value in an answer.
#[derive(Clone, Copy, Debug)]
pub enum Schema {
    /// A type that bodies have, too.
    Plain(FieldType),
    /// A number, whole or not.
    Number,
    /// A value of any type.
    Any,
    /// An array.
    List(&'static Schema),
    /// An object from any names to values of one type.
    Map(&'static Schema),
    /// The value, or null.
    Nullable(&'static Schema),
    /// An object with known members.
    Object(&'static Object),
}

/// An object of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The name of the object's type.
    pub name: &'static str,
    /// The description of the object.
    pub about: &'static str,
    /// Objects whose members are members of this one.
    pub includes: &'static [&'static Object],
    /// The object's own members.
    pub members: &'static [Member],
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The name of the member in JSON.
    pub name: &'static str,
    /// The type of the member's value.
    pub schema: Schema,
    /// Whether every answer has the member; other members are left out when they do not apply.
    pub always: bool,
    /// The description of the member.
    pub about: &'static str,
}

impl Object {
    /// Every member, the included ones first.
    pub fn all(&'static self) -> Vec<&'static Member> {
        let included = self.includes.iter().flat_map(|object| object.all());
        included.chain(self.members).collect()
    }
}

/// A type that can be in an answer.
pub trait HasSchema {
    /// The schema of the type.
    const SCHEMA: Schema;
}

/// An answer, or a part of one, with known members.
pub trait HasMembers {
    /// The description of the type.
    const OBJECT: Object;
}

impl<T: Plain> HasSchema for T {
    const SCHEMA: Schema = Schema::Plain(T::TYPE);
}

impl HasSchema for f64 {
    const SCHEMA: Schema = Schema::Number;
}

impl HasSchema for serde_json::Value {
    const SCHEMA: Schema = Schema::Any;
}

impl<T: HasSchema> HasSchema for Vec<T> {
    const SCHEMA: Schema = Schema::List(&T::SCHEMA);
}

impl<T: HasSchema> HasSchema for ListOrNull<T> {
    const SCHEMA: Schema = Schema::Nullable(&Schema::List(&T::SCHEMA));
}

impl<T: HasSchema> HasSchema for Option<T> {
    const SCHEMA: Schema = Schema::Nullable(&T::SCHEMA);
}

impl<T: HasSchema> HasSchema for BTreeMap<String, T> {
    const SCHEMA: Schema = Schema::Map(&T::SCHEMA);
}

/// The element of a list of at most one, in which a macro passes an optional argument.
#[doc(hidden)]
#[must_use]
pub const fn first<T: Copy>(given: &[T]) -> Option<T> {
    match given {
        [first, ..] => Some(*first),
        [] => None,
    }
}

/// The name in JSON of a member: the given name, or the camel case of its name in Rust.
#[doc(hidden)]
#[must_use]
pub const fn json_name(given: Option<&'static str>, own: &'static Camel) -> &'static str {
    match given {
        Some(name) => name,
        None => own.as_str(),
    }
}

/// A name in camel case, made by [`camel`].
#[derive(Debug)]
pub struct Camel {
    letters: [u8; Self::LONGEST],
    length: usize,
}

impl Camel {
    /// The longest name, in bytes; a longer one does not compile.
    const LONGEST: usize = 64;

    /// The name.
    #[must_use]
    pub const fn as_str(&'static self) -> &'static str {
        let (name, _) = self.letters.split_at(self.length);
        match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => "",
        }
    }
}

/// The name in JSON of a member with this name in Rust: `isMfaEnabled` of `is_mfa_enabled`. A raw
/// identifier loses its `r#`.
///
/// ```
/// use weft_contract::schema::camel;
///
/// const NAME: &str = const { &camel(stringify!(is_mfa_enabled)) }.as_str();
/// assert_eq!(NAME, "isMfaEnabled");
/// ```
#[must_use]
pub const fn camel(snake: &str) -> Camel {
    let bytes = snake.as_bytes();
    let mut camel = Camel { letters: [0; Camel::LONGEST], length: 0 };
    let mut at = if let [b'r', b'#', ..] = bytes { 2 } else { 0 };
    let mut raise = false;
    while at < bytes.len() {
        if bytes[at] == b'_' {
            raise = true;
        } else {
            let letter = if raise { bytes[at].to_ascii_uppercase() } else { bytes[at] };
            camel.letters[camel.length] = letter;
            camel.length += 1;
            raise = false;
        }
        at += 1;
    }
    camel
}

#[cfg(test)]
#[allow(unreachable_pub)]
mod tests {
    use super::*;
    use crate::entity::detail;
    use crate::timestamp::Timestamp;

    detail! {
        /// A thing. It has
        /// members.
        pub struct Thing with Base {
            /// A word.
            pub first_word: String,
            /// A keyword.
            pub r#type: Option<u16>,
            /// Other things.
            #[serde(rename = "_others")]
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub others: Vec<Part>,
        }
    }

    detail! {
        /// A part.
        pub struct Part {
            /// When.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub at: Option<Timestamp>,
        }
    }

    #[test]
    fn a_row_is_a_member_and_its_description() {
        let all = Thing::OBJECT.all();
        let names: Vec<_> = all.iter().map(|member| member.name).collect();
        let base = ["_links", "createdAt", "id", "tags", "updatedAt"];
        assert_eq!(names, [&base[..], &["firstWord", "type", "_others"]].concat());
        let [first, kind, others] = Thing::OBJECT.members else { panic!("three members") };
        assert!(matches!(first.schema, Schema::Plain(FieldType::Text)) && first.always);
        assert!(matches!(kind.schema, Schema::Nullable(_)) && kind.always);
        assert!(matches!(others.schema, Schema::List(Schema::Object(_))) && !others.always);
        assert_eq!(
            (first.about.trim(), Thing::OBJECT.about.trim()),
            ("A word.", "A thing. It has members.")
        );
        let empty = serde_json::to_value(Thing::default()).unwrap();
        for member in all {
            assert_eq!(empty.get(member.name).is_some(), member.always, "{}", member.name);
        }
        assert_eq!(Part::OBJECT.members[0].name, "at");
    }
}
