//! weft's own API: a network as a document, and changes to it that are decided whole.
//!
//! A document has a list of entities for each *section*, which is called like the collection:
//! `services`, `service-policies`, ... An entity has the members of the body that makes it, with
//! names in place of ids: a member that names other entities drops its `Id` (`configType`,
//! `authPolicy`), roles are `#attribute`, `@name` or `#all`. A member that an entity leaves out has
//! its default. A document contains no entities that the controller makes itself.
//!
//! A plan lists the changes of a document, and the identities that would gain or lose access;
//! applying the plan makes all of its changes, or none.

use std::time::Duration;

use serde_json::Value;

use crate::body::body;
use crate::entity::{DialBind, detail};
use crate::json::JsonMap;
use crate::operation::{Access, Operation, Response, action, detail as get};

/// The sections that documents have, by the plural of their kinds; kinds come before those that refer to
/// them.
pub const SECTIONS: &[&str] = &[
    "config-types",
    "configs",
    "cas",
    "external-jwt-signers",
    "auth-policies",
    "posture-checks",
    "services",
    "edge-routers",
    "identities",
    "service-policies",
    "edge-router-policies",
    "service-edge-router-policies",
];

/// The most entities of one page of an export; a page has at least 1.
pub const MAX_PAGE: i64 = 5000;
/// The most entities of one document.
pub const MAX_ENTITIES: usize = 50_000;
/// The most JSON values of one document, counted by [`crate::json::count_values`].
pub const MAX_VALUES: usize = 20 * MAX_ENTITIES;
/// The largest document, in bytes; only callers that may change a network may send one.
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;
/// The time limit for making a plan, and for applying a document.
pub const MAX_TIME: Duration = Duration::from_secs(120);
/// The most changes that a plan lists with their members; of further changes it lists the entity
/// only.
pub const MAX_DETAILED: usize = 2000;
/// The most changes of access to a service that a plan lists.
pub const MAX_SERVICES: usize = 1000;
/// The most names of identities that gain access to one service, and of those that lose it, that a
/// plan lists.
pub const MAX_NAMES: usize = 50;
/// The most mistakes of a document that one refusal lists.
pub const MAX_PROBLEMS: usize = 100;

/// Permissions for documents are checked entity by entity, so these operations are open to every
/// caller that is logged in.
const AUTH: Access = Access::Authenticated;

const STATUSES: &[u16] = &[200, 400, 401, 409, 413, 429, 503];

/// Operations of weft's own API.
pub const OPERATIONS: &[Operation] = &[
    get("exportNetwork", "/network", AUTH, "networkExport")
        .query(&["sections", "after", "limit"])
        .statuses(&[200, 400, 401, 429, 503]),
    action("planChange", "/plan", AUTH)
        .takes::<ChangeBody>()
        .takes_documents()
        .answers(Response::Detail("changePlan"))
        .statuses(STATUSES),
    action("applyChange", "/apply", AUTH)
        .takes::<ChangeBody>()
        .takes_documents()
        .answers(Response::Detail("changePlan"))
        .statuses(STATUSES),
];

/// The member by which a document says which configs an identity sees instead of a service's own:
/// service names to lists of config names.
pub const SERVICE_CONFIGS: &str = "serviceConfigs";

