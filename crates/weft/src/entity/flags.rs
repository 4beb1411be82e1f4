//! Flags for the members of a body.
//!
//! A member `encryptionRequired` is the flag `--encryption-required`; a member that refers to other
//! entities drops its `Id`; a member of an object has the object's name in front. Lists are
//! separated by commas. Free-form objects are JSON, or `@FILE` for JSON or YAML in a file; a text
//! of several lines may be `@FILE` too (`--cert-pem @ca.pem`).

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, ValueHint};
use serde_json::{Map, Value};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use weft_contract::body::{Field, FieldType, Verb};
use weft_contract::defaults;
use weft_contract::kind::Kind;
use weft_identity::text_of;

use super::complete;
use crate::yaml;

/// The flag for the whole body.
const FROM: &str = "from";

/// Values of a choice that the flag does not offer: kind, member, value.
const NOT_OFFERED: &[(&str, &str, &str)] =
    &[("identity", "type", "Router"), ("service-policy", "type", "Invalid")];

/// Flags of every command, which no member may have.
const TAKEN: &[&str] = &["output", "login", "config-dir", "from", "replace", "help"];

/// A member, or a member of a member, that is one flag.
struct Leaf {
    /// Names of the members, from the outermost in.
    path: Vec<&'static str>,
    field: &'static Field,
}

impl Leaf {
    /// Id of the argument. The prefix `body/` keeps it apart from the ids of other flags.
    fn id(&self) -> String {
        format!("body/{}", self.path.join("/"))
    }

    fn flag(&self) -> String {
        let words: Vec<String> = self.path.iter().map(|name| kebab(name)).collect();
        let flag = words.join("-");
        let flag = match self.field.names {
            Some(_) => flag.strip_suffix("-id").map_or(flag.clone(), ToOwned::to_owned),
            None => flag,
        };
        if TAKEN.contains(&flag.as_str()) { format!("set-{flag}") } else { flag }
    }

    /// True for the name of a new entity, which is an argument instead of a flag.
    fn is_name(&self, verb: Verb) -> bool {
        self.path == ["name"] && verb == Verb::Create && self.field.need.covers(verb)
    }

    /// Default of the member. A patch has none: it leaves the member as it is.
    fn default(&self, kind: &Kind, verb: Verb) -> Option<&'static str> {
        let [member] = self.path.as_slice() else { return None };
        if verb == Verb::Patch { None } else { defaults::word(kind, member) }
    }

    fn is_required(&self, kind: &Kind, verb: Verb) -> bool {
        // Only a create requires flags: an update sends the present values of required members that no
        // flag names.
        verb == Verb::Create
            && self.path.len() == 1
            && self.field.need.covers(verb)
            && self.default(kind, verb).is_none()
    }
}

/// The flags for the body of a kind, and one for the whole body. The name of a new entity is the
/// first argument.
pub(super) fn args(kind: &'static Kind, verb: Verb) -> Vec<Arg> {
    let whole = Arg::new(FROM)
        .long(FROM)
        .value_name("JSON|@FILE")
        .value_parser(object)
        .value_hint(ValueHint::FilePath)
        .help("All members at once, as JSON, or @FILE with JSON or YAML; other flags replace members of it");
    let leaves = leaves(kind.fields);
    let own = leaves.iter().map(|leaf| match leaf.is_required(kind, verb) {
        true => arg(kind, leaf, verb).required_unless_present(FROM),
        false => arg(kind, leaf, verb),
    });
    own.chain([whole]).collect()
}

/// The flags for the body of an action.
pub(super) fn action_args(kind: &'static Kind, fields: &'static [Field]) -> Vec<Arg> {
    let leaves = leaves(fields);
    let own = leaves.iter().map(|leaf| {
        let is_required = leaf.is_required(kind, Verb::Create);
        arg(kind, leaf, Verb::Create).required(is_required)
    });
    own.collect()
}

/// The arguments that a command requires: the flag, or `None` for the name, and the type of its value.
pub(super) fn required(
    kind: &'static Kind,
    verb: Verb,
) -> impl Iterator<Item = (Option<String>, FieldType)> {
    leaves(kind.fields)
        .into_iter()
        .filter(move |leaf| leaf.is_required(kind, verb))
        .map(move |leaf| ((!leaf.is_name(verb)).then(|| leaf.flag()), leaf.field.shape))
}

/// Ids of the arguments of a member and of the members in it.
pub(super) fn ids_of(kind: &'static Kind, member: &'static str) -> Vec<String> {
    let of = leaves(kind.fields).into_iter().filter(|leaf| leaf.path.first() == Some(&member));
    of.map(|leaf| leaf.id()).collect()
}

