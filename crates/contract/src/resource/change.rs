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

/// The least and the most entities of one page of an export.
pub const MAX_PAGE: i64 = 5000;
/// The most entities of one document.
pub const MAX_ENTITIES: usize = 50_000;
/// The largest document, in bytes; only callers that may change a network may send one.
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;
/// The longest that anybody waits for a plan, or for a document to be applied.
pub const MAX_TIME: Duration = Duration::from_secs(120);
/// The most changes that a plan tells member by member; of the others it tells the name.
pub const MAX_DETAILED: usize = 2000;
/// The most services whose access a plan tells one by one.
pub const MAX_SERVICES: usize = 1000;
/// The most names of identities that a plan tells for one service.
pub const MAX_NAMES: usize = 50;
/// The most mistakes of a document that are told at once.
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
    /// A document, and how it is to be applied.
    pub struct ChangeBody {
        /// Apply only if this is still the plan: the value of `plan` in an earlier answer.
        Optional expect_plan: String,
        /// Apply only if the network is still at this revision.
        Optional expect_revision: i64,
        /// The document: for each section a list of entities.
        Create network: JsonMap,
        /// Delete entities in the document's sections that the document does not name.
        Optional prune: bool,
    }
}

detail! {
    /// A page of a network as a document.
    pub struct NetworkExport {
        /// The document, or the next part of it.
        pub network: JsonMap,
        /// The value of `after` for the next page; none on the last one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub next: Option<String>,
        /// The revision of the network that the page was read from.
        pub revision: i64,
    }
}

detail! {
    /// The changes of a document.
    pub struct ChangePlan {
        /// The access that identities gain and lose.
        pub access: AccessChange,
        /// Numbers of entities that are deleted along with others: authenticators, enrollments,
        /// terminators, ...
        pub along: Vec<AlongCount>,
        /// Whether it was applied.
        pub applied: bool,
        /// Every entity that changes.
        pub changes: Vec<EntityChange>,
        /// How many entities are new.
        pub created: i64,
        /// How many entities are deleted.
        pub deleted: i64,
        /// Remarks.
        pub notes: Vec<String>,
        /// A fingerprint of everything that changes, for `expectPlan`.
        pub plan: String,
        /// The revision that it was decided on; once applied, the revision that it made.
        pub revision: i64,
        /// How many entities of the document are as they should be already.
        pub unchanged: i64,
        /// How many entities are changed.
        pub updated: i64,
    }
}

detail! {
    /// One entity that changes.
    pub struct EntityChange {
        /// `create`, `update` or `delete`.
        pub action: String,
        /// Its members that change, as documents write them; none for more than 2000 changes.
        pub fields: Vec<FieldChange>,
        /// Its id.
        pub id: String,
        /// Whether the document asks for it; it follows from another change otherwise.
        pub is_asked_for: bool,
        /// Its name.
        pub name: String,
        /// The section it belongs to.
        pub section: String,
    }
}

detail! {
    /// One member that changes.
    pub struct FieldChange {
        /// The new value; null if it will have its default.
        pub after: Value,
        /// The present value; null if it has its default.
        pub before: Value,
        /// The member, dotted.
        pub field: String,
    }
}

detail! {
    /// How many entities of a kind go with others.
    pub struct AlongCount {
        /// How many.
        pub count: i64,
        /// Their kind: `authenticators`.
        pub kind: String,
    }
}

detail! {
    /// The access that identities gain and lose, by the service policies; posture is not taken into
    /// account.
    pub struct AccessChange {
        /// Pairs of identity and service that gain it, each for dialing and for hosting.
        pub gained: i64,
        /// Pairs that lose it.
        pub lost: i64,
        /// Services that are not in the list because it would be too long.
        pub more_services: i64,
        /// The services whose access changes.
        pub services: Vec<ServiceAccess>,
    }
}

detail! {
    /// How the access to one service changes, for dialing or for hosting it.
    pub struct ServiceAccess {
        /// How many identities gain it.
        pub gained: i64,
        /// Names of those, the first of them if there are many.
        pub gained_by: Vec<String>,
        /// How many identities lose it.
        pub lost: i64,
        /// Names of those, the first of them if there are many.
        pub lost_by: Vec<String>,
        /// Name of the service.
        pub service: String,
        /// For dialing, or for hosting.
        pub r#type: DialBind,
    }
}

detail! {
    /// One mistake of a document; the cause of a refusal holds a list of them in `data`.
    pub struct Problem {
        /// The member that is wrong, dotted; empty if it is the entity as a whole.
        pub field: String,
        /// The place of the entity in its section, from 0.
        pub index: i64,
        /// The name of the entity.
        pub name: String,
        /// The problem.
        pub reason: String,
        /// The section.
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
