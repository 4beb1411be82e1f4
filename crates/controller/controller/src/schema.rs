//! JSON Schemas of config types, and checks of config data against them
//! (docs/protocol/management-api.md 7.3, 8).
//!
//! ```text
//!  schema of a config type -> Schema::compile -> Schema
//!                                                  |
//!  data of a config --------------------> Schema::check -> nothing, or the first Mismatch
//! ```
//!
//! Schemas are read as draft 7. The format `idn-hostname` accepts every text that is not empty,
//! because addresses in configs may also be IP addresses, CIDRs and wildcards. References to other
//! documents are never fetched. Patterns have neither look-around nor back-references, so that
//! matching takes time linear in the text.
//!
//! A schema has limits: 128 patterns of 256 KiB each when compiled, and 20,000 rules; a part that several
//! places refer to counts at each of them.
//!
//! ```
//! use serde_json::json;
//! use weft_controller::schema::Schema;
//!
//! let port = json!({"type": "object", "properties": {"port": {"type": "integer", "minimum": 1}}});
//! let schema = Schema::compile(&port).unwrap();
//! schema.check(&json!({"port": 80})).unwrap();
//! assert_eq!(schema.check(&json!({"port": 0})).unwrap_err().place, "port");
//! ```

mod cost;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use self::cost::Cost;

/// Largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 256 << 10;
/// Most bytes of a wrong value that are shown.
const MAX_SHOWN: usize = 256;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    cost: Cost,
}

/// The first place at which data does not follow its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The place, members and positions joined by dots: `addresses.1`; `(root)` for the whole.
    pub place: String,
    /// The rule that is broken.
    pub problem: String,
    /// The wrong value as JSON, cut after 256 bytes.
    pub value: String,
}

impl Schema {
    /// Compiles a schema. Its root must have `"type": "object"`; `{}` and null accept any object.
    ///
    /// # Errors
    /// The reason, if the schema has another root, refers to another document, is above a limit, or has a
    /// member or a pattern that is not allowed.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        let is_empty = schema.is_null() || schema.as_object().is_some_and(|map| map.is_empty());
        if !is_object && !is_empty {
            return Err("the root of the schema must have \"type\": \"object\"".into());
        }
        let cost = Cost::of(schema)?;
        let any = Value::Bool(true);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft7)
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN))
            .should_validate_formats(true)
            .with_format("idn-hostname", |text: &str| !text.is_empty())
            .build(if is_empty { &any } else { schema })
            .map_err(|error| error.to_string())?;
        Ok(Self { validator, cost })
    }

    /// Checks data.
    ///
    /// # Errors
    /// The first place that is wrong.
    pub fn check(&self, data: &Value) -> Result<(), Mismatch> {
        if !self.cost.allows(data) {
            let problem = "the data is nested too deeply for a schema whose parts use themselves";
            let place = "(root)".to_owned();
            return Err(Mismatch { place, problem: problem.to_owned(), value: String::new() });
        }
        let Err(error) = self.validator.validate(data) else { return Ok(()) };
        let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        let place = if path.is_empty() { "(root)".to_owned() } else { path };
        let mut value = error.instance().to_string();
        if value.len() > MAX_SHOWN {
            let end = (0..=MAX_SHOWN).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
            value.truncate(end);
            value.push_str("...");
        }
        Err(Mismatch { place, problem: error.to_string(), value })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_pattern_takes_more_than_linear_time() {
        for costly in [r"^(a+)+\1$", r"^(?=(a+)+$)b", r"^((a{1,500}){1,500}){1,500}$"] {
            let schema = json!({"type": "object", "properties": {"x": {"pattern": costly}}});
            assert!(Schema::compile(&schema).is_err(), "{costly}");
        }
        let schema = json!({"type": "object", "properties": {"x": {"pattern": "^(a|a)*(a|a)*b$"}}});
        let schema = Schema::compile(&schema).unwrap();
        schema.check(&json!({"x": "a".repeat(100_000)})).unwrap_err();
        schema.check(&json!({"x": format!("{}b", "a".repeat(100_000))})).unwrap();
    }

    #[test]
    fn roots_are_objects() {
        assert!(Schema::compile(&json!({"type": "string"})).is_err());
        assert!(Schema::compile(&json!({"type": "object", "properties": 5})).is_err());
        assert!(Schema::compile(&json!({"$ref": "http://example.com/x"})).is_err());
        Schema::compile(&json!({})).unwrap().check(&json!({"any": 1})).unwrap();
    }

    #[test]
    fn a_schema_that_only_refers_to_itself_is_checked_to_the_end() {
        let schema = json!({"type": "object", "allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        let schema = Schema::compile(&schema).unwrap();
        assert!(schema.check(&json!(5)).is_err());
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
        let wrong = Schema::compile(&schema).unwrap().check(&json!({"x": "ü".repeat(1000)}));
        let Mismatch { place, value, .. } = wrong.unwrap_err();
        assert_eq!(place, "x");
        assert!(value.len() <= MAX_SHOWN + 3 && value.ends_with("ü..."), "{value}");
    }
}
