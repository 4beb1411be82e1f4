//! JSON Schemas of config types, and checks of config data against them
//! (docs/protocol/management-api.md 7.3, 8).
//!
//! Schemas are read as draft 7. The format `idn-hostname` accepts every text that is not empty,
//! because addresses in configs may also be IP addresses, CIDRs and wildcards. References to other
//! documents are never fetched. Patterns have neither look-around nor back-references, so that
//! matching takes time linear in the text.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use weft_kernel::Failure;

/// Largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 10 << 20;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema(Validator);

impl Schema {
    /// Compiles a schema. Its root must have `"type": "object"`; `{}` and null accept any object.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        let is_empty = schema.is_null() || schema.as_object().is_some_and(|map| map.is_empty());
        if !is_object && !is_empty {
            return Err("the root of the schema must have \"type\": \"object\"".into());
        }
        let any = Value::Bool(true);
        jsonschema::options()
            .with_draft(Draft::Draft7)
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN))
            .should_validate_formats(true)
            .with_format("idn-hostname", |text: &str| !text.is_empty())
            .build(if is_empty { &any } else { schema })
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Checks config data; the failure names the first place that is wrong, in `data`.
    pub fn check(&self, data: &Value) -> Result<(), Failure> {
        let Err(error) = self.0.validate(data) else { return Ok(()) };
        let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        let field = if path.is_empty() { "(root)".to_owned() } else { path };
        let mut value = error.instance().to_string();
        if value.len() > 256 {
            let end = (0..=256).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
            value.truncate(end);
            value.push_str("...");
        }
        Err(Failure::field(&field, error.to_string(), value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::seeds;

    fn seeded(name: &str) -> Schema {
        let seed = seeds::CONFIG_TYPES.iter().find(|seed| seed.name == name).unwrap();
        Schema::compile(&serde_json::from_str(seed.schema).unwrap()).unwrap()
    }

    #[test]
    fn every_seeded_schema_compiles_and_has_its_id() {
        for seed in seeds::CONFIG_TYPES {
            let schema: Value = serde_json::from_str(seed.schema).unwrap();
            Schema::compile(&schema).unwrap_or_else(|error| panic!("{}: {error}", seed.name));
            assert!(schema["$id"].as_str().unwrap().contains(seed.name), "{}", seed.name);
        }
    }

    #[test]
    fn intercept_takes_names_addresses_and_wildcards() {
        let schema = seeded("intercept.v1");
        let mut data = json!({"protocols": ["tcp"], "portRanges": [{"low": 80, "high": 81}],
            "addresses": ["web.ziti", "*.example", "10.0.0.0/8", "::1"]});
        schema.check(&data).unwrap();
        data["addresses"][1] = json!("");
        assert_eq!(schema.check(&data).unwrap_err().field_name(), Some("addresses.1"));
        data["addresses"] = json!([]);
        assert_eq!(schema.check(&data).unwrap_err().field_name(), Some("addresses"));
    }

    #[test]
    fn host_needs_the_plain_or_the_forwarded_value() {
        let schema = seeded("host.v1");
        schema.check(&json!({"protocol": "tcp", "address": "localhost", "port": 80})).unwrap();
        let forwarded = json!({"forwardProtocol": true, "allowedProtocols": ["tcp"],
            "address": "localhost", "forwardPort": true,
            "allowedPortRanges": [{"low": 1, "high": 2}],
            "listenOptions": {"connectTimeout": "5s", "precedence": "required"}});
        schema.check(&forwarded).unwrap();
        assert!(schema.check(&json!({"protocol": "tcp", "address": "x"})).is_err());
        let missing = json!({"forwardProtocol": true, "address": "localhost", "port": 1});
        assert!(schema.check(&missing).is_err());
        let unknown = json!({"protocol": "tcp", "address": "x", "port": 80, "extra": 1});
        assert!(schema.check(&unknown).is_err());
    }

    /// The data that a console sends for the form of a schema. Lists that the console recognises
    /// are always sent, empty if nothing was filled in; other members are sent only if they were
    /// filled in.
    fn form(name: &str, filled: Value) -> Value {
        let seed = seeds::CONFIG_TYPES.iter().find(|seed| seed.name == name).unwrap();
        let schema: Value = serde_json::from_str(seed.schema).unwrap();
        let mut data = filled;
        for (member, of) in schema["properties"].as_object().unwrap() {
            let of = match of["$ref"].as_str() {
                Some(place) => schema.pointer(place.trim_start_matches('#')).unwrap(),
                None => of,
            };
            if of["type"] == "array" && data.get(member).is_none() {
                data[member] = json!([]);
            }
        }
        data
    }

    #[test]
    fn forms_of_consoles_pass() {
        for (name, filled) in [
            ("host.v1", json!({"protocol": "tcp", "address": "web.example", "port": 80})),
            (
                "host.v1",
                json!({"forwardProtocol": true, "allowedProtocols": ["tcp", "udp"],
                    "forwardAddress": true, "allowedAddresses": ["*.example", "10.0.0.0/8"],
                    "forwardPort": true, "allowedPortRanges": [{"low": 1, "high": 65535}],
                    "allowedSourceAddresses": ["192.168.0.0/16"],
                    "listenOptions": {"bindUsingEdgeIdentity": false, "maxConnections": 5,
                        "connectTimeoutSeconds": 7}}),
            ),
            (
                "host.v2",
                json!({"terminators": [{"protocol": "udp", "address": "::1", "port": 53}]}),
            ),
            (
                "intercept.v1",
                json!({"protocols": ["tcp"], "addresses": ["web.ziti"],
                    "portRanges": [{"low": 80, "high": 80}]}),
            ),
            ("ziti-tunneler-client.v1", json!({"hostname": "web.ziti", "port": 80})),
            ("ziti-tunneler-server.v1", json!({"hostname": "web.example", "port": 80})),
            ("interfaces.v1", json!({})),
            ("proxy.v1", json!({"port": 8080, "protocols": ["tcp"]})),
            ("l2.host.v1", json!({})),
            ("l2.host.v1", json!({"bridgeIfs": ["eth0"]})),
            ("l2.intercept.v1", json!({"ethTypes": ["0x0800", "0x86dd"]})),
        ] {
            let data = form(name, filled);
            seeded(name).check(&data).unwrap_or_else(|failure| panic!("{name} {data}: {failure}"));
        }
    }

    /// Consoles recognise a list by the schema of its items, in the second part of `allOf`.
    #[test]
    fn lists_that_need_an_item_are_made_of_what_lists_are_and_what_items_are() {
        let set = json!({"$ref": "#/definitions/inhabitedSet"});
        let mut lists = 0;
        for seed in seeds::CONFIG_TYPES {
            let schema: Value = serde_json::from_str(seed.schema).unwrap();
            let terminator = schema.pointer("/definitions/terminator/properties");
            let members = [Some(&schema["properties"]), terminator].into_iter().flatten();
            for (member, of) in members.flat_map(|members| members.as_object().unwrap()) {
                let Some([first, second]) = of["allOf"].as_array().map(Vec::as_slice) else {
                    continue;
                };
                assert_eq!(first, &set, "{} {member}", seed.name);
                assert!(second["items"].is_object() && of.get("type").is_none(), "{member}");
                assert_eq!(schema["definitions"]["inhabitedSet"]["minItems"], 1);
                lists += 1;
            }
        }
        assert_eq!(lists, 16);
    }

    #[test]
    fn frames_are_named_by_their_ether_type() {
        let schema = seeded("l2.intercept.v1");
        for wrong in [json!({}), json!({"ethTypes": []}), json!({"ethTypes": ["0x800"]})] {
            assert!(schema.check(&wrong).is_err(), "{wrong}");
        }
        schema
            .check(&json!({"ethTypes": ["0X0806"], "dialOptions": {"identity": "$dst_ip"}}))
            .unwrap();
        let twice = json!({"bridgeIfs": ["eth0", "eth0"]});
        assert!(seeded("l2.host.v1").check(&twice).is_err());
    }

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
}
