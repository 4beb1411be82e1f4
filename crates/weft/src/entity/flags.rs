//! Members of a body as flags, and back.
//!
//! A member `encryptionRequired` is the flag `--encryption-required`; one that names other
//! entities drops its `Id`; members of an object carry its name in front. Lists are separated by
//! commas; free-form objects are JSON, or `@FILE` for JSON in a file.

use clap::{Arg, ArgAction, ArgMatches, builder::PossibleValuesParser};
use serde_json::{Map, Value};
use weft_contract::{
    body::{Field, FieldType, Need, Verb},
    kind::Kind,
};

/// What a create takes where the body requires a member that most people need not think about.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("identity", "isAdmin", "false"),
    ("identity", "type", "Default"),
    ("service", "encryptionRequired", "true"),
    ("service-policy", "semantic", "AllOf"),
    ("edge-router-policy", "semantic", "AllOf"),
    ("service-edge-router-policy", "semantic", "AllOf"),
];

/// Words of a choice that only others than people use: kind, member, word.
const NOT_OFFERED: &[(&str, &str, &str)] =
    &[("identity", "type", "Router"), ("service-policy", "type", "Invalid")];

/// A member, or a member of a member, that is one flag.
struct Leaf {
    /// Members from the outermost in.
    path: Vec<&'static str>,
    field: &'static Field,
}

impl Leaf {
    fn id(&self) -> String {
        self.path.join(".")
    }

    fn flag(&self) -> String {
        let words: Vec<String> = self.path.iter().map(|name| kebab(name)).collect();
        let flag = words.join("-");
        match self.field.names {
            Some(_) => flag.strip_suffix("-id").map_or(flag.clone(), ToOwned::to_owned),
            None => flag,
        }
    }
}

/// The flags of a kind's body. The name is the first argument when it is required.
pub(super) fn args(kind: &'static Kind, verb: Verb) -> Vec<Arg> {
    leaves(kind).iter().map(|leaf| arg(kind, leaf, verb)).collect()
}

/// What the flags say, as a body.
pub(super) fn read(kind: &'static Kind, verb: Verb, matches: &ArgMatches) -> Map<String, Value> {
    let mut body = Map::new();
    for leaf in leaves(kind) {
        let id = leaf.id();
        let value = match leaf.field.shape {
            FieldType::Bool => matches.get_one::<bool>(&id).copied().map(Value::Bool),
            FieldType::Integer { .. } => matches.get_one::<i64>(&id).copied().map(Value::from),
            FieldType::List(FieldType::Text | FieldType::Choice(_)) => {
                matches.get_many::<String>(&id).map(|items| {
                    items.filter(|item| !item.is_empty()).cloned().map(Value::String).collect()
                })
            }
            FieldType::Text | FieldType::Time | FieldType::Choice(_) => {
                matches.get_one::<String>(&id).cloned().map(Value::String)
            }
            FieldType::Object(_) | FieldType::List(_) | FieldType::Map(_) | FieldType::Json => {
                matches.get_one::<Value>(&id).cloned()
            }
        };
        let value = value.or_else(|| default(kind, &leaf, verb));
        if let Some(value) = value {
            put(&mut body, &leaf.path, value);
        }
    }
    body
}

fn default(kind: &Kind, leaf: &Leaf, verb: Verb) -> Option<Value> {
    let [member] = leaf.path.as_slice() else { return None };
    let text = default_text(kind, member, verb)?;
    Some(match leaf.field.shape {
        FieldType::Bool => Value::Bool(text == "true"),
        _ => Value::String(text.to_owned()),
    })
}

fn default_text(kind: &Kind, member: &str, verb: Verb) -> Option<&'static str> {
    if verb != Verb::Create {
        return None;
    }
    DEFAULTS
        .iter()
        .find(|(name, field, _)| *name == kind.name && *field == member)
        .map(|(_, _, text)| *text)
}

fn leaves(kind: &'static Kind) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for field in kind.fields {
        gather(Vec::new(), field, &mut leaves);
    }
    leaves
}

fn gather(mut path: Vec<&'static str>, field: &'static Field, leaves: &mut Vec<Leaf>) {
    path.push(field.name);
    match field.shape {
        FieldType::Object(fields) => {
            for field in fields {
                gather(path.clone(), field, leaves);
            }
        }
        _ => leaves.push(Leaf { path, field }),
    }
}

