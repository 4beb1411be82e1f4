//! The fields of one stored entity. A value is a byte with its type and the bytes of the value; lists and objects are
//! buckets (docs/protocol/operations.md 14.2).

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_bolt::{BoltBucket, BoltContent, BoltError};
use weft_model::{Base, Id, JsonMap, Timestamp};

use crate::json::{self, Refused};
use crate::losses::{Loss, Losses};
use crate::time;

/// Most fields of an entity. The original has some thirty.
const MAX_FIELDS: usize = 1_000;
/// Most bytes of the lists and objects of one entity. A request of the original's API is smaller.
const MAX_BYTES: usize = 16 * 1_024 * 1_024;

/// A stored value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    Number(i64),
    Fraction(f64),
    Text(Bytes),
    Time(Timestamp),
    /// None, or an unset time.
    Nothing,
    /// Bytes that are no value.
    Unknown,
}

/// The value that bytes stand for.
pub(crate) fn value_of(bytes: &Bytes) -> Value {
    let Some((kind, rest)) = bytes.split_first() else { return Value::Nothing };
    match (kind, rest.len()) {
        (1, 1..) => Value::Flag(rest.first() == Some(&1)),
        (2, 4) => rest
            .first_chunk()
            .map_or(Value::Unknown, |it| Value::Number(i64::from(i32::from_le_bytes(*it)))),
        (3, 8) => {
            rest.first_chunk().map_or(Value::Unknown, |it| Value::Number(i64::from_le_bytes(*it)))
        }
        (4, 8) => {
            rest.first_chunk().map_or(Value::Unknown, |it| Value::Fraction(f64::from_le_bytes(*it)))
        }
        (5, _) => Value::Text(bytes.slice(1..)),
        (6, _) => match (time::parse(rest), rest) {
            (Some(time), _) => Value::Time(time),
            (None, [1 | 2, 0, 0, 0, 0, 0, 0, 0, 0, ..]) => Value::Nothing,
            _ => Value::Unknown,
        },
        (7, _) => Value::Nothing,
        _ => Value::Unknown,
    }
}

/// Why an entity is not taken.
#[derive(Debug)]
pub(crate) enum Untaken {
    /// The database cannot be read further.
    Damaged(BoltError),
    /// The reason.
    Entity(String),
}

impl From<BoltError> for Untaken {
    fn from(error: BoltError) -> Self {
        Self::Damaged(error)
    }
}

/// One stored entity: its fields, and what is lost of it.
pub(crate) struct Stored<'a> {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) name: String,
    entries: BTreeMap<Bytes, BoltContent<'a>>,
    bytes: usize,
}

/// The fields of an entity while it is read.
pub(crate) struct Fields<'a, 'l> {
    pub(crate) stored: Stored<'a>,
    pub(crate) losses: &'l mut Losses,
}

/// The result of reading a field, or the reason why the entity is not taken.
pub(crate) type Taken<T> = Result<T, Untaken>;

impl<'a> Stored<'a> {
    /// The fields of an entity's bucket.
    pub(crate) fn read(kind: &'static str, id: &Bytes, bucket: &BoltBucket<'a>) -> Taken<Self> {
        Ok(Self {
            kind,
            id: String::from_utf8_lossy(id).into_owned(),
            name: String::new(),
            entries: entries(bucket)?,
            bytes: 0,
        })
    }
}

/// The entries of a bucket with fields.
fn entries<'a>(bucket: &BoltBucket<'a>) -> Taken<BTreeMap<Bytes, BoltContent<'a>>> {
    let mut entries = BTreeMap::new();
    for entry in bucket.entries() {
        if entries.len() >= MAX_FIELDS {
            return Err(Untaken::Entity(format!("it has more than {MAX_FIELDS} fields")));
        }
        let entry = entry?;
        entries.insert(entry.key, entry.content);
    }
    Ok(entries)
}

