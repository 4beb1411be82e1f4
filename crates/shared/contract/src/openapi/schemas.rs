//! Schemas of bodies, answers and envelopes, and the collection of those that have a name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::error::ErrorCode;
use crate::resource::answers::{ANSWERS, RAW};
use crate::schema::{Object, Schema};
use crate::shape::{Field, FieldType, Verb};
use crate::word::Word as _;

/// Schemas by name.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Value>);

/// A mention of a named schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

impl Schemas {
    /// The schemas that every API has.
    pub(super) fn new() -> Self {
        let mut schemas = Self::default();
        for (name, schema) in
            [("meta", meta()), ("pageMeta", page_meta()), ("pagination", pagination())]
        {
            schemas.0.insert(name.to_owned(), schema);
        }
        for (name, schema) in
            [("error", error()), ("errorCause", cause()), ("errorEnvelope", error_envelope())]
        {
            schemas.0.insert(name.to_owned(), schema);
        }
        schemas
    }

    /// All schemas, by name.
    pub(super) fn into_map(self) -> Map<String, Value> {
        self.0.into_iter().collect()
    }

    fn put(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.0.contains_key(name) {
            // The name is taken first, so that a schema may mention itself.
            self.0.insert(name.to_owned(), Value::Null);
            let schema = make(self);
            self.0.insert(name.to_owned(), schema);
        }
        reference(name)
    }

    /// The envelope of one thing with the schema `of`.
    pub(super) fn envelope(&mut self, of: &str) -> Value {
        let name = format!("{of}Envelope");
        self.put(&name, |schemas| {
            let data = schemas.answer(of);
            framed(data, "meta")
        })
    }

    /// The envelope of a list of things with the schema `of`.
    pub(super) fn list(&mut self, of: &str, is_paged: bool) -> Value {
        let name = if is_paged { format!("{of}Page") } else { format!("{of}List") };
        self.put(&name, |schemas| {
            let items = schemas.answer(of);
            let meta = if is_paged { "pageMeta" } else { "meta" };
            framed(json!({"type": "array", "items": items}), meta)
        })
    }

    /// The answer to a create.
    pub(super) fn created(&mut self) -> Value {
        self.put("createdEnvelope", |schemas| {
            let links = schemas.schema(&<crate::Links as crate::schema::HasSchema>::SCHEMA);
            let data = json!({
                "type": "object",
                "description": "The id of the new entity, and a link to it.",
                "properties": {"_links": links, "id": {"type": "string"}},
                "required": ["_links", "id"],
            });
            framed(data, "meta")
        })
    }

    /// The answer to most changes.
    pub(super) fn empty(&mut self) -> Value {
        self.put("emptyEnvelope", |_| {
            framed(json!({"type": "object", "description": "An empty object."}), "meta")
        })
    }

    /// The answer without envelope of an operation.
    pub(super) fn raw(&mut self, operation: &str) -> Value {
        let known = RAW.iter().find(|(id, _)| *id == operation);
        known.map_or_else(|| json!({}), |(_, schema)| self.schema(schema))
    }

    /// The schema of the answer with this name.
    fn answer(&mut self, name: &str) -> Value {
        match ANSWERS.iter().find(|(own, _)| *own == name) {
            Some((_, Schema::Object(object))) => self.put(name, |schemas| schemas.object(object)),
            Some((_, schema)) => self.schema(schema),
            None => json!({}),
        }
    }

    /// A part of an answer.
    fn schema(&mut self, schema: &Schema) -> Value {
        match schema {
            Schema::Plain(shape) => self::shape(shape, None),
            Schema::Number => json!({"type": "number"}),
            Schema::Any => json!({}),
            Schema::List(of) => json!({"type": "array", "items": self.schema(of)}),
            Schema::Map(of) => json!({"type": "object", "additionalProperties": self.schema(of)}),
            Schema::Nullable(of) => nullable(self.schema(of)),
            Schema::Object(object) => self.put(&name_of(object), |schemas| schemas.object(object)),
        }
    }

    fn object(&mut self, object: &'static Object) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for member in object.all() {
            let schema = match member.schema {
                // A member without a value is left out, and is never null.
                Schema::Nullable(of) if !member.always => self.schema(of),
                schema => self.schema(&schema),
            };
            properties.insert(member.name.to_owned(), described(schema, member.about));
            if member.always {
                required.push(member.name);
            }
        }
        with_members(properties, &required, object.about)
    }

    /// The body of this name.
    pub(super) fn body(&mut self, name: &str, fields: &[Field], verb: Verb) -> Value {
        self.put(name, |_| object(fields, verb))
    }
}

/// The name of a type in the documents: the name that an operation gives the answer, or else the
/// name of the type in Rust, with a small first letter.
fn name_of(object: &'static Object) -> String {
    let used = ANSWERS.iter().find(|(_, schema)| match schema {
        Schema::Object(own) => (own.name, own.about) == (object.name, object.about),
        _ => false,
    });
    if let Some((name, _)) = used {
        return (*name).to_owned();
    }
    let mut letters = object.name.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// A schema with its description.
fn described(schema: Value, about: &str) -> Value {
    let about = about.trim();
    match schema {
        Value::Object(mut members) if !about.is_empty() => {
            members.insert("description".to_owned(), about.into());
            Value::Object(members)
        }
        other => other,
    }
}

fn with_members(properties: Map<String, Value>, required: &[&str], about: &str) -> Value {
    let mut schema = json!({"type": "object"});
    let schema_members = [
        ("description", json!(about.trim()), about.trim().is_empty()),
        ("required", json!(required), required.is_empty()),
        ("properties", Value::Object(properties), false),
    ];
    for (name, value, is_empty) in schema_members {
        if !is_empty {
            schema[name] = value;
        }
    }
    schema
}

/// The schema, or null.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut members) = schema else { return schema };
    match members.get("type") {
        Some(Value::String(name)) => {
            let either = json!([name, "null"]);
            members.insert("type".to_owned(), either);
            if let Some(Value::Array(words)) = members.get_mut("enum") {
                words.push(Value::Null);
            }
            Value::Object(members)
        }
        None if members.contains_key("$ref") => {
            json!({"anyOf": [Value::Object(members), {"type": "null"}]})
        }
        _ => Value::Object(members),
    }
}

