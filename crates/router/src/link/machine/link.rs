//! A link that was opened.

use super::table::State;

/// What an opened link is.
#[derive(Clone, Debug)]
pub(in crate::link) struct Facts {
    /// A number that is unique in this process.
    pub(in crate::link) number: u64,
    pub(in crate::link) key: String,
    pub(in crate::link) id: String,
    /// The router at the other end.
    pub(in crate::link) peer: String,
    /// The number of the dial.
    pub(in crate::link) iteration: u32,
    /// The address that was dialed; `None` if the peer dialed.
    pub(in crate::link) dialed: Option<String>,
    /// The fingerprint of the leaf certificate that the peer has shown; `None` if this router dialed.
    pub(in crate::link) leaf: Option<String>,
}

/// The driver's handle of a link.
pub(in crate::link) trait Handle: Clone {
    /// What the link is.
    fn facts(&self) -> &Facts;

    /// Fails if the peer has shown none of these keys.
    fn prove(&self, keys: &[String]) -> Result<(), String>;
}

/// A link in the machine's table.
#[derive(Debug)]
pub(super) struct OpenLink<L> {
    pub(super) handle: L,
    pub(super) state: State,
    /// The number of links that this one was preferred to.
    pub(super) rejected: u32,
}
