//! What leaves, and what stays behind.

use serde_json::{Map, Value, json};

use super::super::{LeftNetwork, leave};

fn left(network: Value) -> LeftNetwork {
    let Value::Object(network) = network else { panic!("{network} is no document") };
    leave(network, |_| true)
}

/// The only entity of a section that leaves.
fn one(section: &str, original: &str, entity: Value) -> (Value, Vec<String>) {
    let mut network = Map::new();
    network.insert(section.to_owned(), json!([entity]));
    let left = left(network.into());
    let gone = left.document[original].as_array().unwrap();
    (gone.first().cloned().unwrap_or_default(), left.losses)
}

#[test]
fn every_member_that_an_import_wants_is_there() {
    let policy = |cert: bool, signers: Value, secondary: Value| {
        json!({
            "name": "x",
            "primary": {
                "cert": {"allowed": cert, "allowExpiredCerts": false},
                "extJwt": {"allowed": true, "allowedSigners": signers},
                "updb": {"allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 0,
                    "minPasswordLength": 0, "requireMixedCase": false, "requireNumberChar": false,
                    "requireSpecialChar": false},
            },
            "secondary": secondary,
            "tags": {},
        })
    };
    for (section, original, is, wanted) in [
        (
            "services",
            "services",
            json!({"name": "x", "configs": ["a", "b"]}),
            json!({"configs": ["@a", "@b"], "encryptionRequired": true, "maxIdleTimeMillis": 0,
                "name": "x", "roleAttributes": [], "tags": {}, "terminatorStrategy": "smartrouting"}),
        ),
        (
            "configs",
            "configs",
            json!({"name": "x", "configType": "host.v1", "data": {"port": 1}, "tags": {"a": "b"}}),
            json!({"configType": "@host.v1", "data": {"port": 1}, "name": "x", "tags": {"a": "b"}}),
        ),
        (
            "identities",
            "identities",
            json!({"name": "x"}),
            json!({"appData": {}, "authPolicy": "@Default", "defaultHostingCost": 0,
                "defaultHostingPrecedence": "default", "isAdmin": false, "name": "x",
                "roleAttributes": [], "tags": {}, "typeId": "Default"}),
        ),
        (
            "identities",
            "identities",
            json!({"name": "x", "type": "Router", "roleAttributes": ["a"]}),
            json!({"authPolicy": "@Default", "isAdmin": false, "name": "x", "roleAttributes": ["a"],
                "tags": {}, "typeId": "Router"}),
        ),
        (
            "edge-routers",
            "edgeRouters",
            json!({"name": "x", "cost": 7}),
            json!({"appData": {}, "cost": 7, "disabled": false, "isTunnelerEnabled": false,
                "name": "x", "noTraversal": false, "roleAttributes": [], "tags": {}}),
        ),
        (
            "external-jwt-signers",
            "externalJwtSigners",
            json!({"name": "x", "issuer": "i", "enabled": true}),
            json!({"enabled": true, "enrollAuthPolicyId": "default", "issuer": "i", "name": "x",
                "tags": {}}),
        ),
        (
            "auth-policies",
            "authPolicies",
            json!({"name": "x", "primary": {"cert": {"allowed": true},
                "extJwt": {"allowed": true, "allowedSigners": ["idp"]}},
                "secondary": {"requireExtJwtSigner": "idp2", "requireTotp": true}}),
            policy(
                true,
                json!(["@idp"]),
                json!({"requireExtJwtSigner": "@idp2", "requireTotp": true}),
            ),
        ),
        (
            "posture-checks",
            "postureChecks",
            json!({"name": "x", "typeId": "OS", "operatingSystems": [{"type": "Linux", "versions": null}]}),
            json!({"name": "x", "operatingSystems": [{"type": "Linux", "versions": []}],
                "roleAttributes": [], "tags": {}, "typeId": "OS"}),
        ),
        (
            "posture-checks",
            "postureChecks",
            json!({"name": "x", "typeId": "PROCESS",
                "process": {"osType": "Linux", "path": "/a", "signerFingerprint": ""}}),
            json!({"name": "x", "process": {"osType": "Linux", "path": "/a"}, "roleAttributes": [],
                "tags": {}, "typeId": "PROCESS"}),
        ),
        (
            "service-policies",
            "servicePolicies",
            json!({"name": "x", "type": "Dial", "identityRoles": ["#a"], "postureCheckRoles": ["#p"]}),
            json!({"identityRoles": ["#a"], "name": "x", "postureCheckRoles": ["#p"],
                "semantic": "AllOf", "serviceRoles": [], "tags": {}, "type": "Dial"}),
        ),
    ] {
        let (gone, losses) = one(section, original, is);
        assert_eq!(gone, wanted, "{section}");
        let sorted = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert!(sorted(&gone).is_sorted(), "{gone}");
        assert_eq!(losses, [""; 0], "{section}");
    }
}

