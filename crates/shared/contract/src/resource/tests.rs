//! Self-consistency of the tables, and the documented samples.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::*;
use crate::body::{self, Verb};
use crate::envelope::Envelope;
use crate::operation::{Access, Method};

/// Rows of a list of operations: id, method, path, needs a session, statuses.
fn documented(
    text: &'static str,
) -> BTreeMap<&'static str, (&'static str, &'static str, bool, Vec<u16>)> {
    text.lines()
        .skip(1)
        .map(|line| {
            let [id, method, path, auth, statuses] =
                line.split(',').collect::<Vec<_>>().try_into().unwrap();
            let statuses = statuses.split(' ').map(|status| status.parse().unwrap()).collect();
            (id, (method, path, auth == "yes", statuses))
        })
        .collect()
}

const LISTS: [(Api, &str); 3] = [
    (Api::Management, include_str!("../../testdata/management-operations.csv")),
    (Api::Client, include_str!("../../testdata/client-operations.csv")),
    (Api::Fabric, include_str!("../../testdata/fabric-operations.csv")),
];

/// Operations of weft's own that the original does not describe.
const OWN: &[&str] = &[
    "listEdgeRouterServicePolicies",
    "listTokenKeys",
    "listUnprovenEnds",
    "rollTokenKeys",
    "stateSessionEnd",
];

#[test]
fn rows_say_what_is_documented() {
    for (api, text) in LISTS {
        let documented = documented(text);
        for row in operations(api) {
            if OWN.contains(&row.id) {
                continue;
            }
            let (method, path, auth, statuses) =
                documented.get(row.id).unwrap_or_else(|| panic!("{} is unknown", row.id));
            assert_eq!((row.method.as_str(), row.path), (*method, *path), "{}", row.id);
            assert_eq!(row.access != Access::Public, *auth, "{}", row.id);
            assert_eq!(row.statuses, *statuses, "{}", row.id);
        }
    }
}

/// Documented operations that the tables do not offer yet. Remove an operation from this list when
/// you add it.
const NOT_YET: &[(Api, &[&str])] = &[];

#[test]
fn every_documented_operation_is_offered() {
    for (api, text) in LISTS {
        let not_yet = NOT_YET.iter().find(|(own, _)| *own == api).map_or(&[][..], |(_, ids)| *ids);
        let mut expected: Vec<_> = not_yet.to_vec();
        expected.sort_unstable();
        let have: HashSet<_> = operations(api).map(|row| row.id).collect();
        let missing: Vec<_> =
            documented(text).into_keys().filter(|id| !have.contains(id)).collect();
        assert_eq!(missing, expected, "{api}");
    }
}

#[test]
fn ids_and_paths_are_unique() {
    for (api, _) in LISTS {
        let mut ids = HashSet::new();
        let mut places = HashSet::new();
        for row in operations(api) {
            assert!(ids.insert(row.id), "{} twice", row.id);
            assert!(places.insert((row.method, row.path)), "{} twice", row.path);
            assert!(row.path.starts_with('/'), "{}", row.id);
            let ids = vec!["x"; row.places()];
            let path = row.fill(&ids).unwrap();
            assert!(row.matches(&path).is_some(), "{path}");
            assert!(!path.contains('{'), "{path}");
        }
    }
}

#[test]
fn kinds_are_told_apart() {
    let mut names = HashSet::new();
    for kind in KINDS {
        for name in [&[kind.name, kind.plural], kind.aliases].concat() {
            assert!(names.insert(name), "{name} twice");
        }
        assert!(kind.list().is_some() && kind.detail().is_some(), "{}", kind.name);
        // Routers make links; operators only change them.
        let takes_fields = kind.create().is_some() || kind.patch().is_some();
        assert_eq!(takes_fields, !kind.fields.is_empty(), "{}", kind.name);
        for field in kind.fields {
            assert!(!field.about.trim().is_empty(), "{}.{}", kind.name, field.name);
        }
        for role in kind.roles {
            assert!(kind.fields.iter().any(|field| field.name == role.field), "{}", role.field);
        }
        if let Some(path) = kind.role_attributes {
            assert!(operations(Api::Management).any(|row| row.path == path), "{path}");
        }
    }
    assert_eq!(kind("ers").unwrap().plural, "edge-routers");
    assert_eq!(kind("x").map(|kind| kind.name), None);
    let service = kind("service").unwrap();
    assert_eq!(service.patch().unwrap().id, "patchService");
    assert_eq!(service.delete().unwrap().method, Method::Delete);
}

/// Reads a sample, writes it again and compares, except for weft's additions.
fn round_trip<T>(sample: Value) -> T
where
    T: serde::de::DeserializeOwned + serde::Serialize,
{
    let read: T = serde_json::from_value(sample.clone()).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    for (name, value) in sample.as_object().unwrap() {
        assert_eq!(written.get(name), Some(value), "{name}");
    }
    read
}

