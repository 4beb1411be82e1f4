//! Settings of controllers that are kept in the model.

use super::{Base, Record};
use crate::row::row;

row! {
    /// Addresses that clients may be sent to. An empty list allows none.
    pub struct UriList {
        /// The addresses.
        1 => pub uris: Vec<String>,
    }
}

row! {
    /// Settings of the controller with the same id, or of all controllers under the id `global`
    /// (docs/protocol/management-api.md 5, notes). An absent member is not set.
    pub struct ControllerSetting {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Addresses that clients may be sent to after a login.
        2 => pub oidc_redirect_uris: Option<UriList>,
        /// Addresses that clients may be sent to after a logout.
        3 => pub oidc_post_logout_uris: Option<UriList>,
    }
}

impl ControllerSetting {
    /// Id of the settings of all controllers.
    pub const GLOBAL: &'static str = "global";

    /// The settings in effect for a controller: its own (`self`), and the global ones where it has
    /// none.
    #[must_use]
    pub fn over(&self, global: &Self) -> Self {
        let redirects = self.oidc_redirect_uris.as_ref().or(global.oidc_redirect_uris.as_ref());
        let logouts = self.oidc_post_logout_uris.as_ref().or(global.oidc_post_logout_uris.as_ref());
        Self {
            base: self.base.clone(),
            oidc_redirect_uris: redirects.cloned(),
            oidc_post_logout_uris: logouts.cloned(),
        }
    }
}

impl Record for ControllerSetting {}
