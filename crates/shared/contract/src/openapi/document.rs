//! A description in OpenAPI 3.1.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use super::{parameters, statuses, words};
use crate::headers;
use crate::operation::{Access, Method, Operation, Request, Response, SPEC_BODY};
use crate::paths::Api;
use crate::resource::operations;
use crate::shape::{Field, Verb};
use crate::word::Word as _;

/// Version of the documents: that of the crate, so that a release has its own.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Describes an API.
#[must_use]
pub fn document(api: Api) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut tags = BTreeMap::new();
    for row in operations(api) {
        let described = operation(api, row, &mut schemas);
        let method = row.method.as_str().to_lowercase();
        paths.entry(row.path).or_default().insert(method, described);
        tags.entry(words::tag(row)).or_insert_with(|| words::about_tag(words::tag(row)));
    }
    let tags: Vec<_> =
        tags.into_iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": title(api),
            "description": about(api),
            "version": VERSION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": api.base()}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.into_map(),
            "parameters": named(parameters::paging()),
            "responses": named(refusals(api)),
            "securitySchemes": {
                "session": {
                    "type": "apiKey", "in": "header", "name": headers::SESSION,
                    "description": "The token of a session from `POST /authenticate`.",
                },
                "bearer": {
                    "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                    "description": "An access token of the controller's OpenID Connect login.",
                },
            },
        },
    })
}

fn named<'n>(pairs: impl IntoIterator<Item = (&'n str, Value)>) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn title(api: Api) -> &'static str {
    match api {
        Api::Client => "weft: edge client API",
        Api::Management => "weft: edge management API",
        Api::Fabric => "weft: fabric API",
        Api::Weft => "weft: networks as documents, paths explained",
        other => other.as_str(),
    }
}

fn about(api: Api) -> &'static str {
    match api {
        Api::Client => "The API for applications and tunnelers: enrollments, logins, services.",
        Api::Management => {
            "The API for administrators and their tools: all entities of the network."
        }
        Api::Fabric => {
            "The API of the mesh: routers, links, circuits, terminators, and the database."
        }
        Api::Weft => {
            "An API that only weft has. It shows a whole network as a document, shows what a \
             document would change and which identities would gain or lose access to which \
             services, and applies a document completely or not at all. It explains the path of a \
             dial, too."
        }
        _ => "",
    }
}

fn operation(api: Api, row: &Operation, schemas: &mut Schemas) -> Value {
    let paging = parameters::paging().map(|(name, _)| name);
    let paging = paging.iter().filter(|_| row.paged);
    let shared = paging.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    let parameters: Vec<_> = parameters::of(row).into_iter().chain(shared).collect();
    let mut described = json!({
        "operationId": row.id,
        "tags": [words::tag(row)],
        "summary": words::summary(row),
        "description": words::access(row.access),
        "x-access": words::access_word(row.access),
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = body(row, schemas) {
        described["requestBody"] = body;
    }
    described["responses"] = responses(api, row, schemas);
    described["security"] = match row.access {
        Access::Public => json!([]),
        _ => json!([{"session": []}, {"bearer": []}]),
    };
    described
}

fn body(row: &Operation, schemas: &mut Schemas) -> Option<Value> {
    let verb = match row.method {
        Method::Put => Verb::Replace,
        Method::Patch => Verb::Patch,
        _ => Verb::Create,
    };
    let mut object = |fields: &[Field]| schemas.body(&body_name(row.id), fields, verb);
    let json_only = |schema: Value| json!({headers::JSON: {"schema": schema}});
    let text = json!({"schema": {"type": "string"}});
    let (content, is_required) = match row.request {
        Request::None => return None,
        Request::Json(fields) => (json_only(object(fields)), true),
        Request::OptionalJson(fields) => (json_only(object(fields)), false),
        Request::JsonList(fields) => {
            let list = json!({"type": "array", "items": object(fields)});
            (json_only(list), row.method != Method::Delete)
        }
        Request::Text => (json!({headers::TEXT: text}), true),
        Request::Enrollment(fields) => {
            let mut content = json_only(object(fields));
            for media in headers::RAW_ENROLL_TYPES {
                content[*media] = text.clone();
            }
            (content, false)
        }
    };
    Some(json!({"required": is_required, "content": content}))
}

/// The name of the body of an operation: `serviceCreate` for `createService`.
fn body_name(id: &str) -> String {
    for (verb, suffix) in [("create", "Create"), ("update", "Update"), ("patch", "Patch")] {
        if let Some(rest) = id.strip_prefix(verb) {
            let mut letters = rest.chars();
            if let Some(first) = letters.next().filter(|first| first.is_uppercase()) {
                return format!("{}{}{suffix}", first.to_lowercase(), letters.as_str());
            }
        }
    }
    format!("{id}Request")
}

/// The shared responses that operations of the API use.
fn refusals(api: Api) -> impl Iterator<Item = (&'static str, Value)> {
    let used: BTreeSet<_> = operations(api).flat_map(|row| statuses::of(api, row)).collect();
    let all = statuses::REFUSALS.iter().filter(move |refusal| used.contains(&refusal.status));
    all.map(|refusal| (refusal.name, statuses::shared(refusal)))
}

fn responses(api: Api, row: &Operation, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for status in statuses::of(api, row) {
        let refusal = statuses::REFUSALS.iter().find(|refusal| refusal.status == status);
        let response = match refusal {
            Some(refusal) => json!({"$ref": format!("#/components/responses/{}", refusal.name)}),
            None => success(row, schemas),
        };
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

fn success(row: &Operation, schemas: &mut Schemas) -> Value {
    let (about, schema) = match row.response {
        Response::List(of) if row.paged => ("One page of the list.", schemas.list(of, true)),
        Response::List(of) => ("The list.", schemas.list(of, false)),
        Response::Detail(of) => ("The data of the answer.", schemas.envelope(of)),
        Response::Created => ("The id of the new entity.", schemas.created()),
        Response::Empty => ("The operation is done.", schemas.empty()),
        Response::Raw(media) => return raw(row, media, schemas),
    };
    json!({"description": about, "content": {headers::JSON: {"schema": schema}}})
}

/// A body without envelope.
fn raw(row: &Operation, media: &str, schemas: &mut Schemas) -> Value {
    let schema = match media {
        headers::JSON => schemas.raw(row.id),
        _ => json!({"type": "string"}),
    };
    let mut response = json!({
        "description": "The data without an envelope.",
        "content": {media: {"schema": schema}},
    });
    if row.id == SPEC_BODY {
        response["content"][headers::YAML] = json!({"schema": {"type": "string"}});
    }
    response
}
