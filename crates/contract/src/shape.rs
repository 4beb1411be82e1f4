//! The types of members, as constants: of request bodies, and through [`schema`](crate::schema) of
//! answers.

use std::collections::BTreeMap;

/// What a body is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A new entity, or an action: POST.
    Create,
    /// All of an entity: PUT.
    Replace,
    /// Parts of an entity: PATCH.
    Patch,
}

/// Which verbs cannot do without a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// None.
    Optional,
    /// Create only.
    Create,
    /// Replace only.
    Replace,
    /// Create and replace.
    Both,
    /// Create and patch.
    NotReplace,
    /// All three.
    Always,
}

impl Need {
    /// Whether this verb requires the member.
    #[must_use]
    pub const fn covers(self, verb: Verb) -> bool {
        match self {
            Self::Optional => false,
            Self::Create => matches!(verb, Verb::Create),
            Self::Replace => matches!(verb, Verb::Replace),
            Self::Both => matches!(verb, Verb::Create | Verb::Replace),
            Self::NotReplace => matches!(verb, Verb::Create | Verb::Patch),
            Self::Always => true,
        }
    }
}

/// One member of a body.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub shape: FieldType,
    /// Which verbs require it.
    pub need: Need,
    /// The collection whose entities it names by id, if it does.
    pub names: Option<&'static str>,
    /// What it means.
    pub about: &'static str,
}

/// What a member holds.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// A text.
    Text,
    /// A text of so many characters.
    Length {
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// `true` or `false`.
    Bool,
    /// A whole number in these bounds.
    Integer {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// A date and time.
    Time,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An object with these members.
    Object(&'static [Field]),
    /// An array.
    List(&'static FieldType),
    /// An object from any names to values of one type.
    Map(&'static FieldType),
    /// An object of any content.
    Json,
}

/// A type that can be a member of a body.
pub trait Shape {
    /// What it holds.
    const SHAPE: FieldType;
}

impl<T: Shape> Shape for Vec<T> {
    const SHAPE: FieldType = FieldType::List(&T::SHAPE);
}

impl<T: Shape> Shape for BTreeMap<String, T> {
    const SHAPE: FieldType = FieldType::Map(&T::SHAPE);
}
