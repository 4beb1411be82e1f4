//! Request bodies: one type per kind serves create, replace and patch.
//!
//! Every member is optional, and null is the same as absent; for a whole body it is the same as `{}`. A member that is
//! `Some` was sent, and a patch needs to know no more (docs/protocol/management-api.md 2.4). The [`Field`] rows of the
//! type name the members that a verb requires, and also feed the commands and the API description.
//! Unknown members are ignored (docs/protocol/management-api.md 1.2), and names count in any case.
//!
//! ```
//! use weft_contract::body::{self, Verb};
//! use weft_contract::resource::service::ServiceBody;
//!
//! let patch: ServiceBody = body::decode(br#"{"name":"web"}"#, Verb::Patch).unwrap();
//! assert_eq!(patch.name.as_deref(), Some("web"));
//! assert_eq!(patch.encryption_required, None);
//!
//! let refused = body::decode::<ServiceBody>(br#"{"name":"web"}"#, Verb::Create).unwrap_err();
//! assert_eq!(refused.to_string(), "encryptionRequired: encryptionRequired in body is required");
//! ```

mod members;
mod unread;

#[doc(hidden)]
pub use members::Members;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
pub use unread::Unread;

use crate::error::{Cause, ErrorCode};
use crate::shape::behind;
pub use crate::shape::{Field, FieldType, Need, Shape, Verb};

/// A request body; made by the `body!` macro.
pub trait Body: Serialize + DeserializeOwned + Default {
    /// The members of the body.
    const FIELDS: &'static [Field];

    /// For each of [`Self::FIELDS`] its missing parts, in the form of [`Shape::lacks`]; `None` if
    /// the whole member is missing.
    fn lacks_in_fields(&self, verb: Verb) -> Vec<Option<Vec<String>>>;

    /// The names of the members that this verb requires and the body lacks, nested ones dotted.
    fn missing(&self, verb: Verb) -> Vec<String> {
        let (mut own, mut nested) = (Vec::new(), Vec::new());
        for (field, lacks) in Self::FIELDS.iter().zip(self.lacks_in_fields(verb)) {
            match lacks {
                Some(paths) => nested.extend(behind(field.name.to_owned(), paths)),
                None if field.need.covers(verb) => own.push(field.name.to_owned()),
                None => {}
            }
        }
        own.append(&mut nested);
        own
    }

    /// The names of the members that the body has.
    fn members(&self) -> Vec<&'static str> {
        let fields = Self::FIELDS.iter().zip(self.lacks_in_fields(Verb::Patch));
        fields.filter(|(_, lacks)| lacks.is_some()).map(|(field, _)| field.name).collect()
    }
}

/// The reason why a body was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The text is not JSON, or not the expected JSON as a whole.
    #[error("{0}")]
    Syntax(String),
    /// A member is missing, or has a wrong value.
    #[error("{field}: {reason}")]
    Field {
        /// The name of the member, dotted.
        field: String,
        /// The problem with the member.
        reason: String,
    },
}

impl BodyError {
    /// The error code for the answer.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Syntax(_) => ErrorCode::CouldNotParseBody,
            Self::Field { .. } => ErrorCode::CouldNotValidate,
        }
    }

    /// The cause for the answer, without the value that was sent, which could be a password.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Syntax(text) => Cause { message: Some(text.clone()), ..Cause::default() },
            Self::Field { field, reason } => Cause::field(field, reason.clone(), ""),
        }
    }
}

/// Reads a body and checks that the members that the verb requires are there.
///
/// # Errors
/// Names the wrong member, or the place where the text stops being JSON.
pub fn decode<B: Body>(text: &[u8], verb: Verb) -> Result<B, BodyError> {
    let body: B = read(text)?;
    match body.missing(verb).into_iter().next() {
        None => Ok(body),
        Some(field) => {
            let reason = format!("{field} in body is required");
            Err(BodyError::Field { field, reason })
        }
    }
}

