use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_kernel::online::RouterFacts;
use weft_model::Timestamp;

use super::NONE;
use crate::testing::{Bed, to};
use crate::{Caller, Result};

/// A network with one service that one identity may dial if checks pass.
struct Scene {
    bed: Bed,
    admin: Caller,
    client: Caller,
    identity: String,
    service: String,
}

impl Scene {
    async fn new(checks: Vec<Value>) -> Self {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let (identity, chain) = bed.enroll(&admin, "laptop").await;
        let service = json!({"name": "web", "encryptionRequired": false});
        let service = bed.create(&admin, "createService", service).await;
        for (at, mut check) in checks.into_iter().enumerate() {
            check["name"] = json!(format!("check{at}"));
            check["roleAttributes"] = json!(["checks"]);
            bed.create(&admin, "createPostureCheck", check).await;
        }
        let policy = json!({"name": "dial", "type": "Dial", "semantic": "AnyOf",
            "identityRoles": [format!("@{identity}")], "serviceRoles": ["#all"],
            "postureCheckRoles": ["#checks"]});
        bed.create(&admin, "createServicePolicy", policy).await;
        let router = bed.router(&admin, "er", json!({})).await;
        for (operation, sides) in [
            ("createEdgeRouterPolicy", ["identityRoles", "edgeRouterRoles"]),
            ("createServiceEdgeRouterPolicy", ["serviceRoles", "edgeRouterRoles"]),
        ] {
            let mut body = json!({"name": "all", "semantic": "AnyOf"});
            sides.into_iter().for_each(|side| body[side] = json!(["#all"]));
            bed.create(&admin, operation, body).await;
        }
        bed.controller.kernel().online().put_router(&router, 1, RouterFacts::default());
        let reply = bed.login_with(&chain).await.unwrap();
        let client = bed.with_token(reply.data()["token"].as_str().unwrap());
        Self { bed, admin, client, identity, service }
    }

    async fn say(&self, body: Value) -> Value {
        self.bed.client(&self.client, "createPostureResponse", &[], body).await.unwrap()
    }

    async fn dial(&self) -> Result<String> {
        let body = json!({"serviceId": self.service, "type": "Dial"});
        let session = self.bed.client(&self.client, "createSession", &[], body).await?;
        Ok(session["id"].as_str().unwrap().to_owned())
    }

    async fn queries(&self) -> Value {
        let service = self.bed.client(&self.client, "detailService", &[&self.service], NONE).await;
        service.unwrap()["postureQueries"].clone()
    }

    async fn posture_data(&self) -> Value {
        let operation = "getIdentityPostureData";
        self.bed.manage(&self.admin, operation, &[&self.identity], NONE).await.unwrap()
    }

    async fn refusals(&self) -> Value {
        let operation = "getIdentityFailedServiceRequests";
        self.bed.manage(&self.admin, operation, &[&self.identity], NONE).await.unwrap()
    }
}

#[tokio::test]
async fn advice_judges_posture_as_a_dial_does() {
    let windows = json!({"typeId": "OS",
        "operatingSystems": [{"type": "Windows", "versions": [">=10.0.0"]}]});
    let scene = Scene::new(vec![windows, json!({"typeId": "MFA"})]).await;
    let advice = async |caller: &Caller| {
        let ids = [scene.identity.as_str(), scene.service.as_str()];
        let operation = "getIdentityPolicyAdvice";
        scene.bed.manage(caller, operation, &ids, NONE).await.unwrap()["posture"].clone()
    };
    scene.say(os("5.10.0")).await;
    scene.dial().await.unwrap_err();
    let posture = advice(&scene.admin).await;
    assert_eq!(posture.as_array().unwrap().len(), 1, "{posture}");
    assert_eq!(posture[0]["apiSessionId"], scene.refusals().await[0]["apiSessionId"]);
    let policy = &posture[0]["policies"][0];
    assert_eq!(
        (&policy["policyName"], &policy["policyType"], &policy["isPassing"]),
        (&json!("dial"), &json!("Dial"), &json!(false))
    );
    let checks = policy["checks"].as_array().unwrap();
    let check = |kind: &str| checks.iter().find(|it| it["postureCheckType"] == kind).unwrap();
    let os_check = check("OS");
    assert_eq!(os_check["actualValue"], json!({"type": "Linux", "version": "5.10.0"}));
    assert_eq!(os_check["expectedValue"][0]["type"], "Windows");
    assert_eq!(os_check["reason"], "the operating system of the device is not listed");
    assert_eq!(os_check["reportedAt"], "2026-01-02T03:04:05.000Z");
    assert_eq!(check("MFA")["reason"], "no second factor was given");

    // Whoever may not read the checks learns nothing of them, and nothing is judged for a service without policy.
    let body = json!({"name": "clerk", "type": "Default", "isAdmin": false,
        "permissions": ["service.read", "identity.read"]});
    let clerk = scene.bed.create(&scene.admin, "createIdentity", body).await;
    let body = json!({"identityId": clerk, "method": "updb", "username": "clerk",
        "password": "geheimnis"});
    scene.bed.create(&scene.admin, "createAuthenticator", body).await;
    let clerk = scene.bed.login("clerk", "geheimnis").await.unwrap();
    assert_eq!(advice(&clerk).await, NONE);
    let all = scene.bed.list(&scene.admin, "listServicePolicies", "").await;
    for policy in all {
        let id = policy["id"].as_str().unwrap();
        let body = json!({"postureCheckRoles": []});
        scene.bed.manage(&scene.admin, "patchServicePolicy", &[id], body).await.unwrap();
    }
    assert_eq!(advice(&scene.admin).await, json!([]));
    scene.dial().await.unwrap();
}

