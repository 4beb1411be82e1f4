//! The connection ids in use on one SDK channel, and the ids that each service session allowed. The end
//! of a service session is looked up, however many connections the channel has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::hosted::Hosted;
use crate::forwarder::{LocalEnd, SdkCircuit};
use crate::seam::AccessGrant;

/// The object behind a connection id.
#[derive(Clone)]
pub(super) enum Conn {
    /// A connection that is being made; cancelled if the SDK closes it or loses the right to it.
    Pending(CancellationToken),
    /// An end on this router.
    Local(Arc<LocalEnd>),
    /// An end at the SDK.
    Sdk(Arc<SdkCircuit>),
    /// A listener.
    Host(Arc<Hosted>),
}

impl Conn {
    /// Begins an end whose connection the SDK now knows: messages are sent to the SDK, and the time
    /// starts in which a host's end waits for the start of the circuit.
    pub(super) fn begin(&self) {
        match self {
            Self::Local(end) => end.begin(),
            Self::Sdk(circuit) => circuit.begin(),
            Self::Pending(_) | Self::Host(_) => {}
        }
    }

    /// Drops the end behind a connection id whose connection was never completed; neither side is
    /// told.
    pub(super) fn discard(&self) {
        match self {
            Self::Pending(cancel) => cancel.cancel(),
            Self::Local(end) => end.discard(),
            Self::Sdk(circuit) => circuit.discard(),
            Self::Host(_) => {}
        }
    }
}

/// A connection id in use.
pub(super) struct EdgeConnection {
    pub(super) what: Conn,
    /// The grant behind the id; a circuit that reached a host has the host's grant.
    pub(super) grant: Option<AccessGrant>,
}

impl EdgeConnection {
    /// True if this is the entry of this reservation; a later reservation of the same id has another
    /// token.
    pub(super) fn is_reserved_by(&self, reserved: &CancellationToken) -> bool {
        matches!(&self.what, Conn::Pending(cancel) if cancel == reserved)
    }

    fn service_session(&self) -> Option<&str> {
        let grant = self.grant.as_ref()?;
        Some(grant.service_session.as_str()).filter(|id| !id.is_empty())
    }
}

/// The connection ids in use.
#[derive(Default)]
pub(super) struct Entries {
    by_id: HashMap<u32, EdgeConnection>,
    of_service_session: HashMap<String, HashSet<u32>>,
}

impl Entries {
    pub(super) fn get(&self, id: u32) -> Option<&EdgeConnection> {
        self.by_id.get(&id)
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &EdgeConnection)> {
        self.by_id.iter().map(|(id, entry)| (*id, entry))
    }

    /// The connection ids that a service session allowed.
    pub(super) fn of_service_session(
        &self,
        id: &str,
    ) -> impl Iterator<Item = (u32, &EdgeConnection)> {
        let ids = self.of_service_session.get(id).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// Puts an entry in the place of the former one of this id.
    pub(super) fn insert(&mut self, id: u32, entry: EdgeConnection) {
        self.remove(id);
        if let Some(service_session) = entry.service_session() {
            match self.of_service_session.get_mut(service_session) {
                Some(ids) => {
                    ids.insert(id);
                }
                None => {
                    self.of_service_session.insert(service_session.to_owned(), [id].into());
                }
            }
        }
        self.by_id.insert(id, entry);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<EdgeConnection> {
        let entry = self.by_id.remove(&id)?;
        if let Some(service_session) = entry.service_session()
            && let Some(ids) = self.of_service_session.get_mut(service_session)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_service_session.remove(service_session);
            }
        }
        Some(entry)
    }

    /// Removes all entries, and returns the objects behind the ids.
    pub(super) fn take(&mut self) -> Vec<Conn> {
        let all = std::mem::take(self);
        all.by_id.into_values().map(|entry| entry.what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Use;

    fn entry(service_session: &str) -> EdgeConnection {
        let grant = AccessGrant {
            token: String::new(),
            service_session: service_session.to_owned(),
            service: "svc".to_owned(),
            purpose: Use::Dial,
        };
        EdgeConnection { what: Conn::Pending(CancellationToken::new()), grant: Some(grant) }
    }

    #[test]
    fn a_service_session_has_the_ids_whose_present_grant_is_from_it() {
        let mut entries = Entries::default();
        let of = |entries: &Entries, id: &str| {
            let mut ids: Vec<u32> = entries.of_service_session(id).map(|(id, _)| id).collect();
            ids.sort_unstable();
            ids
        };
        for (id, service_session) in [(1, "a"), (2, "a"), (3, "b"), (4, "")] {
            entries.insert(id, entry(service_session));
        }
        entries.insert(5, EdgeConnection { grant: None, ..entry("") });
        assert_eq!((of(&entries, "a"), of(&entries, "b")), (vec![1, 2], vec![3]));
        assert!(of(&entries, "").is_empty() && of(&entries, "none").is_empty());
        entries.insert(2, entry("b"));
        entries.insert(5, entry("a"));
        assert!(entries.remove(3).is_some() && entries.remove(3).is_none());
        assert_eq!((of(&entries, "a"), of(&entries, "b")), (vec![1, 5], vec![2]));
        assert_eq!(entries.len(), 4);
        assert_eq!(entries.take().len(), 4);
        assert!(entries.is_empty() && entries.of_service_session.is_empty());
    }
}
