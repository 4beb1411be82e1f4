//! An identity with every permission that is no administrator: it must not change administrators or
//! make itself one, on any way that leads there (docs/protocol/management-api.md 4).

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode, Subject, Word as _};
use weft_identity::Certificate;

use super::cas::{authority, body as ca_body, leaf, verified};
use super::{NONE, with};
use crate::testing::{Bed, PASSWORD, to};
use crate::{Call, Caller, Origin, Result};

/// A network with an administrator, and an identity with every permission.
struct Scene {
    bed: Bed,
    admin: Caller,
    /// The identity with every permission.
    keeper: Caller,
    keeper_id: String,
    /// An administrator with everything that an identity can have.
    boss: String,
    ticket: String,
    password: String,
    certificate: String,
    /// An ordinary identity.
    plain: String,
    service: String,
    config: String,
    /// Routers whose identities are administrators.
    router: String,
    second_router: String,
    /// A CA whose certificate an administrator uses.
    ca: String,
}

fn identity(name: &str) -> Value {
    json!({"name": name, "type": "Default", "isAdmin": false})
}

/// Every permission that can be granted.
fn everything() -> Vec<&'static str> {
    Subject::WORDS.iter().copied().chain(["admin_readonly"]).collect()
}

async fn password_of(bed: &Bed, admin: &Caller, id: &str, username: &str) -> String {
    let body =
        json!({"method": "updb", "identityId": id, "username": username, "password": PASSWORD});
    bed.create(admin, "createAuthenticator", body).await
}

/// An edge router with an identity that was made an administrator.
async fn router(bed: &Bed, admin: &Caller, name: &str) -> String {
    let body = json!({"name": name, "isTunnelerEnabled": true});
    let id = bed.create(admin, "createEdgeRouter", body).await;
    bed.manage(admin, "patchIdentity", &[&id], json!({"isAdmin": true})).await.unwrap();
    id
}

impl Scene {
    async fn new() -> Self {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let keeper_body = with(&identity("keeper"), "permissions", json!(everything()));
        let keeper_id = bed.create(&admin, "createIdentity", keeper_body).await;
        password_of(&bed, &admin, &keeper_id, "keeper").await;
        let keeper = bed.login("keeper", PASSWORD).await.unwrap();

        let ours = authority(&bed, "ours");
        let ca =
            verified(&bed, &admin, &ours, with(&ca_body("ca", &ours), "identityRoles", json!([])));
        let ca = ca.await;
        let body = json!({"ottca": ca});
        let boss = with(&with(&identity("boss"), "isAdmin", json!(true)), "enrollment", body);
        let boss = bed.create(&admin, "createIdentity", boss).await;
        let shown = bed.manage(&admin, "detailIdentity", &[&boss], NONE).await.unwrap();
        let token = &shown["enrollment"]["ottca"]["token"];
        show(&bed, &[leaf(&bed, &ours, "boss")], json!({"token": token})).await;
        let found = bed.manage(&admin, "getIdentityAuthenticators", &[&boss], NONE).await.unwrap();
        let certificate = found[0]["id"].as_str().unwrap().to_owned();
        let password = password_of(&bed, &admin, &boss, "boss").await;
        let ticket = json!({"identityId": boss, "method": "ott",
            "expiresAt": "2026-02-01T00:00:00Z"});
        let ticket = bed.create(&admin, "createEnrollment", ticket).await;

        let plain = bed.create(&admin, "createIdentity", identity("plain")).await;
        let service = json!({"name": "web", "encryptionRequired": true});
        let service = bed.create(&admin, "createService", service).await;
        let types = bed.list(&admin, "listConfigTypes", "name = \"host.v1\"").await;
        let config = json!({"name": "host", "configTypeId": types[0]["id"],
            "data": {"protocol": "tcp", "address": "localhost", "port": 80}});
        let config = bed.create(&admin, "createConfig", config).await;
        let router = self::router(&bed, &admin, "one").await;
        let second_router = self::router(&bed, &admin, "two").await;
        Self {
            bed,
            admin,
            keeper,
            keeper_id,
            boss,
            ticket,
            password,
            certificate,
            plain,
            service,
            config,
            router,
            second_router,
            ca,
        }
    }

