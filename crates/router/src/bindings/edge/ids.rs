//! The connection ids of one SDK channel: the object behind each, and the grant that allowed it.
//!
//! An id is reserved before any wait, filled when its object is ready, and released when the object
//! ends. An SDK may close an id and use it again at any moment. A release therefore names the object
//! that is expected behind the id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_circuit::ConnIds;
use weft_wire::edge::FIRST_ROUTER_CONN_ID;
use weft_xgress::Role;

use super::entries::{Conn, EdgeConnection, Entries};
use super::hosted::Hosted;
use crate::forwarder::SdkCircuit;
use crate::seam::{AccessGrant, Use};

/// Most dials of one host that are remembered because the host may accept them after they failed.
const MAX_GIVEN_UP: usize = 1024;
/// Most connections and listeners of one SDK channel.
const MAX_CONNECTIONS: usize = 65_536;

/// The connections and listeners of a channel, by connection id.
#[derive(Default)]
pub(super) struct Conns {
    pub(super) by_id: Entries,
    /// Ends with flow control at the SDK, by circuit: the dialers' ends, then the hosts' ends. Both
    /// ends of a circuit may be on one channel.
    pub(super) circuits: [HashMap<Arc<str>, Arc<SdkCircuit>>; 2],
    /// Circuits of dials that a host with flow control of its own did not answer in time, by
    /// connection id.
    pub(super) given_up: HashMap<u32, Arc<str>>,
    pub(super) closed: bool,
}

impl Conns {
    /// The end at the SDK behind a connection id.
    pub(super) fn sdk_circuit(&self, id: u32) -> Option<Arc<SdkCircuit>> {
        match &self.by_id.get(id)?.what {
            Conn::Sdk(circuit) => Some(Arc::clone(circuit)),
            _ => None,
        }
    }

    /// The end of a circuit behind a connection id, on this router or at the SDK.
    pub(super) fn end(&self, id: u32) -> Option<Conn> {
        let what = &self.by_id.get(id)?.what;
        matches!(what, Conn::Local(_) | Conn::Sdk(_)).then(|| what.clone())
    }

    pub(super) fn circuits(&mut self, role: Role) -> &mut HashMap<Arc<str>, Arc<SdkCircuit>> {
        let [dialed, hosted] = &mut self.circuits;
        match role {
            Role::Initiator => dialed,
            Role::Terminator => hosted,
        }
    }
}

/// The connection ids of a channel, and those that this router chooses.
pub(super) struct Ids {
    pub(super) conns: Mutex<Conns>,
    chosen: ConnIds,
}

impl Default for Ids {
    fn default() -> Self {
        Self { conns: Mutex::default(), chosen: ConnIds::new(FIRST_ROUTER_CONN_ID..=u32::MAX) }
    }
}

impl Ids {
    /// Chooses an unused connection id.
    pub(super) fn new_conn_id(&self) -> u32 {
        self.chosen.choose(|id| self.conns.lock().by_id.contains(id))
    }

