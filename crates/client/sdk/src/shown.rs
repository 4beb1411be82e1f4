//! A session as it is shown to routers.

use weft_client::ClientApi;

/// A session as it is shown to routers. Its token reaches no log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// A text that stays the same as long as the session is the same one.
    pub(crate) session: String,
    pub(crate) token: String,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shown(..)")
    }
}

impl Shown {
    pub(crate) fn of(api: &ClientApi) -> Option<Self> {
        Some(Self { session: api.session_key()?, token: api.token()? })
    }

    /// Whether the token is an access token, which gets others after it.
    pub(crate) fn is_refreshed(&self) -> bool {
        self.session != self.token
    }
}
