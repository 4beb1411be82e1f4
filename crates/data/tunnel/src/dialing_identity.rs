//! Whose a dial of a hosted service is.

use std::sync::Arc;

/// The identity that dials a hosted service: the shares of dialers are counted by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DialingIdentity(Arc<str>);

impl DialingIdentity {
    /// The identity with this id, which a router or a controller has verified. Dialers of a service whose identities are
    /// not told have one share together, because an id that a dialer says itself could be another one for each dial.
    #[must_use]
    pub fn new(verified: Option<&str>, service: &str) -> Self {
        Self(match verified {
            Some(id) => format!("identity {id}").into(),
            None => format!("dialers of {service}").into(),
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
