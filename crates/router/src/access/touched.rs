//! The entities that a change of the data model may have changed.

use std::collections::HashSet;

use super::policies::Policy;

/// The entities that events may have changed.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// True if the whole model was replaced.
    pub(crate) all: bool,
    /// Identities whose access may have changed.
    pub(crate) identities: HashSet<String>,
    /// Identities whose own entity has changed.
    pub(crate) renewed: HashSet<String>,
    /// Services whose access or configs may have changed.
    pub(crate) services: HashSet<String>,
    /// Identities that were deleted or disabled.
    pub(crate) gone: Vec<String>,
    /// True if public keys have changed.
    pub(crate) keys: bool,
    /// Ids of revocations that have changed.
    pub(crate) revocations: Vec<String>,
    /// Configs that have changed.
    pub(crate) configs: HashSet<String>,
    /// True if config types have changed.
    pub(crate) config_types: bool,
    /// True if routers have changed.
    pub(crate) routers: bool,
    /// Policies whose type, identities or posture checks have changed.
    pub(crate) policies: HashSet<String>,
    /// Policies that were deleted.
    pub(crate) dropped: Vec<Policy>,
}

impl Touched {
    /// A change of everything.
    pub(crate) fn all() -> Self {
        Self { all: true, keys: true, ..Self::default() }
    }

    /// True if anyone's access or configs may have changed.
    pub(crate) fn access(&self) -> bool {
        self.all
            || self.config_types
            || !self.configs.is_empty()
            || !self.identities.is_empty()
            || !self.services.is_empty()
    }
}
