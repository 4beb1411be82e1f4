//! Small JSON shapes that many bodies share: maps, tags, bounded texts.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A JSON object of any content.
pub type JsonMap = serde_json::Map<String, serde_json::Value>;

/// The number of values in a JSON text, counted without memory for them: a value in memory takes many times its
/// bytes in the text. Objects and lists without members count twice. Text that is not JSON has no more values
/// up to its first mistake.
#[must_use]
pub fn count_values(text: &[u8]) -> usize {
    let (mut count, mut is_quoted, mut is_escaped) = (1, false, false);
    for byte in text {
        match (is_quoted, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_quoted = !is_quoted,
            (false, b',' | b'[' | b'{') => count += 1,
            _ => {}
        }
    }
    count
}

/// User-defined labels of an entity: flat, sorted by name.
pub type Tags = BTreeMap<String, TagValue>;

/// The value of a tag: no object and no array (docs/protocol/management-api.md 2.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "tag values are strings, numbers, booleans or null")]
pub enum TagValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(serde_json::Number),
    /// A text.
    Text(String),
}

/// A list in an answer that is null when it is empty, as in OpenZiti: clients compare it with what they sent, and had
/// sent nothing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ListOrNull<T>(pub Vec<T>);

impl<T> Default for ListOrNull<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> std::ops::Deref for ListOrNull<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> From<Vec<T>> for ListOrNull<T> {
    fn from(list: Vec<T>) -> Self {
        Self(list)
    }
}

impl<T> FromIterator<T> for ListOrNull<T> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        Self(list.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for ListOrNull<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Some(&self.0).filter(|list| !list.is_empty()).serialize(serializer)
    }
}

/// Reads a value and takes `null` for its default: peers write null for empty lists and maps.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a text of at most `MAX` characters, with spaces in place of control characters; null is the empty text.
pub(crate) fn short_text<'de, D, const MAX: usize>(deserializer: D) -> Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.chars().count() > MAX {
        return Err(de::Error::custom(format_args!("should be at most {MAX} characters long")));
    }
    Ok(text.replace(char::is_control, " "))
}

/// A text was shorter or longer than the API allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("should be {min} to {max} characters long")]
pub struct WrongLength {
    min: usize,
    max: usize,
}

fn check_length(text: &str, min: usize, max: usize) -> Result<(), WrongLength> {
    let length = text.chars().count();
    if (min..=max).contains(&length) { Ok(()) } else { Err(WrongLength { min, max }) }
}

/// A login name of 4 to 100 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Username(String);

impl Username {
    /// The fewest characters.
    pub const MIN: usize = 4;
    /// The most characters.
    pub const MAX: usize = 100;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Username {
    type Error = WrongLength;

    fn try_from(text: String) -> Result<Self, WrongLength> {
        check_length(&text, Self::MIN, Self::MAX)?;
        Ok(Self(text))
    }
}

/// A password of 5 to 100 characters. It never shows in debug output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Password(String);

impl Password {
    /// The fewest characters.
    pub const MIN: usize = 5;
    /// The most characters.
    pub const MAX: usize = 100;

    /// The password itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Password {
    type Error = WrongLength;

    fn try_from(text: String) -> Result<Self, WrongLength> {
        check_length(&text, Self::MIN, Self::MAX)?;
        Ok(Self(text))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Turns numbers such as `80.0` into `80`, in place and at every depth.
///
/// Clients written in languages with one kind of number send them; configs keep whole numbers as
/// whole numbers (docs/protocol/management-api.md 1.2).
pub fn narrow_numbers(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) => {
            // 2^53: above it a float no longer tells neighbouring integers apart.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            if let Some(float) = number.as_f64()
                && number.is_f64()
                && float.fract() == 0.0
                && float.abs() <= EXACT
            {
                *number = serde_json::Number::from(float as i64);
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(narrow_numbers),
        serde_json::Value::Object(members) => members.values_mut().for_each(narrow_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tags_are_flat() {
        let tags: Tags = serde_json::from_str(r#"{"b":1,"a":"x","c":null,"d":true}"#).unwrap();
        assert_eq!(serde_json::to_string(&tags).unwrap(), r#"{"a":"x","b":1,"c":null,"d":true}"#);
        assert!(serde_json::from_str::<Tags>(r#"{"a":{"b":1}}"#).is_err());
        assert!(serde_json::from_str::<Tags>(r#"{"a":[1]}"#).is_err());
    }

    #[test]
    fn values_are_counted_without_reading_them() {
        for (text, count) in [
            ("0", 1),
            ("[0,0,0]", 4),
            (r#"{"a":0,"b":[1,2],"c":"[,{"}"#, 6),
            (r#"["\"",",","\\",0]"#, 5),
            ("[{},{},{}]", 7),
            (r#""[,{,"#, 1),
        ] {
            assert_eq!(count_values(text.as_bytes()), count, "{text}");
        }
    }

    #[test]
    fn lengths_hold_and_passwords_hide() {
        assert!(serde_json::from_value::<Username>(json!("bob")).is_err());
        assert!(serde_json::from_value::<Password>(json!("x".repeat(101))).is_err());
        let password: Password = serde_json::from_value(json!("geheim")).unwrap();
        assert_eq!(format!("{password:?}"), "Password(..)");
        assert_eq!(password.expose(), "geheim");
    }

    #[test]
    fn whole_floats_become_integers() {
        let mut value = json!({"port": 80.0, "list": [1.5, 2.0], "big": 1e300});
        narrow_numbers(&mut value);
        assert_eq!(value, json!({"port": 80, "list": [1.5, 2], "big": 1e300}));
    }
}
