//! The operations that most kinds of entities have, as rows made of what they share.

use crate::body::Body;
use crate::operation::{Access, Operation, create, delete, detail, list, nested, patch, replace};
use crate::permission::{Action, Subject};

/// The paths of the entities of a kind, the name of their detail, and the permission to use them.
#[derive(Clone, Copy)]
pub(crate) struct Collection {
    all: &'static str,
    one: &'static str,
    detail: &'static str,
    subject: Option<Subject>,
}

impl Collection {
    /// A collection at the path `all`, whose entities are at the path `one`. Administrators use it,
    /// and callers that may read everything read it.
    pub(crate) const fn new(all: &'static str, one: &'static str, detail: &'static str) -> Self {
        Self { all, one, detail, subject: None }
    }

    /// This collection, which callers with permissions for the subject use, too.
    pub(crate) const fn of(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// The callers that may do this to entities.
    pub(crate) const fn access(self, action: Action) -> Access {
        match (self.subject, action) {
            (Some(subject), action) => Access::Permission(subject, action),
            (None, Action::Read) => Access::AdminOrReadOnly,
            (None, _) => Access::Admin,
        }
    }

    /// GET of the list.
    pub(crate) const fn list(self, id: &'static str) -> Operation {
        self.list_at(id, self.all)
    }

    /// GET of a list of these entities at another path.
    pub(crate) const fn list_at(self, id: &'static str, path: &'static str) -> Operation {
        list(id, path, self.access(Action::Read), self.detail)
    }

    /// GET of a list of these entities below an entity of another kind.
    pub(crate) const fn nested(self, id: &'static str, path: &'static str) -> Operation {
        nested(id, path, self.access(Action::Read), self.detail)
    }

    /// POST of a new entity.
    pub(crate) const fn create<B: Body>(self, id: &'static str) -> Operation {
        create::<B>(id, self.all, self.access(Action::Create))
    }

    /// GET of one entity.
    pub(crate) const fn get(self, id: &'static str) -> Operation {
        detail(id, self.one, self.access(Action::Read), self.detail)
    }

    /// PUT of all of an entity.
    pub(crate) const fn replace<B: Body>(self, id: &'static str) -> Operation {
        replace::<B>(id, self.one, self.access(Action::Update))
    }

    /// PATCH of parts of an entity.
    pub(crate) const fn patch<B: Body>(self, id: &'static str) -> Operation {
        patch::<B>(id, self.one, self.access(Action::Update))
    }

    /// DELETE of an entity.
    pub(crate) const fn delete(self, id: &'static str) -> Operation {
        delete(id, self.one, self.access(Action::Delete))
    }
}

/// Auth policies.
pub(crate) const AUTH_POLICIES: Collection =
    Collection::new("/auth-policies", "/auth-policies/{id}", "authPolicyDetail")
        .of(Subject::AuthPolicy);
/// Authenticators.
pub(crate) const AUTHENTICATORS: Collection =
    Collection::new("/authenticators", "/authenticators/{id}", "authenticatorDetail");
/// Certificate authorities.
pub(crate) const CAS: Collection = Collection::new("/cas", "/cas/{id}", "caDetail").of(Subject::Ca);
/// Configs.
pub(crate) const CONFIGS: Collection =
    Collection::new("/configs", "/configs/{id}", "configDetail").of(Subject::Config);
/// Config types.
pub(crate) const CONFIG_TYPES: Collection =
    Collection::new("/config-types", "/config-types/{id}", "configTypeDetail")
        .of(Subject::ConfigType);
/// Settings of controllers.
pub(crate) const CONTROLLER_SETTINGS: Collection =
    Collection::new("/controller-settings", "/controller-settings/{id}", "controllerSettingDetail");
/// Edge routers.
pub(crate) const EDGE_ROUTERS: Collection =
    Collection::new("/edge-routers", "/edge-routers/{id}", "edgeRouterDetail").of(Subject::Router);
/// Edge router policies.
pub(crate) const EDGE_ROUTER_POLICIES: Collection = Collection::new(
    "/edge-router-policies",
    "/edge-router-policies/{id}",
    "edgeRouterPolicyDetail",
)
.of(Subject::EdgeRouterPolicy);
/// Enrollments.
pub(crate) const ENROLLMENTS: Collection =
    Collection::new("/enrollments", "/enrollments/{id}", "enrollmentDetail")
        .of(Subject::Enrollment);
/// External JWT signers.
pub(crate) const EXTERNAL_JWT_SIGNERS: Collection = Collection::new(
    "/external-jwt-signers",
    "/external-jwt-signers/{id}",
    "externalJwtSignerDetail",
)
.of(Subject::ExternalJwtSigner);
/// Identities.
pub(crate) const IDENTITIES: Collection =
    Collection::new("/identities", "/identities/{id}", "identityDetail").of(Subject::Identity);
/// Posture checks.
pub(crate) const POSTURE_CHECKS: Collection =
    Collection::new("/posture-checks", "/posture-checks/{id}", "postureCheckDetail")
        .of(Subject::PostureCheck);
/// Revocations.
pub(crate) const REVOCATIONS: Collection =
    Collection::new("/revocations", "/revocations/{id}", "revocationDetail");
/// Routers of any kind.
pub(crate) const ROUTERS: Collection =
    Collection::new("/routers", "/routers/{id}", "routerDetail").of(Subject::Router);
/// Routers of any kind under the older path.
pub(crate) const TRANSIT_ROUTERS: Collection =
    Collection::new("/transit-routers", "/transit-routers/{id}", "routerDetail")
        .of(Subject::Router);
/// Services.
pub(crate) const SERVICES: Collection =
    Collection::new("/services", "/services/{id}", "serviceDetail").of(Subject::Service);
/// Service edge router policies.
pub(crate) const SERVICE_EDGE_ROUTER_POLICIES: Collection = Collection::new(
    "/service-edge-router-policies",
    "/service-edge-router-policies/{id}",
    "serviceEdgeRouterPolicyDetail",
)
.of(Subject::ServiceEdgeRouterPolicy);
/// Service policies.
pub(crate) const SERVICE_POLICIES: Collection =
    Collection::new("/service-policies", "/service-policies/{id}", "servicePolicyDetail")
        .of(Subject::ServicePolicy);
/// Service sessions.
pub(crate) const SESSIONS: Collection =
    Collection::new("/sessions", "/sessions/{id}", "sessionManagementDetail").of(Subject::Ops);
/// API sessions.
pub(crate) const API_SESSIONS: Collection =
    Collection::new("/api-sessions", "/api-sessions/{id}", "apiSessionDetail").of(Subject::Ops);
/// Terminators.
pub(crate) const TERMINATORS: Collection =
    Collection::new("/terminators", "/terminators/{id}", "terminatorDetail")
        .of(Subject::Terminator);
/// Circuits, in the fabric API.
pub(crate) const CIRCUITS: Collection =
    Collection::new("/circuits", "/circuits/{id}", "circuitDetail").of(Subject::Ops);
/// Links, in the fabric API.
pub(crate) const LINKS: Collection =
    Collection::new("/links", "/links/{id}", "linkDetail").of(Subject::Ops);
/// Routers in the fabric API.
pub(crate) const FABRIC_ROUTERS: Collection =
    Collection::new("/routers", "/routers/{id}", "fabricRouterDetail");
/// Services in the fabric API.
pub(crate) const FABRIC_SERVICES: Collection =
    Collection::new("/services", "/services/{id}", "fabricServiceDetail");
/// Terminators in the fabric API.
pub(crate) const FABRIC_TERMINATORS: Collection =
    Collection::new("/terminators", "/terminators/{id}", "fabricTerminatorDetail");
