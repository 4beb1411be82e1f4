//! The rule of ranks (docs/protocol/management-api.md 4), tried against every operation of the
//! tables: a caller that is no administrator must not create, become, weaken or lock out an
//! identity with more rights, be that an administrator or an identity with one permission more.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_contract::{Access, Api, ErrorCode, Method, Operation, Subject, Word as _, resource};
use weft_model::entity::{PolicyType, ServiceSession};
use weft_model::{Base, Id};

use super::cas::{authority, body as ca_body, leaf, verified};
use super::{NONE, with};
use crate::testing::{Bed, PASSWORD, to};
use crate::{Call, Caller};

/// Operations that need a permission, change entities, and change no identity: they decide who may
/// use the network, and where traffic goes. New routers and policies belong to no identity yet.
const CHANGE_NOBODY: &[&str] = &[
    "createAuthPolicy",
    // Refused for every caller while an identity has the policy.
    "deleteAuthPolicy",
    "createConfig",
    "deleteConfig",
    "patchConfig",
    "updateConfig",
    "createConfigType",
    "deleteConfigType",
    "patchConfigType",
    "updateConfigType",
    "createEdgeRouter",
    "createRouter",
    "createTransitRouter",
    // Operations on routers without edge, which have no identity.
    "patchRouter",
    "patchTransitRouter",
    "updateRouter",
    "updateTransitRouter",
    "createEdgeRouterPolicy",
    "deleteEdgeRouterPolicy",
    "patchEdgeRouterPolicy",
    "updateEdgeRouterPolicy",
    "createPostureCheck",
    "deletePostureCheck",
    "patchPostureCheck",
    "updatePostureCheck",
    "createService",
    "deleteService",
    "patchService",
    "updateService",
    "createServiceEdgeRouterPolicy",
    "deleteServiceEdgeRouterPolicy",
    "patchServiceEdgeRouterPolicy",
    "updateServiceEdgeRouterPolicy",
    "createServicePolicy",
    "deleteServicePolicy",
    "patchServicePolicy",
    "updateServicePolicy",
    "createTerminator",
    "deleteTerminator",
    "patchTerminator",
    "updateTerminator",
    "deleteCircuit",
    "deleteLink",
    "patchLink",
    // Asks routers for their counters and state.
    "inspect",
];

/// The rights of the victim that the attacker lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum More {
    Everything,
    OnePermission,
}

fn identity(name: &str) -> Value {
    json!({"name": name, "type": "Default", "isAdmin": false})
}

fn policy(name: &str) -> Value {
    json!({"name": name,
        "primary": {
            "cert": {"allowed": true, "allowExpiredCerts": false},
            "extJwt": {"allowed": true, "allowedSigners": []},
            "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
                "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
                "requireSpecialChar": false}},
        "secondary": {"requireTotp": false}})
}

fn signer(name: &str) -> Value {
    json!({"name": name, "issuer": format!("https://{name}.example"), "audience": "weft",
        "enabled": true, "jwksEndpoint": "https://idp.example/keys"})
}

/// Every permission but one.
fn nearly_everything() -> Vec<&'static str> {
    let words = Subject::WORDS.iter().copied().chain(["admin_readonly"]);
    words.filter(|word| *word != "terminator").collect()
}

struct Scene {
    bed: Bed,
    admin: Caller,
    clerk: Caller,
    boss: String,
    ticket: String,
    policy: String,
    signer: String,
    /// A ticket of the boss accepts certificates of this CA.
    ca: String,
    /// A CA that claims external ids, and waits to be verified with this certificate.
    claiming: String,
    proof: String,
    /// A router whose identity has the rights of the boss.
    router: String,
    /// Such a router, not enrolled yet.
    new_router: String,
    api_session: String,
    session: String,
    service: String,
    config: String,
    /// A config of the router, and one that no router has.
    link: String,
    other_link: String,
    /// Secrets that only administrators may see.
    secrets: Vec<String>,
}

