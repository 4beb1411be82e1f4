//! A link between its hellos and its place among the open links.

use weft_channel::Established;
use weft_wire::link::SplitPart;

/// A link whose hellos were accepted.
pub(super) struct Opened {
    pub(super) key: String,
    pub(super) id: String,
    pub(super) peer: String,
    pub(super) iteration: u32,
    /// The address that was dialed; `None` if the peer dialed.
    pub(super) dialed: Option<String>,
    pub(super) protocol: String,
    /// The fingerprint of the leaf certificate that the peer has shown; `None` if this router dialed.
    pub(super) leaf: Option<String>,
    pub(super) channels: Vec<(Option<SplitPart>, Established)>,
}