fn os(version: &str) -> Value {
    json!({"id": "x", "typeId": "OS", "type": "Linux", "version": version, "build": "7"})
}

#[tokio::test]
async fn access_follows_what_a_client_says() {
    let check = json!({"typeId": "OS",
        "operatingSystems": [{"type": "Linux", "versions": [">=5.0.0"]}]});
    let scene = Scene::new(vec![check]).await;
    let failure = scene.dial().await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (409, ErrorCode::InvalidPosture));
    let data = failure.cause().unwrap().data.clone().unwrap();
    let [(_, checks)] = data.as_object().unwrap().iter().collect::<Vec<_>>()[..] else {
        panic!("one policy: {data}")
    };
    assert_eq!(checks[0]["postureCheckType"], "OS");
    let queries = scene.queries().await;
    assert_eq!(
        (&queries[0]["isPassing"], &queries[0]["policyType"]),
        (&json!(false), &json!("Dial"))
    );
    assert_eq!(queries[0]["postureQueries"][0]["queryType"], "OS");
    assert_eq!(queries[0]["postureQueries"][0]["timeout"], -1);
    let updates = || async {
        scene.bed.client(&scene.client, "listServiceUpdates", &[], NONE).await.unwrap()
    };
    let before = updates().await;

    scene.bed.clock.advance(Duration::from_secs(5));
    assert_eq!(scene.say(os("5.10.0")).await, json!({"services": []}));
    assert_ne!(updates().await, before);
    let queries = scene.queries().await;
    assert_eq!(queries[0]["isPassing"], true);
    assert_eq!(queries[0]["postureQueries"][0]["updatedAt"], "2026-01-02T03:04:10.000Z");
    let session = scene.dial().await.unwrap();
    assert!(scene.bed.controller.auth().sessions().service(&session).is_some());

    let data = scene.posture_data().await;
    assert_eq!(
        data["os"],
        json!({"lastUpdatedAt": "2026-01-02T03:04:10.000Z",
        "postureCheckId": "x", "timedOut": false, "build": "7", "type": "Linux",
        "version": "5.10.0"})
    );

    // A permission ends when the device changes.
    scene.say(os("4.0.0")).await;
    assert!(scene.bed.controller.auth().sessions().service(&session).is_none());
    scene.dial().await.unwrap_err();
    let refusals = scene.refusals().await;
    assert_eq!(refusals.as_array().unwrap().len(), 2);
    let last = &refusals[0];
    assert_eq!((&last["serviceName"], &last["sessionType"]), (&json!("web"), &json!("Dial")));
    let check = &last["policyFailures"][0]["checks"][0];
    assert_eq!(check["actualValue"], json!({"type": "Linux", "version": "4.0.0"}));
    assert_eq!(check["expectedValue"], json!([{"type": "Linux", "versions": [">=5.0.0"]}]));
}

