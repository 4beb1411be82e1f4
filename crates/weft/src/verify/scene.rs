//! The entities of a check: created over the management API, and removed whatever happens.
//!
//! The service has Dial and Bind policies of its own. Its routers are those that the policies of the network give
//! entities with the same attributes, unless the check has policies for every router.
//!
//! Names are chosen before anything is sent, and entities are removed by name, so that an entity
//! whose create was never answered is removed too. An interruption takes effect between requests: a
//! request in progress is not abandoned, as its entity could be created after the removal.

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_client::ManagementClient;
use weft_contract::entity::{DialBind, Semantic};
use weft_contract::resource::edge_router_policy::{self, EdgeRouterPolicyBody};
use weft_contract::resource::identity::{
    self, IdentityBody, IdentityDetail, IdentityEnrollmentBody, IdentityType, PolicyAdvice,
};
use weft_contract::resource::service::{self, ServiceBody};
use weft_contract::resource::service_edge_router_policy::{self, ServiceEdgeRouterPolicyBody};
use weft_contract::resource::service_policy::{self, ServicePolicyBody};
use weft_contract::resource::{self};
use weft_contract::{Api, Body, Kind, Word as _};
use weft_sdk::IdentityFile;

use crate::failure::{Failure, Result};

/// Kinds of the entities, in the order of removal: entities that refer before those referred to.
const KINDS: [&Kind; 5] = [
    &service_policy::KIND,
    &edge_router_policy::KIND,
    &service_edge_router_policy::KIND,
    &service::KIND,
    &identity::KIND,
];

/// The attributes of the entities, and their routers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// Role attributes of the dialing identity.
    pub(crate) dialer: Vec<String>,
    /// Role attributes of the hosting identity.
    pub(crate) host: Vec<String>,
    /// Role attributes of the service.
    pub(crate) service: Vec<String>,
    /// Every router may be used, whatever the policies of the network say.
    pub(crate) all_routers: bool,
}

/// Throw-away entities with names of their own.
pub(super) struct Scene<'a> {
    client: &'a ManagementClient,
    terms: &'a Terms,
    name: String,
    /// No more entities are created once this is cancelled.
    stop: &'a CancellationToken,
}

/// The service and its two applications.
pub(super) struct Cast {
    /// Name of the service.
    pub(super) service: String,
    /// Identity that hosts the service.
    pub(super) host: IdentityFile,
    /// Identity that dials the service.
    pub(super) dialer: IdentityFile,
    /// Names of the connected routers over which the service may be dialed.
    pub(super) routers: Vec<String>,
}

impl<'a> Scene<'a> {
    /// A scene without entities so far.
    pub(super) fn new(
        client: &'a ManagementClient,
        terms: &'a Terms,
        stop: &'a CancellationToken,
    ) -> Self {
        Self { client, terms, name: format!("weft-verify-{:08x}", rand::random::<u32>()), stop }
    }

    /// Creates everything and enrolls the two identities.
    pub(super) async fn make(&self) -> Result<Cast> {
        let body = ServiceBody {
            name: Some(self.name.clone()),
            encryption_required: Some(true),
            role_attributes: Some(self.terms.service.clone()),
            ..ServiceBody::default()
        };
        let service = self.create(&service::KIND, &body).await?;
        let host = self.identity("host", &self.terms.host).await?;
        let dialer = self.identity("dialer", &self.terms.dialer).await?;
        self.allow(DialBind::Bind, &host, &service).await?;
        self.allow(DialBind::Dial, &dialer, &service).await?;
        if self.terms.all_routers {
            self.open_routers(&[&host, &dialer], &service).await?;
        }
        self.routers(&host, &self.terms.host, &service).await?;
        let routers = self.routers(&dialer, &self.terms.dialer, &service).await?;
        let (host, dialer) = tokio::try_join!(self.enroll(&host), self.enroll(&dialer))?;
        Ok(Cast { service: self.name.clone(), host, dialer, routers })
    }

    /// The names of the connected routers that an identity and the service share; fails if there are none.
    async fn routers(
        &self,
        identity: &str,
        attributes: &[String],
        service: &str,
    ) -> Result<Vec<String>> {
        let operation = resource::operation(Api::Management, "getIdentityPolicyAdvice");
        let operation = operation.ok_or_else(|| Failure::new("there is no policy advice"))?;
        let advice: PolicyAdvice =
            self.client.call(operation, &[identity, service], &[], None).await?;
        if let Some(missing) = missing(&advice, attributes, &self.terms.service) {
            let remedy = "real dials of such an identity fail, too; --identity-attributes, --host-attributes and \
                          --service-attributes try others, --all-routers every router";
            return Err(Failure::new(format!("{missing}; {remedy}")));
        }
        let online = advice.common_routers.into_iter().filter(|router| router.is_online);
        Ok(online.map(|router| router.entity.name).collect())
    }

    /// Removes the entities. Goes on after a failure and returns the first.
    pub(super) async fn remove(&self) -> Result<()> {
        let mut failed = None;
        for kind in KINDS {
            if let Err(failure) = self.remove_kind(kind).await {
                failed.get_or_insert(failure);
            }
        }
        match failed {
            None => Ok(()),
            Some(failure) => Err(failure.during(format!(
                "not everything was removed; what is left has a name that begins with {}",
                self.name
            ))),
        }
    }

