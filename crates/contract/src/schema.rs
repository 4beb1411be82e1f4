//! The content of answers, as constants, from which the API descriptions are made.
//!
//! One row of the [`detail!`](crate::entity) macro is both a member of the type and its
//! description, so the two cannot differ. Request bodies describe themselves by
//! [`Field`](crate::shape::Field)s.

use std::collections::BTreeMap;

use crate::json::{JsonMap, Password, Tags, Username};
use crate::shape::{FieldType, Shape};
use crate::timestamp::Timestamp;

/// What a value of an answer is.
#[derive(Clone, Copy, Debug)]
pub enum Schema {
    /// Something that bodies hold too.
    Plain(FieldType),
    /// A number that need not be whole.
    Number,
    /// Anything.
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
    /// The name of its type.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Objects whose members are members of this one.
    pub includes: &'static [&'static Object],
    /// Its own members.
    pub members: &'static [Member],
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub schema: Schema,
    /// Whether it is there in every answer; the others are left out when they do not apply.
    pub always: bool,
    /// What it means.
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
    /// What it is.
    const SCHEMA: Schema;
}

/// An answer, or a part of one, with known members.
pub trait HasMembers {
    /// Its description.
    const OBJECT: Object;
}

/// Types of members of bodies and of answers.
macro_rules! plain {
    ($($type:ty => $shape:expr,)*) => {
        $(
            impl Shape for $type {
                const SHAPE: FieldType = $shape;
            }

            impl HasSchema for $type {
                const SCHEMA: Schema = Schema::Plain($shape);
            }
        )*
    };
}

const fn whole(min: i64, max: i64) -> FieldType {
    FieldType::Integer { min, max }
}

plain! {
    String => FieldType::Text,
    &str => FieldType::Text,
    Username => FieldType::Length { min: Username::MIN, max: Username::MAX },
    Password => FieldType::Length { min: Password::MIN, max: Password::MAX },
    bool => FieldType::Bool,
    u8 => whole(0, u8::MAX as i64),
    u16 => whole(0, u16::MAX as i64),
    u32 => whole(0, u32::MAX as i64),
    u64 => whole(0, i64::MAX),
    usize => whole(0, i64::MAX),
    i32 => whole(i32::MIN as i64, i32::MAX as i64),
    i64 => whole(i64::MIN, i64::MAX),
    Timestamp => FieldType::Time,
    JsonMap => FieldType::Json,
    Tags => FieldType::Json,
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

impl<T: HasSchema> HasSchema for Option<T> {
    const SCHEMA: Schema = Schema::Nullable(&T::SCHEMA);
}

impl<T: HasSchema> HasSchema for Box<T> {
    const SCHEMA: Schema = T::SCHEMA;
}

impl<T: HasSchema> HasSchema for BTreeMap<String, T> {
    const SCHEMA: Schema = Schema::Map(&T::SCHEMA);
}

/// Describes the members of a type; `detail!` uses it, and types written by hand may.
macro_rules! describe {
    (
        $name:ident: $about:expr, includes [$($included:ty),*],
        $(
            [$($doc:literal)+] [$($serde:tt)*] $field:ident: $type:ty,
        )*
    ) => {
        impl $crate::schema::HasMembers for $name {
            const OBJECT: $crate::schema::Object = $crate::schema::Object {
                name: stringify!($name),
                about: $about,
                includes: &[$(&<$included as $crate::schema::HasMembers>::OBJECT),*],
                members: &[
                    $(
                        $crate::schema::Member {
                            name: $crate::schema::json_name!($field [$($serde)*]),
                            schema: <$type as $crate::schema::HasSchema>::SCHEMA,
                            always: $crate::schema::always!([$($serde)*]),
                            about: concat!($($doc),+),
                        },
                    )*
                ],
            };
        }

        impl $crate::schema::HasSchema for $name {
            const SCHEMA: $crate::schema::Schema = $crate::schema::Schema::Object(
                &<$name as $crate::schema::HasMembers>::OBJECT,
            );
        }
    };
}
pub(crate) use describe;

/// The JSON name of a member: the one its `serde` attribute gives, or the camel case of its own.
macro_rules! json_name {
    ($field:ident [rename = $name:literal $($rest:tt)*]) => { $name };
    ($field:ident [$skipped:tt $($rest:tt)*]) => {
        $crate::schema::json_name!($field [$($rest)*])
    };
    ($field:ident []) => { $crate::wire_name!($field) };
}
pub(crate) use json_name;

/// Whether a member is always there, by its `serde` attribute.
macro_rules! always {
    ([]) => { true };
    ([skip_serializing_if $($rest:tt)*]) => { false };
    ([$skipped:tt $($rest:tt)*]) => { $crate::schema::always!([$($rest)*]) };
}
pub(crate) use always;

/// The name in JSON of a member that is called so in Rust: `isMfaEnabled` of `is_mfa_enabled`.
#[macro_export]
macro_rules! wire_name {
    ($member:ident) => {{
        const SNAKE: &str = stringify!($member);
        const BYTES: [u8; $crate::schema::camel_length(SNAKE)] = $crate::schema::camel(SNAKE);
        match ::std::str::from_utf8(&BYTES) {
            Ok(name) => name,
            Err(_) => SNAKE,
        }
    }};
}

/// How long [`camel`] of a word is.
#[doc(hidden)]
#[must_use]
pub const fn camel_length(snake: &str) -> usize {
    let bytes = snake.as_bytes();
    let (mut at, mut length) = (raw_prefix(bytes), 0);
    while at < bytes.len() {
        if bytes[at] != b'_' {
            length += 1;
        }
        at += 1;
    }
    length
}

/// `is_mfa_enabled` as `isMfaEnabled`; a raw identifier loses its `r#`. Evaluated by the compiler
/// only.
#[doc(hidden)]
#[must_use]
pub const fn camel<const N: usize>(snake: &str) -> [u8; N] {
    let bytes = snake.as_bytes();
    let mut camel = [0; N];
    let (mut at, mut to, mut raise) = (raw_prefix(bytes), 0, false);
    while at < bytes.len() && to < N {
        if bytes[at] == b'_' {
            raise = true;
        } else {
            camel[to] = if raise { bytes[at].to_ascii_uppercase() } else { bytes[at] };
            raise = false;
            to += 1;
        }
        at += 1;
    }
    camel
}

const fn raw_prefix(bytes: &[u8]) -> usize {
    if let [b'r', b'#', ..] = bytes { 2 } else { 0 }
}

#[cfg(test)]
#[allow(unreachable_pub)]
mod tests {
    use super::*;
    use crate::entity::detail;

    detail! {
        /// A thing. It has
        /// members.
        pub struct Thing with Base {
            /// A word.
            pub first_word: String,
            /// A keyword.
            pub r#type: Option<u16>,
            /// Other things.
            #[serde(rename = "_others", skip_serializing_if = "Vec::is_empty")]
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
