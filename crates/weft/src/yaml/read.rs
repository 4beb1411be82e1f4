//! YAML text as values with their lines.

use serde_json::{Map, Value as Json};
use weft_config::yaml::{self, Rules, SyntaxError, YamlTree};

/// The rules of YAML 1.2, for data.
const OF_DATA: Rules =
    Rules { resolve, merges: false, max_nodes: 1_000_000, max_repeated: 64 << 20 };

/// A value with its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Line where the value begins, from 1.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// Value of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Null, a boolean, a number or a text.
    Scalar(Json),
    /// A list.
    List(Vec<Node>),
    /// A map, its members in order.
    Map(Vec<DocumentMember>),
}

/// A member of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DocumentMember {
    pub(crate) key: String,
    /// Line of the name.
    pub(crate) line: usize,
    pub(crate) node: Node,
}

impl Node {
    /// The value without lines.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(value) => value.clone(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.node.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The members, if the value is a map.
    pub(crate) fn entries(&self) -> Option<&[DocumentMember]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a member, if the value is a map.
    pub(crate) fn member(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The value of a member for a change, if the value is a map.
    pub(crate) fn member_mut(&mut self, key: &str) -> Option<&mut Node> {
        let Value::Map(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    /// The text, if the value is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(Json::String(text)) => Some(text),
            _ => None,
        }
    }

    /// True if the value is null.
    pub(crate) fn is_null(&self) -> bool {
        self.value == Value::Scalar(Json::Null)
    }

    /// Line of the deepest existing member along a path of names and numbers.
    pub(crate) fn line_of<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> usize {
        let mut node = self;
        let mut line = self.line;
        for step in path {
            let next = match &node.value {
                Value::Scalar(_) => None,
                Value::List(items) => step
                    .parse::<usize>()
                    .ok()
                    .and_then(|at| items.get(at))
                    .map(|item| (item, item.line)),
                Value::Map(entries) => entries
                    .iter()
                    .find(|entry| entry.key == step)
                    .map(|entry| (&entry.node, entry.line)),
            };
            let Some((below, at)) = next else { break };
            (node, line) = (below, at);
        }
        line
    }
}

/// Reads every document of a text.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, SyntaxError> {
    OF_DATA.read(text, usize::MAX)?.into_iter().map(with_single_keys).collect()
}

fn with_single_keys(document: YamlTree) -> Result<Node, SyntaxError> {
    let Some(twice) = document.twice.first() else { return Ok(document.root.into()) };
    let message = format!("`{}` is in line {} already", twice.key, twice.first.line);
    Err(SyntaxError { line: twice.last.line, column: twice.last.column, message })
}

impl From<yaml::Node> for Node {
    fn from(node: yaml::Node) -> Self {
        let entry = |entry: yaml::MapEntry| DocumentMember {
            key: entry.key,
            line: entry.location.line,
            node: entry.node.into(),
        };
        let value = match node.value {
            yaml::YamlValue::Null => Value::Scalar(Json::Null),
            yaml::YamlValue::Bool(value) => Value::Scalar(value.into()),
            yaml::YamlValue::Int(value) => Value::Scalar(value.into()),
            yaml::YamlValue::Large(value) => Value::Scalar(value.into()),
            yaml::YamlValue::Float(value) => Value::Scalar(value.into()),
            yaml::YamlValue::Text { text, .. } => Value::Scalar(text.into()),
            yaml::YamlValue::List(items) => {
                Value::List(items.into_iter().map(Self::from).collect())
            }
            yaml::YamlValue::Map(entries) => Value::Map(entries.into_iter().map(entry).collect()),
        };
        Self { line: node.location.line, value }
    }
}

/// Meaning of an unquoted word, by the core schema of YAML 1.2.
fn resolve(text: &str) -> Result<yaml::YamlValue, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => yaml::YamlValue::Null,
        "true" | "True" | "TRUE" => yaml::YamlValue::Bool(true),
        "false" | "False" | "FALSE" => yaml::YamlValue::Bool(false),
        _ => number(text)?.unwrap_or_else(|| yaml::YamlValue::text(text)),
    })
}

