//! Settings of controllers that are kept in the model.

use super::{Base, Record, record};
use crate::row::row;

row! {
    /// Addresses that clients may be sent to. An empty list is one that allows none.
    pub struct UriList {
        /// The addresses.
        1 => pub uris: Vec<String>,
    }
}

row! {
    /// Settings of the controller whose id they have, or of all of them under the id `global`
    /// (protocol: management-api 5, notes). What is absent is not set here.
    pub struct ControllerSetting {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Where clients may be sent after a login.
        2 => pub oidc_redirect_uris: Option<UriList>,
        /// Where clients may be sent after a logout.
        3 => pub oidc_post_logout_uris: Option<UriList>,
    }
}

impl ControllerSetting {
    /// The id of the settings of all controllers.
    pub const GLOBAL: &'static str = "global";

    /// What holds where `self` are the settings of a controller: its own, else the global ones.
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

impl Record for ControllerSetting {
    record!(ControllerSetting);
}
