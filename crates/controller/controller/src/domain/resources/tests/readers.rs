//! Readers of one kind: a caller with a single read permission learns the content of that kind alone, whichever
//! operation it asks (docs/access.md). Names are no content in the management API, whose lists have the names of
//! the entities that they refer to (docs/protocol/management-api.md 4); in documents they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use weft_contract::{Action, Api, Method, Operation, Permission, Subject, Word as _, resource};
use weft_kernel::{Login, Origin, SessionRef, Who};

use super::cas::{authority, body as ca_body};
use super::{NONE, with};
use crate::testing::{Bed, to};
use crate::{Call, Caller};

/// The kinds with a read permission of their own whose entities operators make, in an order in which kinds come
/// before those that refer to them, and the operation that makes one.
const KINDS: &[(&str, Subject, &str)] = &[
    ("config-types", Subject::ConfigType, "createConfigType"),
    ("configs", Subject::Config, "createConfig"),
    ("cas", Subject::Ca, "createCa"),
    ("external-jwt-signers", Subject::ExternalJwtSigner, "createExternalJwtSigner"),
    ("auth-policies", Subject::AuthPolicy, "createAuthPolicy"),
    ("posture-checks", Subject::PostureCheck, "createPostureCheck"),
    ("services", Subject::Service, "createService"),
    ("edge-routers", Subject::Router, "createEdgeRouter"),
    ("identities", Subject::Identity, "createIdentity"),
    ("terminators", Subject::Terminator, "createTerminator"),
    ("service-policies", Subject::ServicePolicy, "createServicePolicy"),
    ("edge-router-policies", Subject::EdgeRouterPolicy, "createEdgeRouterPolicy"),
    (
        "service-edge-router-policies",
        Subject::ServiceEdgeRouterPolicy,
        "createServiceEdgeRouterPolicy",
    ),
];

/// A network with one entity of each kind, which has a mark in every text of its content.
struct Scene {
    bed: Bed,
    admin: Caller,
    ids: BTreeMap<&'static str, String>,
    /// A text of the content of a kind, and the subject of the kind.
    marks: Vec<(String, Subject)>,
}

fn mark(kind: &str) -> String {
    format!("marked-{kind}")
}

fn name(kind: &str) -> String {
    format!("named-{kind}")
}

impl Scene {
    async fn new() -> Self {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let marks = KINDS.iter().map(|(kind, subject, _)| (mark(kind), *subject)).collect();
        let mut scene = Self { bed, admin, ids: BTreeMap::new(), marks };
        for (kind, _, operation) in KINDS {
            let mut body = scene.body(kind);
            body["tags"] = json!({"mark": mark(kind)});
            if *kind != "terminators" {
                body["name"] = json!(name(kind));
            }
            let id = scene.bed.create(&scene.admin, operation, body).await;
            scene.ids.insert(kind, id);
        }
        let Self { bed, admin, ids, marks } = &mut scene;
        let pair = json!([{"serviceId": ids["services"], "configId": ids["configs"]}]);
        let path = [&*ids["identities"]];
        bed.manage(admin, "associateIdentitysServiceConfigs", &path, pair).await.unwrap();
        let tickets = bed.manage(admin, "getIdentityEnrollments", &path, NONE).await.unwrap();
        let text = |member: &str| tickets[0][member].as_str().unwrap().to_owned();
        ids.insert("enrollments", text("id"));
        marks.push((text("token"), Subject::Enrollment));
        scene
    }

