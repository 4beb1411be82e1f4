//! An edge router of a quickstart network: its entity, its policies, its certificates.

use std::time::SystemTime;

use serde_json::Value;
use weft_client::ManagementClient;
use weft_config::RouterConfig;
use weft_contract::entity::Semantic;
use weft_contract::resource::edge_router::{self, EdgeRouterBody, EdgeRouterDetail};
use weft_contract::resource::edge_router_policy::{self, EdgeRouterPolicyBody};
use weft_contract::resource::service_edge_router_policy::{self, ServiceEdgeRouterPolicyBody};
use weft_contract::resource::{self};
use weft_contract::{Api, Body, Kind, Timestamp};
use weft_identity::{Identity, IdentitySection};
use weft_router::enroll::enroll;

use crate::failure::{Failure, Result};

/// Name of the first router, and prefix of the others' names.
const NAME: &str = "quickstart-router";
/// Name of the policies that let every identity use the public routers, and every service all routers.
const POLICY: &str = "quickstart";
const ATTRIBUTE: &str = "public";

/// Name of a router, and of the identity that hosts services for it.
pub(super) fn name(number: u8) -> String {
    match number {
        ..=1 => NAME.to_owned(),
        number => format!("{NAME}-{number}"),
    }
}

/// Creates the router's entity and certificates if needed. Returns true if something was done.
pub(super) async fn ensure(
    client: &ManagementClient,
    number: u8,
    config: &RouterConfig,
) -> Result<bool> {
    let name = name(number);
    let known = match find(client, &name).await? {
        Some(known) => known,
        None => {
            // Only with the first router, so that policies that an operator has deleted stay deleted.
            if number <= 1 {
                make_policies(client).await?;
            }
            make(client, &name).await?
        }
    };
    if known.is_verified && has_certificates(config, &known) {
        return Ok(false);
    }
    let token = token(client, &known).await?;
    enroll(config, &token)
        .await
        .map_err(|error| Failure::caused_by(&error).during("the router cannot enroll"))?;
    Ok(true)
}

async fn find(client: &ManagementClient, name: &str) -> Result<Option<EdgeRouterDetail>> {
    let filter = format!("name = \"{name}\"");
    let found: Vec<EdgeRouterDetail> = client.list(&edge_router::KIND, Some(&filter)).await?;
    Ok(found.into_iter().next())
}

fn one(role: &str) -> Option<Vec<String>> {
    Some(vec![role.to_owned()])
}

/// Creates the policies that make a first service work over every router.
async fn make_policies(client: &ManagementClient) -> Result<()> {
    let policy = EdgeRouterPolicyBody {
        name: Some(POLICY.into()),
        semantic: Some(Semantic::AllOf),
        identity_roles: one("#all"),
        edge_router_roles: one(&format!("#{ATTRIBUTE}")),
        ..EdgeRouterPolicyBody::default()
    };
    make_once(client, &edge_router_policy::KIND, &policy).await?;
    let policy = ServiceEdgeRouterPolicyBody {
        name: Some(POLICY.into()),
        semantic: Some(Semantic::AllOf),
        service_roles: one("#all"),
        edge_router_roles: one("#all"),
        ..ServiceEdgeRouterPolicyBody::default()
    };
    make_once(client, &service_edge_router_policy::KIND, &policy).await
}

async fn make(client: &ManagementClient, name: &str) -> Result<EdgeRouterDetail> {
    let router = EdgeRouterBody {
        name: Some(name.to_owned()),
        is_tunneler_enabled: Some(true),
        role_attributes: one(ATTRIBUTE),
        ..EdgeRouterBody::default()
    };
    let id = client.create(&edge_router::KIND, &router).await?;
    Ok(client.get(&edge_router::KIND, &id).await?)
}

/// Creates an entity, unless an interrupted start did so already.
async fn make_once<B: Body>(client: &ManagementClient, kind: &Kind, body: &B) -> Result<()> {
    let there: Vec<Value> = client.list(kind, Some(&format!("name = \"{POLICY}\""))).await?;
    if there.is_empty() {
        client.create(kind, body).await?;
    }
    Ok(())
}

/// True if the router's files hold a certificate of exactly this router.
fn has_certificates(config: &RouterConfig, router: &EdgeRouterDetail) -> bool {
    let section = IdentitySection {
        cert: config.identity.cert.clone(),
        key: config.identity.key.clone(),
        ..IdentitySection::default()
    };
    Identity::load(&section).is_ok_and(|identity| identity.name() == Some(&router.base.id))
}

/// A valid enrollment token.
async fn token(client: &ManagementClient, router: &EdgeRouterDetail) -> Result<String> {
    let fresh = |router: &EdgeRouterDetail| {
        let until = router.enrollment_expires_at?;
        router.enrollment_jwt.clone().filter(|_| until > now())
    };
    if let Some(token) = fresh(router) {
        return Ok(token);
    }
    let id = &router.base.id;
    let again = resource::operation(Api::Management, "reEnrollEdgeRouter")
        .ok_or_else(|| Failure::new("there is no operation to enroll a router again"))?;
    let _: Value = client.call(again, &[id], &[], None).await?;
    let router: EdgeRouterDetail = client.get(&edge_router::KIND, id).await?;
    fresh(&router).ok_or_else(|| Failure::new("the controller gave the router no enrollment token"))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