#[test]
fn identity_sample() {
    let detail: identity::IdentityDetail = round_trip(json!({
        "_links": {"mfa": {"href": "./current-identity/mfa"}, "self": {"href": "./current-identity"}},
        "createdAt": "2026-01-31T11:00:00.000Z", "id": "Wq3sd0pRk", "tags": {},
        "updatedAt": "2026-01-31T11:58:00.000Z", "appData": {},
        "authPolicy": {"_links": {"self": {"href": "./auth-policies/default"}},
            "entity": "auth-policies", "id": "default", "name": "Default"},
        "authPolicyId": "default",
        "authenticators": {"cert": {"fingerprint": "9c1e", "id": "aB3dE5fG7"}},
        "defaultHostingCost": 0, "defaultHostingPrecedence": "default", "disabled": false,
        "disabledAt": null, "disabledUntil": null, "edgeRouterConnectionStatus": "offline",
        "enrollment": {}, "envInfo": {}, "externalId": null, "hasApiSession": true,
        "hasEdgeRouterConnection": false, "isAdmin": false, "isDefaultAdmin": false,
        "isMfaEnabled": false, "name": "laptop", "permissions": null,
        "roleAttributes": ["dialers"], "sdkInfo": {}, "serviceHostingCosts": {},
        "serviceHostingPrecedences": {},
        "type": {"_links": {"self": {"href": "./identity-types/Default"}},
            "entity": "identity-types", "id": "Default", "name": "Default"},
        "typeId": "Default"}));
    assert_eq!(detail.base.id, "Wq3sd0pRk");
    assert_eq!(detail.authenticators.updb, None);
}

#[test]
fn session_sample() {
    let detail: session::ApiSessionDetail = round_trip(json!({
        "_links": {"self": {"href": "./api-sessions/cmk1"},
            "sessions": {"href": "./api-sessions/cmk1/sessions"}},
        "createdAt": "2026-01-31T12:00:00.000Z", "id": "cmk1", "tags": {},
        "updatedAt": "2026-01-31T12:00:00.000Z",
        "authQueries": [{"format": "alphaNumeric", "httpMethod": "POST",
            "httpUrl": "./authenticate/mfa", "maxLength": 6, "minLength": 4, "provider": "ziti",
            "scopes": null, "typeId": "MFA"}],
        "authenticatorId": "aB3dE5fG7", "cachedLastActivityAt": "2026-01-31T12:00:00.000Z",
        "configTypes": [], "identityId": "Wq3sd0pRk", "ipAddress": "192.0.2.10",
        "isCertExtendable": true, "isMfaComplete": false, "isMfaRequired": true,
        "lastActivityAt": "2026-01-31T12:00:00.000Z", "token": "2d0a1c54",
        "expirationSeconds": 1800, "expiresAt": "2026-01-31T12:30:00.000Z"}));
    assert_eq!(detail.expiration_seconds, Some(1800));
    let written = serde_json::to_value(&detail).unwrap();
    assert_eq!(written.get("improperClientCertChain"), None);
}

#[test]
fn service_sample() {
    let detail: service::ServiceDetail = round_trip(json!({
        "_links": {"self": {"href": "./services/6kB8fXq"}},
        "createdAt": "2026-01-30T09:00:00.000Z", "id": "6kB8fXq", "tags": {},
        "updatedAt": "2026-01-30T09:00:00.000Z",
        "config": {"intercept.v1": {"protocols": ["tcp"], "addresses": ["web.ziti"],
            "portRanges": [{"low": 80, "high": 80}]}},
        "configs": ["5fHq1vT"], "encryptionRequired": true, "maxIdleTimeMillis": 0, "name": "web",
        "permissions": ["Dial"],
        "postureQueries": [{"isPassing": true,
            "policyId": "dummy dial policy: no posture checks defined", "policyType": "Dial",
            "postureQueries": []}],
        "roleAttributes": ["web"], "terminatorStrategy": "smartrouting"}));
    assert_eq!(
        detail.posture_queries,
        [service::PostureQueries::none(crate::entity::DialBind::Dial)]
    );
}

#[test]
fn service_session_sample() {
    let detail: Envelope<service_session::SessionDetail> = serde_json::from_value(json!({
        "data": {"_links": null, "createdAt": null, "id": "cmk1b", "updatedAt": null,
            "apiSession": null, "apiSessionId": "cmk1a",
            "edgeRouters": [{"cost": 0, "disabled": false, "hostname": "er1.example",
                "isOnline": true, "name": "er1", "noTraversal": false,
                "supportedProtocols": {"tls": "tls://er1.example:3022"},
                "syncStatus": "SYNC_DONE", "urls": {"tls": "tls://er1.example:3022"}}],
            "identityId": "Wq3sd0pRk", "service": null, "serviceId": "6kB8fXq",
            "token": "jwt", "type": "Dial"},
        "meta": {}}))
    .unwrap();
    let [router] = detail.data.edge_routers.as_slice() else { panic!("one router") };
    assert_eq!(router.address("tls"), Some("tls://er1.example:3022"));
    assert_eq!(router.router.name, "er1");
}