    async fn remove_kind(&self, kind: &Kind) -> Result<()> {
        let filter = format!("name contains \"{}\" limit none", self.name);
        let found: Vec<Value> = self.client.list(kind, Some(&filter)).await?;
        for id in found.iter().filter_map(|entity| entity.get("id").and_then(Value::as_str)) {
            match self.client.delete(kind, id).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn create<B: Body>(&self, kind: &Kind, body: &B) -> Result<String> {
        self.go_on()?;
        let made = self.client.create(kind, body).await;
        made.map_err(|error| Failure::from(error).during(format!("the {} was not made", kind.name)))
    }

    fn go_on(&self) -> Result<()> {
        if self.stop.is_cancelled() { Err(Failure::interrupted()) } else { Ok(()) }
    }

    async fn identity(&self, part: &str, attributes: &[String]) -> Result<String> {
        let body = IdentityBody {
            name: Some(format!("{}-{part}", self.name)),
            identity_type: Some(IdentityType::Default),
            is_admin: Some(false),
            role_attributes: Some(attributes.to_owned()),
            enrollment: Some(IdentityEnrollmentBody {
                ott: Some(true),
                ..IdentityEnrollmentBody::default()
            }),
            ..IdentityBody::default()
        };
        self.create(&identity::KIND, &body).await
    }

    async fn allow(&self, what: DialBind, identity: &str, service: &str) -> Result<()> {
        let body = ServicePolicyBody {
            name: Some(format!("{}-{}", self.name, what.as_str().to_lowercase())),
            policy_type: Some(what),
            semantic: Some(Semantic::AllOf),
            identity_roles: Some(vec![format!("@{identity}")]),
            service_roles: Some(vec![format!("@{service}")]),
            ..ServicePolicyBody::default()
        };
        self.create(&service_policy::KIND, &body).await.map(drop)
    }

    /// Lets both identities use every router, whatever other policies say.
    async fn open_routers(&self, identities: &[&str], service: &str) -> Result<()> {
        let all = Some(vec!["#all".to_owned()]);
        let body = EdgeRouterPolicyBody {
            name: Some(self.name.clone()),
            semantic: Some(Semantic::AnyOf),
            identity_roles: Some(identities.iter().map(|id| format!("@{id}")).collect()),
            edge_router_roles: all.clone(),
            ..EdgeRouterPolicyBody::default()
        };
        self.create(&edge_router_policy::KIND, &body).await?;
        let body = ServiceEdgeRouterPolicyBody {
            name: Some(self.name.clone()),
            semantic: Some(Semantic::AnyOf),
            service_roles: Some(vec![format!("@{service}")]),
            edge_router_roles: all,
            ..ServiceEdgeRouterPolicyBody::default()
        };
        self.create(&service_edge_router_policy::KIND, &body).await.map(drop)
    }

    async fn enroll(&self, id: &str) -> Result<IdentityFile> {
        self.go_on()?;
        let made: IdentityDetail = self.client.get(&identity::KIND, id).await?;
        let invitation = made
            .enrollment
            .ott
            .ok_or_else(|| Failure::new("the controller made an identity without enrollment"))?;
        let enrolled = weft_sdk::enroll(&invitation.jwt).await;
        enrolled.map_err(|error| Failure::caused_by(&error).during("enrolling an identity"))
    }
}

/// What keeps an identity and a service with these attributes from having a connected router in common.
fn missing(advice: &PolicyAdvice, identity: &[String], service: &[String]) -> Option<String> {
    let (identity, service) = (with(identity), with(service));
    if advice.identity_router_count == 0 {
        return Some(format!("no edge router policy gives an identity {identity} a router"));
    }
    if advice.service_router_count == 0 {
        return Some(format!("no service edge router policy gives a service {service} a router"));
    }
    if advice.common_routers.is_empty() {
        return Some(format!(
            "an identity {identity} and a service {service} have no router in common"
        ));
    }
    if advice.common_routers.iter().any(|router| router.is_online) {
        return None;
    }
    let names: Vec<&str> =
        advice.common_routers.iter().map(|router| router.entity.name.as_str()).collect();
    Some(format!(
        "no router that an identity {identity} and a service {service} may use is online: {}",
        names.join(", ")
    ))
}

/// Attributes in words.
pub(super) fn with(attributes: &[String]) -> String {
    match attributes {
        [] => "without attributes".to_owned(),
        attributes => {
            let roles: Vec<String> = attributes.iter().map(|name| format!("#{name}")).collect();
            format!("with {}", roles.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_attributes() {
        let staff = ["staff".to_owned()];
        let paris = |online: bool| json!([{"name": "paris", "isOnline": online}]);
        for (identity, service, common, expected) in [
            (0, 1, json!([]), Some("no edge router policy gives an identity with #staff a router")),
            (
                1,
                0,
                json!([]),
                Some("no service edge router policy gives a service without attributes a router"),
            ),
            (
                1,
                1,
                json!([]),
                Some(
                    "an identity with #staff and a service without attributes have no router in common",
                ),
            ),
            (
                1,
                1,
                paris(false),
                Some(
                    "no router that an identity with #staff and a service without attributes may use is online: paris",
                ),
            ),
            (1, 1, paris(true), None),
        ] {
            let advice = json!({"identityRouterCount": identity, "serviceRouterCount": service,
                "commonRouters": common});
            let advice = serde_json::from_value(advice).unwrap();
            assert_eq!(missing(&advice, &staff, &[]).as_deref(), expected);
        }
    }
}
