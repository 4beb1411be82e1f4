//! The schema of a config type for people: its members with types, bounds and defaults, and data that follows it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use weft_controller::schema::Schema;

use crate::output::{quoted, table};

/// Deepest member that is shown, and most members: schemas come from others, and may refer to themselves.
const DEPTH: usize = 8;
const MEMBERS: usize = 400;
/// Most parts that make up one member: the schemas that it refers to, and alternatives.
const PARTS: usize = 32;

/// Data of the built-in config types.
const EXAMPLES: &[(&str, &str)] = &[
    ("host.v1", r#"{"protocol":"tcp","address":"localhost","port":8080}"#),
    (
        "host.v2",
        r#"{"terminators":[{"protocol":"tcp","address":"10.0.0.1","port":8080},{"protocol":"tcp","address":"10.0.0.2","port":8080}]}"#,
    ),
    ("interfaces.v1", r#"{"interfaces":["eth0"]}"#),
    (
        "intercept.v1",
        r#"{"protocols":["tcp"],"addresses":["web.example"],"portRanges":[{"low":80,"high":80},{"low":8000,"high":8999}]}"#,
    ),
    ("l2.host.v1", r#"{"bridgeIfs":["eth1"]}"#),
    ("l2.intercept.v1", r#"{"ethTypes":["0x0800","0x0806"]}"#),
    ("proxy.v1", r#"{"port":8080,"protocols":["tcp"],"binding":"127.0.0.1"}"#),
    (
        "router.link.v1",
        r#"{"listeners":[{"bind":"tls:0.0.0.0:10080","advertise":"tls:paris.example:10080"}],"dialers":[{"binding":"transport"}]}"#,
    ),
    ("ziti-tunneler-client.v1", r#"{"hostname":"web.example","port":80}"#),
    ("ziti-tunneler-server.v1", r#"{"protocol":"tcp","hostname":"localhost","port":8080}"#),
];

/// A member, with its place in the data: `portRanges[].low`.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    place: String,
    /// The type, whether it is required, its bounds and its default.
    rules: Vec<String>,
    about: String,
}

/// The entity without its schema, and the schema's members and an example.
pub(super) fn shown(config_type: &Value) -> String {
    let mut entity = config_type.clone();
    let schema = entity.as_object_mut().and_then(|members| members.remove("schema"));
    let mut text = table::one(&entity);
    let schema = schema.unwrap_or_default();
    let members = members(&schema);
    if members.is_empty() {
        text.push_str("\n\nThe schema takes any data.");
        return text;
    }
    let width = members.iter().map(|member| member.place.len()).max().unwrap_or_default().min(42);
    let mut listed = String::new();
    for Member { place, rules, about } in &members {
        let _ = write!(listed, "\n  {place:width$}  {}", rules.join("; "));
        if !about.is_empty() {
            let _ = write!(listed, "\n      {about}");
        }
    }
    text.push_str("\n\nMembers of the data:\n");
    text.push_str(&table::broken(listed.trim_start_matches('\n'), table::terminal()));
    let name = config_type.get("name").and_then(Value::as_str).unwrap_or_default();
    if let Some(example) = example(name, &schema) {
        let (name, data) = (quoted(name), quoted(&example.to_string()));
        let _ = write!(
            text,
            "\n\nExample:\n  weft create config NAME --config-type {name} --data {data}"
        );
    }
    text
}

/// The members of a schema, those inside of others behind them.
fn members(schema: &Value) -> Vec<Member> {
    let mut reader = Reader { root: schema, members: Vec::new(), places: BTreeSet::new() };
    reader.read(schema, "", 0);
    reader.members
}

/// Reads members of a schema.
struct Reader<'s> {
    root: &'s Value,
    members: Vec<Member>,
    places: BTreeSet<String>,
}

impl<'s> Reader<'s> {
    /// Adds the members of the data that a schema describes.
    fn read(&mut self, schema: &'s Value, place: &str, depth: usize) {
        if depth >= DEPTH {
            return;
        }
        let parts = parts(self.root, schema);
        let required: Vec<&str> = lists(&parts, "required").filter_map(Value::as_str).collect();
        for (name, member) in
            parts.iter().filter_map(|part| part.get("properties")?.as_object()).flatten()
        {
            let place = match place {
                "" => name.clone(),
                place => format!("{place}.{name}"),
            };
            if self.members.len() >= MEMBERS || !self.places.insert(place.clone()) {
                continue;
            }
            let of_member = self::parts(self.root, member);
            let mut rules = vec![kind(self.root, &of_member)];
            if required.contains(&name.as_str()) {
                rules.push("required".to_owned());
            }
            rules.extend(bounds(&of_member));
            let of_items = items(self.root, &of_member);
            rules.extend(
                of_items
                    .iter()
                    .flat_map(|items| bounds(items))
                    .map(|bound| format!("entries: {bound}")),
            );
            rules.extend(default(&of_member).map(|default| format!("default {default}")));
            let about = about(&of_member).unwrap_or_default().to_owned();
            self.members.push(Member { place: place.clone(), rules, about });
            self.read(member, &place, depth + 1);
            for items in of_member.iter().filter_map(|part| part.get("items")) {
                self.read(items, &format!("{place}[]"), depth + 1);
            }
        }
    }
}

type Part<'s> = &'s Map<String, Value>;

/// A schema with those that it refers to and is made of, alternatives too.
fn parts<'s>(root: &'s Value, schema: &'s Value) -> Vec<Part<'s>> {
    let mut found: Vec<Part<'s>> = Vec::new();
    let mut open = vec![schema];
    while let Some(next) = open.pop() {
        let Some(part) = next.as_object() else { continue };
        if found.len() >= PARTS || found.iter().any(|known| std::ptr::eq(*known, part)) {
            continue;
        }
        found.push(part);
        let named = part.get("$ref").and_then(Value::as_str);
        open.extend(named.and_then(|name| root.pointer(name.strip_prefix('#')?)));
        for word in ["oneOf", "anyOf", "allOf"] {
            open.extend(part.get(word).and_then(Value::as_array).into_iter().flatten().rev());
        }
    }
    found
}

/// The entries of a member that is a list, in every part.
fn lists<'s>(parts: &[Part<'s>], word: &'static str) -> impl Iterator<Item = &'s Value> {
    parts
        .iter()
        .filter_map(move |part| part.get(word)?.as_array())
        .flatten()
        .collect::<Vec<_>>()
        .into_iter()
}

/// The schemas of the entries of a list.
fn items<'s>(root: &'s Value, of: &[Part<'s>]) -> Option<Vec<Part<'s>>> {
    let all: Vec<Part<'s>> = of
        .iter()
        .filter_map(|part| part.get("items"))
        .flat_map(|items| parts(root, items))
        .collect();
    (!all.is_empty()).then_some(all)
}

/// The type in words: `text`, `list of numbers`.
fn kind(root: &Value, of: &[Part<'_>]) -> String {
    let mut words: Vec<&str> = Vec::new();
    for part in of {
        let named = match part.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ if part.contains_key("properties") => vec!["object"],
            _ => continue,
        };
        for name in named {
            let word = match name {
                "string" => "text",
                "integer" => "whole number",
                "array" => "list",
                "boolean" => "true or false",
                other => other,
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    match (words.as_slice(), items(root, of)) {
        ([], _) => "anything".to_owned(),
        (_, Some(items)) if words.contains(&"list") => {
            let entries = format!("list ({})", kind(root, &items));
            let words =
                words.iter().map(|word| if *word == "list" { entries.as_str() } else { word });
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => words.join(" or "),
    }
}

/// The bounds in words.
fn bounds(of: &[Part<'_>]) -> Vec<String> {
    let get = |word: &str| of.iter().find_map(|part| part.get(word));
    let mut bounds = Vec::new();
    if let Some(choices) = get("enum").and_then(Value::as_array) {
        let choices: Vec<String> = choices.iter().map(plain).collect();
        bounds.push(match choices.as_slice() {
            [one] => format!("only {one}"),
            _ => format!("one of {}", choices.join(", ")),
        });
    }
    let range = |low: &str, high: &str, of: &str| match (get(low), get(high)) {
        (Some(low), Some(high)) => Some(format!("{low} to {high}{of}")),
        (Some(low), None) => Some(format!("at least {low}{of}")),
        (None, Some(high)) => Some(format!("at most {high}{of}")),
        (None, None) => None,
    };
    bounds.extend(range("minimum", "maximum", ""));
    bounds.extend(get("exclusiveMinimum").map(|low| format!("more than {low}")));
    bounds.extend(get("exclusiveMaximum").map(|high| format!("less than {high}")));
    bounds.extend(get("multipleOf").map(|step| format!("a multiple of {step}")));
    bounds.extend(range("minLength", "maxLength", " characters"));
    match (get("minItems").and_then(Value::as_u64), get("maxItems")) {
        (Some(1), None) => bounds.push("not empty".to_owned()),
        _ => bounds.extend(range("minItems", "maxItems", " entries")),
    }
    if get("uniqueItems") == Some(&Value::Bool(true)) {
        bounds.push("each entry once".to_owned());
    }
    let says = get("format").and_then(Value::as_str).filter(|format| *format != "idn-hostname");
    bounds.extend(says.map(|format| format!("as {format}")));
    let pattern = get("pattern").and_then(Value::as_str);
    bounds.extend(pattern.map(|pattern| format!("matches {pattern}")));
    if get("not") == Some(&json!({"pattern": "^$"})) {
        bounds.push("not empty".to_owned());
    }
    bounds
}

/// The default: the schema's, or the one that its description names ("5 if absent").
fn default(of: &[Part<'_>]) -> Option<String> {
    if let Some(default) = of.iter().find_map(|part| part.get("default")) {
        return Some(plain(default));
    }
    let (before, _) = about(of)?.split_once(" if absent")?;
    let last = before.rsplit([',', ';', ':', '.']).next()?.trim();
    (!last.is_empty() && last.len() < 40).then(|| last.to_owned())
}

fn about<'s>(of: &[Part<'s>]) -> Option<&'s str> {
    of.iter().find_map(|part| part.get("description")?.as_str())
}

/// A value without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Data that follows the schema: that of a built-in type, or made of the required members.
fn example(name: &str, schema: &Value) -> Option<Value> {
    let known = EXAMPLES.iter().find(|(known, _)| *known == name);
    let known = known.and_then(|(_, text)| serde_json::from_str(text).ok());
    let data = known.unwrap_or_else(|| Maker { root: schema, left: MEMBERS }.make(schema, 0));
    Schema::compile(schema).ok()?.check(&data).ok().map(|()| data)
}

/// Makes data that a schema may accept.
struct Maker<'s> {
    root: &'s Value,
    /// Number of values that may still be made.
    left: usize,
}

impl<'s> Maker<'s> {
    /// A value for a schema. An object has the members that are required, or all if none is.
    fn make(&mut self, schema: &'s Value, depth: usize) -> Value {
        if depth >= DEPTH || self.left == 0 {
            return Value::Null;
        }
        self.left -= 1;
        let of = parts(self.root, schema);
        let get = |word: &str| of.iter().find_map(|part| part.get(word));
        let first_choice = || get("enum")?.as_array()?.first();
        if let Some(chosen) = get("default").or_else(|| get("const")).or_else(first_choice) {
            return chosen.clone();
        }
        let named = match get("type") {
            Some(Value::Array(names)) => names.first().and_then(Value::as_str),
            name => name.and_then(Value::as_str),
        };
        match named {
            Some("integer" | "number") => get("minimum").cloned().unwrap_or_else(|| 1.into()),
            Some("boolean") => true.into(),
            Some("string") => match get("format").and_then(Value::as_str) {
                Some("ipv4") => "192.0.2.1".into(),
                Some("ipv6") => "2001:db8::1".into(),
                _ => "text".into(),
            },
            Some("array") => {
                let items = get("items").map(|items| self.make(items, depth + 1));
                Value::Array(items.into_iter().collect())
            }
            Some("null") => Value::Null,
            _ => {
                let required: Vec<&str> =
                    lists(&of, "required").filter_map(Value::as_str).collect();
                let all =
                    of.iter().filter_map(|part| part.get("properties")?.as_object()).flatten();
                let wanted = all
                    .filter(|(name, _)| required.is_empty() || required.contains(&name.as_str()));
                wanted.map(|(name, schema)| (name.clone(), self.make(schema, depth + 1))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_controller::domain::seeds::CONFIG_TYPES;

    use super::*;

    fn schema(name: &str) -> Value {
        let found = CONFIG_TYPES.iter().find(|it| it.name == name).unwrap();
        serde_json::from_str(found.schema).unwrap()
    }

    fn rules(schema: &Value, place: &str) -> String {
        let members = members(schema);
        let member = members.iter().find(|member| member.place == place);
        let member = member.unwrap_or_else(|| panic!("{place} is not in {members:?}"));
        member.rules.join("; ")
    }

    #[test]
    fn members_have_their_types_bounds_and_defaults() {
        for (name, place, expected) in [
            (
                "intercept.v1",
                "protocols",
                "list (text); required; not empty; each entry once; entries: one of tcp, udp",
            ),
            ("intercept.v1", "portRanges[].low", "whole number; required; 0 to 65535"),
            (
                "intercept.v1",
                "addresses",
                "list (text); required; not empty; each entry once; entries: not empty",
            ),
            (
                "intercept.v1",
                "dialOptions.connectTimeoutSeconds",
                "whole number; 0 to 2147483647; default 15",
            ),
            ("host.v1", "listenOptions.cost", "whole number; 0 to 65535"),
            ("l2.host.v1", "listenOptions.cost", "whole number; 0 to 65535; default 0"),
            ("host.v1", "listenOptions.precedence", "text; one of default, required, failed"),
            ("host.v1", "forwardPort", "true or false; only true"),
            ("host.v1", "forwardAddressTranslations[].prefixLength", "whole number; 0 to 32"),
            ("host.v2", "terminators[].port", "whole number; 0 to 65535"),
            ("proxy.v1", "port", "number; required; 1 to 65535"),
            ("ziti-tunneler-server.v1", "protocol", "text or null; one of tcp, udp"),
            ("router.link.v1", "listeners[].binding", "text; default transport"),
            ("router.link.v1", "dialers[].groups", "text or list (text)"),
        ] {
            assert_eq!(rules(&schema(name), place), expected, "{name} {place}");
        }
    }

    #[test]
    fn examples_follow_their_schemas() {
        for known in CONFIG_TYPES {
            assert!(EXAMPLES.iter().any(|(name, _)| *name == known.name), "{}", known.name);
            assert!(example(known.name, &schema(known.name)).is_some(), "{}", known.name);
        }
        let own = json!({"type": "object", "required": ["size", "names"], "properties": {
            "size": {"type": "integer", "minimum": 3}, "note": {"type": "string"},
            "names": {"type": "array", "minItems": 1, "items": {"type": "string"}}}});
        assert_eq!(example("own", &own), Some(json!({"size": 3, "names": ["text"]})));
        let odd = json!({"type": "object", "required": ["a"],
            "properties": {"a": {"type": "string", "pattern": "^z{9}$"}}});
        assert_eq!(example("odd", &odd), None);
    }

    #[test]
    fn schemas_that_refer_to_themselves_end() {
        let own = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/properties/a"}}});
        assert!(members(&own).len() <= MEMBERS);
        example("own", &own);
        let text = shown(&json!({"name": "x", "schema": {}}));
        assert!(text.contains("any data"), "{text}");
    }
}