    /// Reserves a connection id. The error names the reason.
    pub(super) fn reserve(&self, id: u32) -> Result<CancellationToken, &'static str> {
        let mut conns = self.conns.lock();
        if conns.closed {
            return Err("the channel is closed");
        }
        if conns.by_id.len() >= MAX_CONNECTIONS {
            return Err("too many connections on one channel");
        }
        if conns.by_id.contains(id) {
            return Err("the connection id is in use on this channel");
        }
        let cancel = CancellationToken::new();
        let entry = EdgeConnection { what: Conn::Pending(cancel.clone()), grant: None };
        conns.by_id.insert(id, entry);
        Ok(cancel)
    }

    /// Notes the grant of a reserved connection id, unless the id was released meanwhile.
    pub(super) fn note_grant(&self, id: u32, reserved: &CancellationToken, grant: &AccessGrant) {
        let mut conns = self.conns.lock();
        if conns.by_id.get(id).is_some_and(|entry| entry.is_reserved_by(reserved))
            && let Some(entry) = conns.by_id.remove(id)
        {
            conns.by_id.insert(id, EdgeConnection { grant: Some(grant.clone()), ..entry });
        }
    }

    /// Connection ids whose grant `of` selects.
    pub(super) fn grants(&self, of: impl Fn(&AccessGrant) -> bool) -> Vec<(u32, AccessGrant)> {
        let conns = self.conns.lock();
        let granted = conns.by_id.iter().filter_map(|(id, entry)| {
            let grant = entry.grant.as_ref().filter(|grant| of(grant))?;
            Some((id, grant.clone()))
        });
        granted.collect()
    }

    /// Connection ids whose grant comes from one of these service sessions.
    pub(super) fn granted_by<'a>(
        &self,
        service_sessions: impl IntoIterator<Item = &'a String>,
    ) -> Vec<(u32, AccessGrant)> {
        let conns = self.conns.lock();
        let entries =
            service_sessions.into_iter().flat_map(|id| conns.by_id.of_service_session(id));
        entries.filter_map(|(id, entry)| Some((id, entry.grant.clone()?))).collect()
    }

    /// Circuits that reached hosts whose grant has one of these tokens.
    pub(super) fn hosted_circuits(&self, tokens: &HashSet<String>) -> Vec<Conn> {
        let conns = self.conns.lock();
        let hosted = conns.by_id.iter().filter_map(|(_, entry)| {
            let grant = entry.grant.as_ref().filter(|grant| grant.purpose == Use::Bind)?;
            let is_circuit = matches!(entry.what, Conn::Local(_) | Conn::Sdk(_));
            (is_circuit && tokens.contains(&grant.token)).then(|| entry.what.clone())
        });
        hosted.collect()
    }

    /// The object behind a connection id, if its grant is still this one.
    pub(super) fn still(&self, id: u32, grant: &AccessGrant) -> Option<Conn> {
        let conns = self.conns.lock();
        let entry = conns.by_id.get(id).filter(|entry| entry.grant.as_ref() == Some(grant))?;
        if let Conn::Pending(cancel) = &entry.what {
            // Cancelled under the lock, so that the id is not filled from now on.
            cancel.cancel();
        }
        Some(entry.what.clone())
    }

    /// Puts the object behind a reserved connection id. False if the id was released meanwhile.
    pub(super) fn fill(
        &self,
        id: u32,
        reserved: &CancellationToken,
        what: Conn,
        grant: AccessGrant,
    ) -> bool {
        let mut conns = self.conns.lock();
        // A released id may be in use again.
        let own = conns.by_id.get(id).is_some_and(|entry| entry.is_reserved_by(reserved));
        if conns.closed || reserved.is_cancelled() || !own {
            return false;
        }
        if let Conn::Sdk(circuit) = &what {
            let id = Arc::clone(&circuit.circuit().id);
            conns.circuits(circuit.role()).insert(id, Arc::clone(circuit));
        }
        conns.by_id.insert(id, EdgeConnection { what, grant: Some(grant) });
        true
    }

    /// Releases a reserved connection id. False if it was released before: the id may be in use
    /// again.
    pub(super) fn release_reserved(&self, id: u32, reserved: &CancellationToken) -> bool {
        let mut conns = self.conns.lock();
        let own = conns.by_id.get(id).is_some_and(|entry| entry.is_reserved_by(reserved));
        if own {
            conns.by_id.remove(id);
        }
        own
    }

    /// Releases the connection id of a listener, also of one that is being made.
    pub(super) fn release_listener(&self, id: u32) -> Option<Conn> {
        let mut conns = self.conns.lock();
        let listens =
            |entry: &EdgeConnection| matches!(entry.what, Conn::Host(_) | Conn::Pending(_));
        conns.by_id.get(id).filter(|entry| listens(entry))?;
        conns.by_id.remove(id).map(|entry| entry.what)
    }

    /// Releases the connection id of this listener. False if the SDK has closed the listener: the
    /// id may be in use again.
    pub(super) fn release_host(&self, hosted: &Arc<Hosted>) -> bool {
        let mut conns = self.conns.lock();
        let known = conns.by_id.get(hosted.conn_id).map(|entry| &entry.what);
        let own = matches!(known, Some(Conn::Host(known)) if Arc::ptr_eq(known, hosted));
        if own {
            conns.by_id.remove(hosted.conn_id);
        }
        own
    }

    /// Releases a connection id.
    pub(super) fn release(&self, id: u32) -> Option<Conn> {
        let mut conns = self.conns.lock();
        let entry = conns.by_id.remove(id)?;
        if let Conn::Sdk(circuit) = &entry.what {
            let (id, circuits) = (&circuit.circuit().id, conns.circuits(circuit.role()));
            // Another attempt at the same circuit may have led to this SDK, too.
            if circuits.get(id).is_some_and(|known| Arc::ptr_eq(known, circuit)) {
                circuits.remove(id);
            }
        }
        Some(entry.what)
    }

    /// The listener of this connection id.
    pub(super) fn hosted(&self, id: u32) -> Option<Arc<Hosted>> {
        match self.conns.lock().by_id.get(id).map(|entry| &entry.what) {
            Some(Conn::Host(hosted)) => Some(Arc::clone(hosted)),
            _ => None,
        }
    }

    /// Remembers a failed dial that a host with flow control of its own may still accept.
    pub(super) fn note_given_up(&self, conn_id: u32, circuit: &Arc<str>) {
        let mut conns = self.conns.lock();
        if conns.given_up.len() >= MAX_GIVEN_UP {
            // Most of these dials are never accepted.
            conns.given_up.clear();
        }
        conns.given_up.insert(conn_id, Arc::clone(circuit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(service: &str) -> AccessGrant {
        AccessGrant {
            token: service.to_owned(),
            service_session: service.to_owned(),
            service: service.to_owned(),
            purpose: Use::Dial,
        }
    }

    #[test]
    fn a_reservation_acts_on_its_own_entry_only() {
        let ids = Ids::default();
        let first = ids.reserve(7).unwrap();
        // The SDK closes the connection and uses its id for another one, which then loses its right.
        ids.release(7).unwrap().discard();
        let second = ids.reserve(7).unwrap();
        ids.note_grant(7, &second, &grant("second"));
        ids.note_grant(7, &first, &grant("first"));
        assert!(ids.still(7, &grant("second")).is_some());
        assert!(first.is_cancelled() && second.is_cancelled());
        assert!(!ids.release_reserved(7, &first));
        assert!(ids.release_reserved(7, &second));
        assert!(!ids.release_reserved(7, &second));
    }
}