/// The body that the flags describe. Objects of a new entity that must be whole, as the rules of an auth policy, get what the
/// flags left out.
pub(super) fn read(kind: &'static Kind, verb: Verb, matches: &ArgMatches) -> Map<String, Value> {
    let mut body = given(kind.fields, matches);
    for leaf in leaves(kind.fields) {
        if let ([member], Some(word)) = (leaf.path.as_slice(), leaf.default(kind, verb))
            && !body.contains_key(*member)
        {
            body.insert((*member).to_owned(), defaults::value(word));
        }
    }
    if verb == Verb::Create {
        defaults::fill(kind, &mut body);
    }
    body
}

/// The members that were given as flags.
pub(super) fn given(fields: &'static [Field], matches: &ArgMatches) -> Map<String, Value> {
    let from = matches.try_get_one::<Value>(FROM).ok().flatten();
    let mut body = match from {
        Some(Value::Object(members)) => members.clone(),
        _ => Map::new(),
    };
    for leaf in leaves(fields) {
        let id = leaf.id();
        let value = match leaf.field.shape {
            FieldType::Bool => matches.get_one::<bool>(&id).copied().map(Value::Bool),
            FieldType::Integer { .. } => matches.get_one::<i64>(&id).copied().map(Value::from),
            FieldType::List(FieldType::Text | FieldType::Choice(_)) => {
                matches.get_many::<String>(&id).map(|items| {
                    items.filter(|item| !item.is_empty()).cloned().map(Value::String).collect()
                })
            }
            FieldType::Text | FieldType::Length { .. } | FieldType::Time | FieldType::Choice(_) => {
                matches.get_one::<String>(&id).cloned().map(Value::String)
            }
            _ => matches.get_one::<Value>(&id).cloned(),
        };
        if let Some(value) = value {
            put(&mut body, &leaf.path, value);
        }
    }
    body
}

/// The text of an argument that is not a member.
pub(super) fn text(matches: &ArgMatches, id: &str) -> Option<String> {
    matches.try_get_one::<String>(id).ok().flatten().cloned()
}

fn leaves(fields: &'static [Field]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for field in fields {
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

fn arg(kind: &'static Kind, leaf: &Leaf, verb: Verb) -> Arg {
    let field = leaf.field;
    let arg = Arg::new(leaf.id()).help(help(kind, leaf, verb));
    if leaf.is_name(verb) {
        return arg.value_name("NAME");
    }
    let arg = arg.long(leaf.flag());
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
            let arg = arg.value_delimiter(',').action(ArgAction::Append).value_name("A,B,...");
            completed(arg, kind, leaf)
        }
        FieldType::Text if field.names.is_some() => completed(arg.value_name("NAME"), kind, leaf),
        FieldType::Text | FieldType::Length { .. } => arg.value_parser(words).value_name("TEXT"),
        FieldType::Time => arg.value_parser(moment).value_name("TIME|30m|24h|7d"),
        _ => arg.value_parser(json).value_name("JSON|@FILE"),
    }
}

/// Adds completion of the names that the flag takes.
fn completed(arg: Arg, kind: &'static Kind, leaf: &Leaf) -> Arg {
    if let Some(collection) = leaf.field.names {
        return arg.add(complete::names(collection, ""));
    }
    if let Some(role) = kind.roles.iter().find(|role| leaf.path == [role.field]) {
        return arg.add(complete::roles(role.selects));
    }
    if leaf.path == [weft_contract::kind::ROLE_ATTRIBUTES] {
        return arg.add(complete::attributes(kind.plural));
    }
    arg
}

fn offered(kind: &Kind, member: &str, words: &[&'static str]) -> PossibleValuesParser {
    let offered = |word: &&&'static str| !NOT_OFFERED.contains(&(kind.name, member, **word));
    PossibleValuesParser::new(words.iter().filter(offered).copied())
}

fn help(kind: &Kind, leaf: &Leaf, verb: Verb) -> String {
    let about = leaf.field.about.trim().trim_end_matches('.');
    let mut help = about.to_owned();
    if kind.roles.iter().any(|role| leaf.path == [role.field]) {
        // People give names, where the API takes ids.
        help.truncate(about.find(": `#").unwrap_or(about.len()));
        help.push_str(": #attribute, @name or #all");
    }
    if let Some(word) = leaf.default(kind, verb) {
        help.push_str(&format!(" [default: {word}]"));
    }
    help
}

/// Parses a time, or a duration from now: `30m`, `24h`, `7d`.
fn moment(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 60 * 60,
        Some("d") => 24 * 60 * 60,
        _ => return Ok(text.to_owned()),
    };
    let Ok(count) = digits.parse::<u32>() else { return Ok(text.to_owned()) };
    let at = OffsetDateTime::now_utc().checked_add(Duration::seconds(i64::from(count) * unit));
    let at = at.ok_or_else(|| "that is too far away".to_owned())?;
    at.format(&Rfc3339).map_err(|error| error.to_string())
}