impl Scene {
    async fn new(more: More) -> Self {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let new = with(&identity("clerk"), "permissions", json!(nearly_everything()));
        let clerk = bed.create(&admin, "createIdentity", new).await;
        login_of(&bed, &admin, &clerk, "clerk").await;
        let clerk = bed.login("clerk", PASSWORD).await.unwrap();

        let ours = authority(&bed, "ours");
        let body = with(&ca_body("ca", &ours), "identityRoles", json!([]));
        let ca = verified(&bed, &admin, &ours, body).await;
        let policy = bed.create(&admin, "createAuthPolicy", policy("bosses")).await;
        let signer = bed.create(&admin, "createExternalJwtSigner", signer("known")).await;
        let new = with(&identity("boss"), "authPolicyId", json!(policy));
        let new = with(&new, "externalId", json!("boss@example"));
        let boss = bed.create(&admin, "createIdentity", raised(&new, more)).await;
        login_of(&bed, &admin, &boss, "boss").await;
        let ottca = json!({"identityId": boss, "method": "ottca", "caId": ca,
            "expiresAt": "2026-02-01T00:00:00Z"});
        bed.create(&admin, "createEnrollment", ottca).await;
        let ott = json!({"identityId": boss, "method": "ott", "expiresAt": "2026-02-01T00:00:00Z"});
        let ticket = bed.create(&admin, "createEnrollment", ott).await;

        let theirs = authority(&bed, "theirs");
        let claim = with(&ca_body("claiming", &theirs), "externalIdClaim", claim());
        let claim = with(&claim, "identityRoles", json!([]));
        let claiming = bed.create(&admin, "createCa", claim).await;
        let shown = bed.manage(&admin, "detailCa", &[&claiming], NONE).await.unwrap();
        let proof = leaf(&bed, &theirs, shown["verificationToken"].as_str().unwrap()).to_pem();

        let tunneler = json!({"isTunnelerEnabled": true});
        let router = bed.router(&admin, "router", tunneler.clone()).await.to_string();
        let new_router = with(&tunneler, "name", json!("new router"));
        let new_router = bed.create(&admin, "createEdgeRouter", new_router).await;
        for id in [&router, &new_router] {
            bed.manage(&admin, "patchIdentity", &[id], raised(&json!({}), more)).await.unwrap();
        }
        let service = json!({"name": "web", "encryptionRequired": true});
        let service = bed.create(&admin, "createService", service).await;
        let types = bed.list(&admin, "listConfigTypes", "name = \"host.v1\"").await;
        let config = json!({"name": "host", "configTypeId": types[0]["id"],
            "data": {"protocol": "tcp", "address": "localhost", "port": 80}});
        let config = bed.create(&admin, "createConfig", config).await;

        let link = |name: &str| {
            let data = json!({"payloadSenderQueueSize": 1});
            json!({"name": name, "configTypeId": "router.link.v1", "data": data})
        };
        let other_link = bed.create(&admin, "createConfig", link("other link")).await;
        let link = bed.create(&admin, "createConfig", link("link")).await;
        let configs = json!({"configs": [link]});
        bed.manage(&admin, "patchEdgeRouter", &[&router], configs).await.unwrap();

        let of_boss = bed.login("boss", PASSWORD).await.unwrap();
        let login = of_boss.login().unwrap().session.clone();
        let now = bed.controller.kernel().now();
        let session = bed.controller.auth().sessions().service_or(ServiceSession {
            base: Base::new(bed.controller.kernel().ids().ordered(now), now),
            api_session_id: Id::new(&login.id),
            identity_id: Id::new(&boss),
            service_id: Id::new(&service),
            session_type: PolicyType::Dial,
            token: "".into(),
        });
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let shown = bed.manage(&admin, "detailEnrollment", &[&ticket], NONE).await.unwrap();
        let of_router = bed.manage(&admin, "detailEdgeRouter", &[&new_router], NONE).await.unwrap();
        let secrets = vec![
            login.token.clone(),
            admin.login().unwrap().session.token.clone(),
            text(&shown["token"]),
            text(&of_router["enrollmentToken"]),
        ];
        Self {
            admin,
            clerk,
            boss,
            ticket,
            policy,
            signer,
            ca,
            claiming,
            proof,
            router,
            new_router,
            api_session: login.id,
            session: session.unwrap().base.id.to_string(),
            service,
            config,
            link,
            other_link,
            secrets,
            bed,
        }
    }

