//! The parts that the details of all entities have in common: base fields, links, references.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::json::Tags;
use crate::timestamp::Timestamp;
use crate::word::Word;

/// Declares the detail of a resource: the content of an answer and its description in one.
///
/// Every member may be missing or null when read (older and other controllers leave some out), and
/// then has its default. `with Base` adds the fields of [`Base`], `including name: Type` the fields
/// of another detail. The comment of a member, its type and its `serde` attributes also describe it
/// (see [`crate::schema`]), so that the macro knows two of these attributes only: first `rename`,
/// then `skip_serializing_if`.
macro_rules! detail {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident $(with $base:ident)? $(including $part:ident: $included:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde(rename = $json:literal)])?
                $(#[serde(skip_serializing_if = $left_out:literal)])?
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
                /// The members of another detail.
                #[serde(flatten)]
                pub $part: $included,
            )?
            $(
                $(#[doc = $doc])+
                $(#[serde(rename = $json)])?
                $(#[serde(skip_serializing_if = $left_out)])?
                #[serde(deserialize_with = "crate::json::null_default")]
                pub $field: $type,
            )*
        }

        impl $crate::schema::HasMembers for $name {
            const OBJECT: $crate::schema::Object = $crate::schema::Object {
                name: stringify!($name),
                about: concat!($($about),+),
                includes: &[
                    $(&<$crate::entity::$base as $crate::schema::HasMembers>::OBJECT,)?
                    $(&<$included as $crate::schema::HasMembers>::OBJECT,)?
                ],
                members: &[
                    $(
                        $crate::schema::Member {
                            name: $crate::schema::json_name(
                                $crate::schema::first(&[$($json)?]),
                                const { &$crate::schema::camel(stringify!($field)) },
                            ),
                            schema: <$type as $crate::schema::HasSchema>::SCHEMA,
                            always: $crate::schema::first::<&str>(&[$($left_out)?]).is_none(),
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
pub(crate) use detail;

/// Links of an entity by name; `self` is always there.
pub type Links = BTreeMap<String, Link>;

detail! {
    /// A link to another resource of the API.
    pub struct Link {
        /// Relative to the base path of the API: `./<collection>/<id>[/<sub>]`.
        pub href: String,
        /// The HTTP method to use, if not GET.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub method: Option<String>,
        /// A remark for people who read the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub comment: Option<String>,
    }
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

detail! {
    /// Fields that every stored entity has.
    pub struct Base {
        /// Links to resources that belong to the entity, by name; `self` is the entity itself.
        #[serde(rename = "_links")]
        pub links: Links,
        /// The time at which the entity was created.
        pub created_at: Timestamp,
        /// The id of the entity: an opaque text that never changes.
        pub id: String,
        /// Labels of the entity that callers have set, as a JSON object; `{}` if there are none.
        pub tags: Tags,
        /// The time of the last change of the entity.
        pub updated_at: Timestamp,
    }
}

detail! {
    /// A mention of another entity.
    pub struct EntityRef {
        /// Links of the entity that is mentioned, by name.
        #[serde(rename = "_links")]
        pub links: Links,
        /// The name of the collection that the entity is in, such as `identities`.
        pub entity: String,
        /// The id of the entity that is mentioned.
        pub id: String,
        /// The name of the entity that is mentioned.
        pub name: String,
        /// The name of the collection once more. Short references have it, others do not.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub url_name: Option<String>,
    }
}

impl EntityRef {
    /// A mention of the entity `id` of `collection`, called `name`.
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

    /// A mention with `urlName` filled.
    #[must_use]
    pub fn short(collection: &str, id: &str, name: &str) -> Self {
        Self { url_name: Some(collection.to_owned()), ..Self::new(collection, id, name) }
    }
}

detail! {
    /// A role of a policy, and the form in which people read it.
    pub struct NamedRole {
        /// The role with names: `@name` for `@id`, attributes as they are.
        pub name: String,
        /// The role as the policy has it: `#attribute`, `@id` or `#all`.
        pub role: String,
    }
}

/// How the attributes of a policy's side are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
pub enum Semantic {
    /// An entity needs all attributes.
    #[default]
    AllOf,
    /// One attribute is enough.
    AnyOf,
}

impl Word for Semantic {}

/// The permission that a service policy or a service session gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
pub enum DialBind {
    /// To connect to the service.
    #[default]
    Dial,
    /// To host the service.
    Bind,
    /// No permission. Only the permission list of a service has it, in place of no entries.
    Invalid,
}

impl Word for DialBind {}

impl DialBind {
    /// The words that grant a permission, which are the words that bodies may hold.
    pub const GRANTED: &[&str] = &["Dial", "Bind"];
}

/// The group of terminators that a terminator belongs to. A dial goes to the best group with a
/// reachable terminator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum PrecedenceWord {
    /// Dialed when no required terminator can be reached.
    #[default]
    Default,
    /// Dialed before all other terminators.
    Required,
    /// Dialed only when no terminator of the other groups can be reached.
    Failed,
}

impl Word for PrecedenceWord {}

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
        assert_eq!(PrecedenceWord::parse("failed"), Some(PrecedenceWord::Failed));
        assert_eq!(Semantic::parse("allof"), None);
        assert_eq!(DialBind::WORDS, ["Dial", "Bind", "Invalid"]);
        assert_eq!(serde_json::to_value(Semantic::AnyOf).unwrap(), json!("AnyOf"));
    }
}