#[tokio::test]
async fn what_checks_expect_is_told_to_those_who_may_read_them() {
    let process = json!({"osType": "Linux", "path": "/opt/secret", "hashes": ["ab"]});
    let scene = Scene::new(vec![
        json!({"typeId": "OS", "operatingSystems": [{"type": "Linux", "versions": [">=5.0.0"]}]}),
        json!({"typeId": "DOMAIN", "domains": ["secret.example"]}),
        json!({"typeId": "MAC", "macAddresses": ["00:1a:2b:3c:4d:5e"]}),
        json!({"typeId": "MFA", "timeoutSeconds": 1234, "promptOnWake": true}),
        json!({"typeId": "PROCESS", "process": process}),
        json!({"typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": [process]}),
    ])
    .await;
    scene.say(os("4.0.0")).await;
    scene.dial().await.unwrap_err();
    let seen = async |permissions: Value| {
        let body = json!({"name": permissions.to_string(), "type": "Default", "isAdmin": false,
            "permissions": permissions});
        let reader = scene.bed.create(&scene.admin, "createIdentity", body).await;
        let body = json!({"identityId": reader, "method": "updb", "username": reader,
            "password": "geheimnis"});
        scene.bed.create(&scene.admin, "createAuthenticator", body).await;
        let reader = scene.bed.login(&reader, "geheimnis").await.unwrap();
        let operation = "getIdentityFailedServiceRequests";
        scene.bed.manage(&reader, operation, &[&scene.identity], NONE).await.unwrap()
    };
    let all = scene.refusals().await;
    assert_eq!(seen(json!(["identity.read", "posture-check.read"])).await, all);
    let some = seen(json!(["identity.read"])).await;
    let content =
        [">=5.0.0", "secret.example", "001a2b3c4d5e", "1234", "/opt/secret", "\"ab\"", "AllOf"];
    for text in content {
        assert!(all.to_string().contains(text), "{text}: {all}");
        assert!(!some.to_string().contains(text), "{text}: {some}");
    }
    let checks = |of: &Value| of[0]["policyFailures"][0]["checks"].clone();
    let (all, some) = (checks(&all), checks(&some));
    assert_eq!(all.as_array().unwrap().len(), 6);
    for (all, some) in all.as_array().unwrap().iter().zip(some.as_array().unwrap()) {
        assert_eq!(some["postureCheckName"], all["postureCheckName"]);
        if some["postureCheckType"] == "OS" {
            assert_eq!(some["actualValue"], json!({"type": "Linux", "version": "4.0.0"}));
        }
    }
}

#[tokio::test]
async fn what_is_said_again_changes_nothing() {
    let check = json!({"typeId": "OS",
        "operatingSystems": [{"type": "Linux", "versions": [">=5.0.0"]}]});
    let scene = Scene::new(vec![check]).await;
    let updates = || async {
        scene.bed.client(&scene.client, "listServiceUpdates", &[], NONE).await.unwrap()
    };
    scene.say(os("5.10.0")).await;
    let (before, queries) = (updates().await, scene.queries().await);
    scene.bed.clock.advance(Duration::from_secs(5));
    scene.say(os("5.10.0")).await;
    assert_eq!((updates().await, scene.queries().await), (before.clone(), queries.clone()));
    assert_eq!(scene.posture_data().await["os"]["lastUpdatedAt"], "2026-01-02T03:04:10.000Z");
    scene.say(os("5.11.0")).await;
    assert_ne!(updates().await, before);
    assert_ne!(scene.queries().await, queries);
}

#[tokio::test]
async fn devices_and_refusals_are_forgotten_when_nobody_is_logged_in() {
    let scene = Scene::new(vec![json!({"typeId": "DOMAIN", "domains": ["corp"]})]).await;
    scene.dial().await.unwrap_err();
    scene.say(os("5.10.0")).await;
    scene.bed.controller.auth().sweep_postures();
    assert_eq!(scene.refusals().await.as_array().unwrap().len(), 1);
    assert_eq!(scene.posture_data().await["os"]["version"], "5.10.0");
    scene.bed.client(&scene.client, "deleteCurrentAPISession", &[], NONE).await.unwrap();
    scene.bed.controller.auth().sweep_postures();
    assert_eq!(scene.refusals().await, json!([]));
    assert_eq!(scene.posture_data().await["os"]["version"], "");
}

#[tokio::test]
async fn devices_are_asked_again_after_a_restart() {
    let scene = Scene::new(vec![json!({"typeId": "DOMAIN", "domains": ["corp"]})]).await;
    let said = json!({"id": "check0", "typeId": "DOMAIN", "domain": "corp"});
    scene.say(said.clone()).await;
    scene.dial().await.unwrap();
    let bed = scene.bed.restarted().await;
    let router = bed.controller.kernel().snapshot();
    let router = router.list::<weft_model::entity::Router>().next().unwrap().base.id.clone();
    bed.controller.kernel().online().put_router(&router, 1, RouterFacts::default());
    let client = bed.with_token(&scene.client.login().unwrap().session.token);
    let scene = Scene { bed, client, ..scene };
    scene.dial().await.unwrap_err();
    scene.say(said).await;
    scene.dial().await.unwrap();
}