impl<'a> Fields<'a, '_> {
    /// Notes that something of the entity is lost.
    pub(crate) fn lose(&mut self, field: &'static str, reason: impl Into<String>) {
        self.losses.add(Loss {
            kind: self.stored.kind,
            id: self.stored.id.clone(),
            name: self.stored.name.clone(),
            field,
            reason: reason.into(),
        });
    }

    /// Notes a field that is not taken because somebody reports it again.
    pub(crate) fn reported(&mut self, field: &'static str, key: &str, reason: &'static str) {
        let has_it = match self.stored.entries.get(key.as_bytes()) {
            Some(BoltContent::Value(value)) => match value_of(value) {
                Value::Text(text) => !text.is_empty(),
                value => value != Value::Nothing,
            },
            Some(BoltContent::Bucket(bucket)) => bucket.entries().next().is_some(),
            None => false,
        };
        if has_it {
            self.losses.add_reported(self.stored.kind, field, reason);
        }
    }

    /// The value of a field; nothing if it is absent, and a loss if it is a bucket or no value.
    pub(crate) fn value(&mut self, field: &'static str) -> Value {
        let value = match self.stored.entries.get(field.as_bytes()) {
            None => return Value::Nothing,
            Some(BoltContent::Value(value)) => value_of(value),
            Some(BoltContent::Bucket(_)) => Value::Unknown,
        };
        if value == Value::Unknown {
            self.lose(field, "its bytes are no value");
            return Value::Nothing;
        }
        value
    }

    /// The raw bytes of a field.
    pub(crate) fn raw(&self, field: &str) -> Bytes {
        match self.stored.entries.get(field.as_bytes()) {
            // A copy, so that the entity does not keep the page.
            Some(BoltContent::Value(value)) => Bytes::copy_from_slice(value),
            _ => Bytes::new(),
        }
    }

    /// A bucket among the fields.
    pub(crate) fn bucket(&self, field: &str) -> Option<BoltBucket<'a>> {
        match self.stored.entries.get(field.as_bytes()) {
            Some(BoltContent::Bucket(bucket)) => Some(bucket.clone()),
            _ => None,
        }
    }

    /// All buckets among the fields.
    pub(crate) fn buckets(&self) -> Vec<BoltBucket<'a>> {
        let buckets = self.stored.entries.values().filter_map(|content| match content {
            BoltContent::Bucket(bucket) => Some(bucket.clone()),
            BoltContent::Value(_) => None,
        });
        buckets.collect()
    }

    /// The fields of a bucket within this one, in place of its own. Losses name the same entity.
    pub(crate) fn within<T>(
        &mut self,
        bucket: &BoltBucket<'a>,
        read: impl FnOnce(&mut Self) -> Taken<T>,
    ) -> Taken<T> {
        let outer = std::mem::replace(&mut self.stored.entries, entries(bucket)?);
        let result = read(self);
        self.stored.entries = outer;
        result
    }

    /// A text; `None` if it is absent.
    pub(crate) fn text(&mut self, field: &'static str) -> Option<String> {
        match self.value(field) {
            Value::Nothing => None,
            Value::Text(text) => match std::str::from_utf8(&text) {
                Ok(text) => Some(text.to_owned()),
                Err(_) => {
                    self.lose(field, "it is not UTF-8");
                    None
                }
            },
            Value::Number(number) => Some(number.to_string()),
            other => self.unfit(field, &other, "a text"),
        }
    }

    /// A text that is not empty; `None` also if it is.
    pub(crate) fn full_text(&mut self, field: &'static str) -> Option<String> {
        self.text(field).filter(|text| !text.is_empty())
    }

    /// A text without which the entity is nothing.
    pub(crate) fn needed(&mut self, field: &'static str) -> Taken<String> {
        self.full_text(field).ok_or_else(|| Untaken::Entity(format!("it has no {field}")))
    }

    /// A flag, or what is meant where it is absent.
    pub(crate) fn flag(&mut self, field: &'static str, default: bool) -> bool {
        match self.value(field) {
            Value::Nothing => default,
            Value::Flag(flag) => flag,
            other => self.unfit(field, &other, "a flag").unwrap_or(default),
        }
    }

    /// A whole number; `None` if it is absent.
    pub(crate) fn number(&mut self, field: &'static str) -> Option<i64> {
        match self.value(field) {
            Value::Nothing => None,
            Value::Number(number) => Some(number),
            other => self.unfit(field, &other, "a number"),
        }
    }

    /// A number within a range of weft's; the nearest one, and a loss, if it is outside.
    pub(crate) fn number_within(&mut self, field: &'static str, default: i64, most: i64) -> i64 {
        let number = self.number(field).unwrap_or(default);
        let nearest = number.clamp(0, most);
        if nearest != number {
            self.lose(field, format!("{number} is not between 0 and {most}; {nearest} is taken"));
        }
        nearest
    }

    /// A cost.
    pub(crate) fn cost(&mut self, field: &'static str) -> u16 {
        u16::try_from(self.number_within(field, 0, i64::from(u16::MAX))).unwrap_or_default()
    }

    /// A time; `None` if it is absent.
    pub(crate) fn time(&mut self, field: &'static str) -> Option<Timestamp> {
        match self.value(field) {
            Value::Nothing => None,
            Value::Time(time) => Some(time),
            other => self.unfit(field, &other, "a time"),
        }
    }

    fn unfit<T>(&mut self, field: &'static str, value: &Value, wanted: &str) -> Option<T> {
        let found = match value {
            Value::Flag(_) => "a flag",
            Value::Number(_) => "a number",
            Value::Fraction(_) => "a fraction",
            Value::Text(_) => "a text",
            Value::Time(_) => "a time",
            Value::Nothing | Value::Unknown => "nothing",
        };
        self.lose(field, format!("it is {found} instead of {wanted}"));
        None
    }

    /// Counts bytes of lists and objects.
    fn spend(&mut self, bytes: usize) -> Result<(), Refused> {
        self.stored.bytes = self.stored.bytes.saturating_add(bytes);
        if self.stored.bytes > MAX_BYTES { Err(Refused::TooLong) } else { Ok(()) }
    }

    /// The texts of a list, in the order of their bytes: the keys of its bucket.
    pub(crate) fn list(&mut self, field: &'static str) -> Taken<Vec<String>> {
        match self.bucket(field) {
            Some(bucket) => self.keys(field, &bucket),
            None => Ok(Vec::new()),
        }
    }

    /// The texts that are the keys of a bucket.
    pub(crate) fn keys(
        &mut self,
        field: &'static str,
        bucket: &BoltBucket<'a>,
    ) -> Taken<Vec<String>> {
        let mut list = Vec::new();
        for entry in bucket.entries() {
            let key = entry?.key;
            if self.spend(key.len() + 24).is_err() {
                self.lose(field, "the list is too long");
                return Ok(Vec::new());
            }
            match (key.first(), std::str::from_utf8(key.get(1..).unwrap_or_default())) {
                (Some(5), Ok(text)) => list.push(text.to_owned()),
                _ => self.lose(field, "an element is no text"),
            }
        }
        Ok(list)
    }

    /// A JSON object; an empty one, and a loss, if it cannot be kept.
    pub(crate) fn object(&mut self, field: &'static str) -> Taken<JsonMap> {
        let Some(bucket) = self.bucket(field) else { return Ok(JsonMap::default()) };
        match json::object(&bucket, &mut |bytes| self.spend(bytes)) {
            Ok(map) => Ok(map.into()),
            Err(Refused::Damaged(error)) => Err(error.into()),
            Err(Refused::TooLong) => {
                self.lose(field, "it is too long");
                Ok(JsonMap::default())
            }
            Err(Refused::Unfit(reason)) => {
                self.lose(field, reason);
                Ok(JsonMap::default())
            }
        }
    }

    /// The id of another entity; `None` if there is none.
    pub(crate) fn id(&mut self, field: &'static str) -> Option<Id> {
        let text = self.full_text(field)?;
        match Id::parse(&text) {
            Ok(id) => Some(id),
            Err(error) => {
                self.lose(field, error.to_string());
                None
            }
        }
    }

    /// Ids of other entities.
    pub(crate) fn ids(&mut self, field: &'static str) -> Taken<Vec<Id>> {
        let mut ids = Vec::new();
        for text in self.list(field)? {
            match Id::parse(&text) {
                Ok(id) => ids.push(id),
                Err(error) => self.lose(field, error.to_string()),
            }
        }
        Ok(ids)
    }

    /// One of the texts of a choice; the default, and a loss, if it is another one.
    pub(crate) fn choice<T: weft_model::Choice>(&mut self, field: &'static str, default: T) -> T {
        let Some(text) = self.full_text(field) else { return default };
        T::parse(&text).unwrap_or_else(|| {
            self.lose(field, format!("weft has no {text:?}; {} is taken", default.as_str()));
            default
        })
    }

    /// Role attributes; those that no role list could name are lost.
    pub(crate) fn attributes(&mut self) -> Taken<Vec<std::sync::Arc<str>>> {
        let field = "roleAttributes";
        let mut attributes = self.list(field)?;
        attributes.retain(|attribute| match weft_model::role::check_attribute(attribute) {
            Ok(()) => true,
            Err(error) => {
                self.lose(field, error.to_string());
                false
            }
        });
        match weft_model::role::attributes(&attributes) {
            Ok(attributes) => Ok(attributes),
            Err(error) => {
                self.lose(field, error.to_string());
                Ok(Vec::new())
            }
        }
    }

    /// The id, times and tags.
    pub(crate) fn base(&mut self) -> Taken<Base> {
        if self.stored.id.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Untaken::Entity("its id is not UTF-8".to_owned()));
        }
        let id = Id::parse(&self.stored.id).map_err(|error| Untaken::Entity(error.to_string()))?;
        let created_at = self.time("createdAt").unwrap_or_default();
        Ok(Base {
            id,
            created_at,
            updated_at: self.time("updatedAt").unwrap_or(created_at),
            tags: self.object("tags")?,
            is_system: self.flag("isSystem", false),
        })
    }

    /// The name, which losses that follow show.
    pub(crate) fn name(&mut self) -> Taken<std::sync::Arc<str>> {
        let name = self.needed("name")?;
        self.stored.name.clone_from(&name);
        Ok(name.into())
    }
}
