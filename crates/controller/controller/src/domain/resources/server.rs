//! Facts about the controller: version, protocols, CA certificates, capabilities, the network's
//! ticket, controllers, counts (docs/protocol/auth.md 17.1, 17.2, 17.9;
//! docs/protocol/management-api.md 7.10).

use std::collections::BTreeMap;

use weft_auth::this_controller;
use weft_contract::resource::controller::ControllerDetail;
use weft_contract::resource::server::{
    ApiVersion, ApiVersions, CAPABILITIES, HA_CONTROLLER, NetworkJwt, OIDC_AUTH,
    OIDC_AUTH_WITH_CSR, Protocol, Protocols, Summary, Version,
};
use weft_contract::{Action, Api, Subject, TagValue, Word as _, headers};
use weft_identity::write_ca_store;
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert, list};
use weft_model::entity::{ControllerMember, Router, Service};
use weft_model::filter::{Column, PageRules, Symbols, Type, Value};
use weft_model::{Kind, Meter};

use crate::Controller;
use crate::domain::resources::known_routers;
use crate::domain::symbols::maybe;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listRoot", &version),
    (Api::Client, "listRoot", &version),
    (Api::Management, "listVersion", &version),
    (Api::Client, "listVersion", &version),
    (Api::Management, "listWellKnownCas", &ca_store),
    (Api::Client, "listWellKnownCas", &ca_store),
    (Api::Management, "listEnumeratedCapabilities", &capabilities),
    (Api::Client, "listEnumeratedCapabilities", &capabilities),
    (Api::Management, "listEnumeratedRouterCapabilities", &router_capabilities),
    (Api::Client, "listEnumeratedRouterCapabilities", &router_capabilities),
    (Api::Management, "listNetworkJWTs", &network_jwts),
    (Api::Client, "listNetworkJWTs", &network_jwts),
    (Api::Management, "listControllers", &controllers),
    (Api::Client, "listControllers", &controllers),
    (Api::Management, "listSummary", &summary),
    (Api::Client, "listProtocols", &protocols),
];

/// The version of every API.
const VERSION: &str = "v1";

async fn version(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    let settings = controller.kernel().settings();
    let mut versions = ApiVersions::new();
    for (api, urls) in &settings.addresses.apis {
        let version = ApiVersion {
            api_base_urls: urls.clone(),
            path: api.base().to_owned(),
            version: VERSION.to_owned(),
        };
        let versioned = BTreeMap::from([(VERSION.to_owned(), version)]);
        if *api == Api::Client {
            versions.insert("edge".to_owned(), versioned.clone());
        }
        versions.insert(api.as_str().to_owned(), versioned);
    }
    let now = controller.kernel().now();
    let way_back = settings.way_back_until.filter(|until| *until > now);
    let has_oidc = settings.addresses.apis.contains_key(&Api::Oidc);
    let capabilities = [
        (OIDC_AUTH, has_oidc),
        (HA_CONTROLLER, controller.auth().is_member()),
        (OIDC_AUTH_WITH_CSR, has_oidc),
    ];
    let capabilities = capabilities.into_iter().filter(|(_, has)| *has);
    let capabilities = capabilities.map(|(name, _)| name.to_owned()).collect();
    Reply::detail(&Version {
        api_versions: versions,
        build_date: settings.build.build_date.clone(),
        capabilities,
        revision: settings.build.revision.clone(),
        runtime_version: settings.build.runtime.clone(),
        version: settings.build.version.clone(),
        way_back_until: way_back.map(convert::time),
    })
}

async fn ca_store(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    let body = write_ca_store(controller.auth().keys().bundle.certificates());
    let reply = Reply::raw(headers::PKCS7, body);
    Ok(reply.with_header("content-transfer-encoding", "base64"))
}

async fn capabilities(_controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    Reply::detail(&CAPABILITIES)
}

async fn router_capabilities(
    _controller: Controller,
    _caller: Caller,
    _call: Call,
) -> Result<Reply> {
    let names: Vec<_> = known_routers::CAPABILITIES.iter().map(|(_, name)| *name).collect();
    Reply::detail(&names)
}

async fn network_jwts(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    let token = controller.auth().network_jwt();
    Reply::whole_list(&[NetworkJwt { name: "default".into(), token }])
}

async fn protocols(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    let address = controller.kernel().settings().addresses.api.clone();
    Reply::detail(&Protocols::from([("https".to_owned(), Protocol { address })]))
}

type ControllerColumn = Column<(), ControllerDetail>;

