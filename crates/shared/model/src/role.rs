//! Role lists of policies: the entities that a side of a policy selects.
//!
//! Entries are `#attribute`, `@id`, or `#all` alone. A list is parsed once; the APIs show it as
//! sorted text without repetitions (docs/protocol/management-api.md 2.3, 7.4).

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::choice::Choice;
use crate::row::row;
use crate::{Id, IdError};

/// How several attributes of a role list are combined. Ids match with either value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[repr(i32)]
pub enum Semantic {
    /// An entity must bear every attribute.
    AllOf = 0,
    /// An entity must bear at least one attribute.
    AnyOf = 1,
}

impl Choice for Semantic {}

row! {
    /// A parsed role list. Attributes and ids are sorted, without repetitions.
    pub struct Roles {
        /// Attributes, without the `#`.
        1 => pub attributes: Vec<Arc<str>>,
        /// Ids of entities that are named directly.
        2 => pub ids: Vec<Id>,
        /// True if the list is `#all`.
        3 => pub all: bool,
    }
}

/// Why a role list was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// An entry does not begin with `#` or `@`, or has no text after it.
    #[error("role entries must be prefixed with # (an attribute) or @ (an id), not {0:?}")]
    Prefix(String),
    /// The list has `#all` and other entries.
    #[error("#all must be the only role")]
    AllNotAlone,
    /// The text after `@` is not an id.
    #[error("role {role:?}: {error}")]
    Id {
        /// The entry.
        role: String,
        /// The problem.
        error: IdError,
    },
}

impl Roles {
    /// The list `#all`.
    pub fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Parses the entries of a role list. It does not check whether the ids exist.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, RoleError> {
        let mut roles = Self::default();
        for entry in entries {
            let entry = entry.as_ref();
            match entry.split_at_checked(1) {
                Some(("#", "all")) => roles.all = true,
                Some(("#", attribute)) if !attribute.is_empty() => {
                    roles.attributes.push(attribute.into());
                }
                Some(("@", id)) if !id.is_empty() => {
                    let id = Id::parse(id);
                    let bad = |error| RoleError::Id { role: entry.into(), error };
                    roles.ids.push(id.map_err(bad)?);
                }
                _ => return Err(RoleError::Prefix(entry.into())),
            }
        }
        if roles.all && !(roles.attributes.is_empty() && roles.ids.is_empty()) {
            return Err(RoleError::AllNotAlone);
        }
        roles.attributes.sort_unstable();
        roles.attributes.dedup();
        roles.ids.sort_unstable();
        roles.ids.dedup();
        Ok(roles)
    }

    /// The entries as text, sorted bytewise, attributes first.
    pub fn to_strings(&self) -> Vec<String> {
        let all = self.all.then(|| "#all".to_owned());
        let attributes = self.attributes.iter().map(|attribute| format!("#{attribute}"));
        all.into_iter()
            .chain(attributes)
            .chain(self.ids.iter().map(|id| format!("@{id}")))
            .collect()
    }

    /// True if the list is empty and selects nothing.
    pub fn is_empty(&self) -> bool {
        !self.all && self.attributes.is_empty() && self.ids.is_empty()
    }

    /// True if the list selects an entity with this id and these attributes.
    pub fn matches(&self, semantic: Semantic, id: &Id, attributes: &[Arc<str>]) -> bool {
        let mut wanted = self.attributes.iter();
        self.all
            || self.ids.binary_search(id).is_ok()
            || match semantic {
                Semantic::AnyOf => wanted.any(|attribute| attributes.contains(attribute)),
                Semantic::AllOf => {
                    !self.attributes.is_empty()
                        && wanted.all(|attribute| attributes.contains(attribute))
                }
            }
    }

    /// Removes the id of a deleted entity. Returns false if the list did not name it.
    pub fn remove_id(&mut self, id: &Id) -> bool {
        match self.ids.binary_search(id) {
            Ok(at) => {
                self.ids.remove(at);
                true
            }
            Err(_) => false,
        }
    }
}

/// Role attributes of an entity at most.
pub const MAX_ATTRIBUTES: usize = 1000;
/// Longest role attribute, in bytes.
pub const MAX_ATTRIBUTE: usize = 1024;