#[tokio::test]
async fn everything_can_be_said_at_once() {
    let checks = vec![
        json!({"typeId": "DOMAIN", "domains": ["corp"]}),
        json!({"typeId": "MAC", "macAddresses": ["00-11-22-33-44-55"]}),
        json!({"typeId": "PROCESS", "process": {"osType": "Windows", "path": "a.exe",
            "hashes": ["aa"], "signerFingerprint": "ff"}}),
        json!({"typeId": "PROCESS_MULTI", "semantic": "AnyOf", "processes": [
            {"osType": "Windows", "path": "b.exe"}, {"osType": "Windows", "path": "c.exe"}]}),
    ];
    let scene = Scene::new(checks).await;
    let failure = scene.dial().await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidPosture);
    let refusal = scene.refusals().await;
    let failed = refusal[0]["policyFailures"][0]["checks"].as_array().unwrap();
    assert_eq!(failed.len(), 4);
    let multi = failed.iter().find(|it| it["postureCheckType"] == "PROCESS_MULTI").unwrap();
    assert_eq!(multi["semantic"], "AnyOf");
    assert_eq!(multi["actualValue"][1]["isRunning"], false);
    let queries = scene.queries().await;
    let queries = queries[0]["postureQueries"].as_array().unwrap();
    let of = |word: &str| queries.iter().find(|it| it["queryType"] == word).unwrap();
    assert_eq!(of("PROCESS")["process"], json!({"osType": "Windows", "path": "a.exe"}));
    assert_eq!(of("PROCESS_MULTI")["processes"].as_array().unwrap().len(), 2);
    let id = of("PROCESS")["id"].clone();

    let all = json!([
        {"id": "0", "typeId": "OS", "type": "Windows", "version": "10.0.0"},
        {"id": "1", "typeId": "DOMAIN", "domain": "CORP"},
        {"id": "2", "typeId": "MAC", "macAddresses": ["00:11:22:33:44:55"]},
        {"id": id, "typeId": "PROCESS", "isRunning": true, "hash": "AA",
            "signerFingerprints": ["ff"]},
        {"id": "4", "typeId": "PROCESS", "path": "c.exe", "isRunning": true},
        {"id": "5", "typeId": "PROCESS", "path": "nobody asks.exe", "isRunning": true},
    ]);
    let call = to(Api::Client, "createPostureResponseBulk", &[]).with_json(&all);
    let reply = scene.bed.controller.call(scene.client.clone(), call).await.unwrap();
    assert_eq!((reply.status, reply.data()), (200, json!({"services": []})));
    scene.dial().await.unwrap();
    let data = scene.posture_data().await;
    assert_eq!(data["processes"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&data["domain"]["domain"], &data["mac"]["postureCheckId"]),
        (&json!("CORP"), &json!("2"))
    );
    assert_eq!(data["mac"]["addresses"], json!(["001122334455"]));
}

#[tokio::test]
async fn processes_count_whatever_system_a_client_says_it_has() {
    let processes = json!([{"osType": "Windows", "path": "a", "hashes": ["AB:CD"],
        "signerFingerprints": ["EF:01"]}]);
    let several = json!({"typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": processes});
    let one = json!({"typeId": "PROCESS", "process": {"osType": "macOS", "path": "b"}});
    let scene = Scene::new(vec![several, one]).await;
    let running = |path: &str| {
        json!({"id": "x", "typeId": "PROCESS", "path": path, "isRunning": true, "hash": "ab cd",
            "signerFingerprints": ["EF-01", "::"]})
    };
    scene.say(running("a")).await;
    scene.dial().await.unwrap_err();
    scene.say(running("b")).await;
    let session = scene.dial().await.unwrap();
    scene.say(os("5.0.0")).await;
    assert_eq!(scene.dial().await.unwrap(), session);
    let data = scene.posture_data().await;
    let told = &data["processes"][0];
    assert_eq!(
        (&told["binaryHash"], &told["signerFingerprints"]),
        (&json!("abcd"), &json!(["ef01"]))
    );
    let mut stopped = running("a");
    stopped["isRunning"] = json!(false);
    scene.say(stopped).await;
    scene.dial().await.unwrap_err();
}

