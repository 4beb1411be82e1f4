//! Parameters of operations: places in the path, paging, queries, headers.

use serde_json::{Value, json};

use crate::entity::{DialBind, Semantic};
use crate::envelope::{DEFAULT_LIMIT, MAX_LIMIT, MAX_OFFSET};
use crate::headers;
use crate::operation::Operation;
use crate::resource::{enrollment, session};
use crate::word::Word as _;

/// Paging, shared by all lists: name in the document and the parameter.
pub(super) fn paging() -> [(&'static str, Value); 4] {
    let number = |name: &str, about: String| {
        let schema = json!({"type": "integer", "format": "int64"});
        json!({"name": name, "in": "query", "description": about, "schema": schema})
    };
    [
        (
            "limit",
            number(
                "limit",
                format!(
                    "The largest number of entries of the answer, at most {MAX_LIMIT}; -1 for \
                     all entries, {DEFAULT_LIMIT} when absent or 0."
                ),
            ),
        ),
        (
            "offset",
            number("offset", format!("The number of entries to skip, at most {MAX_OFFSET}.")),
        ),
        (
            "filter",
            text(
                "filter",
                "query",
                "A filter that selects entities: `name contains \"web\" and \
                 anyOf(roleAttributes) = \"prod\" sort by name limit none`. Its order and its \
                 paging go before the other parameters. `meta.filterableFields` of the answer \
                 lists the names that a filter may use.",
            ),
        ),
        (
            "sort",
            text(
                "sort",
                "query",
                "The order, such as `name desc, createdAt`. Entities that are equal in it are \
                 ordered by id.",
            ),
        ),
    ]
}

/// The parameters of an operation beside [`paging`].
pub(super) fn of(row: &Operation) -> Vec<Value> {
    let places = row.path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    let places = places.map(|name| {
        let about = match name {
            "id" if row.id == "explainPath" => "Id or name of the identity or router that dials.",
            "serviceId" if row.id == "explainPath" => "Id or name of the service.",
            "id" => "The id of the entity.",
            "serviceId" => "The id of the service.",
            _ => "The id of the entity below the first one.",
        };
        let mut place = text(name, "path", about);
        place["required"] = json!(true);
        place
    });
    let queries = row.query.iter().map(|name| query(row, name));
    places.chain(queries).chain(header(row)).collect()
}

fn text(name: &str, place: &str, about: &str) -> Value {
    json!({"name": name, "in": place, "description": about, "schema": {"type": "string"}})
}

fn words(name: &str, about: &str, words: &[&str]) -> Value {
    let mut parameter = text(name, "query", about);
    parameter["schema"]["enum"] = json!(words);
    parameter
}

fn many(name: &str, about: &str) -> Value {
    let mut parameter = text(name, "query", about);
    parameter["schema"] = json!({"type": "array", "items": {"type": "string"}});
    parameter["style"] = json!("form");
    parameter["explode"] = json!(true);
    parameter
}

fn query(row: &Operation, name: &str) -> Value {
    let mut parameter = match (row.id, name) {
        ("authenticate", "method") => words(
            name,
            "The credential: a password, a certificate or a JWT of an external signer.",
            &[session::method::PASSWORD, session::method::CERT, session::method::EXT_JWT],
        ),
        (_, "method") => {
            use enrollment::method::{CA, EDGE_ROUTER, OTT, OTT_CA, ROUTER, TOKEN, UPDB};
            let known = [OTT, OTT_CA, UPDB, CA, TOKEN, EDGE_ROUTER, ROUTER];
            words(name, "The method: `em` of the enrollment JWT.", &known)
        }
        (_, "token") => text(name, "query", "The one-time token: `jti` of the enrollment JWT."),
        (_, "roleFilter") => {
            many(name, "Only entities with these role attributes (`#web`) or ids (`@id`).")
        }
        (_, "roleSemantic") => words(
            name,
            "Whether entities need all attributes of `roleFilter` or one of them.",
            Semantic::WORDS,
        ),
        (_, "configTypes") => many(
            name,
            "The config types, by id or name, whose config data the answer has for each service; \
             `all` for every type.",
        ),
        (_, "asIdentity") => text(
            name,
            "query",
            "The identity, by id or name, whose permissions, configs and posture the answer shows. \
             Only administrators may set it.",
        ),
        (_, "instance") => text(name, "query", "The instance id that is dialed; none when absent."),
        (_, "policyType") => words(
            name,
            "The type of the service policies that grant access; both types when absent.",
            &[DialBind::Dial.as_str(), DialBind::Bind.as_str()],
        ),
        (_, "withIds") => {
            let mut parameter =
                text(name, "query", "Whether the answer has the ids of the entities, too.");
            parameter["schema"] = json!({"type": "boolean"});
            parameter
        }
        _ => text(name, "query", ""),
    };
    if row.id == "authenticate" {
        parameter["required"] = json!(true);
    }
    parameter
}

/// The header that an operation looks at, if it does.
fn header(row: &Operation) -> Option<Value> {
    let (name, about) = match row.id {
        "deleteMfa" | "detailMfaRecoveryCodes" => {
            (headers::MFA_CODE, "A one-time code; not needed for an unverified factor.")
        }
        "enrollToken" => (headers::TOKEN_ISSUER, "Id of the external signer of the token."),
        // The management API has a list of this name.
        "listServiceEdgeRouters" if !row.paged => (
            headers::SESSION_TOKEN,
            "Token of a service session of the caller, to see whether it still holds.",
        ),
        _ => return None,
    };
    Some(text(name, "header", about))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Api;
    use crate::resource::operations;

    /// Generators make names of words, in one case, and give up when two are the same.
    #[test]
    fn words_differ_in_more_than_their_case() {
        for api in [Api::Management, Api::Client, Api::Fabric] {
            for parameter in operations(api).flat_map(of) {
                let words = parameter["schema"]["enum"].as_array().into_iter().flatten();
                let mut words: Vec<_> =
                    words.map(|word| word.as_str().unwrap().to_lowercase()).collect();
                let all = words.len();
                words.sort_unstable();
                words.dedup();
                assert_eq!(words.len(), all, "{}: {words:?}", parameter["name"]);
            }
        }
    }

    #[test]
    fn every_query_parameter_is_explained() {
        for api in [Api::Management, Api::Client, Api::Fabric] {
            for row in operations(api) {
                for parameter in of(row) {
                    let about = parameter["description"].as_str().unwrap();
                    assert!(!about.is_empty(), "explain {} of {}", parameter["name"], row.id);
                }
            }
        }
    }
}