/// A text from the command line, or the contents of the file after an `@` if it exists.
fn words(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        Some(path) if std::path::Path::new(path).is_file() => file_text(path),
        _ => Ok(text.to_owned()),
    }
}

fn file_text(path: &str) -> Result<String, String> {
    let text = crate::input::read(std::path::Path::new(path))
        .map_err(|error| format!("{path}: {error}"))?;
    text_of(text).map_err(|error| format!("{path}: {error}"))
}

/// JSON from the command line, or JSON or YAML from the file after an `@`.
fn json(text: &str) -> Result<Value, String> {
    let Some(path) = text.strip_prefix('@') else {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    };
    let text = file_text(path)?;
    if path.ends_with(".json") {
        return serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"));
    }
    let documents = yaml::read(&text).map_err(|error| format!("{path}: {error}"))?;
    match documents.as_slice() {
        [document] => Ok(document.to_json()),
        several => Err(format!("{path}: one document is wanted, not {}", several.len())),
    }
}

/// [`json`] for a whole body, which must be an object.
fn object(text: &str) -> Result<Value, String> {
    match json(text)? {
        Value::Object(members) => Ok(Value::Object(members)),
        _ => Err("an object is wanted: {\"name\": \"...\", ...}".to_owned()),
    }
}

/// `encryptionRequired` as `encryption-required`.
pub(super) fn kebab(name: &str) -> String {
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
            let mut flags: Vec<String> = leaves(kind.fields).iter().map(Leaf::flag).collect();
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
    fn an_auth_policy_allows_what_its_flags_say_and_is_whole() {
        let kind = weft_contract::resource::kind("auth-policy").unwrap();
        let of = |flags: &[&str]| {
            let command = clap::Command::new("create").args(args(kind, Verb::Create));
            let words = [&["create", "staff"], flags].concat();
            let matches = command.try_get_matches_from(words).unwrap();
            Value::Object(read(kind, Verb::Create, &matches))
        };
        let updb = |allowed: bool, length: i64| {
            serde_json::json!({"allowed": allowed, "lockoutDurationMinutes": 0, "maxAttempts": 0,
                "minPasswordLength": length, "requireMixedCase": false, "requireNumberChar": false,
                "requireSpecialChar": false})
        };
        let whole = of(&["--primary-cert-allowed"]);
        let primary = serde_json::json!({
            "cert": {"allowed": true, "allowExpiredCerts": false},
            "extJwt": {"allowed": false, "allowedSigners": []},
            "updb": updb(false, 0)});
        assert_eq!(whole["primary"], primary);
        assert_eq!(whole["secondary"], serde_json::json!({"requireTotp": false}));
        let flags = ["--primary-updb-allowed", "--primary-updb-min-password-length", "12"];
        assert_eq!(of(&flags)["primary"]["updb"], updb(true, 12));
    }

    #[test]
    fn json_errors_name_the_file() {
        assert_eq!(json("{\"a\":1}").unwrap(), serde_json::json!({"a": 1}));
        assert!(json("{").is_err());
        assert!(json("@/no/such/file").unwrap_err().starts_with("/no/such/file"));
        assert!(object("[]").is_err());
    }

    #[test]
    fn times_may_be_told_from_now() {
        let soon = OffsetDateTime::parse(&moment("24h").unwrap(), &Rfc3339).unwrap();
        let hours = (soon - OffsetDateTime::now_utc()).whole_hours();
        assert!((23..=24).contains(&hours), "{hours}");
        assert_eq!(moment("2026-01-31T12:00:00Z").unwrap(), "2026-01-31T12:00:00Z");
        assert!(moment("4000000000d").is_err());
        assert_eq!(moment("tomorrow").unwrap(), "tomorrow", "the controller says what is wrong");
    }

    #[test]
    fn files_may_be_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body.yaml");
        std::fs::write(&file, "name: web\nconfigs: [a, b]\n").unwrap();
        let body = object(&format!("@{}", file.display())).unwrap();
        assert_eq!(body, serde_json::json!({"name": "web", "configs": ["a", "b"]}));
        assert_eq!(words(&format!("@{}", file.display())).unwrap().len(), 26);
        assert_eq!(words("@nobody").unwrap(), "@nobody");
    }
}
