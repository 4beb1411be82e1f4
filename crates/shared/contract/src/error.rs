//! Errors on the wire: codes, their status and message, and the shape of the body.
//!
//! Clients compare codes and statuses; messages are for people (docs/protocol/management-api.md
//! 3.1, 3.2; docs/protocol/auth.md 1.4).

mod code;

pub use code::ErrorCode;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::envelope::{Empty, Meta};
use crate::json::{JsonMap, null_default};
use crate::word::Word as _;

/// The whole answer of a request that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ErrorBody,
    /// The versions.
    #[serde(default, deserialize_with = "null_default")]
    pub meta: Meta,
    /// An empty object.
    #[serde(default, deserialize_with = "null_default")]
    pub data: Empty,
}

impl ErrorEnvelope {
    /// Makes the answer for one error.
    #[must_use]
    pub fn new(error: ErrorBody) -> Self {
        Self { error, meta: Meta::versions(), data: Empty {} }
    }
}

/// An error: its code, its message and its cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorBody {
    /// An [`ErrorCode`], or a word of another controller.
    #[serde(deserialize_with = "null_default")]
    pub code: String,
    /// The message for a person.
    #[serde(deserialize_with = "null_default")]
    pub message: String,
    /// The id of the request, which is also in the server's log.
    #[serde(deserialize_with = "null_default")]
    pub request_id: String,
    /// The cause of the error.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "cause")]
    pub cause: Option<Box<Cause>>,
    /// The cause, when it is only a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause_message: Option<String>,
    /// Values that the message mentions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<JsonMap>,
    /// Further data about the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonMap>,
}

impl ErrorBody {
    /// Makes the error of a code, with the message of the code.
    #[must_use]
    pub fn new(code: ErrorCode, request_id: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            message: code.message().to_owned(),
            request_id: request_id.into(),
            ..Self::default()
        }
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
}

/// The cause of an error: a field, or another error; one object for both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    /// The field that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The problem with the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The value of the field; usually its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The code of the error beneath.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The message of the error beneath.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The request of the error beneath.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Further data about the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The cause of this cause.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "cause")]
    pub cause: Option<Box<Cause>>,
}

impl Cause {
    /// Makes the cause for a field with an invalid value.
    #[must_use]
    pub fn field(field: &str, reason: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            reason: Some(reason.into()),
            value: Some(Value::String(value.into())),
            ..Self::default()
        }
    }

    /// Makes the cause from another error.
    #[must_use]
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: Some(code.as_str().to_owned()),
            message: Some(message.into()),
            ..Self::default()
        }
    }

    /// The cause in one line, which a command prints behind the message.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        match (&self.field, &self.reason) {
            // The reason names the field itself: `name must be unique`.
            (Some(field), Some(reason)) if reason.starts_with(field.as_str()) => {
                parts.push(reason.clone());
            }
            (Some(field), Some(reason)) => parts.push(format!("{field}: {reason}")),
            (Some(text), None) | (None, Some(text)) => parts.push(text.clone()),
            (None, None) => {}
        }
        if let Some(message) = self.message.as_ref().or(self.code.as_ref()) {
            parts.push(message.clone());
        }
        if let Some(value) = &self.value
            && self.field.is_some()
        {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !text.is_empty() {
                parts.push(format!("(value `{text}`)"));
            }
        }
        if let Some(cause) = &self.cause {
            parts.push(format!("because {}", cause.summary()));
        }
        parts.join(" ")
    }
}

/// Reads a cause; some servers send a text instead of an object.
fn cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Cause>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Object(Box<Cause>),
        Text(String),
        Other(Value),
    }
    Ok(match Option::<Written>::deserialize(deserializer)? {
        Some(Written::Object(cause)) => Some(cause),
        Some(Written::Text(message)) => {
            Some(Box::new(Cause { message: Some(message), ..Cause::default() }))
        }
        Some(Written::Other(value)) => {
            Some(Box::new(Cause { data: Some(value), ..Cause::default() }))
        }
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn codes_are_unique_and_read_back() {
        let words: HashSet<_> = ErrorCode::WORDS.iter().collect();
        assert_eq!(words.len(), ErrorCode::WORDS.len());
        for word in ErrorCode::WORDS {
            let code = ErrorCode::parse(word).unwrap();
            assert_eq!(code.as_str(), *word);
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
    }

    #[test]
    fn writes_the_documented_shape() {
        let error = ErrorBody::new(ErrorCode::CouldNotValidate, "xHkB3y9wl").because(Cause::field(
            "name",
            "name must be unique",
            "svc1",
        ));
        assert_eq!(
            serde_json::to_value(ErrorEnvelope::new(error)).unwrap(),
            json!({"error": {"code": "COULD_NOT_VALIDATE",
                "message": "The supplied request contains an invalid document or no valid accept content were available, see cause",
                "requestId": "xHkB3y9wl",
                "cause": {"field": "name", "reason": "name must be unique", "value": "svc1"}},
                "meta": {"apiEnrollmentVersion": "0.0.1", "apiVersion": "0.0.1"}, "data": {}})
        );
    }

    #[test]
    fn reads_odd_errors() {
        let read: ErrorEnvelope = serde_json::from_value(json!({"error": {"code": "X",
            "message": "m", "cause": "because so", "args": {"urlVars": {}}}, "meta": null}))
        .unwrap();
        assert_eq!(read.error.cause.unwrap().summary(), "because so");
        let read: ErrorBody = serde_json::from_value(json!({"code": "X", "cause": null})).unwrap();
        assert_eq!(read.cause, None);
        let read: ErrorBody = serde_json::from_value(
            json!({"cause": {"code": "UNHANDLED", "message": "gone", "cause": {"field": "a",
                "reason": "b", "value": 3}}}),
        )
        .unwrap();
        assert_eq!(read.cause.unwrap().summary(), "gone because a: b (value `3`)");
    }
}