static CONTROLLERS: Symbols<(), ControllerDetail> = Symbols {
    kind: "controllers",
    id: |it| it.base.id.as_str(),
    shared: &[],
    columns: &[
        ControllerColumn::one("id", Type::String, |(), it| Value::text(&it.base.id)).public(),
        ControllerColumn::one("createdAt", Type::Time, |(), it| time(it.base.created_at)).public(),
        ControllerColumn::one("updatedAt", Type::Time, |(), it| time(it.base.updated_at)).public(),
        ControllerColumn::one("isSystem", Type::Bool, |(), _| Value::Bool(false)).public(),
        ControllerColumn::map("tags", |(), it, key| tag(it.base.tags.get(key))).public(),
        ControllerColumn::one("name", Type::String, |(), it| Value::text(&it.name)).public(),
        ControllerColumn::one("ctrlAddress", Type::String, |(), it| maybe(&it.ctrl_address))
            .public(),
        ControllerColumn::one("certPem", Type::String, |(), it| Value::text(&it.cert_pem)).public(),
        ControllerColumn::one("fingerprint", Type::String, |(), it| Value::text(&it.fingerprint))
            .public(),
        ControllerColumn::one("isOnline", Type::Bool, |(), it| Value::Bool(it.is_online)).public(),
        ControllerColumn::one("lastJoinedAt", Type::Time, |(), it| time(it.last_joined_at))
            .public(),
        ControllerColumn::one("isPreferredLeader", Type::Bool, |(), it| {
            it.is_preferred_leader.map_or(Value::Null, Value::Bool)
        })
        .public(),
    ],
};

fn time<'a>(at: weft_contract::Timestamp) -> Value<'a> {
    Value::unix_millis(at.millis())
}

fn tag(value: Option<&TagValue>) -> Value<'_> {
    match value {
        Some(TagValue::Bool(value)) => Value::Bool(*value),
        Some(TagValue::Text(text)) => Value::text(text),
        Some(TagValue::Number(number)) => match number.as_i64() {
            Some(value) => Value::Int(value),
            None => number.as_f64().map_or(Value::Null, Value::Float),
        },
        Some(TagValue::Null) | None => Value::Null,
    }
}

async fn controllers(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    if call.api == Api::Management && !caller.may(Subject::Controllers, Action::Read) {
        let reason = "the operation needs the permission controllers.read";
        return Err(Failure::unauthorized(reason));
    }
    let selection = list::selection(&caller, &call.query, &CONTROLLERS, &PageRules::LIST)?;
    let all = this_controller::all(controller.auth(), call.api);
    let request = controller.kernel().scans().asked_by(&caller);
    let effort = selection.effort_of(all.len());
    let page = move |meter: &Meter| {
        let rows = all.iter().map(|shown| CONTROLLERS.row(&(), shown));
        list::answer(&selection, &CONTROLLERS, rows, meter, |shown| Ok(shown.clone()))
    };
    request.counted(effort, page).await
}

async fn summary(controller: Controller, _caller: Caller, _call: Call) -> Result<Reply> {
    let snapshot = controller.kernel().snapshot();
    let count = |kind: Kind| snapshot.table(kind).len() as u64;
    let sessions = controller.auth().sessions().counts();
    let edge = snapshot.list::<Router>().filter(|router| router.is_edge).count() as u64;
    let edge_services = snapshot.list::<Service>().filter(|service| !service.is_fabric_only);
    let controllers = snapshot.list::<ControllerMember>().filter(|member| member.is_present());
    let controllers = (controllers.count() as u64).max(1);
    let types = crate::domain::seeds::IDENTITY_TYPES.len() as u64;
    let checks = crate::domain::seeds::POSTURE_CHECK_TYPES.len() as u64;
    let counts = [
        ("apiSessionCertificates", sessions.certificates),
        ("apiSessions", sessions.api_sessions),
        ("authPolicies", count(Kind::AuthPolicy)),
        ("authenticators", count(Kind::Authenticator)),
        ("cas", count(Kind::Ca)),
        ("configTypes", count(Kind::ConfigType)),
        ("configs", count(Kind::Config)),
        ("controllers", controllers),
        ("edgeRouterPolicies", count(Kind::EdgeRouterPolicy)),
        ("enrollments", count(Kind::Enrollment)),
        ("eventualEvents", 0),
        ("externalJwtSigners", count(Kind::ExtJwtSigner)),
        ("identities", count(Kind::Identity)),
        ("identityTypes", types),
        ("mfas", count(Kind::Mfa)),
        ("postureCheckTypes", checks),
        ("postureChecks", count(Kind::PostureCheck)),
        ("revocations", count(Kind::Revocation)),
        ("routers", count(Kind::Router)),
        ("routers.edge", edge),
        ("serviceEdgeRouterPolicies", count(Kind::ServiceEdgeRouterPolicy)),
        ("servicePolicies", count(Kind::ServicePolicy)),
        ("services", count(Kind::Service)),
        ("services.edge", edge_services.count() as u64),
        ("sessions", sessions.service_sessions),
        ("terminators", count(Kind::Terminator)),
    ];
    let summary: Summary = counts.into_iter().map(|(key, count)| (key.to_owned(), count)).collect();
    Reply::detail(&summary)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bed;

    #[tokio::test]
    async fn controllers_are_found_like_anything_else() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        for (filter, count) in [
            ("isSystem = false and tags.site = null", 1),
            ("isSystem = true", 0),
            ("tags.site = \"x\"", 0),
            ("not (tags.site != null) and name = \"ctrl1\"", 1),
        ] {
            let found = bed.list(&admin, "listControllers", filter).await;
            assert_eq!(found.len(), count, "{filter}");
        }
    }
}