    /// The body that makes the entity of a kind, without name and tags.
    fn body(&self, kind: &str) -> Value {
        let id = |kind: &str| self.ids[kind].clone();
        let one = |kind: &str| format!("@{}", self.ids[kind]);
        let (text, attribute) = (mark(kind), format!("#{}", mark(kind)));
        match kind {
            "config-types" => json!({"schema": {"type": "object", "title": text}}),
            "configs" => json!({"configTypeId": id("config-types"), "data": {"address": text}}),
            "cas" => {
                with(&ca_body("ca", &authority(&self.bed, &text)), "identityRoles", json!([text]))
            }
            "external-jwt-signers" => json!({"issuer": "https://idp.example", "audience": text,
                "enabled": true, "jwksEndpoint": "https://idp.example/keys"}),
            "auth-policies" => json!({
                "primary": {
                    "cert": {"allowed": true, "allowExpiredCerts": false},
                    "extJwt": {"allowed": true, "allowedSigners": [id("external-jwt-signers")]},
                    "updb": {"allowed": true, "lockoutDurationMinutes": 0, "maxAttempts": 0,
                        "minPasswordLength": 5, "requireMixedCase": false,
                        "requireNumberChar": false, "requireSpecialChar": false}},
                "secondary": {"requireTotp": false}}),
            "posture-checks" => json!({"typeId": "DOMAIN", "domains": [text],
                "roleAttributes": [text]}),
            "services" => json!({"encryptionRequired": true, "configs": [id("configs")],
                "roleAttributes": [text]}),
            "edge-routers" => json!({"roleAttributes": [text], "appData": {"mark": text}}),
            "identities" => json!({"type": "Default", "isAdmin": false, "externalId": text,
                "roleAttributes": [text], "authPolicyId": id("auth-policies"),
                "serviceHostingCosts": {id("services"): 7}, "enrollment": {"ott": true}}),
            "terminators" => json!({"service": id("services"), "router": id("edge-routers"),
                "binding": "transport", "address": format!("tcp:{text}:80")}),
            "service-policies" => json!({"type": "Dial", "semantic": "AnyOf",
                "identityRoles": [one("identities"), attribute],
                "serviceRoles": [one("services"), attribute],
                "postureCheckRoles": [one("posture-checks"), attribute]}),
            "edge-router-policies" => json!({"semantic": "AnyOf",
                "identityRoles": [one("identities"), attribute],
                "edgeRouterRoles": [one("edge-routers"), attribute]}),
            "service-edge-router-policies" => json!({"semantic": "AnyOf",
                "serviceRoles": [one("services"), attribute],
                "edgeRouterRoles": [one("edge-routers"), attribute]}),
            other => panic!("no body for {other}"),
        }
    }

    /// The calls of an operation, on the entities of this network.
    fn calls(&self, api: Api, row: &'static Operation) -> Vec<Call> {
        let of = row.path.split('/').nth(1).unwrap_or_default();
        let first = match of {
            "routers" => "edge-routers",
            "why-path" => "identities",
            of => of,
        };
        let known = |kind: &str| self.ids.get(kind).map_or("nothing", String::as_str);
        let ids = [known(first), known("services")];
        let call = Call::new(api, row, &ids[..row.places()]);
        if row.id == "exportNetwork" {
            let sections = KINDS.iter().filter(|(kind, ..)| *kind != "terminators");
            return sections.map(|(kind, ..)| call.clone().with_query("sections", kind)).collect();
        }
        let more = call.clone().with_query("configTypes", "all").with_query("withIds", "true");
        vec![call, more]
    }
}

/// A caller with one permission.
fn with_one(permission: Permission) -> Caller {
    let login = Login {
        identity: "somebody".into(),
        name: "somebody".into(),
        is_admin: false,
        permissions: vec![permission],
        complete: true,
        session: SessionRef { id: "session".into(), token: "token".into(), legacy: true },
    };
    Caller { who: Who::Identity(Arc::new(login)), origin: Origin::default() }
}

