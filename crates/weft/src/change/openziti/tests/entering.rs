//! What enters, as whom, and what is said about the rest.

use serde_json::{Value as Json, json};

use super::super::{enter, is_openziti};
use crate::yaml;

struct Converted {
    section: String,
    entries: Json,
    remarks: Vec<String>,
}

fn enter_text(text: &str) -> Vec<Converted> {
    let document = yaml::read(text).unwrap().remove(0);
    let yaml::Value::Map(sections) = document.value else { panic!("{text}") };
    assert!(is_openziti(&sections), "{text}");
    let entered = enter(sections).unwrap();
    let remarks: Vec<String> =
        entered.remarks.iter().map(|it| format!("{}: {it}", it.line)).collect();
    let sections = entered.sections.into_iter();
    sections
        .map(|it| Converted {
            section: it.key,
            entries: it.node.to_json(),
            remarks: remarks.clone(),
        })
        .collect()
}

/// The only section of a document.
fn one(document: &Json) -> Converted {
    enter_text(&document.to_string()).remove(0)
}

#[test]
fn entries_of_every_section_are_those_of_weft() {
    let usual = json!({"edgeRouterConnectionStatus": "offline", "interfaces": null, "disabled": false,
        "isDefaultAdmin": false, "isMfaEnabled": false, "permissions": null, "externalId": null});
    let identity = |more: Json| {
        let mut all = usual.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for (document, section, wanted) in [
        (
            json!({"authPolicies": [{"name": "p", "primary": {"extJwt": {"allowedSigners": ["@a", "@b"]}},
                "secondary": {"requireExtJwtSigner": "@c", "requireTotp": true}, "tags": {}}]}),
            "auth-policies",
            json!([{"name": "p", "primary": {"extJwt": {"allowedSigners": ["a", "b"]}},
                "secondary": {"requireExtJwtSigner": "c", "requireTotp": true}, "tags": {}}]),
        ),
        (
            json!({"certificateAuthorities": [{"name": "c", "certPem": "PEM", "fingerprint": "00",
                "isVerified": false, "verificationToken": "t", "identityRoles": null}]}),
            "cas",
            json!([{"name": "c", "certPem": "PEM"}]),
        ),
        (
            json!({"configTypes": [{"name": "l2.host.v1", "schema": {}}, {"name": "door", "schema": {"a": 1}}]}),
            "config-types",
            json!([{"name": "door", "schema": {"a": 1}}]),
        ),
        (
            json!({"configs": [{"name": "c", "configType": "@host.v1", "data": {"port": 1e6, "x": 1.5, "n": null}}]}),
            "configs",
            json!([{"name": "c", "configType": "host.v1", "data": {"port": 1_000_000, "x": 1.5, "n": null}}]),
        ),
        (
            json!({"edgeRouterPolicies": [
                {"name": "edge-router-a1-system", "edgeRouterRoles": ["@r"], "identityRoles": ["@r"]},
                {"name": "edge-router-mine-system", "edgeRouterRoles": ["@r"], "identityRoles": ["@i"]},
            ]}),
            "edge-router-policies",
            json!([{"name": "edge-router-mine-system", "edgeRouterRoles": ["@r"], "identityRoles": ["@i"]}]),
        ),
        (
            json!({"edgeRouters": [{"name": "r", "configs": null, "enrollmentToken": "secret",
                "hostname": "h", "interfaces": [{"name": "lo"}], "isTunnelerEnabled": true,
                "unverifiedCertPem": null, "roleAttributes": ["a"]}]}),
            "edge-routers",
            json!([{"name": "r", "isTunnelerEnabled": true, "roleAttributes": ["a"]}]),
        ),
        (
            json!({"externalJwtSigners": [{"name": "s", "issuer": "i", "enrollAuthPolicyId": "default",
                "enrollToCertEnabled": true, "fingerprint": null, "scopes": null}]}),
            "external-jwt-signers",
            json!([{"name": "s", "issuer": "i", "enrollToCertEnabled": true,
                "enrollToTokenEnabled": false, "enrollAuthPolicy": "default"}]),
        ),
        (
            json!({"identities": [
                identity(json!({"name": "a", "authPolicy": "@Default", "typeId": "Default"})),
                identity(json!({"name": "r", "authPolicy": "@Default", "typeId": "Router",
                    "interfaces": [{"name": "lo"}], "edgeRouterConnectionStatus": "online",
                    "isAdmin": false, "roleAttributes": [], "tags": {}})),
                identity(json!({"name": "s", "authPolicy": "@Default", "typeId": "Router",
                    "roleAttributes": ["hosts"]})),
                identity(json!({"name": "admin", "authPolicy": "@Default", "isDefaultAdmin": true})),
            ]}),
            "identities",
            json!([
                {"name": "a", "authPolicy": "Default", "type": "Default", "enrollment": {"ott": true}},
                {"name": "s", "authPolicy": "Default", "roleAttributes": ["hosts"], "type": "Router"},
            ]),
        ),
        (
            json!({"postureChecks": [
                {"name": "o", "typeId": "os", "operatingSystems": [{"type": "Linux", "versions": null}]},
                {"name": "p", "typeId": "PROCESS", "process": {"hashes": null, "osType": "Linux", "path": "/a"}},
            ]}),
            "posture-checks",
            json!([
                {"name": "o", "typeId": "OS", "operatingSystems": [{"type": "Linux", "versions": []}]},
                {"name": "p", "typeId": "PROCESS", "process": {"osType": "Linux", "path": "/a"}},
            ]),
        ),
        (
            json!({"serviceEdgeRouterPolicies": [{"name": "x", "serviceRoles": ["@web"], "semantic": "AnyOf",
                "isSystem": false}]}),
            "service-edge-router-policies",
            json!([{"name": "x", "serviceRoles": ["@web"], "semantic": "AnyOf"}]),
        ),
        (
            json!({"services": [{"name": "web", "configs": ["@a", "@b"], "encryptionRequired": true}]}),
            "services",
            json!([{"name": "web", "configs": ["a", "b"], "encryptionRequired": true}]),
        ),
    ] {
        let converted = one(&document);
        assert_eq!(converted.section, section);
        assert_eq!(converted.entries, wanted, "{section}");
        assert_eq!(converted.remarks, [""; 0], "{section}");
    }
}

#[test]
fn what_is_not_kept_is_named_with_its_line() {
    for (text, told) in [
        (
            "certificateAuthorities:\n- name: our ca\n  isVerified: true\n",
            "3: cas `our ca`, isVerified: it is verified anew with its key: `weft verify ca 'our ca'`",
        ),
        (
            "edgeRouters:\n- name: r\n  configs:\n  - 4xYz\n",
            "3: edge-routers `r`, configs: ids of the exported network",
        ),
        (
            "identities:\n- authPolicy: '@Default'\n  disabled: true\n  name: a\n",
            "3: identities `a`, disabled: it is enabled here: `weft disable identity a`",
        ),
        (
            "identities:\n- authPolicy: '@Default'\n  isMfaEnabled: true\n  name: a\n",
            "3: identities `a`, isMfaEnabled: the second factor is not in exports",
        ),
        (
            "services:\n- configs: ['@c']\n  name: a\n  colour: red\n",
            "4: services `a`, colour: documents of weft have no such member",
        ),
        (
            "servicePolicies:\n- name: a\n  postureCheckRoles: []\n- name: b\n",
            "1: service-policies `a`, `b`, postureCheckRoles: `ziti ops export` leaves out",
        ),
    ] {
        let converted = enter_text(text).remove(0);
        assert_eq!(converted.remarks.len(), 1, "{:?}", converted.remarks);
        assert!(converted.remarks[0].starts_with(told), "{:?}", converted.remarks);
    }
}

#[test]
fn enrollment_under_an_unknown_policy_is_off() {
    let text =
        "externalJwtSigners:\n- name: s\n  enrollAuthPolicyId: 4xYz\n  enrollToCertEnabled: true\n";
    let converted = enter_text(text).remove(0);
    assert_eq!(converted.entries, json!([{"name": "s"}]));
    assert!(converted.remarks[0].starts_with("3: external-jwt-signers `s`, enrollAuthPolicyId: "));
    let named =
        "externalJwtSigners:\n- name: s\n  enrollAuthPolicy: strict\n  enrollToCertEnabled: true\n";
    let converted = enter_text(named).remove(0);
    let wanted = json!([{"name": "s", "enrollAuthPolicy": "strict", "enrollToCertEnabled": true}]);
    assert_eq!(converted.entries, wanted);
    assert_eq!(converted.remarks, [""; 0]);
}

#[test]
fn a_network_without_posture_checks_misses_none() {
    for text in [
        "postureChecks: []\nservicePolicies:\n- name: a\n  postureCheckRoles: []\n",
        "servicePolicies:\n- name: a\n  postureCheckRoles: []\n- name: b\n  postureCheckRoles: ['#x']\n",
    ] {
        assert_eq!(enter_text(text)[0].remarks, [""; 0], "{text}");
    }
}

#[test]
fn forms_are_told_apart() {
    for (text, is) in [
        ("edgeRouters: []\n", true),
        ("services: []\nservicePolicies: null\n", true),
        ("configs: [{name: a, configType: '@host.v1'}]\n", true),
        ("identities: [{name: a, authPolicy: '@Default'}]\n", true),
        ("services: [{name: a, configs: ['@b']}]\n", true),
        ("services: [{name: a, configs: [b]}]\n", false),
        ("configs: [{name: a, configType: host.v1, data: {configType: '@x'}}]\n", false),
        ("identities: [{name: a}]\nservice-policies: [{name: b, identityRoles: ['@a']}]\n", false),
        ("services: [17, {name: a}]\n", false),
    ] {
        let document = yaml::read(text).unwrap().remove(0);
        assert_eq!(is_openziti(document.entries().unwrap()), is, "{text}");
    }
}

#[test]
fn what_is_no_export_is_refused_or_left_to_the_controller() {
    let document = yaml::read("edgeRouters: []\nservicePolicys: []\n").unwrap().remove(0);
    let (line, text) = enter(document.entries().unwrap().to_vec()).unwrap_err();
    assert_eq!(line, 2);
    assert!(text.contains("did you mean `servicePolicies`?"), "{text}");
    let odd = json!({"edgeRouters": [17, {"name": 5}, {"hostname": "h"}, null, [], "x"]});
    assert_eq!(one(&odd).entries, odd["edgeRouters"]);
    let odd = json!({"authPolicies": [{"name": "a", "primary": 1, "secondary": [1]}],
        "postureChecks": [{"name": "a", "typeId": 4, "operatingSystems": [1, {"versions": {}}], "process": []}],
        "services": {"a": 1}});
    let kept = enter_text(&odd.to_string());
    assert_eq!(kept[0].entries, odd["authPolicies"]);
    assert_eq!(kept[1].entries, odd["postureChecks"]);
    assert_eq!(kept[2].entries, odd["services"]);
}
