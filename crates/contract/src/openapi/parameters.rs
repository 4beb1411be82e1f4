//! Parameters of operations: places in the path, paging, queries, headers.

use serde_json::{Value, json};

use crate::entity::{DialBind, Semantic};
use crate::envelope::{DEFAULT_LIMIT, MAX_LIMIT, MAX_OFFSET};
use crate::headers;
use crate::operation::Operation;
use crate::resource::{enrollment, session};

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
                    "How many at most; {DEFAULT_LIMIT} when absent or 0, never more than \
                     {MAX_LIMIT}, and -1 for all of them."
                ),
            ),
        ),
        ("offset", number("offset", format!("How many to skip, at most {MAX_OFFSET}."))),
        (
            "filter",
            text(
                "filter",
                "query",
                "Which entities, in the filter language: `name contains \"web\" and \
                 anyOf(roleAttributes) = \"prod\" sort by name limit none`. What it says of order \
                 and paging counts more than the other parameters. The names it may use are in \
                 `meta.filterableFields` of the answer.",
            ),
        ),
        (
            "sort",
            text("sort", "query", "The order: `name desc, createdAt`; the last resort is the id."),
        ),
    ]
}

/// The parameters of an operation beside [`paging`].
pub(super) fn of(row: &Operation) -> Vec<Value> {
    let places = row.path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    let places = places.map(|name| {
        let about = match name {
            "id" if row.id == "explainPath" => "Id or name of an identity or a router.",
            "serviceId" if row.id == "explainPath" => "Id or name of the service.",
            "id" => "Id of the entity.",
            "serviceId" => "Id of the service.",
            _ => "Which one.",
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
            "What the caller proves himself with.",
            &[session::method::PASSWORD, session::method::CERT, session::method::EXT_JWT],
        ),
        (_, "method") => {
            use enrollment::method::{CA, EDGE_ROUTER, OTT, OTT_CA, ROUTER, TOKEN, UPDB};
            let known = [OTT, OTT_CA, UPDB, CA, TOKEN, EDGE_ROUTER, ROUTER];
            words(name, "How to enroll; the `em` of the ticket.", &known)
        }
        (_, "token") => text(name, "query", "The one-time token; the `jti` of the ticket."),
        (_, "roleFilter") => {
            many(name, "Only entities with these role attributes (`#web`) or ids (`@id`).")
        }
        (_, "roleSemantic") => words(
            name,
            "Whether all of the attributes of `roleFilter` are needed, or one is enough.",
            Semantic::WORDS,
        ),
        (_, "configTypes") => many(
            name,
            "Config types, by id or name, whose config data comes with each service; `all` for \
             every type.",
        ),
        (_, "asIdentity") => text(
            name,
            "query",
            "Show permissions, configs and posture as this identity (id or name) sees them; for \
             administrators.",
        ),
        (_, "instance") => {
            text(name, "query", "The instance that is dialed; any without one when absent.")
        }
        (_, "policyType") => words(
            name,
            "Only what is granted by policies of this type; both when absent.",
            &[DialBind::Dial.as_str(), DialBind::Bind.as_str()],
        ),
        (_, "withIds") => {
            let mut parameter =
                text(name, "query", "Whether to name what uses each attribute, not only count it.");
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
            (headers::MFA_CODE, "A one-time code; not needed while the factor is unverified.")
        }
        "enrollToken" => (headers::TOKEN_ISSUER, "Id of the signer that issued the token."),
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
