//! Members of a body that are decoded only if they belong to the kind of the body.
//!
//! A body may hold the members of several kinds. Another member, or the entity itself, names its
//! kind. Clients fill in the members of the other kinds with any values that their forms happen to
//! hold. An error in such a member must not refuse the body, so that each member is kept in the form
//! in which the client sent it, and is decoded when it is needed.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{BodyError, FieldType, Shape, Verb};

/// A member in the form in which the client sent it.
pub struct Unread<T> {
    text: Box<RawValue>,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Unread<T> {
    /// Reads the member, whose name in errors is `name`.
    ///
    /// # Errors
    /// Names the wrong part of the member, and the problem.
    pub fn read(&self, name: &str) -> Result<T, BodyError> {
        super::parse(self.text.get().as_bytes()).map_err(|error| match error {
            BodyError::Syntax(reason) => BodyError::Field { field: name.to_owned(), reason },
            BodyError::Field { field, reason } => {
                let dot = if field.starts_with('[') { "" } else { "." };
                BodyError::Field { field: format!("{name}{dot}{field}"), reason }
            }
        })
    }
}

impl<T: DeserializeOwned + Shape> Unread<T> {
    /// Reads the member and checks that the parts that the verb requires are there.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_whole(&self, name: &str, verb: Verb) -> Result<T, BodyError> {
        let part = self.read(name)?;
        match part.lacks(verb).into_iter().next() {
            None => Ok(part),
            Some(path) => {
                let field = format!("{name}{path}");
                let reason = format!("{field} in body is required");
                Err(BodyError::Field { field, reason })
            }
        }
    }
}

impl<T> Clone for Unread<T> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Unread<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}

impl<T> std::fmt::Debug for Unread<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Unread").field(&self.text.get()).finish()
    }
}

impl<T> Serialize for Unread<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Unread<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self { text: Box::<RawValue>::deserialize(from)?, of: PhantomData })
    }
}

impl<T: Shape> Shape for Unread<T> {
    const SHAPE: FieldType = T::SHAPE;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::body::{self, body};

    body! {
        /// A part.
        struct Part {
            /// A number.
            Always max_attempts: u16,
        }
    }

    body! {
        /// A body with members of two kinds.
        struct Either {
            /// Of one kind.
            Optional part: Unread<Part>,
            /// Of the other.
            Optional parts: Unread<Vec<Part>>,
        }
    }

    fn decoded(body: &Value) -> Either {
        let from_text: Either = body::decode(body.to_string().as_bytes(), Verb::Create).unwrap();
        let from_value: Either = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(from_text, from_value);
        assert_eq!(&serde_json::to_value(&from_text).unwrap(), body);
        from_text
    }

    fn wrong(body: &Value) -> Vec<String> {
        let either = decoded(body);
        let part = either.part.map(|part| part.read_whole("part", Verb::Create).err());
        let parts = either.parts.map(|parts| parts.read_whole("parts", Verb::Create).err());
        let errors = [part.flatten(), parts.flatten()];
        errors.into_iter().flatten().map(|error| error.to_string()).collect()
    }

    #[test]
    fn what_does_not_count_may_be_anything() {
        for text in ["5", "\"\"", "[{\"path\": \"\"}]", "{\"maxAttempts\": \"\"}"] {
            let part: Value = serde_json::from_str(text).unwrap();
            let read = decoded(&json!({"part": part, "parts": [{"maxAttempts": 7}]}));
            let parts = read.parts.unwrap().read_whole("parts", Verb::Create).unwrap();
            assert_eq!(parts[0].max_attempts, Some(7));
        }
        let none: Either = body::decode(br#"{"part": null}"#, Verb::Create).unwrap();
        assert_eq!(none.part, None);
    }

    #[test]
    fn what_counts_is_read_with_the_errors_of_a_body() {
        let number = "must be a whole number from 0 to 65535";
        for (body, error) in [
            (json!({"part": 5}), "part: must be an object".to_owned()),
            (json!({"part": {}}), "part.maxAttempts: part.maxAttempts in body is required".into()),
            (json!({"part": {"MAXATTEMPTS": "x"}}), format!("part.MAXATTEMPTS: {number}")),
            (json!({"parts": {}}), "parts: must be a sequence".into()),
            (
                json!({"parts": [{"maxAttempts": 1}, {"maxAttempts": -1}]}),
                format!("parts[1].maxAttempts: {number}"),
            ),
            (
                json!({"parts": [{"maxAttempts": 1}, {}]}),
                "parts[1].maxAttempts: parts[1].maxAttempts in body is required".into(),
            ),
        ] {
            assert_eq!(wrong(&body), [error], "{body}");
        }
        let twice = r#"{"part": {"maxAttempts": 1, "maxattempts": 2}}"#;
        let twice: Either = body::decode(twice.as_bytes(), Verb::Create).unwrap();
        let error = twice.part.unwrap().read("part").unwrap_err();
        assert_eq!(error.to_string(), "part: duplicate field `maxAttempts`");
    }
}
