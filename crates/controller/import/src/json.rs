//! JSON objects as the original stores them: a bucket for an object or a list, a value for the rest
//! (docs/protocol/operations.md 14.2).

use bytes::Bytes;
use serde_json::{Map, Number, Value as Json};
use weft_bolt::{BoltBucket, BoltContent, BoltError};

use crate::fields::{Value, value_of};

/// The key with the length of a list, by which lists are told from objects.
const LENGTH: &[u8] = b"__list__size__36484231-110c-4767-afe2-01b6e3db107a";
/// Whole numbers up to this are the same as a fraction of 64 bits.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Why an object is not kept.
#[derive(Debug)]
pub(crate) enum Refused {
    Damaged(BoltError),
    TooLong,
    Unfit(String),
}

impl From<BoltError> for Refused {
    fn from(error: BoltError) -> Self {
        Self::Damaged(error)
    }
}

/// Counts bytes, and refuses more than are allowed.
type Spend<'s> = &'s mut dyn FnMut(usize) -> Result<(), Refused>;

/// The object of a bucket.
pub(crate) fn object(
    bucket: &BoltBucket<'_>,
    spend: Spend<'_>,
) -> Result<Map<String, Json>, Refused> {
    match any(bucket, spend)? {
        Json::Object(map) => Ok(map),
        _ => Err(Refused::Unfit("it is a list instead of an object".to_owned())),
    }
}

/// The object or list of a bucket. Buckets within each other end by the reader's limit.
fn any(bucket: &BoltBucket<'_>, spend: Spend<'_>) -> Result<Json, Refused> {
    if let Some(length) = bucket.value(LENGTH)? {
        return list(bucket, &length, spend);
    }
    let mut map = Map::new();
    for entry in bucket.entries() {
        let entry = entry?;
        spend(entry.key.len() + 64)?;
        let key = std::str::from_utf8(&entry.key);
        let key = key.map_err(|_| Refused::Unfit("a name of a member is not UTF-8".to_owned()))?;
        let value = content(&entry.content, spend)?;
        map.insert(key.to_owned(), value);
    }
    Ok(Json::Object(map))
}

/// A list: its elements by their numbers. Absent ones are null.
fn list(bucket: &BoltBucket<'_>, length: &Bytes, spend: Spend<'_>) -> Result<Json, Refused> {
    let Value::Number(length) = value_of(length) else {
        return Err(Refused::Unfit("a list has no length".to_owned()));
    };
    let length = usize::try_from(length).map_err(|_| Refused::TooLong)?;
    spend(length.saturating_mul(32))?;
    let mut list = vec![Json::Null; length];
    for entry in bucket.entries() {
        let entry = entry?;
        let Value::Number(index) = value_of(&entry.key) else { continue };
        let place = usize::try_from(index).ok().and_then(|index| list.get_mut(index));
        if let Some(place) = place {
            *place = content(&entry.content, spend)?;
        }
    }
    Ok(Json::Array(list))
}

fn content(content: &BoltContent<'_>, spend: Spend<'_>) -> Result<Json, Refused> {
    let value = match content {
        BoltContent::Bucket(bucket) => return any(bucket, spend),
        BoltContent::Value(value) => value,
    };
    spend(value.len())?;
    Ok(match value_of(value) {
        Value::Nothing => Json::Null,
        Value::Flag(flag) => flag.into(),
        Value::Number(number) => number.into(),
        // The original reads every number as a fraction, and shows whole ones without a point.
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        Value::Fraction(number) if number.fract() == 0.0 && number.abs() <= EXACT => {
            (number as i64).into()
        }
        Value::Fraction(number) => Number::from_f64(number).map_or(Json::Null, Json::Number),
        Value::Time(time) => time.to_string().into(),
        Value::Text(text) => match std::str::from_utf8(&text) {
            Ok(text) => text.into(),
            Err(_) => return Err(Refused::Unfit("a text is not UTF-8".to_owned())),
        },
        Value::Unknown => {
            return Err(Refused::Unfit("the bytes of a member are no value".to_owned()));
        }
    })
}
