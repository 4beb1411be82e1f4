//! Another router, as controllers report it.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use crate::seam::{ControllerId, LinkListener};

/// Another router.
#[derive(Debug, Default)]
pub(super) struct KnownPeer {
    pub(super) version: String,
    /// The prints of its keys, and the controller that named them last.
    keys: Option<(ControllerId, Vec<String>)>,
    /// The controllers that said last that the peer is connected to them. A controller that is lost has said
    /// nothing else.
    pub(super) healthy_at: HashSet<ControllerId>,
    /// The time of the peer's last connection to a controller; `None` while it is connected.
    pub(super) gone_since: Option<Instant>,
    /// The keys of its targets.
    pub(super) targets: BTreeSet<String>,
    /// The peer's listeners, as controllers reported them last.
    pub(super) listeners: Vec<LinkListener>,
}

impl KnownPeer {
    /// Takes the keys that a controller names. A controller that names none, like those of OpenZiti, does
    /// not replace what a connected one says. True if they are others than before.
    pub(super) fn replace_keys(&mut self, from: &ControllerId, named: &[String]) -> bool {
        let stays =
            self.keys.as_ref().is_some_and(|(by, _)| by != from && self.healthy_at.contains(by));
        if named.is_empty() && stays {
            return false;
        }
        let new = (!named.is_empty()).then(|| (from.clone(), named.to_vec()));
        let former = std::mem::replace(&mut self.keys, new);
        former.map(|(_, keys)| keys).unwrap_or_default() != named
    }

    /// The prints of its keys, if a controller names them.
    pub(super) fn keys(&self) -> Option<&[String]> {
        self.keys.as_ref().map(|(_, keys)| keys.as_slice())
    }

    /// True if the peer is connected to a controller.
    pub(super) fn is_healthy(&self) -> bool {
        !self.healthy_at.is_empty()
    }
}
