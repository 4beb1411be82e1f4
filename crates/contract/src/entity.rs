//! The parts that the details of all entities have in common: base fields, links, references.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::{Tags, null_default};
use crate::schema::describe;
use crate::timestamp::Timestamp;

/// Links of an entity by name; `self` is always there.
pub type Links = BTreeMap<String, Link>;

/// Where something is found, relative to the base path of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// `./<collection>/<id>[/<sub>]`.
    pub href: String,
    /// The HTTP method to use, if not GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// A word to the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

describe! {
    Link: "Where something is found.", includes [],
    ["Relative to the base path of the API: `./<collection>/<id>[/<sub>]`."] [] href: String,
    ["The HTTP method to use, if not GET."] [skip_serializing_if] method: String,
    ["A word to the reader."] [skip_serializing_if] comment: String,
}

impl Link {
    /// A link to `./{path}`.
    #[must_use]
    pub fn to(path: &str) -> Self {
        Self { href: format!("./{path}"), method: None, comment: None }
    }
}

/// The links of one entity: `self`, and one for each name of `subs` at `<self>/<sub>`.
#[must_use]
pub fn links(collection: &str, id: &str, subs: &[&str]) -> Links {
    let own = format!("{collection}/{id}");
    let mut links = Links::from([("self".to_owned(), Link::to(&own))]);
    for sub in subs {
        links.insert((*sub).to_owned(), Link::to(&format!("{own}/{sub}")));
    }
    links
}

/// Fields that every stored entity has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Base {
    /// Links by name.
    #[serde(rename = "_links", deserialize_with = "null_default")]
    pub links: Links,
    /// When it was made.
    #[serde(deserialize_with = "null_default")]
    pub created_at: Timestamp,
    /// Opaque id.
    #[serde(deserialize_with = "null_default")]
    pub id: String,
    /// User-defined labels; `{}` when there are none.
    #[serde(deserialize_with = "null_default")]
    pub tags: Tags,
    /// When it last changed.
    #[serde(deserialize_with = "null_default")]
    pub updated_at: Timestamp,
}

describe! {
    Base: "Fields that every stored entity has.", includes [],
    ["Links by name."] [rename = "_links"] links: Links,
    ["When it was made."] [] created_at: Timestamp,
    ["Opaque id."] [] id: String,
    ["User-defined labels; `{}` when there are none."] [] tags: Tags,
    ["When it last changed."] [] updated_at: Timestamp,
}

/// A mention of another entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EntityRef {
    /// Links of the entity mentioned.
    #[serde(rename = "_links", deserialize_with = "null_default")]
    pub links: Links,
    /// Name of its collection.
    #[serde(deserialize_with = "null_default")]
    pub entity: String,
    /// Its id.
    #[serde(deserialize_with = "null_default")]
    pub id: String,
    /// Its name.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The name of the collection once more, in the short references of enrollments and of an
    /// identity's service configs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_name: Option<String>,
}

describe! {
    EntityRef: "A mention of another entity.", includes [],
    ["Links of the entity mentioned."] [rename = "_links"] links: Links,
    ["Name of its collection."] [] entity: String,
    ["Its id."] [] id: String,
    ["Its name."] [] name: String,
    ["The name of the collection once more, in short references."] [skip_serializing_if]
    url_name: String,
}

impl EntityRef {
    /// A mention of `name`, which is `id` in `collection`.
    #[must_use]
    pub fn new(collection: &str, id: &str, name: &str) -> Self {
        Self {
            links: links(collection, id, &[]),
            entity: collection.to_owned(),
            id: id.to_owned(),
            name: name.to_owned(),
            url_name: None,
        }
    }

    /// The same with `urlName` filled.
    #[must_use]
    pub fn short(collection: &str, id: &str, name: &str) -> Self {
        Self { url_name: Some(collection.to_owned()), ..Self::new(collection, id, name) }
    }
}

/// A role of a policy and how to show it: `@id` becomes `@name`, `#attribute` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedRole {
    /// What to show.
    pub name: String,
    /// The role as it was given.
    pub role: String,
}