    /// The operations that only administrators may run; an administrator can run all of them in
    /// this order.
    fn attacks(&self) -> Vec<Call> {
        let call = |operation: &str, path: &[&str], body: Value| {
            let call = to(Api::Management, operation, path);
            if body.is_null() { call } else { call.with_json(&body) }
        };
        let (boss, router, until) =
            (&*self.boss, &*self.router, json!({"expiresAt": "2026-02-02T00:00:00Z"}));
        let ticket = json!({"identityId": boss, "method": "updb", "username": "boss2",
            "expiresAt": "2026-02-01T00:00:00Z"});
        let overrides = json!([{"serviceId": self.service, "configId": self.config}]);
        let theirs = authority(&self.bed, "new");
        let new_ca = with(&ca_body("new", &theirs), "identityRoles", json!([]));
        let renamed = json!({"name": "renamed", "isTunnelerEnabled": true});
        let mut verify = call("verifyCa", &[&self.claiming], NONE);
        verify.body = self.proof.clone().into();
        verify.media = Some("text/plain".into());
        let ca_put = json!({"name": "claiming", "identityNameFormat": "[commonName]",
            "identityRoles": [], "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": false,
            "isOttCaEnrollmentEnabled": false, "externalIdClaim": claim()});
        vec![
            call("createIdentity", &[], with(&identity("new"), "isAdmin", json!(true))),
            call("createIdentity", &[], with(&identity("other"), "permissions", json!(["ops"]))),
            call("patchIdentity", &[boss], json!({"externalId": "clerk@example"})),
            call("patchIdentity", &[boss], json!({"authPolicyId": "default"})),
            call("patchIdentity", &[boss], json!({"authPolicyId": self.policy})),
            call("patchIdentity", &[boss], json!({"name": "boss"})),
            call("patchIdentity", &[boss], json!({"serviceHostingCosts": {&self.service: 1}})),
            call("associateIdentitysServiceConfigs", &[boss], overrides.clone()),
            call("disassociateIdentitysServiceConfigs", &[boss], overrides),
            call("disableIdentity", &[boss], json!({"durationMinutes": 1})),
            call("enableIdentity", &[boss], NONE),
            call("removeIdentityMfa", &[boss], NONE),
            call("updateIdentityTracing", &[boss], json!({"enabled": false})),
            call("createEnrollment", &[], ticket),
            call("refreshEnrollment", &[&self.ticket], until),
            call("deleteEnrollment", &[&self.ticket], NONE),
            call(
                "patchAuthPolicy",
                &[&self.policy],
                json!({"primary": {"updb": {"maxAttempts": 1}}}),
            ),
            call("updateAuthPolicy", &[&self.policy], policy("bosses")),
            call("patchCa", &[&self.ca], json!({"isAuthEnabled": false})),
            call("createCa", &[], with(&new_ca, "externalIdClaim", claim())),
            verify,
            call("patchCa", &[&self.claiming], json!({"isAuthEnabled": true})),
            call("updateCa", &[&self.claiming], ca_put),
            call("createExternalJwtSigner", &[], signer("new")),
            call("patchExternalJwtSigner", &[&self.signer], json!({"enabled": true})),
            call("updateExternalJwtSigner", &[&self.signer], signer("known")),
            call("deleteExternalJwtSigner", &[&self.signer], NONE),
            call("deleteSession", &[&self.session], NONE),
            call("deleteAPISessions", &[&self.api_session], NONE),
            // The holder of a router's place has the router's identity.
            call("patchEdgeRouter", &[router], json!({"disabled": true})),
            call("patchEdgeRouter", &[&self.new_router], json!({"configs": [self.other_link]})),
            call("patchEdgeRouter", &[router], json!({"configs": []})),
            call("updateEdgeRouter", &[router], renamed),
            call("reEnrollEdgeRouter", &[router], NONE),
            call("deleteEdgeRouter", &[router], NONE),
            call("deleteCa", &[&self.ca], NONE),
            call("updateIdentity", &[boss], with(&identity("boss"), "isAdmin", json!(true))),
            call("deleteIdentity", &[boss], NONE),
        ]
    }

    /// The id for the first placeholder of an operation's path.
    fn id(&self, row: &Operation) -> &str {
        match row.path.split('/').nth(1).unwrap_or_default() {
            "identities" => &self.boss,
            "enrollments" => &self.ticket,
            "edge-routers" | "routers" | "transit-routers" => &self.new_router,
            "api-sessions" => &self.api_session,
            "sessions" => &self.session,
            "auth-policies" => &self.policy,
            "external-jwt-signers" => &self.signer,
            "cas" => &self.ca,
            "services" => &self.service,
            "configs" => &self.config,
            _ => "nothing",
        }
    }
}

fn claim() -> Value {
    json!({"index": 0, "location": "COMMON_NAME", "matcher": "ALL", "matcherCriteria": "",
        "parser": "NONE", "parserCriteria": ""})
}

/// A body for an identity with more rights than the clerk.
fn raised(body: &Value, more: More) -> Value {
    match more {
        More::Everything => with(body, "isAdmin", json!(true)),
        More::OnePermission => with(body, "permissions", json!(["terminator.create"])),
    }
}