/// A value of a body for a verb; without a verb, a value of an answer.
fn shape(shape: &FieldType, verb: Option<Verb>) -> Value {
    match shape {
        FieldType::Text => json!({"type": "string"}),
        FieldType::Length { min, max } => {
            json!({"type": "string", "minLength": min, "maxLength": max})
        }
        FieldType::Bool => json!({"type": "boolean"}),
        FieldType::Integer { min: i64::MIN, max: i64::MAX } => {
            json!({"type": "integer", "format": "int64"})
        }
        FieldType::Integer { min: i64::MIN, max } => {
            json!({"type": "integer", "format": "int64", "maximum": max})
        }
        FieldType::Integer { min, max: i64::MAX } => {
            json!({"type": "integer", "format": "int64", "minimum": min})
        }
        FieldType::Integer { min, max } => {
            json!({"type": "integer", "minimum": min, "maximum": max})
        }
        FieldType::Time => json!({"type": "string", "format": "date-time"}),
        FieldType::Choice(words) => json!({"type": "string", "enum": words}),
        FieldType::Object(fields) => object(fields, verb.unwrap_or(Verb::Patch)),
        FieldType::List(of) => json!({"type": "array", "items": self::shape(of, verb)}),
        FieldType::Map(of) => {
            json!({"type": "object", "additionalProperties": self::shape(of, verb)})
        }
        FieldType::Json => json!({"type": "object"}),
    }
}

/// A body. A member that is not required may be null, which means the same as absent.
pub(super) fn object(fields: &[Field], verb: Verb) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        let mut schema = shape(&field.shape, Some(verb));
        if field.need.covers(verb) {
            required.push(field.name);
        } else {
            schema = nullable(schema);
        }
        properties.insert(field.name.to_owned(), described(schema, &about(field)));
    }
    with_members(properties, &required, "")
}

/// The description of a member of a body. A member that names entities takes their ids.
fn about(field: &Field) -> String {
    let about = field.about.trim();
    match (field.names, field.shape) {
        (None, _) => about.to_owned(),
        (Some(collection), FieldType::List(_)) => {
            format!("{about} The values are ids of `{collection}`.")
        }
        (Some(collection), _) => format!("{about} The value is an id of `{collection}`."),
    }
}

fn framed(data: Value, meta: &str) -> Value {
    json!({
        "type": "object",
        "required": ["data", "meta"],
        "properties": {"data": data, "meta": reference(meta)},
    })
}

fn meta() -> Value {
    json!({
        "type": "object",
        "description": "Remarks on the answer.",
        "required": ["apiEnrollmentVersion", "apiVersion"],
        "properties": {
            "apiEnrollmentVersion":
                {"type": "string", "description": "The version of the enrollment part of the API."},
            "apiVersion": {"type": "string", "description": "The version of the API."},
        },
    })
}

fn page_meta() -> Value {
    let mut meta = meta();
    meta["description"] = json!("Remarks on a page of a list.");
    meta["required"] = json!(["apiEnrollmentVersion", "apiVersion", "pagination"]);
    meta["properties"]["filterableFields"] = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "The names that a filter may use.",
    });
    meta["properties"]["pagination"] = reference("pagination");
    meta
}

fn pagination() -> Value {
    let number = |about| json!({"type": "integer", "format": "int64", "description": about});
    json!({
        "type": "object",
        "description": "The place of a page in a list.",
        "required": ["limit", "offset", "totalCount"],
        "properties": {
            "limit": number("The number of entries that the page has at most."),
            "offset": number("The number of entries before the page."),
            "totalCount": number("The number of entries in the whole list."),
        },
    })
}

fn error_envelope() -> Value {
    json!({
        "type": "object",
        "description": "The answer to a request that failed.",
        "required": ["error", "meta", "data"],
        "properties": {
            "error": reference("error"),
            "meta": reference("meta"),
            "data": {"type": "object", "description": "An empty object."},
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "The error of a request that failed.",
        "required": ["code", "message", "requestId"],
        "properties": {
            "code":
                {
                "type": "string",
                "description": "The kind of the error.",
                "x-extensible-enum": ErrorCode::WORDS,
            },
            "message": {"type": "string", "description": "The error in words, for people."},
            "requestId":
                {"type": "string", "description": "The id of the request in the controller's log."},
            "cause": reference("errorCause"),
            "causeMessage":
                {"type": "string", "description": "The cause, if it is only a text."},
            "args": {"type": "object", "description": "The values that the message mentions."},
            "data": {"type": "object", "description": "Details of the error."},
        },
    })
}

fn cause() -> Value {
    let text = |about| json!({"type": "string", "description": about});
    json!({
        "type": "object",
        "description": "The cause of an error: a wrong member or parameter, or another error.",
        "properties": {
            "field": text("The name of the wrong member or parameter."),
            "reason": text("The reason for which the value is wrong."),
            "value": {"description": "The wrong value, usually as text."},
            "code": text("The code of the other error."),
            "message": text("The message of the other error."),
            "requestId": text("The id of the request that the other error belongs to."),
            "data": {"description": "Details of the cause."},
            "cause": reference("errorCause"),
        },
    })
}