fn put(body: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            body.insert((*name).to_owned(), value);
        }
        [outer, rest @ ..] => {
            let inner =
                body.entry((*outer).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn arg(kind: &Kind, leaf: &Leaf, verb: Verb) -> Arg {
    let field = leaf.field;
    let top = leaf.path.len() == 1;
    let required = top && field.need.covers(verb) && default_text(kind, field.name, verb).is_none();
    let arg = Arg::new(leaf.id()).help(help(kind, leaf, verb));
    if top
        && field.name == "name"
        && matches!(field.need, Need::Both | Need::Create | Need::Always)
        && verb == Verb::Create
    {
        return arg.value_name("NAME").required(true);
    }
    let arg = arg.long(leaf.flag()).required(required);
    match field.shape {
        FieldType::Bool => arg
            .value_parser(clap::value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("true|false"),
        FieldType::Integer { min, max } => arg
            .value_parser(clap::value_parser!(i64).range(min..=max))
            .allow_negative_numbers(true)
            .value_name("NUMBER"),
        FieldType::Choice(words) => {
            arg.value_parser(offered(kind, field.name, words)).value_name("WORD")
        }
        FieldType::List(FieldType::Choice(words)) => arg
            .value_parser(PossibleValuesParser::new(*words))
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_name("A,B,..."),
        FieldType::List(FieldType::Text) => {
            arg.value_delimiter(',').action(ArgAction::Append).value_name("A,B,...")
        }
        FieldType::Text => arg.value_name(if field.names.is_some() { "NAME" } else { "TEXT" }),
        FieldType::Time => arg.value_name("TIME"),
        FieldType::Object(_) | FieldType::List(_) | FieldType::Map(_) | FieldType::Json => {
            arg.value_parser(json).value_name("JSON|@FILE")
        }
    }
}

fn offered(kind: &Kind, member: &str, words: &[&'static str]) -> PossibleValuesParser {
    let offered = |word: &&&'static str| !NOT_OFFERED.contains(&(kind.name, member, **word));
    PossibleValuesParser::new(words.iter().filter(offered).copied())
}

fn help(kind: &Kind, leaf: &Leaf, verb: Verb) -> String {
    let about = leaf.field.about.trim().trim_end_matches('.');
    let mut help = about.to_owned();
    if kind.roles.iter().any(|role| leaf.path == [role.field]) {
        // People name entities, whatever the API wants.
        help.truncate(about.find(": `#").unwrap_or(about.len()));
        help.push_str(": #attribute, @name or #all");
    }
    if let Some(text) = default_text(kind, leaf.field.name, verb) {
        help.push_str(&format!(" [default: {text}]"));
    }
    help
}

/// JSON from the command line, or from the file after an `@`.
fn json(text: &str) -> Result<Value, String> {
    match text.strip_prefix('@') {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
        }
        None => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}

/// `encryptionRequired` as `encryption-required`.
fn kebab(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(character.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use weft_contract::resource::KINDS;

    use super::*;

    #[test]
    fn members_become_flags() {
        assert_eq!(kebab("encryptionRequired"), "encryption-required");
        assert_eq!(kebab("name"), "name");
    }

    #[test]
    fn every_flag_of_a_kind_is_its_own() {
        for kind in KINDS {
            let mut flags: Vec<String> = leaves(kind).iter().map(Leaf::flag).collect();
            let all = flags.len();
            flags.sort();
            flags.dedup();
            assert_eq!(flags.len(), all, "{} has two members with the same flag", kind.name);
        }
    }

    #[test]
    fn nested_members_are_put_where_they_belong() {
        let mut body = Map::new();
        put(&mut body, &["enrollment", "ott"], Value::Bool(true));
        put(&mut body, &["enrollment", "updb"], Value::String("u".into()));
        assert_eq!(
            Value::Object(body),
            serde_json::json!({"enrollment": {"ott": true, "updb": "u"}})
        );
    }

    #[test]
    fn json_errors_name_the_file() {
        assert_eq!(json("{\"a\":1}").unwrap(), serde_json::json!({"a": 1}));
        assert!(json("{").is_err());
        assert!(json("@/no/such/file").unwrap_err().starts_with("/no/such/file"));
    }
}
