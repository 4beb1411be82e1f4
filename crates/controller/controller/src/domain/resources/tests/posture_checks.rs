use serde_json::{Value, json};
use weft_contract::ErrorCode;

use super::{NONE, refusal, refuses, with};
use crate::testing::Bed;

fn bodies() -> Vec<Value> {
    vec![
        json!({"typeId": "DOMAIN", "domains": ["corp.example", "lab"]}),
        json!({"typeId": "MAC", "macAddresses": ["001122334455"]}),
        json!({"typeId": "MFA", "timeoutSeconds": 60, "promptOnWake": true,
            "promptOnUnlock": false, "ignoreLegacyEndpoints": true}),
        json!({"typeId": "OS", "operatingSystems": [
            {"type": "Windows", "versions": [">=10.0.0 <11.0.0"]}, {"type": "iOS", "versions": [">=15.0.0"]}]}),
        json!({"typeId": "PROCESS", "process": {"osType": "Linux", "path": "/bin/agent",
            "hashes": ["ab"], "signerFingerprint": "cd"}}),
        json!({"typeId": "PROCESS_MULTI", "semantic": "AnyOf", "processes": [
            {"osType": "macOS", "path": "/a", "hashes": [], "signerFingerprints": ["x", "y"]},
            {"osType": "WindowsServer", "path": "b", "hashes": ["1"], "signerFingerprints": []}]}),
    ]
}

fn named(body: &Value, name: &str) -> Value {
    let mut body = body.clone();
    body["name"] = json!(name);
    body["roleAttributes"] = json!(["checks"]);
    body
}

#[tokio::test]
async fn every_type_is_stored_and_shown_with_its_own_members() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for body in bodies() {
        let name = body["typeId"].as_str().unwrap();
        let id = bed.create(&admin, "createPostureCheck", named(&body, name)).await;
        let read = bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap();
        for (member, value) in body.as_object().unwrap() {
            assert_eq!(&read[member], value, "{name}");
        }
        let members = read.as_object().unwrap().len();
        let common =
            ["_links", "createdAt", "id", "tags", "updatedAt", "name", "roleAttributes", "version"];
        assert_eq!(members, common.len() + body.as_object().unwrap().len(), "{read}");
        assert_eq!(read["version"], 1);
        let patch = json!({"typeId": name, "tags": {"a": 1}});
        bed.manage(&admin, "patchPostureCheck", &[&id], patch).await.unwrap();
        let put = named(&body, name);
        bed.manage(&admin, "updatePostureCheck", &[&id], put).await.unwrap();
        let read = bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap();
        assert_eq!((&read["version"], &read["tags"]), (&json!(3), &json!({})));
    }
    let listed = bed.list(&admin, "listPostureChecks", "typeId = \"MFA\" and promptOnWake").await;
    assert_eq!(listed.len(), 1);
    let listed = bed.list(&admin, "listPostureChecks", "promptOnWake = false").await;
    assert_eq!(listed.len(), 5, "the checks of other types have no such value, which is false");
    let listed = bed.list(&admin, "listPostureChecks", "promptOnWake = null").await;
    assert_eq!(listed.len(), 5);
}