/// Reads JSON of other types than [`Body`], such as a list of objects, with the same errors. Null is the default of the
/// type.
///
/// # Errors
/// Like [`decode`], but without the check for required members.
pub fn read<T: DeserializeOwned + Default>(text: &[u8]) -> Result<T, BodyError> {
    parse::<Option<T>>(text).map(Option::unwrap_or_default)
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, BodyError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.inner();
        let is_whole = error.path().iter().next().is_none();
        // serde reports a number in the place of a word as an error of syntax.
        let is_json = inner.is_data() || serde_json::from_slice::<IgnoredAny>(text).is_ok();
        if is_json && !is_whole {
            BodyError::Field { field: error.path().to_string(), reason: reason(inner) }
        } else {
            BodyError::Syntax(if inner.is_data() { reason(inner) } else { inner.to_string() })
        }
    })?;
    reader.end().map_err(|error| BodyError::Syntax(error.to_string()))?;
    Ok(value)
}

/// The text of serde's error, without the value it quotes and without line and column.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(head, _)| head);
    if let Some((_, words)) =
        text.strip_prefix("unknown variant ").and_then(|rest| rest.rsplit_once("`, expected "))
    {
        return format!("must be {}", words.replace('`', ""));
    }
    match text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: ")) {
        Some(rest) => match rest.rsplit_once(", expected ") {
            Some((_, "u16")) => format!("must be a whole number from 0 to {}", u16::MAX),
            Some((_, "i64" | "u32" | "u64")) => "must be a whole number".to_owned(),
            Some((_, expected)) if expected.starts_with("struct ") => {
                "must be an object".to_owned()
            }
            Some((_, expected)) => format!("must be {expected}"),
            None => "has the wrong type".to_owned(),
        },
        None if error.is_syntax() => "has the wrong type".to_owned(),
        None => text.to_owned(),
    }
}