#[tokio::test]
async fn one_read_permission_tells_one_kind() {
    let scene = Scene::new().await;
    let subjects: Vec<Subject> =
        Subject::WORDS.iter().filter_map(|it| Subject::parse(it)).collect();
    let readers: Vec<(Subject, Caller)> = subjects
        .iter()
        .map(|subject| (*subject, with_one(Permission::One(*subject, Action::Read))))
        .collect();
    let rows = [Api::Management, Api::Fabric, Api::Weft]
        .into_iter()
        .flat_map(|api| resource::operations(api).map(move |row| (api, row)));
    let mut seen = BTreeSet::new();
    let mut wrong = BTreeSet::new();
    for (api, row) in rows.filter(|(_, row)| row.method == Method::Get) {
        for call in scene.calls(api, row) {
            for (subject, caller) in &readers {
                let reply = scene.bed.controller.call(caller.clone(), call.clone()).await;
                let Ok(reply) = reply else { continue };
                let text = reply.data().to_string();
                for (mark, of) in &scene.marks {
                    match text.contains(mark.as_str()) {
                        true if of == subject => drop(seen.insert(*of)),
                        true => drop(wrong.insert(format!(
                            "{subject}.read, {api} {} {:?}: {mark}",
                            row.id, call.query
                        ))),
                        false => {}
                    }
                }
                let tells_no_names = api == Api::Weft || row.id == "getIdentityPolicyAdvice";
                for (kind, of, _) in KINDS.iter().filter(|_| tells_no_names) {
                    if of != subject && text.contains(&name(kind)) {
                        let what = format!("{subject}.read, {} {:?}: a name", row.id, call.query);
                        wrong.insert(format!("{what} of {kind}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen.len(), scene.marks.len(), "the walk finds what each reader may read: {seen:?}");
}

/// The configs in the list of services, by an operation of the management API.
async fn configs_of_services(bed: &Bed, caller: &Caller, types: Option<&str>) -> Value {
    let call = to(Api::Management, "listServices", &[]);
    let call = types.into_iter().fold(call, |call, types| call.with_query("configTypes", types));
    let reply = bed.controller.call(caller.clone(), call).await.unwrap();
    reply.data()[0]["config"].clone()
}

#[tokio::test]
async fn configs_of_services_are_for_those_who_may_read_configs() {
    let Scene { bed, admin, ids, .. } = Scene::new().await;
    let of_type = name("config-types");
    let whole = json!({&of_type: {"address": mark("configs")}});
    let body = json!({"name": "clerk", "type": "Default", "isAdmin": false,
        "permissions": ["service.read"]});
    let id = bed.create(&admin, "createIdentity", body).await;
    let body =
        json!({"identityId": id, "method": "updb", "username": "clerk", "password": "geheimnis"});
    bed.create(&admin, "createAuthenticator", body).await;
    // The session asks for configs, too.
    let call = to(Api::Management, "authenticate", &[])
        .with_query("method", "password")
        .with_json(&json!({"username": "clerk", "password": "geheimnis", "configTypes": ["all"]}));
    let reply = bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    let clerk = bed.with_token(reply.data()["token"].as_str().unwrap());
    for types in [None, Some("all"), Some(of_type.as_str())] {
        assert_eq!(configs_of_services(&bed, &clerk, types).await, json!({}), "{types:?}");
    }
    assert_eq!(configs_of_services(&bed, &admin, Some("all")).await, whole);
    for permissions in [json!(["service.read", "config.read"]), json!(["admin_readonly"])] {
        let may = json!({"permissions": permissions});
        bed.manage(&admin, "patchIdentity", &[&id], may).await.unwrap();
        let now = bed.with_token(&clerk.login().unwrap().session.token);
        assert_eq!(configs_of_services(&bed, &now, None).await, whole, "{permissions}");
        assert_eq!(configs_of_services(&bed, &now, Some("all")).await, whole, "{permissions}");
    }
    // As a client, an identity reads the configs of its own services, whatever it may administer.
    let none = json!({"permissions": ["service.read"]});
    bed.manage(&admin, "patchIdentity", &[&id], none).await.unwrap();
    let policy = json!({"name": "own", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": [format!("@{id}")], "serviceRoles": [format!("@{}", ids["services"])]});
    bed.create(&admin, "createServicePolicy", policy).await;
    let now = bed.with_token(&clerk.login().unwrap().session.token);
    let own = bed.client(&now, "listServices", &[], NONE).await.unwrap();
    assert_eq!(own[0]["config"], whole);
    let own = bed.client(&now, "detailService", &[&ids["services"]], NONE).await.unwrap();
    assert_eq!(own["config"], whole);
    assert_eq!(configs_of_services(&bed, &now, Some("all")).await, json!({}));
}
