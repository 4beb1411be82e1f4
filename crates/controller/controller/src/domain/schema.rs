//! Checks of config data against the schema of its type.

use weft_kernel::{Failure, Result};
use weft_model::JsonMap;

use crate::schema::{Mismatch, Schema};

/// Checks data against a schema; the failure names the first place that is wrong, in `data`.
pub(crate) fn check(schema: &JsonMap, data: &JsonMap) -> Result<()> {
    let schema = schema.to_value();
    Schema::compile(&schema)
        .map_err(|reason| Failure::field("type", reason, schema.to_string()))?
        .check(&data.to_value())
        .map_err(|Mismatch { place, problem, value }| Failure::field(&place, problem, value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::domain::seeds;
    use crate::schema::Schema;

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
        assert_eq!(schema.check(&data).unwrap_err().place, "addresses.1");
        data["addresses"] = json!([]);
        assert_eq!(schema.check(&data).unwrap_err().place, "addresses");
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
            seeded(name).check(&data).unwrap_or_else(|wrong| panic!("{name} {data}: {wrong:?}"));
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
}