async fn login_of(bed: &Bed, admin: &Caller, id: &str, name: &str) {
    let body = json!({"method": "updb", "identityId": id, "username": name, "password": PASSWORD});
    bed.create(admin, "createAuthenticator", body).await;
}

/// Operations that a permission allows to callers that are no administrators.
fn permitted() -> impl Iterator<Item = (Api, &'static Operation)> {
    let all = [Api::Management, Api::Client, Api::Fabric];
    let rows = all.into_iter().flat_map(|api| resource::operations(api).map(move |row| (api, row)));
    rows.filter(|(_, row)| matches!(row.access, Access::Permission(..) | Access::Granted(..)))
}

/// A request that was let in waits for a turn and for the writer; meanwhile its caller loses rights.
#[tokio::test]
async fn a_request_is_not_carried_out_with_rights_that_its_caller_has_lost() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "clerk", "type": "Default", "isAdmin": false,
        "permissions": ["service"]});
    let id = bed.create(&admin, "createIdentity", body).await;
    login_of(&bed, &admin, &id, "clerk").await;
    let clerk = bed.login("clerk", PASSWORD).await.unwrap();
    let late = async |name: &str| {
        let body = json!({"name": name, "encryptionRequired": true});
        let call = to(Api::Management, "createService", &[]).with_json(&body);
        let reply = bed.controller.call(clerk.clone(), call).await;
        reply.map(|reply| reply.status).map_err(|failure| failure.code())
    };
    let change = async |operation: &str, body: Value| {
        let call = to(Api::Management, operation, &[&id]).with_json(&body);
        bed.controller.call(admin.clone(), call).await.unwrap();
    };
    assert_eq!(late("first").await, Ok(201));
    change("patchIdentity", json!({"permissions": ["service.read"]})).await;
    assert_eq!(late("second").await, Err(ErrorCode::Unauthorized));
    change("patchIdentity", json!({"permissions": ["config", "service"]})).await;
    assert_eq!(late("third").await, Ok(201));
    change("disableIdentity", json!({"durationMinutes": 0})).await;
    assert_eq!(late("fourth").await, Err(ErrorCode::Unauthorized));
    change("enableIdentity", json!({})).await;
    change("deleteIdentity", json!({})).await;
    assert_eq!(late("fifth").await, Err(ErrorCode::Unauthorized));
}

#[tokio::test]
async fn no_permission_reaches_who_may_do_more() {
    for more in [More::Everything, More::OnePermission] {
        let scene = Scene::new(more).await;
        let Scene { bed, admin, clerk, .. } = &scene;
        let before = bed.controller.kernel().snapshot().revision();
        for call in scene.attacks() {
            let what = format!("{more:?}: {} {:?} {:?}", call.row.id, call.path, call.body);
            match bed.controller.call(clerk.clone(), call).await {
                Ok(reply) => panic!("{what}: {}", reply.data()),
                Err(failure) => {
                    assert_eq!(failure.code(), ErrorCode::Unauthorized, "{what}: {failure}");
                }
            }
            assert_eq!(bed.controller.kernel().snapshot().revision(), before, "{what}");
        }
        assert!(bed.controller.auth().sessions().by_id(&scene.api_session).is_some());
        assert!(bed.controller.auth().sessions().service(&scene.session).is_some());
        // An administrator may make the same calls: they were refused because of the caller.
        for call in scene.attacks() {
            let what = format!("{more:?}: {} {:?} {:?}", call.row.id, call.path, call.body);
            let result = bed.controller.call(admin.clone(), call).await;
            // The boss has no second factor, and its session ends when it is disabled.
            let is_gone = |code| code == ErrorCode::NotFound;
            assert!(
                result.as_ref().err().is_none_or(|failure| is_gone(failure.code())),
                "{what}: {}",
                result.unwrap_err()
            );
        }
    }
}

