//! JSON values as YAML in block style, for those who ask for it.
//!
//! Every text is in double quotes as JSON writes it, which YAML 1.2 reads the same way; so nothing
//! can be taken for a number, a boolean or a date.

use std::fmt::Write;

use serde_json::Value;

/// A value as a YAML document.
#[must_use]
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    put(&mut text, value, 0);
    text
}

fn put(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                entry(text, &format!("{}:", Value::from(name.as_str())), member, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                entry(text, "-", item, depth);
            }
        }
        scalar => {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{scalar}");
        }
    }
}

/// A line that begins with its head, and what is nested in it.
fn entry(text: &mut String, head: &str, value: &Value, depth: usize) {
    text.push_str(&"  ".repeat(depth));
    text.push_str(head);
    let nests = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    text.push(if nests { '\n' } else { ' ' });
    put(text, value, depth + 1);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_nested_by_indentation() {
        let value = json!({"a": {"no": [1, "x: \"y\"\n", {"b": null}, [true]]}, "e": {}, "l": []});
        let expected = "\"a\":\n  \"no\":\n    - 1\n    - \"x: \\\"y\\\"\\n\"\n    -\n      \
                        \"b\": null\n    -\n      - true\n\"e\": {}\n\"l\": []\n";
        assert_eq!(yaml(&value), expected);
    }
}
