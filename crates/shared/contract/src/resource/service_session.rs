//! Service sessions: permission to dial or host one service (docs/protocol/auth.md 17.7).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::body::body;
use crate::collection;
use crate::entity::{DialBind, EntityRef, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::operation::{
    Access, DELETE_STATUSES, Operation, Response, action, create, delete, detail as get, list,
};
use crate::paths::Api;
use crate::permission::{Action, Subject};
use crate::resource::edge_router::EdgeRouterCommon;

/// The collection in paths and references.
pub const COLLECTION: &str = "sessions";

const AUTH: Access = Access::Authenticated;

const READ: Access = Access::Permission(Subject::Ops, Action::Read);

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::SESSIONS.list("listSessions"),
    collection::SESSIONS.get("detailSession"),
    collection::SESSIONS.delete("deleteSession").statuses(DELETE_STATUSES),
    get("detailSessionRoutePath", "/sessions/{id}/route-path", READ, "sessionRoutePathDetail"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "session",
    plural: COLLECTION,
    aliases: &[],
    about: "leave to dial or host a service within a login",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: &[],
    links: &["route-path"],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "TYPE", pointer: "/type" },
        Column { title: "SERVICE", pointer: "/service/name" },
        Column { title: "IDENTITY", pointer: "/identityId" },
        Column { title: "LOGIN", pointer: "/apiSessionId" },
        Column { title: "SINCE", pointer: "/createdAt" },
    ],
    ..Kind::PLAIN
};

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[
    list("listSessions", "/sessions", AUTH, "sessionDetail"),
    create::<SessionBody>("createSession", "/sessions", AUTH)
        .answers(Response::Detail("sessionCreated"))
        .statuses(&[201, 400, 401, 404, 429, 503]),
    get("detailSession", "/sessions/{id}", AUTH, "sessionDetail").statuses(&[200, 401, 404]),
    delete("deleteSession", "/sessions/{id}", AUTH).statuses(&[200, 400, 401, 409, 429, 503]),
    action("stateSessionEnd", "/sessions/{id}/end-statement", AUTH)
        .answers(Response::Detail("endStatement"))
        .query(&["instance"])
        .statuses(&[200, 400, 401, 404, 429, 503]),
];

body! {
    /// Asks for the permission to dial or to host a service.
    pub struct SessionBody {
        /// The id of the service.
        Create service_id: String => "services",
        /// Labels of the session.
        Optional tags: Tags,
        /// Whether to dial (Dial) or to host (Bind) the service; Dial by default.
        Optional "type" session_type: DialBind,
    }
}

detail! {
    /// A service session: the permission to dial or to host one service.
    pub struct SessionDetail with Base {
        /// The API session that the service session belongs to.
        pub api_session: EntityRef,
        /// The id of the API session.
        pub api_session_id: String,
        /// The edge routers over which the service can be used now.
        pub edge_routers: Vec<SessionEdgeRouter>,
        /// The id of the identity that the session belongs to.
        pub identity_id: String,
        /// The service.
        pub service: EntityRef,
        /// The id of the service.
        pub service_id: String,
        /// The token that the client shows to a router.
        pub token: String,
        /// Whether the session is for dialing or for hosting.
        pub r#type: DialBind,
    }
}

detail! {
    /// The controller's word about one end of connections of a service, for the other end (docs/protocol/sdk.md 14.6).
    pub struct EndStatement {
        /// The statement: a signed token with [`EndClaims`], good for ten minutes.
        pub statement: String,
        /// The keys that sign the statements about other ends, as a key set (JWKS).
        pub keys: Value,
    }
}

/// The claims of a statement about an end.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EndClaims {
    /// The controller.
    pub iss: String,
    /// [`END_AUDIENCE`], so that a statement opens nothing.
    pub aud: String,
    /// The time of issue, in seconds since 1970.
    pub iat: i64,
    /// The time of its end, in seconds since 1970.
    pub exp: i64,
    /// The id of the identity.
    pub sub: String,
    /// The name of the identity.
    pub name: String,
    /// The id of the service session.
    pub session: String,
    /// The id of the service.
    pub service: String,
    /// `Dial` or `Bind`.
    pub role: DialBind,
    /// The instance of the service that the end hosts; absent if it hosts none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// SHA-256 of the end's key, in hex.
    pub key: String,
}

/// The audience of statements about ends.
pub const END_AUDIENCE: &str = "weft-end";

detail! {
    /// A service session, as administrators see it.
    pub struct SessionManagementDetail including session: SessionDetail {
        /// The service policies that grant the session.
        pub service_policies: Vec<EntityRef>,
    }
}

detail! {
    /// The path of the data of a service session.
    pub struct SessionRoutePath {
        /// The ids of the routers on the path of the session's first circuit, from dialer to host;
        /// empty without a circuit.
        pub route_path: Vec<String>,
    }
}

detail! {
    /// A router of a service session.
    pub struct SessionEdgeRouter including router: EdgeRouterCommon {
        /// The id of the router.
        pub id: String,
        /// The SHA-256 of each key (SubjectPublicKeyInfo, in hex) that proves the router to clients; empty while the
        /// router is offline.
        pub server_keys: Vec<String>,
        /// The addresses of `supportedProtocols` once more, for old SDKs.
        pub urls: BTreeMap<String, String>,
    }
}

impl SessionEdgeRouter {
    /// The router with this id and these keys, and with `urls` filled from `supportedProtocols`.
    #[must_use]
    pub fn new(id: &str, server_keys: Vec<String>, router: EdgeRouterCommon) -> Self {
        let urls = router.supported_protocols.clone();
        Self { router, id: id.to_owned(), server_keys, urls }
    }

    /// The address of the router for a protocol, from `supportedProtocols` or else from `urls`.
    #[must_use]
    pub fn address(&self, protocol: &str) -> Option<&str> {
        let address = self.router.supported_protocols.get(protocol);
        address.or_else(|| self.urls.get(protocol)).map(String::as_str)
    }
}