#[tokio::test]
async fn every_operation_is_tried_or_changes_nobody() {
    let scene = Scene::new(More::Everything).await;
    let tried: BTreeSet<&str> = scene.attacks().iter().map(|call| call.row.id).collect();
    let harmless: BTreeSet<&str> = CHANGE_NOBODY.iter().copied().collect();
    // The two APIs have the same words for routers, and delete them in the same way.
    let alike = BTreeSet::from(["deleteRouter", "deleteTransitRouter"]);
    assert_eq!(harmless.len(), CHANGE_NOBODY.len(), "one is named twice");
    assert_eq!(tried.intersection(&harmless).count(), 0);
    let changing = permitted().filter(|(_, row)| row.method != Method::Get);
    let changing: BTreeSet<&str> = changing.map(|(_, row)| row.id).collect();
    let known: BTreeSet<&str> = tried.iter().chain(&harmless).chain(&alike).copied().collect();
    let unknown: Vec<_> = changing.difference(&known).collect();
    assert!(unknown.is_empty(), "say what they do to who may do more: {unknown:?}");
    let gone: Vec<_> = known.difference(&changing).collect();
    assert!(gone.is_empty(), "no operations, or none that a permission is for: {gone:?}");
    for operation in alike {
        let call = to(Api::Management, operation, &[&scene.new_router]);
        let failure = scene.bed.controller.call(scene.clerk.clone(), call).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Unauthorized, "{operation}: {failure}");
    }
}

#[tokio::test]
async fn nobody_reads_what_makes_him_somebody_else() {
    let scene = Scene::new(More::OnePermission).await;
    let Scene { bed, admin, clerk, .. } = &scene;
    let mut seen = BTreeSet::new();
    let mut answered = 0;
    let rows = [Api::Management, Api::Client, Api::Fabric, Api::Weft]
        .into_iter()
        .flat_map(|api| resource::operations(api).map(move |row| (api, row)));
    for (api, row) in rows.filter(|(_, row)| row.method == Method::Get) {
        let ids = vec![scene.id(row); row.places()];
        for who in [clerk, admin] {
            let reply = bed.controller.call(who.clone(), Call::new(api, row, &ids)).await;
            let Ok(reply) = reply else { continue };
            let text = reply.data().to_string();
            for (at, secret) in scene.secrets.iter().enumerate() {
                if text.contains(secret.as_str()) {
                    assert!(who.is_admin(), "{api} {}: the clerk sees secret {at}", row.id);
                    seen.insert(at);
                }
            }
            answered += usize::from(!who.is_admin());
        }
    }
    // Sessions of other identities hide their tokens from administrators, too.
    assert!(!seen.contains(&0), "the token of somebody's session");
    assert_eq!(seen, BTreeSet::from([1, 2, 3]), "administrators see them, so the walk finds them");
    assert!(answered > 60, "{answered} answers");
}

#[tokio::test]
async fn who_may_do_as_much_is_helped_all_the_same() {
    let scene = Scene::new(More::OnePermission).await;
    let Scene { bed, admin, clerk, .. } = &scene;
    let peer = with(&identity("peer"), "permissions", json!(["service", "ops.read"]));
    let peer = bed.create(admin, "createIdentity", peer).await;
    let ticket = json!({"identityId": peer, "method": "ott", "expiresAt": "2026-02-01T00:00:00Z"});
    let ticket = bed.create(clerk, "createEnrollment", ticket).await;
    let said = json!({"serviceHostingCosts": {&scene.service: 7}});
    bed.manage(admin, "patchIdentity", &[&scene.boss], said).await.unwrap();
    for (operation, id, body) in [
        ("patchIdentity", &*peer, json!({"externalId": "peer@example"})),
        ("disableIdentity", &*peer, json!({"durationMinutes": 1})),
        ("enableIdentity", &*peer, NONE),
        ("detailEnrollment", &*ticket, NONE),
        ("deleteEnrollment", &*ticket, NONE),
        // The boss's override for a service is deleted with the service.
        ("deleteService", &*scene.service, NONE),
        // So is a config that the boss's router has.
        ("deleteConfig", &*scene.link, NONE),
        ("deleteIdentity", &*peer, NONE),
    ] {
        let result = bed.manage(clerk, operation, &[id], body).await;
        assert!(result.is_ok(), "{operation}: {}", result.unwrap_err());
    }
    // The clerk may change policies and signers that no identity with more rights uses.
    let mine = bed.create(clerk, "createAuthPolicy", policy("mine")).await;
    let body = json!({"primary": {"updb": {"maxAttempts": 3}}});
    bed.manage(clerk, "patchAuthPolicy", &[&mine], body).await.unwrap();
    for policy in ["default", &*scene.policy] {
        let only = json!({"primary": {"extJwt": {"allowedSigners": [scene.signer]}}});
        bed.manage(admin, "patchAuthPolicy", &[policy], only).await.unwrap();
    }
    let own = bed.create(clerk, "createExternalJwtSigner", signer("own")).await;
    bed.manage(clerk, "deleteExternalJwtSigner", &[&own], NONE).await.unwrap();
}