#[tokio::test]
async fn wrong_members_are_named() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let [domain, mac, mfa, os, process, multi]: [Value; 6] =
        bodies().iter().map(|body| named(body, "x")).collect::<Vec<_>>().try_into().unwrap();
    refuses(
        &bed,
        &admin,
        "createPostureCheck",
        "",
        vec![
            (with(&domain, "name", NONE), "name"),
            (with(&domain, "name", json!(" ")), "name"),
            (with(&domain, "name", json!(5)), "name"),
            (with(&domain, "typeId", NONE), "typeId"),
            (with(&domain, "typeId", json!("NONE")), "typeId"),
            (with(&domain, "typeId", json!(1)), "typeId"),
            (with(&domain, "roleAttributes", json!(["#x"])), "roleAttributes"),
            (with(&domain, "tags", json!({"a": {}})), "tags.a"),
            (with(&domain, "domains", NONE), "domains"),
            (with(&domain, "domains", json!([])), "domains"),
            (with(&domain, "domains", json!(["a", ""])), "domains[1]"),
            (with(&domain, "domains", json!(["a", "x".repeat(513)])), "domains[1]"),
            (with(&domain, "domains", json!(["a\u{1b}[2J"])), "domains[0]"),
            (with(&domain, "roleAttributes", json!(["x".repeat(1025)])), "roleAttributes"),
            (with(&domain, "roleAttributes", json!(["a\nb"])), "roleAttributes"),
            (with(&process, "process.path", json!("/a\nb")), "process.path"),
            (with(&process, "process.hashes", json!(["x".repeat(513)])), "process.hashes[0]"),
            (with(&domain, "domains", json!("a")), "domains"),
            (with(&domain, "domains", json!([1])), "domains[0]"),
            (with(&mac, "macAddresses", json!([])), "macAddresses"),
            (with(&mac, "macAddresses", NONE), "macAddresses"),
            (with(&mac, "macAddresses", json!(["00:11", "-:xyz"])), "macAddresses[1]"),
            (with(&mac, "macAddresses", json!({"a": "00"})), "macAddresses"),
            (with(&mfa, "timeoutSeconds", json!("x")), "timeoutSeconds"),
            (with(&mfa, "promptOnWake", json!("x")), "promptOnWake"),
            (with(&mfa, "promptOnUnlock", json!(5)), "promptOnUnlock"),
            (with(&mfa, "ignoreLegacyEndpoints", json!([])), "ignoreLegacyEndpoints"),
            (with(&os, "operatingSystems", NONE), "operatingSystems"),
            (with(&os, "operatingSystems", json!([])), "operatingSystems"),
            (with(&os, "operatingSystems.0.type", NONE), "operatingSystems[0].type"),
            (with(&os, "operatingSystems.1.type", json!("BeOS")), "operatingSystems[1].type"),
            (with(&os, "operatingSystems.0.versions", NONE), "operatingSystems[0].versions"),
            (
                with(&os, "operatingSystems.0.versions", json!([">=1.0.0", "ten"])),
                "operatingSystems[0].versions[1]",
            ),
            (with(&process, "process", NONE), "process"),
            (with(&process, "process", json!("x")), "process"),
            (with(&process, "process.osType", json!("")), "process.osType"),
            (with(&process, "process.path", NONE), "process.path"),
            (with(&process, "process.path", json!("")), "process.path"),
            (with(&process, "process.osType", json!("linux")), "process.osType"),
            (with(&multi, "semantic", NONE), "semantic"),
            (with(&multi, "semantic", json!("OneOf")), "semantic"),
            (with(&multi, "processes", json!([])), "processes"),
            (with(&multi, "processes.1.osType", NONE), "processes[1].osType"),
            (with(&multi, "processes.1.path", json!("")), "processes[1].path"),
        ],
    )
    .await;
    let unknown = with(&domain, "typeId", json!("NONE"));
    let failure = refusal(&bed, &admin, "createPostureCheck", "", unknown).await;
    assert_eq!(failure.code(), ErrorCode::CouldNotParseBody);

    let id = bed.create(&admin, "createPostureCheck", domain.clone()).await;
    refuses(
        &bed,
        &admin,
        "patchPostureCheck",
        &id,
        vec![
            (json!({"name": "y"}), "typeId"),
            (json!({"typeId": "MAC"}), "typeId"),
            (json!({"typeId": "DOMAIN", "domains": []}), "domains"),
        ],
    )
    .await;
    refuses(
        &bed,
        &admin,
        "updatePostureCheck",
        &id,
        vec![
            (json!({"name": "y"}), "domains"),
            (json!({"domains": ["a"]}), "name"),
            (with(&mac, "name", json!("y")), "typeId"),
        ],
    )
    .await;
    // A PUT may leave the type out.
    let put = json!({"name": "y", "domains": ["b"]});
    bed.manage(&admin, "updatePostureCheck", &[&id], put).await.unwrap();
    refuses(&bed, &admin, "createPostureCheck", "", vec![(with(&mac, "name", json!("y")), "name")])
        .await;
    let failure = refusal(&bed, &admin, "deletePostureCheck", "nope", NONE).await;
    assert_eq!(failure.code(), ErrorCode::NotFound);
}