    /// Every call that only an administrator may make, although the permission for its operation
    /// can be granted, or is meant for another change. An administrator can make all of them in
    /// this order.
    fn calls(&self) -> Vec<(&'static str, Call)> {
        let manage = |what, operation, path: &[&str], body: Value| {
            let call = to(Api::Management, operation, path);
            (what, if body.is_null() { call } else { call.with_json(&body) })
        };
        let apply = |what, network: Value, prune: bool| {
            let body = json!({"network": network, "prune": prune});
            (what, to(Api::Weft, "applyChange", &[]).with_json(&body))
        };
        let (boss, plain, keeper) = (&*self.boss, &*self.plain, &*self.keeper_id);
        let until = json!({"expiresAt": "2026-02-02T00:00:00Z"});
        let ticket = json!({"identityId": boss, "method": "updb", "username": "boss2",
            "expiresAt": "2026-02-01T00:00:00Z"});
        let new = |name: &str, member: &str, value: Value| with(&identity(name), member, value);
        let overrides = json!([{"serviceId": self.service, "configId": self.config}]);
        let updb = json!({"username": "boss", "password": "new-password"});
        let made = json!({"method": "updb", "identityId": plain, "username": "plain",
            "password": PASSWORD});
        let mut calls = vec![
            manage("make one", "createIdentity", &[], new("a", "isAdmin", json!(true))),
            manage("grant", "createIdentity", &[], new("b", "permissions", json!(["service"]))),
            apply("make one", json!({"identities": [{"name": "c", "isAdmin": true}]}), false),
            apply(
                "grant",
                json!({"identities": [{"name": "d", "permissions": ["service.read"]}]}),
                false,
            ),
            manage("replace", "updateIdentity", &[plain], new("plain", "tags", json!({"a": 1}))),
            apply(
                "replace",
                json!({"identities": [{"name": "plain", "roleAttributes": ["x"]}]}),
                false,
            ),
        ];
        for id in [plain, keeper, boss] {
            for body in [
                json!({"permissions": everything()}),
                json!({"permissions": []}),
                json!({"isAdmin": true}),
                json!({"isAdmin": id == boss, "name": format!("renamed {id}")}),
            ] {
                calls.push(manage("raise or lower", "patchIdentity", &[id], body));
            }
        }
        // Changes of an administrator that leave it an administrator.
        for body in [
            json!({"name": "boss"}),
            json!({"roleAttributes": ["x"]}),
            json!({"externalId": "x"}),
            json!({"authPolicyId": "default"}),
            json!({"tags": {"a": "b"}}),
        ] {
            calls.push(manage("change one", "patchIdentity", &[boss], body));
        }
        calls.extend([
            manage("replace one", "updateIdentity", &[boss], new("boss", "isAdmin", json!(true))),
            manage("disable one", "disableIdentity", &[boss], json!({"durationMinutes": 1})),
            manage("enable one", "enableIdentity", &[boss], NONE),
            manage("take the factor of one", "removeIdentityMfa", &[boss], NONE),
            manage("configs", "associateIdentitysServiceConfigs", &[boss], overrides.clone()),
            manage("configs", "disassociateIdentitysServiceConfigs", &[boss], overrides),
            manage("ticket of one", "createEnrollment", &[], ticket),
            manage("ticket of one", "detailEnrollment", &[&self.ticket], NONE),
            manage("ticket of one", "refreshEnrollment", &[&self.ticket], until.clone()),
            manage("ticket of one", "deleteEnrollment", &[&self.ticket], NONE),
            manage("login of another", "createAuthenticator", &[], made),
            manage("login of one", "updateAuthenticator", &[&self.password], updb),
            manage("login of one", "patchAuthenticator", &[&self.password], json!({"tags": {}})),
            manage("login of one", "reEnrollAuthenticator", &[&self.certificate], until),
            manage("login of one", "deleteAuthenticator", &[&self.password], NONE),
            // Calls that delete an administrator along with another entity.
            manage("by its router", "patchEdgeRouter", &[&self.router], json!({"name": "three"})),
            apply(
                "by its router",
                json!({"edge-routers": [{"name": "two", "isTunnelerEnabled": false}]}),
                false,
            ),
            manage("by its router", "deleteEdgeRouter", &[&self.second_router], NONE),
            manage("by its CA", "deleteCa", &[&self.ca], NONE),
            manage("delete one", "deleteIdentity", &[boss], NONE),
            manage(
                "the first one",
                "patchIdentity",
                &[self.admin.identity().unwrap()],
                json!({
                "tags": {"a": "b"}}),
            ),
        ]);
        calls
    }
}