#[test]
fn enrollment_samples() {
    let claims: enrollment::EnrollmentClaims = serde_json::from_value(json!(
        {"iss": "https://ctrl.example:1280", "sub": "Wq3sd0pRk", "aud": [""], "exp": 1767225600,
         "jti": "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11", "em": "ott",
         "ctrls": ["tls:ctrl.example:6262"]}))
    .unwrap();
    assert_eq!(claims.controllers(), ["tls:ctrl.example:6262"]);
    assert_eq!(
        serde_json::to_value(&claims).unwrap(),
        json!({"iss": "https://ctrl.example:1280", "sub": "Wq3sd0pRk", "aud": [""],
            "exp": 1767225600, "jti": "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11", "em": "ott",
            "ctrls": ["tls:ctrl.example:6262"]})
    );
    let network: enrollment::EnrollmentClaims = serde_json::from_value(json!(
        {"iss": "https://c/", "sub": "https://c/", "aud": "openziti-enroller", "jti": "x",
         "em": "network", "ctrls": null}))
    .unwrap();
    assert_eq!(network.aud, ["openziti-enroller"]);
    assert!(network.controllers().is_empty());

    let certs: Envelope<enrollment::EnrollmentCerts> = serde_json::from_value(json!(
        {"data": {"cert": "PEM", "controllers": [{"id": "ctrl1", "tags": {}, "ctrlAddress": null,
            "apiAddresses": {"edge-client": [{"url": "https://c/edge/client/v1", "version": "v1"}]}}]},
         "meta": {}}))
    .unwrap();
    assert_eq!(certs.data.controllers[0].api_addresses["edge-client"][0].version, "v1");
}

#[test]
fn bodies_serve_three_verbs() {
    let text =
        br##"{"name":"p","semantic":"AnyOf","type":"Bind","serviceRoles":["#web"],"id":"x"}"##;
    let body: service_policy::ServicePolicyBody = body::decode(text, Verb::Create).unwrap();
    assert_eq!(body::Body::members(&body), ["name", "semantic", "serviceRoles", "type"]);
    let patch: service_policy::ServicePolicyBody =
        body::decode(br#"{"serviceRoles":[]}"#, Verb::Patch).unwrap();
    assert_eq!(patch.service_roles, Some(vec![]));
    for wrong in [r#"{"semantic":"anyof"}"#, r#"{"serviceRoles":"x"}"#, r#"[]"#] {
        let refused =
            body::decode::<service_policy::ServicePolicyBody>(wrong.as_bytes(), Verb::Patch);
        assert!(refused.is_err(), "{wrong}");
    }
    let cost = body::decode::<terminator::TerminatorBody>(br#"{"cost":65536}"#, Verb::Patch);
    assert_eq!(cost.unwrap_err().to_string(), "cost: must be a whole number from 0 to 65535");
}

#[test]
fn logins_of_old_clients_are_read() {
    let login: session::AuthenticateBody = body::decode(
        br#"{"sdkInfo":{"appID":"a","type":"ziti-sdk-c"},"envInfo":{"os":"Linux","deviceId":"x"}}"#,
        Verb::Create,
    )
    .unwrap();
    assert_eq!(login.sdk_info.unwrap().app_id, "a");
    let long = format!(r#"{{"envInfo":{{"hostname":"{}"}}}}"#, "x".repeat(254));
    let refused = body::decode::<session::AuthenticateBody>(long.as_bytes(), Verb::Create);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "envInfo.hostname: should be at most 253 characters long"
    );
}

#[test]
fn what_clients_say_of_themselves_is_one_line() {
    let texts = [
        ("sdkInfo", &["appId", "appVersion", "branch", "revision", "type", "version"][..]),
        ("envInfo", &["arch", "domain", "hostname", "os", "osRelease", "osVersion"]),
    ];
    for (object, members) in texts {
        for member in members {
            let body = |text: &str| {
                let body = serde_json::json!({object: {*member: text}}).to_string();
                body::decode::<session::AuthenticateBody>(body.as_bytes(), Verb::Create)
            };
            let read = body("a\u{1b}[2J\r\n\u{0}\u{85}<b>").unwrap();
            let read = serde_json::json!({"sdkInfo": read.sdk_info, "envInfo": read.env_info});
            assert_eq!(read[object][*member], "a [2J    <b>", "{object}.{member}");
            assert!(body(&"x".repeat(256)).is_err(), "{object}.{member}");
        }
    }
}