#[tokio::test]
async fn a_device_without_hardware_addresses_has_none() {
    let scene = Scene::new(vec![
        json!({"typeId": "MAC", "macAddresses": ["00-11-22-33-44-55"]}),
        json!({"typeId": "OS", "operatingSystems": [{"type": "Linux", "versions": []}]}),
    ])
    .await;
    // As native SDKs send it. The other reports of the request count.
    let said = json!([{"id": "m", "typeId": "MAC"},
        {"id": "o", "typeId": "OS", "type": "Linux", "version": "6.1.0"}]);
    let call = to(Api::Client, "createPostureResponseBulk", &[]).with_json(&said);
    let reply = scene.bed.controller.call(scene.client.clone(), call).await.unwrap();
    assert_eq!(reply.status, 200);
    scene.dial().await.unwrap_err();
    let data = scene.posture_data().await;
    assert_eq!((&data["mac"]["addresses"], &data["os"]["type"]), (&NONE, &json!("Linux")));
}

#[tokio::test]
async fn wrong_responses_are_named_and_none_of_them_counts() {
    let scene = Scene::new(vec![json!({"typeId": "DOMAIN", "domains": ["corp"]})]).await;
    let say = |operation: &'static str, body: Value| async {
        let failure = scene.bed.client(&scene.client, operation, &[], body).await.unwrap_err();
        (failure.status(), failure.field_name().map(str::to_owned))
    };
    for (body, field) in [
        (json!({"typeId": "OS"}), "id"),
        (json!({"id": "x"}), "typeId"),
        (json!({"id": "x", "typeId": "MFA"}), "typeId"),
        (json!({"id": "x", "typeId": "OS", "type": "Linux"}), "version"),
        (json!({"id": "x", "typeId": "OS", "version": "1"}), "type"),
        (json!({"id": "x", "typeId": "DOMAIN"}), "domain"),
        (json!({"id": "x", "typeId": "DOMAIN", "domain": "x".repeat(513)}), "domain"),
        (json!({"id": "x", "typeId": "MAC", "macAddresses": "y"}), "macAddresses"),
        (json!({"id": "x", "typeId": "PROCESS", "isRunning": "y"}), "isRunning"),
        (json!({"id": "x", "typeId": "ENDPOINT_STATE", "woken": 1}), "woken"),
    ] {
        let found = say("createPostureResponse", body.clone()).await;
        assert_eq!(found, (400, Some(field.to_owned())), "{body}");
    }
    let good = json!({"id": "x", "typeId": "DOMAIN", "domain": "corp"});
    let bulk = json!([good, {"id": "x", "typeId": "DOMAIN"}]);
    let found = say("createPostureResponseBulk", bulk).await;
    assert_eq!(found, (400, Some("[1].domain".to_owned())));
    let found = say("createPostureResponseBulk", json!([good, {"typeId": "DOMAIN"}])).await;
    assert_eq!(found, (400, Some("[1].id".to_owned())));
    assert_eq!(say("createPostureResponseBulk", good).await.0, 400);
    scene.dial().await.unwrap_err();
}

