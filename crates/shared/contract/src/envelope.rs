//! The frame around every answer: `data` and `meta` (docs/protocol/management-api.md 2.1).

use serde::{Deserialize, Serialize};

use crate::entity::{Links, links};
use crate::json::null_default;

/// Version of the API and of its enrollment part, in `meta`.
pub const API_VERSION: &str = "0.0.1";

/// The most entries of a page, for a request that names no limit.
pub const DEFAULT_LIMIT: i64 = 10;
/// The most entries of a page.
pub const MAX_LIMIT: i64 = 500;
/// The most entries before a page.
pub const MAX_OFFSET: i64 = 100_000;

/// An answer that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// The data of the answer.
    pub data: T,
    /// Remarks on the answer.
    #[serde(default, deserialize_with = "null_default")]
    pub meta: Meta,
}

impl<T> Envelope<T> {
    /// The envelope of one thing.
    pub fn new(data: T) -> Self {
        Self { data, meta: Meta::versions() }
    }
}

impl<T> Envelope<Vec<T>> {
    /// The envelope of one page of a list.
    pub fn page(data: Vec<T>, pagination: Pagination, filterable: Vec<String>) -> Self {
        let meta = Meta {
            filterable_fields: Some(filterable),
            pagination: Some(pagination),
            ..Meta::versions()
        };
        Self { data, meta }
    }
}

/// Remarks on an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The version of the enrollment part of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_enrollment_version: Option<String>,
    /// The version of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The names that a filter may use. Only lists have the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filterable_fields: Option<Vec<String>>,
    /// Controllers that have not told their part of the list, by their ids: the answer lacks it. Only lists of what each
    /// controller of several keeps itself have the member, if one is missing. weft's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_controllers: Vec<String>,
    /// The place of the page in the list. Only lists have the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
}

impl Meta {
    /// Remarks that are the versions only.
    #[must_use]
    pub fn versions() -> Self {
        Self {
            api_enrollment_version: Some(API_VERSION.to_owned()),
            api_version: Some(API_VERSION.to_owned()),
            filterable_fields: None,
            missing_controllers: Vec::new(),
            pagination: None,
        }
    }
}

/// The place of a page in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pagination {
    /// The number of entries that the page has at most.
    pub limit: i64,
    /// The number of entries before the page.
    pub offset: i64,
    /// The number of entries in the whole list.
    pub total_count: i64,
}

/// The answer to a create: the id of the new entity, and a link to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Created {
    /// The link `self` to the new entity.
    #[serde(rename = "_links", deserialize_with = "null_default")]
    pub links: Links,
    /// The id of the new entity.
    pub id: String,
}

impl Created {
    /// The entity `id` of `collection`.
    #[must_use]
    pub fn at(collection: &str, id: &str) -> Self {
        Self { links: links(collection, id, &[]), id: id.to_owned() }
    }
}

/// `{}`: the answer to replace, patch, delete and most actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_answer_names_the_versions() {
        let page = Envelope::page(
            vec![1],
            Pagination { limit: 10, offset: 0, total_count: 1 },
            vec!["id".into()],
        );
        assert_eq!(
            serde_json::to_value(page).unwrap(),
            json!({"data": [1], "meta": {"apiEnrollmentVersion": "0.0.1", "apiVersion": "0.0.1",
                "filterableFields": ["id"],
                "pagination": {"limit": 10, "offset": 0, "totalCount": 1}}})
        );
        let empty = serde_json::to_value(Envelope::new(Empty {})).unwrap();
        assert_eq!(empty["data"], json!({}));
    }

    #[test]
    fn meta_may_be_null_or_missing() {
        for text in [r#"{"data":{},"meta":null}"#, r#"{"data":{}}"#, r#"{"data":{},"meta":{}}"#] {
            let read: Envelope<Empty> = serde_json::from_str(text).unwrap();
            assert_eq!(read.meta, Meta::default());
        }
    }

    #[test]
    fn created_points_at_itself() {
        let created = serde_json::to_value(Created::at("services", "x1")).unwrap();
        assert_eq!(created, json!({"_links": {"self": {"href": "./services/x1"}}, "id": "x1"}));
    }
}