async fn show(bed: &Bed, chain: &[Certificate], body: Value) {
    let who = Caller::nobody(Origin { certificates: chain.to_vec(), ..Origin::default() });
    bed.client(&who, "enrollOttCa", &[], body).await.unwrap();
}

fn is_refused(what: &str, result: Result<crate::Reply>) {
    match result {
        Ok(reply) => panic!("{what}: {}", reply.data()),
        Err(failure) => assert_eq!(failure.code(), ErrorCode::Unauthorized, "{what}: {failure}"),
    }
}

#[tokio::test]
async fn every_permission_does_not_make_an_administrator() {
    let scene = Scene::new().await;
    let Scene { bed, admin, keeper, .. } = &scene;
    let before = bed.controller.kernel().snapshot().revision();
    for (what, call) in scene.calls() {
        let what = format!("{what}: {} {:?} {:?}", call.row.id, call.path, call.body);
        is_refused(&what, bed.controller.call(keeper.clone(), call).await);
        assert_eq!(bed.controller.kernel().snapshot().revision(), before, "{what}");
    }
    // An administrator may make the same calls: they were refused because of the caller.
    for (what, call) in scene.calls() {
        let what = format!("{what}: {} {:?} {:?}", call.row.id, call.path, call.body);
        let result = bed.controller.call(admin.clone(), call).await;
        assert!(result.is_ok(), "{what}: {}", result.unwrap_err());
    }
}

#[tokio::test]
async fn a_document_takes_no_administrator_away() {
    let scene = Scene::new().await;
    let Scene { bed, keeper, .. } = &scene;
    let before = bed.controller.kernel().snapshot().revision();
    for section in ["identities", "edge-routers", "cas"] {
        for operation in ["planChange", "applyChange"] {
            let body = json!({"network": {section: []}, "prune": true});
            let call = to(Api::Weft, operation, &[]).with_json(&body);
            is_refused(section, bed.controller.call(keeper.clone(), call).await);
        }
    }
    assert_eq!(bed.controller.kernel().snapshot().revision(), before);
}

#[tokio::test]
async fn tickets_of_administrators_are_nowhere_to_be_seen() {
    let scene = Scene::new().await;
    let Scene { bed, admin, keeper, boss, plain, .. } = &scene;
    let ticket = json!({"identityId": plain, "method": "ott",
        "expiresAt": "2026-02-01T00:00:00Z"});
    bed.create(admin, "createEnrollment", ticket).await;
    for (who, expected) in [(admin, 1), (keeper, 0)] {
        let found = bed.list(who, "listEnrollments", &format!("identity = \"{boss}\"")).await;
        assert_eq!(found.len(), expected);
        let found = bed.manage(who, "getIdentityEnrollments", &[boss], NONE).await.unwrap();
        assert_eq!(found.as_array().unwrap().len(), expected);
        let one = bed.manage(who, "detailIdentity", &[boss], NONE).await.unwrap();
        assert_eq!(one["enrollment"].as_object().unwrap().len(), expected);
        let listed = bed.list(who, "listIdentities", "name = \"boss\"").await;
        assert_eq!(listed[0]["enrollment"].as_object().unwrap().len(), expected);
        // Enrollments of other identities are visible.
        let found = bed.list(who, "listEnrollments", &format!("identity = \"{plain}\"")).await;
        assert_eq!(found.len(), 1);
    }
}

#[tokio::test]
async fn who_is_no_administrator_does_the_rest() {
    let scene = Scene::new().await;
    let Scene { bed, keeper, plain, .. } = &scene;
    // A new identity with an empty list of permissions is allowed.
    let new = with(&identity("new"), "permissions", json!([]));
    let new = bed.create(keeper, "createIdentity", new).await;
    for (operation, path, body) in [
        ("patchIdentity", plain, json!({"name": "renamed", "roleAttributes": ["x"]})),
        ("disableIdentity", plain, json!({"durationMinutes": 1})),
        ("enableIdentity", plain, NONE),
        ("removeIdentityMfa", plain, NONE),
        ("deleteIdentity", &new, NONE),
        ("patchIdentity", &scene.keeper_id, json!({"tags": {"a": "b"}})),
    ] {
        bed.manage(keeper, operation, &[path], body).await.unwrap();
    }
    let network = json!({"network": {"identities": [{"name": "e", "enrollment": {"ott": true}}]}});
    let call = to(Api::Weft, "applyChange", &[]).with_json(&network);
    bed.controller.call(keeper.clone(), call).await.unwrap();
}