/// The name that a member of an API body has in documents: one that names entities drops its `Id`.
#[must_use]
pub fn document_name(name: &'static str, names_entities: bool) -> &'static str {
    match name.strip_suffix("Id") {
        Some(short) if names_entities && !short.is_empty() => short,
        _ => name,
    }
}

body! {
    /// A document, and the way to apply it.
    pub struct ChangeBody {
        /// The plan that the caller expects: the value of `plan` in an earlier answer. If the plan
        /// is another one now, nothing is applied.
        Optional expect_plan: String,
        /// The revision that the caller expects the network to have. If the network is at another
        /// one, nothing is applied.
        Optional expect_revision: i64,
        /// The document: for each section a list of entities; at most 50000 entities in all.
        Create network: JsonMap,
        /// Whether to delete entities of the document's sections that the document does not name.
        Optional prune: bool,
    }
}

detail! {
    /// A page of a network as a document.
    pub struct NetworkExport {
        /// The part of the document that this page has.
        pub network: JsonMap,
        /// The value of the parameter `after` for the next page. The last page has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub next: Option<String>,
        /// The revision of the network that the page was read from.
        pub revision: i64,
    }
}

detail! {
    /// The changes of a document.
    pub struct ChangePlan {
        /// The access to services that identities gain and lose.
        pub access: AccessChange,
        /// The numbers of entities that are deleted together with others, by kind: authenticators,
        /// enrollments, terminators and so on; of kinds that the caller may read.
        pub along: Vec<AlongCount>,
        /// Whether the document was applied. A plan alone is not.
        pub applied: bool,
        /// The entities that change.
        pub changes: Vec<EntityChange>,
        /// The number of new entities.
        pub created: i64,
        /// The number of entities that are deleted.
        pub deleted: i64,
        /// Remarks on the document, as sentences.
        pub notes: Vec<String>,
        /// A fingerprint of all changes, for `expectPlan`.
        pub plan: String,
        /// The revision of the network that the plan was made from; if the document was applied,
        /// the revision that this made.
        pub revision: i64,
        /// The number of entities of the document that stay as they are.
        pub unchanged: i64,
        /// The number of entities that are changed.
        pub updated: i64,
    }
}

detail! {
    /// An entity that changes.
    pub struct EntityChange {
        /// The kind of the change: `create`, `update` or `delete`.
        pub action: String,
        /// The members of the entity that change, in the form of documents. With more than 2000
        /// changes the list is empty.
        pub fields: Vec<FieldChange>,
        /// The id of the entity.
        pub id: String,
        /// Whether the document asks for the change. Other changes follow from one that the document
        /// asks for.
        pub is_asked_for: bool,
        /// The name of the entity.
        pub name: String,
        /// The section of documents that the entity belongs to.
        pub section: String,
    }
}

detail! {
    /// A member of an entity that changes.
    pub struct FieldChange {
        /// The new value; null if the member gets its default.
        pub after: Value,
        /// The present value; null if the member has its default.
        pub before: Value,
        /// The name of the member; the names of nested members are joined by dots.
        pub field: String,
    }
}

detail! {
    /// The number of entities of a kind that are deleted together with others.
    pub struct AlongCount {
        /// The number of entities.
        pub count: i64,
        /// The kind, such as `authenticators`.
        pub kind: String,
    }
}

detail! {
    /// The access that identities gain and lose by service policies. Posture checks are not taken
    /// into account. Empty if the caller may not read identities; without services that the caller may not read,
    /// unless the document has them.
    pub struct AccessChange {
        /// The number of pairs of an identity and a service that gain access; dialing and hosting
        /// count separately.
        pub gained: i64,
        /// The number of pairs of an identity and a service that lose access; dialing and hosting
        /// count separately.
        pub lost: i64,
        /// The number of entries that `services` leaves out.
        pub more_services: i64,
        /// The services whose access changes; at most 1000 entries.
        pub services: Vec<ServiceAccess>,
    }
}

detail! {
    /// The change of access to a service, for dialing or for hosting.
    pub struct ServiceAccess {
        /// The number of identities that gain access.
        pub gained: i64,
        /// The names of at most 50 identities that gain access.
        pub gained_by: Vec<String>,
        /// The number of identities that lose access.
        pub lost: i64,
        /// The names of at most 50 identities that lose access.
        pub lost_by: Vec<String>,
        /// The name of the service.
        pub service: String,
        /// Whether the identities dial or host the service.
        pub r#type: DialBind,
    }
}

detail! {
    /// A mistake of a document. A refusal has a list of mistakes in the `data` of its cause.
    pub struct Problem {
        /// The name of the wrong member; the names of nested members are joined by dots. Empty if
        /// the whole entity is wrong.
        pub field: String,
        /// The place of the entity in its section, from 0.
        pub index: i64,
        /// The name of the entity.
        pub name: String,
        /// The reason for which the member is wrong, as a sentence.
        pub reason: String,
        /// The section of the entity.
        pub section: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_name_entities_lose_their_id() {
        assert_eq!(document_name("configTypeId", true), "configType");
        assert_eq!(document_name("configs", true), "configs");
        assert_eq!(document_name("clientId", false), "clientId");
    }
}