#[tokio::test]
async fn a_second_factor_times_out_and_is_asked_for_again() {
    let check = json!({"typeId": "MFA", "timeoutSeconds": 600, "promptOnWake": true});
    let scene = Scene::new(vec![check]).await;
    let session = scene.client.login().unwrap().session.id.clone().as_str().into();
    scene.dial().await.unwrap_err();
    let refusal = scene.refusals().await;
    let failed = refusal[0]["policyFailures"][0]["checks"][0].clone();
    assert_eq!(failed["actualValue"]["passedMfa"], false);
    assert_eq!(
        failed["expectedValue"],
        json!({"passedMfa": true, "passedOnUnlock": false,
        "passedOnWake": true, "timedOut": false})
    );
    assert_eq!(failed["criteria"]["timeoutSeconds"], 600);

    let passed = || scene.bed.controller.auth().mfa_passed(&session);
    passed().await.unwrap();
    scene.dial().await.unwrap();
    let query = |queries: &Value| queries[0]["postureQueries"][0].clone();
    let now = query(&scene.queries().await);
    assert_eq!((&now["timeout"], &now["timeoutRemaining"]), (&json!(600), &json!(600)));
    assert_eq!((&now["promptOnWake"], &now["promptOnUnlock"]), (&json!(true), &json!(false)));
    assert_eq!(now["promptGracePeriodSeconds"], 300);

    // After waking, the device has five minutes to give a code.
    scene.bed.clock.advance(Duration::from_secs(60));
    let unlocked = json!({"id": "0", "typeId": "ENDPOINT_STATE", "unlocked": true});
    assert_eq!(scene.say(unlocked).await, json!({"services": []}));
    let woken = json!({"id": "0", "typeId": "ENDPOINT_STATE", "woken": true});
    assert_eq!(
        scene.say(woken).await["services"],
        json!([{"id": scene.service, "name": "web",
        "postureQueryType": "MFA", "timeout": 600, "timeoutRemaining": 300}])
    );
    let data = scene.posture_data().await;
    let of_session = data["apiSessionPostureData"].as_object().unwrap().values().next().unwrap();
    assert_eq!(of_session["endpointState"]["wokenAt"], "2026-01-02T03:05:05.000Z");
    let mfa = &of_session["mfa"];
    assert_eq!((&mfa["passedMfa"], &mfa["passedOnWake"]), (&json!(true), &json!(false)));
    let granted = scene.dial().await.unwrap();
    scene.bed.clock.advance(Duration::from_secs(301));
    scene.bed.controller.auth().sweep_postures();
    assert!(scene.bed.controller.auth().sessions().service(&granted).is_none(), "ended by itself");
    scene.dial().await.unwrap_err();
    assert_eq!(query(&scene.queries().await)["timeoutRemaining"], 0);

    passed().await.unwrap();
    let granted = scene.dial().await.unwrap();
    scene.bed.clock.advance(Duration::from_secs(599));
    scene.bed.controller.auth().sweep_postures();
    assert!(scene.bed.controller.auth().sessions().service(&granted).is_some());
    scene.bed.clock.advance(Duration::from_secs(2));
    scene.bed.controller.auth().sweep_postures();
    assert!(scene.bed.controller.auth().sessions().service(&granted).is_none());
}

#[tokio::test]
async fn old_clients_are_let_off_the_timeout_where_a_check_says_so() {
    let check = json!({"typeId": "MFA", "timeoutSeconds": 60, "ignoreLegacyEndpoints": true});
    let scene = Scene::new(vec![check]).await;
    let session = scene.client.login().unwrap().session.id.clone().as_str().into();
    scene.bed.controller.auth().mfa_passed(&session).await.unwrap();
    scene.bed.clock.advance(Duration::from_secs(600));
    scene.dial().await.unwrap();
    let sdk = weft_model::entity::SdkInfo {
        kind: "ziti-sdk-c".into(),
        version: "1.0.0".into(),
        ..Default::default()
    };
    let now = scene.bed.controller.kernel().now();
    scene.bed.controller.auth().sessions().change(&session, now, |it| it.sdk_info = Some(sdk));
    scene.dial().await.unwrap_err();
}

#[tokio::test]
async fn traces_are_begun_and_ended() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, _) = bed.enroll(&admin, "laptop").await;
    for (body, field) in [
        (json!({"enabled": true}), "duration"),
        (json!({"enabled": true, "duration": "soon"}), "duration"),
        (json!({"enabled": true, "duration": "-5m"}), "duration"),
        (json!({"enabled": "yes"}), "enabled"),
        (json!({"enabled": true, "duration": "5m", "channels": "all"}), "channels"),
    ] {
        let failure = bed.manage(&admin, "updateIdentityTracing", &[&id], body.clone()).await;
        let failure = failure.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some(field)), "{body}");
    }
    let on = json!({"enabled": true, "duration": "1h30m", "channels": ["selectPath", "x"],
        "traceId": "mine"});
    let on = bed.manage(&admin, "updateIdentityTracing", &[&id], on).await.unwrap();
    assert_eq!(
        on,
        json!({"enabled": true, "traceId": "mine", "until": "2026-01-02T04:34:05.000Z"})
    );
    let channel = weft_kernel::traces::Channel::SelectPath;
    let traced =
        |now: Timestamp| bed.controller.kernel().traces().of(&id.as_str().into(), channel, now);
    assert_eq!(traced(bed.controller.kernel().now()).as_deref(), Some("mine"));
    let off = bed.manage(&admin, "updateIdentityTracing", &[&id], json!({"enabled": false})).await;
    assert_eq!(
        off.unwrap(),
        json!({"enabled": false, "traceId": "", "until": "0001-01-01T00:00:00.000Z"})
    );
    assert_eq!(traced(bed.controller.kernel().now()), None);
    let failure = bed.manage(&admin, "updateIdentityTracing", &["nope"], json!({})).await;
    assert_eq!(failure.unwrap_err().code(), ErrorCode::NotFound);
}
