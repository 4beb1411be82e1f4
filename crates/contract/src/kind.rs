//! Kinds of entities in the words of commands: `weft create|list|show|update|delete KIND`.

use crate::operation::{Method, Operation};
use crate::shape::Field;

/// A kind of entity.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// One of them: `edge-router`.
    pub name: &'static str,
    /// Many of them: `edge-routers`; also the collection in paths and references.
    pub plural: &'static str,
    /// Shorter names.
    pub aliases: &'static [&'static str],
    /// The description of such an entity.
    pub about: &'static str,
    /// Every operation of the management API on this kind.
    pub operations: &'static [Operation],
    /// Members of the body of create, replace and patch.
    pub fields: &'static [Field],
    /// Links of a detail beside `self`, each at `<self>/<link>`.
    pub links: &'static [&'static str],
    /// Where the role attributes in use are listed, if entities of this kind bear them.
    pub role_attributes: Option<&'static str>,
    /// Members that hold the roles of a policy.
    pub roles: &'static [RoleField],
    /// The columns of a table of them.
    pub columns: &'static [Column],
}

/// A member of a policy that selects entities by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleField {
    /// The member.
    pub field: &'static str,
    /// The member that shows them by name.
    pub display: &'static str,
    /// The collection they select from.
    pub selects: &'static str,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// The member of the detail, as a JSON pointer.
    pub pointer: &'static str,
}

/// The member that bears role attributes, on every kind that does.
pub const ROLE_ATTRIBUTES: &str = "roleAttributes";

impl Kind {
    /// Whether people call this kind so.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.plural == name || self.aliases.contains(&name)
    }

    /// The operation that lists them.
    #[must_use]
    pub fn list(&self) -> Option<&'static Operation> {
        self.find(Method::Get, "")
    }

    /// The operation that makes one.
    #[must_use]
    pub fn create(&self) -> Option<&'static Operation> {
        self.find(Method::Post, "")
    }

    /// The operation that reads one.
    #[must_use]
    pub fn detail(&self) -> Option<&'static Operation> {
        self.find(Method::Get, "/{id}")
    }

    /// The operation that replaces one.
    #[must_use]
    pub fn replace(&self) -> Option<&'static Operation> {
        self.find(Method::Put, "/{id}")
    }

    /// The operation that changes parts of one.
    #[must_use]
    pub fn patch(&self) -> Option<&'static Operation> {
        self.find(Method::Patch, "/{id}")
    }

    /// The operation that removes one.
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
