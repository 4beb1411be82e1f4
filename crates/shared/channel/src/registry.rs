//! The groups of a listener (docs/protocol/channel.md 7.3).
//!
//! A group is reserved before its first connection is answered, because the dialer opens the others as soon as
//! it has that answer. These wait until the group is open or given up.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::handle::ChannelHandle;

/// Groups by id.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    groups: Mutex<HashMap<String, RegisteredGroup>>,
}

#[derive(Debug)]
enum RegisteredGroup {
    Creating(watch::Receiver<()>),
    Open(ChannelHandle),
}

/// The state of a group.
#[derive(Debug)]
pub(crate) enum GroupLookup {
    /// The group is open.
    Open(ChannelHandle),
    /// The first connection is being accepted; the receiver changes or closes when that is decided.
    Creating(watch::Receiver<()>),
    /// The group was unknown and is now reserved.
    Reserved(Reservation),
    /// The group is unknown, and was not reserved.
    Unknown,
}

/// The right to open a group; given up when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    registry: Arc<Registry>,
    id: String,
    opened: bool,
    /// Dropped when the reservation ends, which tells waiting connections.
    _decided: watch::Sender<()>,
}

impl Registry {
    /// Looks a group up, and reserves it if it is unknown and `reserve` is true.
    pub(crate) fn lookup(self: &Arc<Self>, id: &str, reserve: bool) -> GroupLookup {
        let mut groups = self.groups.lock();
        match groups.get(id) {
            Some(RegisteredGroup::Open(channel)) if !channel.is_closed() => {
                return GroupLookup::Open(channel.clone());
            }
            Some(RegisteredGroup::Creating(decided)) => {
                return GroupLookup::Creating(decided.clone());
            }
            Some(RegisteredGroup::Open(_)) | None => {}
        }
        if !reserve {
            return GroupLookup::Unknown;
        }
        let (sender, receiver) = watch::channel(());
        groups.insert(id.to_owned(), RegisteredGroup::Creating(receiver));
        GroupLookup::Reserved(Reservation {
            registry: self.clone(),
            id: id.to_owned(),
            opened: false,
            _decided: sender,
        })
    }

    /// Removes the group of a closed channel.
    fn forget(&self, id: &str) {
        let mut groups = self.groups.lock();
        if matches!(groups.get(id), Some(RegisteredGroup::Open(channel)) if channel.is_closed()) {
            groups.remove(id);
        }
    }
}

impl Reservation {
    /// The channel runs: further connections may join.
    pub(crate) fn open(mut self, channel: &ChannelHandle) {
        self.opened = true;
        self.registry.groups.lock().insert(self.id.clone(), RegisteredGroup::Open(channel.clone()));
        let (registry, id) = (self.registry.clone(), self.id.clone());
        channel.shared().on_close(Box::new(move || registry.forget(&id)));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.opened {
            self.registry.groups.lock().remove(&self.id);
        }
    }
}
