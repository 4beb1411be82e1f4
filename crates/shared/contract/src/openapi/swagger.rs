//! A description in OpenAPI 2.0, made of the one in 3.1.
//!
//! Generators that existing tools use read only 2.0. It has no media types per body, no shared
//! parameters with schemas, no null; each is translated to the nearest form of 2.0.

use serde_json::{Map, Value, json};

use crate::headers;

/// Rewrites a document of [`document`](super::document()).
#[must_use]
pub fn swagger(document: &Value) -> Value {
    let components = &document["components"];
    let schemas = each(&components["schemas"], |schema| rewrite(schema.clone()));
    let parameters = each(&components["parameters"], parameter);
    let responses = each(&components["responses"], response);
    let paths = each(&document["paths"], |methods| each(methods, operation));
    json!({
        "swagger": "2.0",
        "info": {
            "title": document["info"]["title"],
            "description": document["info"]["description"],
            "version": document["info"]["version"],
            "license": {"name": document["info"]["license"]["name"]},
        },
        "schemes": ["https"],
        "basePath": document["servers"][0]["url"],
        "consumes": [headers::JSON],
        "produces": [headers::JSON],
        "tags": document["tags"],
        "paths": paths,
        "definitions": schemas,
        "parameters": parameters,
        "responses": responses,
        "securityDefinitions": each(&components["securitySchemes"], security),
    })
}

fn each(object: &Value, change: impl Fn(&Value) -> Value) -> Value {
    let members = object.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.clone(), change(value))).collect::<Map<_, _>>().into()
}

fn operation(operation: &Value) -> Value {
    let mut own = operation.clone();
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(parameter);
    let body = operation.get("requestBody").map(body);
    let parameters: Vec<_> = parameters.chain(body).collect();
    if let Some(members) = own.as_object_mut() {
        members.remove("requestBody");
    }
    if !parameters.is_empty() {
        own["parameters"] = parameters.into();
    }
    let takes = media(&operation["requestBody"]);
    if takes.iter().any(|media| *media != headers::JSON) {
        own["consumes"] = json!(takes);
    }
    let responses = operation["responses"].as_object().into_iter().flatten();
    let gives: Vec<_> = responses.flat_map(|(_, response)| media(response)).collect();
    if gives.iter().any(|media| *media != headers::JSON) {
        own["produces"] = json!(gives);
    }
    own["responses"] = each(&operation["responses"], response);
    own
}

/// The media types of a body or answer.
fn media(holder: &Value) -> Vec<&str> {
    let content = holder["content"].as_object().into_iter().flatten();
    content.map(|(name, _)| name.as_str()).collect()
}

fn body(body: &Value) -> Value {
    let content = &body["content"];
    let one = content.get(headers::JSON).or_else(|| content.get(headers::TEXT));
    let schema = one.map(|one| rewrite(one["schema"].clone())).unwrap_or_default();
    json!({"name": "body", "in": "body", "required": body["required"], "schema": schema})
}

/// Moves the members of a parameter's schema into the parameter itself.
fn parameter(parameter: &Value) -> Value {
    let Value::Object(mut own) = rewrite(parameter.clone()) else { return Value::Null };
    let is_repeated = own.remove("explode").is_some();
    own.remove("style");
    if let Some(Value::Object(schema)) = own.remove("schema") {
        own.extend(schema);
    }
    if is_repeated {
        own.insert("collectionFormat".to_owned(), json!("multi"));
    }
    Value::Object(own)
}

fn response(response: &Value) -> Value {
    let Value::Object(mut own) = rewrite(response.clone()) else { return Value::Null };
    if let Some(content) = own.remove("content") {
        let first = content.as_object().and_then(|content| content.values().next());
        if let Some(schema) = first.and_then(|first| first.get("schema")) {
            own.insert("schema".to_owned(), schema.clone());
        }
    }
    if let Some(Value::Object(headers)) = own.get_mut("headers") {
        for header in headers.values_mut() {
            *header = parameter(header);
        }
    }
    Value::Object(own)
}

fn security(scheme: &Value) -> Value {
    let mut own = scheme.clone();
    if scheme["type"] == "http" {
        own = json!({
            "type": "apiKey", "in": "header", "name": "Authorization",
            "description": format!(
                "`Bearer <token>`. {}", scheme["description"].as_str().unwrap_or_default()
            ),
        });
    }
    own
}

/// References point elsewhere, and null is an extension.
fn rewrite(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(rewrite).collect(),
        Value::Object(members) => {
            let mut own: Map<_, _> =
                members.into_iter().map(|(name, value)| (name, rewrite(value))).collect();
            if let Some(Value::String(place)) = own.get_mut("$ref") {
                *place = place
                    .replace("#/components/schemas/", "#/definitions/")
                    .replace("#/components/", "#/");
            }
            without_null(&mut own);
            Value::Object(own)
        }
        other => other,
    }
}

fn without_null(own: &mut Map<String, Value>) {
    let is_either = matches!(own.get("type"), Some(Value::Array(_)));
    if let Some(Value::Array(types)) = own.get("type") {
        let first = types.first().cloned().unwrap_or_default();
        own.insert("type".to_owned(), first);
        if let Some(Value::Array(words)) = own.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
    }
    let either = own.remove("anyOf");
    if let Some(Value::Array(choices)) = &either {
        let one = choices.first().cloned().unwrap_or_default();
        own.insert("allOf".to_owned(), json!([one]));
    }
    if is_either || either.is_some() {
        own.insert("x-nullable".to_owned(), json!(true));
    }
}
