//! The cost of a schema: what compiling it and checking data against it take.
//!
//! A schema may use one part from many places, and a part may use itself. Written out, a few lines can become
//! billions of rules, so that a schema is written out in thought first, up to a limit.

use serde_json::{Map, Value};

/// Most rules of a schema, with each part counted at each place that refers to it.
const MAX_RULES: u64 = 20_000;
/// Most patterns, counted in the same way. Each takes memory when it is compiled.
const MAX_PATTERNS: u64 = 128;
/// Most levels of parts within parts.
const MAX_DEPTH: usize = 128;

/// The cost of a schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    rules: u64,
    patterns: u64,
    /// The number of places at which a part refers to a part that it is in.
    returns: u64,
}

impl Cost {
    /// The cost of a schema, or why it costs too much.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let mut walk = Walk { root: schema, inside: vec!["#"], cost: Self::default() };
        walk.visit(schema, 0)?;
        Ok(walk.cost)
    }

    /// True if a check of this data ends soon. At each level of the data, a part that uses itself in
    /// several places may be checked as often.
    pub(crate) fn allows(&self, data: &Value) -> bool {
        const MAX_CHECKS: u64 = 10_000_000;
        let levels = u32::try_from(depth(data)).unwrap_or(u32::MAX);
        self.returns.saturating_pow(levels).saturating_mul(self.rules) <= MAX_CHECKS
            || self.returns <= 1
    }
}

/// A walk through a schema that follows its references.
struct Walk<'s> {
    root: &'s Value,
    /// The references that lead to the present place.
    inside: Vec<&'s str>,
    cost: Cost,
}

impl<'s> Walk<'s> {
    fn visit(&mut self, part: &'s Value, depth: usize) -> Result<(), String> {
        self.cost.rules += 1;
        if self.cost.rules > MAX_RULES {
            return Err(format!(
                "the schema has more than {MAX_RULES} rules, with each part counted at each reference to it"
            ));
        }
        if depth > MAX_DEPTH {
            return Err(format!(
                "the parts of the schema are nested in more than {MAX_DEPTH} levels"
            ));
        }
        match part {
            Value::Object(members) => self.visit_object(members, depth),
            Value::Array(parts) => parts.iter().try_for_each(|part| self.visit(part, depth + 1)),
            _ => Ok(()),
        }
    }

    fn visit_object(
        &mut self,
        members: &'s Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        for (name, part) in members {
            match (name.as_str(), part) {
                ("$ref", Value::String(to)) => self.follow(to, depth)?,
                // References below such a part would lead to places of the part.
                ("$id", Value::String(_)) if depth > 0 => {
                    return Err("only the root of the schema may have an $id".into());
                }
                ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                    return Err(format!("draft 7 has no {name}"));
                }
                ("pattern", Value::String(_)) => self.count_patterns(1)?,
                ("patternProperties", Value::Object(patterns)) => {
                    self.count_patterns(patterns.len() as u64)?;
                    self.visit(part, depth + 1)?;
                }
                // Parts that are counted where they are referred to.
                ("definitions" | "$defs", Value::Object(_)) if depth == 0 => {}
                _ => self.visit(part, depth + 1)?,
            }
        }
        Ok(())
    }

    fn count_patterns(&mut self, more: u64) -> Result<(), String> {
        self.cost.patterns = self.cost.patterns.saturating_add(more);
        if self.cost.patterns > MAX_PATTERNS {
            return Err(format!(
                "the schema has more than {MAX_PATTERNS} patterns, with each part counted at each \
                 reference to it"
            ));
        }
        Ok(())
    }

    /// Goes to the part that is referred to.
    fn follow(&mut self, to: &'s str, depth: usize) -> Result<(), String> {
        if self.inside.contains(&to) {
            self.cost.returns += 1;
            return Ok(());
        }
        let pointer = to.strip_prefix('#').filter(|path| path.starts_with('/'));
        let pointer = pointer.ok_or_else(|| {
            format!("the reference {to:?} is neither # nor a place in the schema, such as #/definitions/port")
        })?;
        let part = self.root.pointer(pointer);
        let part = part.ok_or_else(|| format!("the reference {to:?} leads nowhere"))?;
        self.inside.push(to);
        self.visit(part, depth + 1)?;
        self.inside.pop();
        Ok(())
    }
}

/// The levels of lists and objects in data.
fn depth(data: &Value) -> usize {
    match data {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_count_at_each_place_that_refers_to_them() {
        let mut parts = json!({"p0": {"pattern": "^a$"}});
        for n in 1..40 {
            let to = json!({"$ref": format!("#/definitions/p{}", n - 1)});
            parts[format!("p{n}")] = json!({"allOf": [to, to]});
        }
        let schema = |top: usize| {
            let to = json!({"$ref": format!("#/definitions/p{top}")});
            json!({"type": "object", "definitions": parts, "properties": {"x": to}})
        };
        assert_eq!(Cost::of(&schema(3)).unwrap().patterns, 8);
        for top in [8, 20, 39] {
            let refused = Cost::of(&schema(top)).unwrap_err();
            assert!(refused.contains("counted at each reference"), "{refused}");
        }
    }

    #[test]
    fn parts_that_use_themselves_take_data_of_some_depth() {
        let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        let (list, tree) = (Cost::of(&list).unwrap(), Cost::of(&tree).unwrap());
        assert_eq!((list.returns, tree.returns), (1, 2));
        let nested = |levels| (0..levels).fold(json!({}), |data, _| json!({"left": data}));
        assert!(list.allows(&nested(100)) && tree.allows(&nested(10)));
        assert!(!tree.allows(&nested(100)));
    }

    #[test]
    fn references_lead_to_places_of_the_schema() {
        let to = |to: &str| Cost::of(&json!({"type": "object", "properties": {"x": {"$ref": to}}}));
        assert!(to("#/properties").is_ok());
        for wrong in ["#/nothing", "#name", "http://example.com/x", ""] {
            assert!(to(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_part_changes_the_place_that_references_lead_to() {
        let cheap = json!({"p": true});
        let costly = json!({"p": {"allOf": [{"$ref": "#/definitions/q"}]}});
        let part = json!({"$id": "http://example.com/part", "definitions": costly,
            "allOf": [{"$ref": "#/definitions/p"}]});
        let schema = json!({"type": "object", "$id": "http://example.com/", "definitions": cheap,
            "properties": {"x": part}});
        assert!(Cost::of(&schema).unwrap_err().contains("$id"));
        // A member of configs may have that name.
        let member = json!({"type": "object", "properties": {"$id": {"type": "string"}}});
        assert!(Cost::of(&member).is_ok());
    }

    #[test]
    fn a_long_chain_of_references_is_refused() {
        let mut schema =
            json!({"type": "object", "properties": {"x": {"$ref": "#/definitions/p0"}}});
        for n in 0..10_000 {
            schema["definitions"][format!("p{n}")] =
                json!({"$ref": format!("#/definitions/p{}", n + 1)});
        }
        assert!(Cost::of(&schema).unwrap_err().contains("levels"));
    }
}