describe! {
    NamedRole: "A role of a policy and how to show it.", includes [],
    ["What to show: `@id` as `@name`, attributes as they are."] [] name: String,
    ["The role as it was given."] [] role: String,
}

/// Declares the detail of a resource: what an answer holds.
///
/// Every member may be missing or null when read (older and other controllers leave some out) and
/// is then its default. `with Base` adds the fields of [`Base`]. The comment of a member, its type
/// and its `serde` attribute (behind the comment) also describe it: see [`crate::schema`].
macro_rules! detail {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident $(with $base:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($serde:tt)*)])?
                pub $field:ident: $type:ty,
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                /// Id, times, tags and links.
                #[serde(flatten)]
                pub base: $crate::entity::$base,
            )?
            $(
                $(#[doc = $doc])+
                $(#[serde($($serde)*)])?
                #[serde(deserialize_with = "crate::json::null_default")]
                pub $field: $type,
            )*
        }

        $crate::schema::describe! {
            $name: concat!($($about),+), includes [$($crate::entity::$base)?],
            $([$($doc)+] [$($($serde)*)?] $field: $type,)*
        }
    };
}
pub(crate) use detail;

/// Declares an enumeration of the APIs with its words; the first is the default.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(#[$first_meta:meta])* $first:ident = $first_word:literal,
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(#[$first_meta])*
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $(
                $(#[$variant_meta])*
                #[serde(rename = $word)]
                $variant,
            )*
        }

        impl $name {
            /// Every word, in order.
            pub const WORDS: &'static [&'static str] = &[$first_word, $($word),*];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)*
                }
            }

            /// The value of a word, spelled exactly.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $first_word => Some(Self::$first),
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::shape::Shape for $name {
            const SHAPE: $crate::shape::FieldType = $crate::shape::FieldType::Choice(Self::WORDS);
        }

        impl $crate::schema::HasSchema for $name {
            const SCHEMA: $crate::schema::Schema =
                $crate::schema::Schema::Plain(<Self as $crate::shape::Shape>::SHAPE);
        }
    };
}
pub(crate) use words;

words! {
    /// How the attributes of a policy's side are combined.
    pub enum Semantic {
        /// An entity needs all attributes.
        AllOf = "AllOf",
        /// One attribute is enough.
        AnyOf = "AnyOf",
    }
}

words! {
    /// What a service policy or a service session allows.
    pub enum DialBind {
        /// To connect to the service.
        Dial = "Dial",
        /// To host the service.
        Bind = "Bind",
        /// Neither; the permission list of a service holds it when it would be empty.
        Invalid = "Invalid",
    }
}

impl DialBind {
    /// The words that grant something: what bodies may say.
    pub const GRANTED: &[&str] = &["Dial", "Bind"];
}

words! {
    /// Which terminators come first.
    pub enum Precedence {
        /// After the required ones.
        Default = "default",
        /// Before all others.
        Required = "required",
        /// Only when nothing else is left.
        Failed = "failed",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_carry_links() {
        let reference = EntityRef::short("identities", "a.b", "laptop");
        assert_eq!(
            serde_json::to_value(reference).unwrap(),
            json!({"_links": {"self": {"href": "./identities/a.b"}}, "entity": "identities",
                   "id": "a.b", "name": "laptop", "urlName": "identities"})
        );
    }

    #[test]
    fn base_takes_nulls() {
        let base: Base = serde_json::from_value(json!(
            {"_links": null, "createdAt": null, "id": "x", "updatedAt": null}))
        .unwrap();
        assert_eq!(base.id, "x");
        assert!(base.created_at.is_zero());
    }

    #[test]
    fn words_are_exact() {
        assert_eq!(Precedence::parse("failed"), Some(Precedence::Failed));
        assert_eq!(Semantic::parse("allof"), None);
        assert_eq!(DialBind::WORDS, ["Dial", "Bind", "Invalid"]);
        assert_eq!(serde_json::to_value(Semantic::AnyOf).unwrap(), json!("AnyOf"));
    }
}