/// Declares a request body.
///
/// A member is written `Need rust_name: Type`. In front of the Rust name stands the name in JSON,
/// where that is not the Rust name in camel case. Behind the type stand `=> "collection"` for a
/// member that names entities by id, and `as shape` for a member that accepts fewer values than its
/// type holds. Members that are required within a member are required only if the outer one is
/// present.
///
/// `body! { objects of Name }` is for a struct written by hand that derives its reader and writer
/// with `remote = "Self"`. It is read from JSON objects only, and the names of its members match in
/// upper and lower case.
macro_rules! body {
    (objects of $name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $name::deserialize($crate::body::Members(from))
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $need:ident $($json:literal)? $field:ident: $type:ty
                    $(=> $names:literal)? $(as $shape:expr)?,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default, remote = "Self")]
        $vis struct $name {
            $(
                $(#[doc = $doc])+
                $(#[serde(rename = $json)])?
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        $crate::body::body! { objects of $name }

        impl $crate::body::Body for $name {
            const FIELDS: &'static [$crate::shape::Field] = &[
                $(
                    $crate::shape::Field {
                        name: $crate::schema::json_name(
                            $crate::schema::first(&[$($json)?]),
                            const { &$crate::schema::camel(stringify!($field)) },
                        ),
                        shape: match $crate::schema::first(&[$($shape)?]) {
                            Some(less) => less,
                            None => <$type as $crate::shape::Shape>::SHAPE,
                        },
                        need: $crate::shape::Need::$need,
                        names: $crate::schema::first(&[$($names)?]),
                        about: concat!($($doc),+),
                    },
                )*
            ];

            fn lacks_in_fields(&self, verb: $crate::shape::Verb) -> Vec<Option<Vec<String>>> {
                Vec::from([
                    $(self.$field.as_ref().map(|it| $crate::shape::Shape::lacks(it, verb)),)*
                ])
            }
        }

        impl $crate::shape::Shape for $name {
            const SHAPE: $crate::shape::FieldType =
                $crate::shape::FieldType::Object(<$name as $crate::body::Body>::FIELDS);

            fn lacks(&self, verb: $crate::shape::Verb) -> Vec<String> {
                let missing = $crate::body::Body::missing(self, verb);
                $crate::shape::behind(".".to_owned(), missing).collect()
            }
        }

        impl $crate::schema::HasSchema for $name {
            const SCHEMA: $crate::schema::Schema =
                $crate::schema::Schema::Plain(<$name as $crate::shape::Shape>::SHAPE);
        }
    };
}
pub(crate) use body;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    body! {
        /// Inner.
        struct Inner {
            /// A number.
            Always max_attempts: u16,
        }
    }

    body! {
        /// Outer.
        struct Outer {
            /// The name.
            /// Unique.
            Both name: String,
            /// Who.
            Create identity_id: String => "identities",
            /// The rest.
            Optional inner_part: Inner,
            /// More of it.
            Optional others: Vec<Inner>,
        }
    }

    #[test]
    fn null_is_absent_and_unknown_is_ignored() {
        let outer: Outer =
            decode(br#"{"name":"x","identityId":null,"more":1}"#, Verb::Replace).unwrap();
        assert_eq!(outer.members(), ["name"]);
        assert_eq!(serde_json::to_string(&outer).unwrap(), r#"{"name":"x"}"#);
    }

    #[test]
    fn a_body_that_is_null_is_an_empty_one() {
        assert_eq!(decode::<Outer>(b" null\n", Verb::Patch).unwrap(), Outer::default());
        assert_eq!(read::<Vec<Outer>>(b"null").unwrap(), []);
        let error = decode::<Outer>(b"null", Verb::Create).unwrap_err();
        assert_eq!(error.to_string(), "name: name in body is required");
        let error = decode::<Outer>(b"null 1", Verb::Patch).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CouldNotParseBody);
    }

    #[test]
    fn required_members_depend_on_the_verb() {
        let outer = Outer { inner_part: Some(Inner::default()), ..Outer::default() };
        assert_eq!(outer.missing(Verb::Create), ["name", "identityId", "innerPart.maxAttempts"]);
        assert_eq!(outer.missing(Verb::Replace), ["name", "innerPart.maxAttempts"]);
        assert_eq!(outer.missing(Verb::Patch), ["innerPart.maxAttempts"]);
        let others = vec![Inner { max_attempts: Some(1) }, Inner::default()];
        let outer = Outer { others: Some(others), ..Outer::default() };
        assert_eq!(outer.missing(Verb::Patch), ["others[1].maxAttempts"]);
    }

    #[test]
    fn errors_name_the_field_and_not_the_value() {
        let error =
            decode::<Outer>(br#"{"innerPart":{"maxAttempts":"geheim"}}"#, Verb::Patch).unwrap_err();
        assert_eq!(
            error.to_string(),
            "innerPart.maxAttempts: must be a whole number from 0 to 65535"
        );
        let error = decode::<Outer>(b"{\"name\":", Verb::Patch).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CouldNotParseBody);
        let error = decode::<Outer>(b"{} x", Verb::Patch).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CouldNotParseBody);
    }

    #[test]
    fn objects_are_not_written_as_arrays() {
        let error = decode::<Outer>(br#"{"innerPart":[1]}"#, Verb::Patch).unwrap_err();
        assert_eq!(error.to_string(), "innerPart: must be an object");
        let error = decode::<Outer>(br#"["x"]"#, Verb::Patch).unwrap_err();
        assert_eq!(error, BodyError::Syntax("must be an object".to_owned()));
    }

    #[test]
    fn fields_are_described() {
        let [name, identity, inner, _] = Outer::FIELDS else { panic!("four members") };
        assert_eq!(name.about.trim(), "The name. Unique.");
        assert_eq!(identity.names, Some("identities"));
        assert!(matches!(inner.shape, FieldType::Object([_])));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = decode::<Outer>(text.as_bytes(), Verb::Create);
        }
    }
}