/// The body that the form of a console sends: the members of every type, filled in or empty.
fn form(own: &Value) -> Value {
    let mut form = json!({"semantic": "AllOf", "roleAttributes": [], "domains": [],
        "macAddresses": [], "operatingSystems": [], "promptOnWake": false,
        "promptOnUnlock": false, "timeoutSeconds": 0, "tags": {},
        "process": {"hashes": [], "osType": "", "path": "", "signerFingerprint": ""},
        "processes": [{"hashes": [], "osType": "", "path": "", "signerFingerprints": []}]});
    for (member, value) in own.as_object().unwrap() {
        form[member] = value.clone();
    }
    form
}

#[tokio::test]
async fn members_of_other_types_are_not_looked_at() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let rubbish = json!({"semantic": 1, "domains": {}, "macAddresses": 5, "process": [],
        "operatingSystems": [{}], "processes": {"a": 1}, "promptOnWake": "x",
        "promptOnUnlock": [], "timeoutSeconds": "x", "ignoreLegacyEndpoints": 7});
    for (at, own) in bodies().iter().enumerate() {
        let mut worst = rubbish.clone();
        for (member, value) in own.as_object().unwrap() {
            worst[member] = value.clone();
        }
        for (name, body) in [(format!("form{at}"), form(own)), (format!("worst{at}"), worst)] {
            let body = with(&body, "name", json!(name));
            let id = bed.create(&admin, "createPostureCheck", body.clone()).await;
            let plain = bed.create(&admin, "createPostureCheck", named(own, "plain")).await;
            let mut wanted =
                bed.manage(&admin, "detailPostureCheck", &[&plain], NONE).await.unwrap();
            for verb in ["", "patchPostureCheck", "updatePostureCheck"] {
                if !verb.is_empty() {
                    bed.manage(&admin, verb, &[&id], body.clone()).await.unwrap();
                }
                let found = bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap();
                for member in
                    ["_links", "id", "name", "createdAt", "updatedAt", "version", "roleAttributes"]
                {
                    wanted[member] = found[member].clone();
                }
                assert_eq!(found, wanted, "{verb} of {body}");
            }
            bed.manage(&admin, "deletePostureCheck", &[&plain], NONE).await.unwrap();
        }
    }
}

#[tokio::test]
async fn second_factors_have_no_timeout_unless_one_is_given() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createPostureCheck", json!({"name": "m", "typeId": "MFA"})).await;
    let read = || async { bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap() };
    let check = read().await;
    assert_eq!(check["timeoutSeconds"], -1);
    for flag in ["promptOnWake", "promptOnUnlock", "ignoreLegacyEndpoints"] {
        assert_eq!(check[flag], false);
    }
    let patch = |seconds: i64| json!({"typeId": "MFA", "timeoutSeconds": seconds});
    for (given, kept) in [(60, 60), (0, -1), (60, 60), (-7, -1)] {
        bed.manage(&admin, "patchPostureCheck", &[&id], patch(given)).await.unwrap();
        assert_eq!(read().await["timeoutSeconds"], kept);
    }
    bed.manage(&admin, "patchPostureCheck", &[&id], patch(60)).await.unwrap();
    let named = json!({"typeId": "MFA", "name": "n"});
    bed.manage(&admin, "patchPostureCheck", &[&id], named.clone()).await.unwrap();
    assert_eq!(read().await["timeoutSeconds"], 60, "PATCH keeps it");
    bed.manage(&admin, "updatePostureCheck", &[&id], named).await.unwrap();
    assert_eq!(read().await["timeoutSeconds"], -1, "PUT does not");
}

