//! Kinds of entities in the words of commands: `weft create|list|show|update|delete KIND`.

use crate::operation::{Method, Operation};
use crate::paths::Api;
use crate::shape::Field;

/// A kind of entity.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name of one entity: `edge-router`.
    pub name: &'static str,
    /// The name of several entities: `edge-routers`; also the collection in paths and references.
    pub plural: &'static str,
    /// Further names that commands accept.
    pub aliases: &'static [&'static str],
    /// The description of an entity of the kind, without a full stop.
    pub about: &'static str,
    /// The API that has the operations.
    pub api: Api,
    /// Every operation of that API on this kind.
    pub operations: &'static [Operation],
    /// Members of the body of create, replace and patch.
    pub fields: &'static [Field],
    /// Links of a detail beside `self`, each at `<self>/<link>`.
    pub links: &'static [&'static str],
    /// The path that lists the role attributes in use; `None` for kinds without role attributes.
    pub role_attributes: Option<&'static str>,
    /// Members that hold the roles of a policy.
    pub roles: &'static [RoleField],
    /// The columns of a table of entities.
    pub columns: &'static [Column],
}

/// A member of a policy that selects entities by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleField {
    /// The member.
    pub field: &'static str,
    /// The member of answers that shows the roles with names in place of ids.
    pub display: &'static str,
    /// The collection whose entities the roles select.
    pub selects: &'static str,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub title: &'static str,
    /// The member of the detail, as a JSON pointer.
    pub pointer: &'static str,
}

/// The member that bears role attributes, on every kind that does.
pub const ROLE_ATTRIBUTES: &str = "roleAttributes";

impl Kind {
    /// A kind without links, role attributes and roles, for the members that are not named: the others are empty, and each
    /// kind names them.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        plural: "",
        aliases: &[],
        about: "",
        api: Api::Management,
        operations: &[],
        fields: &[],
        links: &[],
        role_attributes: None,
        roles: &[],
        columns: &[],
    };

    /// Whether the kind has this name: singular, plural or alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.plural == name || self.aliases.contains(&name)
    }

    /// The operation that lists the entities.
    #[must_use]
    pub fn list(&self) -> Option<&'static Operation> {
        self.find(Method::Get, "")
    }

    /// The operation that creates an entity.
    #[must_use]
    pub fn create(&self) -> Option<&'static Operation> {
        self.find(Method::Post, "")
    }

    /// The operation that reads an entity.
    #[must_use]
    pub fn detail(&self) -> Option<&'static Operation> {
        self.find(Method::Get, "/{id}")
    }

    /// The operation that replaces an entity.
    #[must_use]
    pub fn replace(&self) -> Option<&'static Operation> {
        self.find(Method::Put, "/{id}")
    }

    /// The operation that changes members of an entity.
    #[must_use]
    pub fn patch(&self) -> Option<&'static Operation> {
        self.find(Method::Patch, "/{id}")
    }

    /// The operation that deletes an entity.
    #[must_use]
    pub fn delete(&self) -> Option<&'static Operation> {
        self.find(Method::Delete, "/{id}")
    }

    fn find(&self, method: Method, below: &str) -> Option<&'static Operation> {
        self.operations.iter().find(|operation| {
            operation.method == method
                && operation
                    .path
                    .strip_prefix('/')
                    .and_then(|path| path.strip_prefix(self.plural))
                    .is_some_and(|rest| rest == below)
        })
    }
}
