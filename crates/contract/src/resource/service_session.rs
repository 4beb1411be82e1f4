//! Service sessions: permission to dial or host one service (docs/protocol/auth.md 17.7).

use std::collections::BTreeMap;

use crate::body::body;
use crate::entity::{DialBind, EntityRef, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::operation::{
    Access, DELETE_STATUSES, Operation, Response, create, delete, detail as get, list,
};
use crate::permission::{Action, Subject};
use crate::resource::edge_router::EdgeRouterCommon;

/// The collection in paths and references.
pub const COLLECTION: &str = "sessions";

const AUTH: Access = Access::Authenticated;

const READ: Access = Access::Permission(Subject::Ops, Action::Read);

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listSessions", "/sessions", READ, "sessionManagementDetail"),
    get("detailSession", "/sessions/{id}", READ, "sessionManagementDetail"),
    delete("deleteSession", "/sessions/{id}", Access::Permission(Subject::Ops, Action::Delete))
        .statuses(DELETE_STATUSES),
    get("detailSessionRoutePath", "/sessions/{id}/route-path", READ, "sessionRoutePathDetail"),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "session",
    plural: COLLECTION,
    aliases: &[],
    about: "leave to dial or host a service within a login",
    operations: MANAGEMENT,
    fields: &[],
    links: &["route-path"],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "TYPE", pointer: "/type" },
        Column { title: "SERVICE", pointer: "/service/name" },
        Column { title: "IDENTITY", pointer: "/identityId" },
        Column { title: "LOGIN", pointer: "/apiSessionId" },
        Column { title: "SINCE", pointer: "/createdAt" },
    ],
};

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[
    list("listSessions", "/sessions", AUTH, "sessionDetail"),
    create::<SessionBody>("createSession", "/sessions", AUTH)
        .answers(Response::Detail("sessionCreated"))
        .statuses(&[201, 400, 401, 404, 429, 503]),
    get("detailSession", "/sessions/{id}", AUTH, "sessionDetail").statuses(&[200, 401, 404]),
    delete("deleteSession", "/sessions/{id}", AUTH).statuses(&[200, 400, 401, 409, 429, 503]),
];

body! {
    /// Asks for permission to use a service.
    pub struct SessionBody {
        /// The service.
        Create service_id: String => "services",
        /// Labels.
        Optional tags: Tags,
        /// To dial it or to host it; Dial when absent.
        Optional "type" session_type: DialBind,
    }
}

detail! {
    /// A service session.
    pub struct SessionDetail with Base {
        /// The API session it belongs to.
        pub api_session: EntityRef,
        /// Its id.
        pub api_session_id: String,
        /// Routers over which the service can be used now.
        pub edge_routers: Vec<SessionEdgeRouter>,
        /// Whose it is.
        pub identity_id: String,
        /// The service.
        pub service: EntityRef,
        /// Its id.
        pub service_id: String,
        /// What to show to a router.
        pub token: String,
        /// To dial or to host.
        pub r#type: DialBind,
    }
}

detail! {
    /// A service session, as administrators see it.
    pub struct SessionManagementDetail including session: SessionDetail {
        /// The policies that grant it.
        pub service_policies: Vec<EntityRef>,
    }
}

detail! {
    /// The way of the data of a service session.
    pub struct SessionRoutePath {
        /// The ids of the routers of its first circuit, in order; none without a circuit.
        pub route_path: Vec<String>,
    }
}

detail! {
    /// A router of a service session.
    pub struct SessionEdgeRouter including router: EdgeRouterCommon {
        /// Where it listens, by protocol, once more: old SDKs look here.
        pub urls: BTreeMap<String, String>,
    }
}

impl SessionEdgeRouter {
    /// The router with `urls` filled from `supportedProtocols`.
    #[must_use]
    pub fn new(router: EdgeRouterCommon) -> Self {
        let urls = router.supported_protocols.clone();
        Self { router, urls }
    }

    /// Where it listens for a protocol, by either member.
    #[must_use]
    pub fn address(&self, protocol: &str) -> Option<&str> {
        let address = self.router.supported_protocols.get(protocol);
        address.or_else(|| self.urls.get(protocol)).map(String::as_str)
    }
}