/// Sorts the role attributes of an entity, removes repetitions, and refuses attributes that no role
/// list could name: empty ones, and those that begin with `#` or `@`
/// (docs/protocol/management-api.md 7.1).
pub fn attributes<S: AsRef<str>>(entries: &[S]) -> Result<Vec<Arc<str>>, AttributeError> {
    if entries.len() > MAX_ATTRIBUTES {
        return Err(AttributeError::Many(entries.len()));
    }
    let mut list: Vec<Arc<str>> = Vec::with_capacity(entries.len());
    for entry in entries.iter().map(AsRef::as_ref) {
        check_attribute(entry)?;
        list.push(entry.into());
    }
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

/// Checks a role attribute: a role list can name it, it is not too long, and has no control characters.
pub fn check_attribute(attribute: &str) -> Result<(), AttributeError> {
    if attribute.is_empty() || attribute.starts_with(['#', '@']) {
        return Err(AttributeError::Unnameable(attribute.into()));
    }
    if attribute.len() > MAX_ATTRIBUTE {
        return Err(AttributeError::Long(attribute.chars().take(32).collect()));
    }
    if attribute.contains(char::is_control) {
        return Err(AttributeError::Control(attribute.into()));
    }
    Ok(())
}

/// Why role attributes were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// No role list could name the attribute.
    #[error("role attributes may not be empty or begin with # or @: {0:?}")]
    Unnameable(String),
    /// There are too many of them.
    #[error("an entity has at most {MAX_ATTRIBUTES} role attributes, not {0}")]
    Many(usize),
    /// The attribute with this beginning is too long.
    #[error("a role attribute has at most {MAX_ATTRIBUTE} bytes: {0:?}...")]
    Long(String),
    /// The attribute has a control character.
    #[error("role attributes must have no control characters: {0:?}")]
    Control(String),
}

impl AttributeError {
    /// The attribute, or their number, as far as it is shown.
    pub fn value(&self) -> String {
        match self {
            Self::Unnameable(text) | Self::Long(text) | Self::Control(text) => text.clone(),
            Self::Many(count) => count.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_sorted_and_deduplicated() {
        let roles = Roles::parse(&["@b", "#y", "#x", "@a", "#y", "@b"]).unwrap();
        assert_eq!(roles.to_strings(), ["#x", "#y", "@a", "@b"]);
        assert_eq!(Roles::parse(&["#all"]).unwrap(), Roles::all());
        assert_eq!(Roles::all().to_strings(), ["#all"]);
        assert!(Roles::parse::<&str>(&[]).unwrap().is_empty());
    }

    #[test]
    fn bad_roles_are_named() {
        assert_eq!(Roles::parse(&["x"]), Err(RoleError::Prefix("x".into())));
        assert_eq!(Roles::parse(&["#"]), Err(RoleError::Prefix("#".into())));
        assert_eq!(Roles::parse(&[""]), Err(RoleError::Prefix("".into())));
        assert_eq!(Roles::parse(&["é"]), Err(RoleError::Prefix("é".into())));
        assert_eq!(Roles::parse(&["#all", "@a"]), Err(RoleError::AllNotAlone));
        assert!(matches!(Roles::parse(&["@a\n"]), Err(RoleError::Id { .. })));
        assert!(attributes(&["ok", "#no"]).is_err());
        assert!(attributes(&["@no"]).is_err());
        assert!(attributes(&["<b>x</b> \u{e9}".to_owned(), "x".repeat(MAX_ATTRIBUTE)]).is_ok());
        for (wrong, reason) in [
            (vec!["x".repeat(MAX_ATTRIBUTE + 1)], "at most 1024 bytes"),
            (vec!["a\nb".to_owned()], "no control characters"),
            (vec!["\u{85}".to_owned()], "no control characters"),
            (vec!["x".to_owned(); MAX_ATTRIBUTES + 1], "at most 1000 role attributes, not 1001"),
        ] {
            let error = attributes(&wrong).unwrap_err();
            assert!(error.to_string().contains(reason) && error.value().len() < 64, "{error}");
        }
    }

    #[test]
    fn matching_follows_the_semantic() {
        let bears = attributes(&["a", "b"]).unwrap();
        let id = Id::new("one");
        let matches =
            |list: &[&str], semantic| Roles::parse(list).unwrap().matches(semantic, &id, &bears);
        assert!(matches(&["#all"], Semantic::AllOf));
        assert!(matches(&["#a", "#b"], Semantic::AllOf));
        assert!(!matches(&["#a", "#c"], Semantic::AllOf));
        assert!(matches(&["#a", "#c"], Semantic::AnyOf));
        assert!(matches(&["#c", "@one"], Semantic::AllOf));
        assert!(!matches(&["@two"], Semantic::AllOf));
        assert!(!matches(&[], Semantic::AllOf));
        assert!(!matches(&[], Semantic::AnyOf));
    }
}