#[tokio::test]
async fn addresses_hashes_and_signers_have_one_spelling() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mac = json!({"name": "mac", "typeId": "MAC",
        "macAddresses": ["00:1A:2b:3C:4d:5E", "AA-BB-CC-DD-EE-FF", "0011.2233.4455"]});
    let id = bed.create(&admin, "createPostureCheck", mac).await;
    let read = bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap();
    assert_eq!(read["macAddresses"], json!(["001a2b3c4d5e", "aabbccddeeff", "001122334455"]));
    let process = json!({"name": "process", "typeId": "PROCESS", "process": {"osType": "Linux",
        "path": "/Bin/A", "hashes": ["AbC"], "signerFingerprint": "DeF"}});
    let id = bed.create(&admin, "createPostureCheck", process).await;
    let read = bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap();
    let process = json!({"osType": "Linux", "path": "/Bin/A", "hashes": ["abc"],
        "signerFingerprint": "def"});
    assert_eq!(read["process"], process);
}

#[tokio::test]
async fn other_words_for_the_domain_type_are_taken() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "d", "typeId": "postureCheckDomainCreate", "domains": ["x"]});
    let id = bed.create(&admin, "createPostureCheck", body).await;
    let patch = json!({"typeId": "postureCheckDomainPatch", "domains": ["y"]});
    bed.manage(&admin, "patchPostureCheck", &[&id], patch).await.unwrap();
    let read = bed.manage(&admin, "detailPostureCheck", &[&id], NONE).await.unwrap();
    assert_eq!((&read["typeId"], &read["domains"]), (&json!("DOMAIN"), &json!(["y"])));
}

#[tokio::test]
async fn policies_include_checks_until_they_are_deleted() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let by_id = bed.create(&admin, "createPostureCheck", named(&bodies()[0], "by-id")).await;
    bed.create(&admin, "createPostureCheck", named(&bodies()[1], "by-attribute")).await;
    let roles = json!([format!("@{by_id}"), "#checks"]);
    let body = json!({"name": "p", "type": "Dial", "semantic": "AnyOf",
        "postureCheckRoles": roles});
    let policy = bed.create(&admin, "createServicePolicy", body).await;
    let included = || async {
        let operation = "listServicePolicyPostureChecks";
        let found = bed.manage(&admin, operation, &[&policy], NONE).await.unwrap();
        found.as_array().unwrap().len()
    };
    assert_eq!(included().await, 2);
    let attributes = bed.list(&admin, "listPostureCheckRoleAttributes", "").await;
    assert_eq!(attributes, [json!("checks")]);
    let call = crate::testing::to(weft_contract::Api::Management, "listPostureChecks", &[])
        .with_query("roleFilter", "#checks")
        .with_query("filter", "name = \"by-id\"");
    let reply = bed.controller.call(admin.clone(), call).await.unwrap();
    assert_eq!(reply.data().as_array().unwrap().len(), 1);
    bed.manage(&admin, "deletePostureCheck", &[&by_id], NONE).await.unwrap();
    assert_eq!(included().await, 1);
    let shown = bed.manage(&admin, "detailServicePolicy", &[&policy], NONE).await.unwrap();
    assert_eq!(shown["postureCheckRoles"], json!(["#checks"]));
}

#[tokio::test]
async fn types_are_constants() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let types = bed.list(&admin, "listPostureCheckTypes", "sort by name desc").await;
    assert_eq!(types.len(), 5);
    assert_eq!(types[0]["id"], "DOMAIN", "Windows Domain Check");
    let os = bed.manage(&admin, "detailPostureCheckType", &["OS"], NONE).await.unwrap();
    assert_eq!(os["name"], "Operating System Check");
    let linux = json!({"type": "Linux", "versions": ["4.14", "4.19", "5.4", "5.9"]});
    assert!(os["operatingSystems"].as_array().unwrap().contains(&linux));
    let failure = refusal(&bed, &admin, "detailPostureCheckType", "MFA", NONE).await;
    assert_eq!(failure.code(), ErrorCode::NotFound);
}