fn number(text: &str) -> Result<Option<yaml::YamlValue>, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err(format!("`{text}` is no number that can be kept; quote it if it is a word"));
    }
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(None);
    }
    let whole = |number: u64| {
        i64::try_from(number).map_or(yaml::YamlValue::Large(number), yaml::YamlValue::Int)
    };
    let radix = match digits.get(..2) {
        Some("0x") => Some(16),
        Some("0o") => Some(8),
        _ => None,
    };
    if let Some(radix) = radix {
        let parsed = digits.get(2..).and_then(|rest| u64::from_str_radix(rest, radix).ok());
        return Ok(parsed.filter(|_| digits.len() == text.len()).map(whole));
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let plain = text.strip_prefix('+').unwrap_or(text);
        if let Ok(number) = plain.parse::<i64>() {
            return Ok(Some(yaml::YamlValue::Int(number)));
        }
        if let Ok(number) = plain.parse::<u64>() {
            return Ok(Some(whole(number)));
        }
    }
    let is_float = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_float {
        return Ok(None);
    }
    // A version like 1.2.3 is a word.
    let Ok(float) = text.parse::<f64>() else { return Ok(None) };
    match float.is_finite() {
        true => Ok(Some(yaml::YamlValue::Float(float))),
        false => Err(format!("`{text}` is too large; quote it if it is a word")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Node {
        let mut documents = read(text).unwrap();
        assert_eq!(documents.len(), 1);
        documents.remove(0)
    }

    #[test]
    fn words_are_words_and_numbers_are_numbers() {
        let node = one(
            "a: yes\nb: 010.1.2.3\nc: 1.5\nd: 0x1f\ne: ~\nf: -3\ng: '1'\nh: 12:30\ni: 1.2.3\nj: true",
        );
        assert_eq!(
            node.to_json(),
            json!({"a": "yes", "b": "010.1.2.3", "c": 1.5, "d": 31, "e": null, "f": -3, "g": "1",
                   "h": "12:30", "i": "1.2.3", "j": true})
        );
    }

    #[test]
    fn lines_are_kept() {
        let node = one("services:\n  - name: web\n    configs:\n      - a\n      - b\n");
        assert_eq!(node.line_of(["services", "0"]), 2);
        assert_eq!(node.line_of(["services", "0", "configs", "1"]), 5);
        assert_eq!(node.line_of(["services", "0", "nothing", "x"]), 2);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, message) in [
            ("a: 1\nb: 2\na: 3", 3, "`a` is in line 1 already"),
            ("a: [1,", 2, ""),
            ("? [x]\n: y", 1, "a key must be a word"),
            ("a: .inf", 1, "no number"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
        }
        let bomb: String = (1..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, at| {
            format!("{text}a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1)
        });
        assert!(read(&bomb).unwrap_err().message.contains("more than"));
        let deep = "[".repeat(100);
        assert!(read(&deep).is_err());
    }

    #[test]
    fn aliases_repeat_a_limited_number_of_bytes() {
        let word = "x".repeat(1 << 20);
        let text = |count| format!("a: &a {word}\nb: [{}]\n", vec!["*a"; count].join(", "));
        assert_eq!(read(&text(10)).unwrap().len(), 1);
        let error = read(&text(100)).unwrap_err();
        assert!(error.message.contains("repeat more than 64 MiB"), "{error}");
    }

    #[test]
    fn equal_keys_of_large_maps_are_found() {
        let text: String = (0..200_000).map(|at| format!("k{at}: 1\n")).collect();
        assert_eq!(one(&text).entries().unwrap().len(), 200_000);
        let error = read(&(text + "k7: 2\n")).unwrap_err();
        assert_eq!((error.line, &*error.message), (200_001, "`k7` is in line 8 already"));
    }

    #[test]
    fn documents_are_told_apart() {
        let documents = read("a: 1\n---\nb: 2\n...\n").unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[1].to_json(), json!({"b": 2}));
        assert_eq!(documents[1].line_of(["b"]), 3);
        assert!(read("").unwrap().is_empty());
        assert!(read("# only a word\n").unwrap().is_empty());
    }
}
