//! The description of an API as OpenAPI 2.0, made of the rows of the contract: what
//! `swagger.json` answers (protocol: management-api 1).

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use weft_contract::operation::{Access, Operation, Request, Response};
use weft_contract::{Api, Field, FieldType, Method, Verb, headers, resource};

/// The description of an API.
pub(crate) fn of(api: Api, version: &str) -> Bytes {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for row in resource::operations(api) {
        let methods = paths.entry(row.path).or_default();
        methods.insert(row.method.as_str().to_lowercase(), operation(row));
    }
    let description = json!({
        "swagger": "2.0",
        "info": {"title": title(api), "version": version},
        "schemes": ["https"],
        "basePath": api.base(),
        "consumes": [headers::JSON],
        "produces": [headers::JSON],
        "securityDefinitions": {
            "ztSession": {"type": "apiKey", "name": headers::SESSION, "in": "header"},
        },
        "paths": paths,
    });
    description.to_string().into()
}

fn title(api: Api) -> &'static str {
    match api {
        Api::Management => "Edge Management",
        Api::Client => "Edge Client",
        _ => "Edge",
    }
}

fn operation(row: &Operation) -> Value {
    let mut parameters: Vec<Value> =
        places(row.path).map(|name| text(name, "path", true)).collect();
    if row.paged {
        parameters.extend(
            ["limit", "offset"].map(|name| json!({"name": name, "in": "query", "type": "integer"})),
        );
        parameters.extend(["filter", "sort"].map(|name| text(name, "query", false)));
    }
    parameters.extend(row.query.iter().map(|name| text(name, "query", false)));
    parameters.extend(body(row));
    let mut described = json!({
        "operationId": row.id,
        "parameters": parameters,
        "responses": responses(row),
    });
    if row.access != Access::Public {
        described["security"] = json!([{"ztSession": []}]);
    }
    if let Response::Raw(media) = row.response {
        described["produces"] = json!([media]);
    }
    if matches!(row.request, Request::Enrollment(_)) {
        let raw = headers::RAW_ENROLL_TYPES.iter();
        described["consumes"] = raw.chain([&headers::JSON]).copied().collect();
    }
    described
}

/// The names of the places in a path.
fn places(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn text(name: &str, place: &str, is_required: bool) -> Value {
    json!({"name": name, "in": place, "type": "string", "required": is_required})
}

fn body(row: &Operation) -> Option<Value> {
    let verb = match row.method {
        Method::Put => Verb::Replace,
        Method::Patch => Verb::Patch,
        _ => Verb::Create,
    };
    let (schema, is_required) = match row.request {
        Request::None => return None,
        Request::Json(fields) => (object(fields, verb), true),
        Request::OptionalJson(fields) | Request::Enrollment(fields) => {
            (object(fields, verb), false)
        }
        Request::Text => (json!({"type": "string"}), true),
        Request::JsonList(fields) => {
            (json!({"type": "array", "items": object(fields, verb)}), true)
        }
    };
    Some(json!({"name": "body", "in": "body", "required": is_required, "schema": schema}))
}

fn object(fields: &[Field], verb: Verb) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = schema(&field.shape, verb);
        schema["description"] = json!(field.about.trim());
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<_> =
        fields.iter().filter(|field| field.need.covers(verb)).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    // The version of JSON schema that is used here has no empty list of required members.
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn schema(shape: &FieldType, verb: Verb) -> Value {
    match shape {
        FieldType::Text => json!({"type": "string"}),
        FieldType::Bool => json!({"type": "boolean"}),
        FieldType::Integer { min: i64::MIN, max: i64::MAX } => json!({"type": "integer"}),
        FieldType::Integer { min, max } => {
            json!({"type": "integer", "minimum": min, "maximum": max})
        }
        FieldType::Time => json!({"type": "string", "format": "date-time"}),
        FieldType::Choice(words) => json!({"type": "string", "enum": words}),
        FieldType::Object(fields) => object(fields, verb),
        FieldType::List(of) => json!({"type": "array", "items": schema(of, verb)}),
        FieldType::Map(of) => json!({"type": "object", "additionalProperties": schema(of, verb)}),
        FieldType::Json => json!({"type": "object"}),
    }
}

fn responses(row: &Operation) -> Value {
    let mut responses = Map::new();
    for status in row.statuses {
        let about = if *status < 400 { answer(row.response) } else { "a refusal".to_owned() };
        responses.insert(status.to_string(), json!({"description": about}));
    }
    Value::Object(responses)
}

fn answer(response: Response) -> String {
    match response {
        Response::List(of) => format!("a page of {of}"),
        Response::Detail(of) => of.to_owned(),
        Response::Created => "where the new entity is".to_owned(),
        Response::Empty => "done".to_owned(),
        Response::Raw(media) => format!("a body of {media}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described() {
        for api in [Api::Management, Api::Client] {
            let described: Value = serde_json::from_slice(&of(api, "v2.0.0")).unwrap();
            for row in resource::operations(api) {
                let own = &described["paths"][row.path][row.method.as_str().to_lowercase()];
                assert_eq!(own["operationId"], row.id);
                let in_path = own["parameters"].as_array().unwrap().iter();
                assert_eq!(in_path.filter(|it| it["in"] == "path").count(), row.places());
                assert!(own["responses"].get(row.success().to_string()).is_some());
            }
        }
    }

    #[test]
    fn bodies_say_what_they_require() {
        let described: Value = serde_json::from_slice(&of(Api::Management, "v2.0.0")).unwrap();
        let create = &described["paths"]["/services"]["post"]["parameters"][0];
        let required = create["schema"]["required"].as_array().unwrap();
        assert!(
            required.contains(&json!("encryptionRequired")) && required.contains(&json!("name"))
        );
        assert_eq!(create["schema"]["properties"]["name"]["type"], "string");
    }
}