#[test]
fn what_stays_behind_is_named_with_its_reason() {
    for (section, original, is, told, is_left_out) in [
        (
            "services",
            "services",
            json!({"name": "x", "authenticatedEnds": true}),
            "services `x`, authenticatedEnds: OpenZiti has no such demand",
            false,
        ),
        (
            "identities",
            "identities",
            json!({"name": "x", "serviceHostingCosts": {"web": 5}}),
            "identities `x`, serviceHostingCosts: a map by ids",
            false,
        ),
        (
            "identities",
            "identities",
            json!({"name": "x", "serviceConfigs": {"web": ["c"]}}),
            "identities `x`, serviceConfigs: ",
            false,
        ),
        (
            "identities",
            "identities",
            json!({"name": "x", "type": "Router", "authPolicy": "strict"}),
            "identities `x`, authPolicy: an import changes only the role attributes",
            false,
        ),
        (
            "edge-routers",
            "edgeRouters",
            json!({"name": "x", "configs": ["c"]}),
            "edge-routers `x`, configs: ",
            false,
        ),
        (
            "auth-policies",
            "authPolicies",
            json!({"name": "Default"}),
            "auth-policies `Default`: every network has one of its own",
            true,
        ),
        (
            "config-types",
            "configTypes",
            json!({"name": "host.v1"}),
            "config-types `host.v1`: every network has this config type",
            true,
        ),
        (
            "cas",
            "certificateAuthorities",
            json!({"name": "x", "certPem": "-"}),
            "cas `x`, isVerified: it is verified anew",
            false,
        ),
        (
            "service-policies",
            "servicePolicies",
            json!({"name": "x y", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#a"],
                "serviceRoles": ["@web"], "postureCheckRoles": ["@mac", "#p"]}),
            "ziti edge create service-policy 'x y' Dial --semantic AnyOf --identity-roles '#a' \
             --service-roles '@web' --posture-check-roles '@mac,#p'",
            true,
        ),
    ] {
        let (gone, losses) = one(section, original, is);
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(losses[0].contains(told), "{losses:?}");
        assert_eq!(gone.is_null(), is_left_out, "{gone}");
    }
}

#[test]
fn nobody_enrolls_at_a_signer_under_another_policy_than_was_meant() {
    let signer = json!({"name": "x", "issuer": "i", "enabled": true, "enrollAuthPolicy": "strict",
        "enrollToCertEnabled": true, "enrollToTokenEnabled": true});
    let (gone, losses) = one("external-jwt-signers", "externalJwtSigners", signer);
    assert!(gone.get("enrollToCertEnabled").is_none(), "{gone}");
    assert!(gone.get("enrollToTokenEnabled").is_none(), "{gone}");
    assert!(losses[0].contains("enrollment at the signer is off"), "{losses:?}");
}

#[test]
fn references_to_what_is_not_in_the_document_are_told() {
    let left = left(json!({
        "edge-routers": [{"name": "paris", "isTunnelerEnabled": true}, {"name": "oslo"}],
        "identities": [{"name": "laptop"}],
        "service-policies": [
            {"name": "a", "type": "Bind", "identityRoles": ["@laptop", "@paris"]},
            {"name": "b", "type": "Bind", "identityRoles": ["@oslo", "@Default Admin"]},
        ],
    }));
    assert_eq!(left.losses.len(), 2, "{:?}", left.losses);
    assert!(
        left.losses[0].starts_with("service-policies `b`, identityRoles: @oslo is not in the file")
    );
    assert!(left.losses[1].contains("@Default Admin"));
}

#[test]
fn those_who_enroll_are_counted_and_sections_are_in_the_order_of_the_original() {
    let network = json!({
        "services": [{"name": "web"}],
        "edge-routers": [{"name": "paris", "isTunnelerEnabled": true}],
        "identities": [{"name": "a"}, {"name": "b"}, {"name": "paris", "type": "Router"}],
    });
    let all = left(network.clone());
    assert_eq!((all.identities, all.routers), (2, 1));
    let names: Vec<&String> = all.document.keys().collect();
    assert_eq!(names.len(), 12);
    assert!(names.is_sorted(), "{names:?}");
    let Value::Object(network) = network else { panic!() };
    let some = leave(network, |section| section == "services" || section == "configs");
    assert_eq!(some.document.keys().collect::<Vec<_>>(), ["configs", "services"]);
    assert_eq!((some.identities, some.routers), (0, 0));
}
