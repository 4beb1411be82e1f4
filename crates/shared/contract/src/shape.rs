//! The types of members, as constants: of request bodies, and through [`schema`](crate::schema) of
//! answers.

use std::collections::BTreeMap;

use crate::json::{JsonMap, Password, Tags, Username};
use crate::timestamp::Timestamp;

/// The purpose of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A new entity, or an action: POST.
    Create,
    /// All of an entity: PUT.
    Replace,
    /// Parts of an entity: PATCH.
    Patch,
}

/// The verbs that require a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No verb.
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
    /// The name of the member in JSON.
    pub name: &'static str,
    /// The type of the member's value.
    pub shape: FieldType,
    /// The verbs that require the member.
    pub need: Need,
    /// The collection whose entities the member names by id; `None` for other members.
    pub names: Option<&'static str>,
    /// The description of the member.
    pub about: &'static str,
}

/// The type of the value of a member.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// A text.
    Text,
    /// A text with a limited length, in characters.
    Length {
        /// The least number of characters.
        min: usize,
        /// The largest number of characters.
        max: usize,
    },
    /// `true` or `false`.
    Bool,
    /// A whole number within limits.
    Integer {
        /// The least number.
        min: i64,
        /// The largest number.
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
    /// The type of the value.
    const SHAPE: FieldType;

    /// Parts of the value that the verb requires and that are not there, each as the path behind
    /// the name of the member: `.cert.allowed`, `[2].path`.
    fn lacks(&self, _verb: Verb) -> Vec<String> {
        Vec::new()
    }
}

impl<T: Shape> Shape for Vec<T> {
    const SHAPE: FieldType = FieldType::List(&T::SHAPE);

    fn lacks(&self, verb: Verb) -> Vec<String> {
        let items = self.iter().enumerate();
        items.flat_map(|(at, item)| behind(format!("[{at}]"), item.lacks(verb))).collect()
    }
}

impl<T: Shape> Shape for BTreeMap<String, T> {
    const SHAPE: FieldType = FieldType::Map(&T::SHAPE);
}

/// The paths, each with `start` before it.
pub(crate) fn behind(start: String, paths: Vec<String>) -> impl Iterator<Item = String> {
    paths.into_iter().map(move |path| format!("{start}{path}"))
}

/// A type without parts, the same in bodies and in answers.
pub trait Plain {
    /// The type of the value.
    const TYPE: FieldType;
}

impl<T: Plain> Shape for T {
    const SHAPE: FieldType = T::TYPE;
}

const fn whole(min: i64, max: i64) -> FieldType {
    FieldType::Integer { min, max }
}

impl Plain for String {
    const TYPE: FieldType = FieldType::Text;
}

impl Plain for &str {
    const TYPE: FieldType = FieldType::Text;
}

impl Plain for Username {
    const TYPE: FieldType = FieldType::Length { min: Self::MIN, max: Self::MAX };
}

impl Plain for Password {
    const TYPE: FieldType = FieldType::Length { min: Self::MIN, max: Self::MAX };
}

impl Plain for bool {
    const TYPE: FieldType = FieldType::Bool;
}

impl Plain for u8 {
    const TYPE: FieldType = whole(0, u8::MAX as i64);
}

impl Plain for u16 {
    const TYPE: FieldType = whole(0, u16::MAX as i64);
}

impl Plain for u32 {
    const TYPE: FieldType = whole(0, u32::MAX as i64);
}

impl Plain for u64 {
    const TYPE: FieldType = whole(0, i64::MAX);
}

impl Plain for usize {
    const TYPE: FieldType = whole(0, i64::MAX);
}

impl Plain for i32 {
    const TYPE: FieldType = whole(i32::MIN as i64, i32::MAX as i64);
}

impl Plain for i64 {
    const TYPE: FieldType = whole(i64::MIN, i64::MAX);
}

impl Plain for Timestamp {
    const TYPE: FieldType = FieldType::Time;
}

impl Plain for JsonMap {
    const TYPE: FieldType = FieldType::Json;
}

impl Plain for Tags {
    const TYPE: FieldType = FieldType::Json;
}
