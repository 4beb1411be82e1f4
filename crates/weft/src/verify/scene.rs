//! The entities of a check: created over the management API, and removed whatever happens.
//!
//! Names are chosen before anything is sent, and entities are removed by name, so that an entity
//! whose create was never answered is removed too. An interruption takes effect between requests: a
//! request in progress is not abandoned, as its entity could be created after the removal.

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_client::ManagementClient;
use weft_contract::{
    Body, Kind, Word as _,
    entity::{DialBind, Semantic},
    resource::{
        edge_router_policy::{self, EdgeRouterPolicyBody},
        identity::{self, IdentityBody, IdentityDetail, IdentityEnrollmentBody, IdentityType},
        service::{self, ServiceBody},
        service_edge_router_policy::{self, ServiceEdgeRouterPolicyBody},
        service_policy::{self, ServicePolicyBody},
    },
};
use weft_sdk::IdentityFile;

use crate::failure::Failure;

/// Kinds of the entities, in the order of removal: entities that refer before those referred to.
const KINDS: [&Kind; 5] = [
    &service_policy::KIND,
    &edge_router_policy::KIND,
    &service_edge_router_policy::KIND,
    &service::KIND,
    &identity::KIND,
];

/// Throw-away entities with names of their own.
pub(super) struct Scene<'a> {
    client: &'a ManagementClient,
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
}

impl<'a> Scene<'a> {
    /// A scene without entities so far.
    pub(super) fn new(client: &'a ManagementClient, stop: &'a CancellationToken) -> Self {
        Self { client, name: format!("weft-verify-{:08x}", rand::random::<u32>()), stop }
    }

    /// Creates everything and enrolls the two identities.
    pub(super) async fn make(&self) -> Result<Cast, Failure> {
        let body = ServiceBody {
            name: Some(self.name.clone()),
            encryption_required: Some(true),
            ..ServiceBody::default()
        };
        let service = self.create(&service::KIND, &body).await?;
        let (host, dialer) = (self.identity("host").await?, self.identity("dialer").await?);
        self.allow(DialBind::Bind, &host, &service).await?;
        self.allow(DialBind::Dial, &dialer, &service).await?;
        self.open_routers(&[&host, &dialer], &service).await?;
        let (host, dialer) = tokio::try_join!(self.enroll(&host), self.enroll(&dialer))?;
        Ok(Cast { service: self.name.clone(), host, dialer })
    }

    /// Removes the entities. Goes on after a failure and returns the first.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
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

    async fn remove_kind(&self, kind: &Kind) -> Result<(), Failure> {
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

    async fn create<B: Body>(&self, kind: &Kind, body: &B) -> Result<String, Failure> {
        self.go_on()?;
        let made = self.client.create(kind, body).await;
        made.map_err(|error| Failure::from(error).during(format!("the {} was not made", kind.name)))
    }

    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.is_cancelled() { Err(Failure::interrupted()) } else { Ok(()) }
    }

    async fn identity(&self, part: &str) -> Result<String, Failure> {
        let body = IdentityBody {
            name: Some(format!("{}-{part}", self.name)),
            identity_type: Some(IdentityType::Default),
            is_admin: Some(false),
            enrollment: Some(IdentityEnrollmentBody {
                ott: Some(true),
                ..IdentityEnrollmentBody::default()
            }),
            ..IdentityBody::default()
        };
        self.create(&identity::KIND, &body).await
    }

    async fn allow(&self, what: DialBind, identity: &str, service: &str) -> Result<(), Failure> {
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
    async fn open_routers(&self, identities: &[&str], service: &str) -> Result<(), Failure> {
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

    async fn enroll(&self, id: &str) -> Result<IdentityFile, Failure> {
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
