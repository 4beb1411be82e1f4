//! Connection ids of one SDK channel: what each stands for, and what allowed it.
//!
//! An id is reserved before anything waits, filled when what it stands for is there, and given back
//! by whoever ends that. The SDK may close and use an id again at any moment, so whoever gives one
//! back says what it was.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

use tokio_util::sync::CancellationToken;
use weft_wire::edge::FIRST_ROUTER_CONN_ID;
use weft_xgress::Role;

use super::{bind::Hosted, connection::SdkConnection};
use crate::{
    forwarder::{LocalEnd, SdkCircuit},
    seam::{Grant, Use},
};

/// Connections and listeners of one SDK channel.
const MAX_CONNECTIONS: usize = 65_536;

/// What lives on a channel, by the names both sides use.
#[derive(Default)]
pub(super) struct Conns {
    pub(super) by_id: HashMap<u32, Entry>,
    /// Ends with flow control at the SDK, by circuit: where it dialed, then where it hosts. Both
    /// ends of a circuit may be on one channel.
    pub(super) circuits: [HashMap<Arc<str>, Arc<SdkCircuit>>; 2],
    /// Circuits of dials that a host with flow control of its own did not answer in time, by the
    /// connection ids it was given.
    pub(super) given_up: HashMap<u32, Arc<str>>,
    pub(super) closed: bool,
}

/// A connection id in use.
pub(super) struct Entry {
    pub(super) what: Conn,
    /// What allowed it; circuits that reach a host carry the host's.
    pub(super) grant: Option<Grant>,
}

impl Conns {
    pub(super) fn circuits(&mut self, role: Role) -> &mut HashMap<Arc<str>, Arc<SdkCircuit>> {
        let [dialed, hosted] = &mut self.circuits;
        match role {
            Role::Initiator => dialed,
            Role::Terminator => hosted,
        }
    }
}

/// What a connection id stands for.
#[derive(Clone)]
pub(super) enum Conn {
    /// Being made; cancelled if the SDK gives up, or may not have it any more.
    Pending(CancellationToken),
    /// An end here.
    Local(Arc<LocalEnd>),
    /// An end at the SDK.
    Sdk(Arc<SdkCircuit>),
    /// A listener.
    Host(Arc<Hosted>),
}

impl SdkConnection {
    /// A connection id of this side that is not in use.
    pub(super) fn new_conn_id(&self) -> u32 {
        loop {
            let next = |id: u32| Some(id.checked_add(1).unwrap_or(FIRST_ROUTER_CONN_ID));
            let id = self
                .next_id
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
                .unwrap_or(FIRST_ROUTER_CONN_ID);
            if !self.conns.lock().by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Takes a connection id. The text says why it was not possible.
    pub(super) fn reserve(&self, id: u32) -> Result<CancellationToken, &'static str> {
        let mut conns = self.conns.lock();
        if conns.closed {
            return Err("the channel is closed");
        }
        if conns.by_id.len() >= MAX_CONNECTIONS {
            return Err("too many connections on one channel");
        }
        if conns.by_id.contains_key(&id) {
            return Err("the connection id is in use on this channel");
        }
        let cancel = CancellationToken::new();
        let entry = Entry { what: Conn::Pending(cancel.clone()), grant: None };
        conns.by_id.insert(id, entry);
        Ok(cancel)
    }

    /// What a connection id that is being made was allowed with.
    pub(super) fn note_grant(&self, id: u32, grant: &Grant) {
        if let Some(entry) = self.conns.lock().by_id.get_mut(&id)
            && matches!(entry.what, Conn::Pending(_))
        {
            entry.grant = Some(grant.clone());
        }
    }

    /// Connection ids with such grants.
    pub(super) fn grants(&self, of: impl Fn(&Grant) -> bool) -> Vec<(u32, Grant)> {
        let conns = self.conns.lock();
        let granted = conns.by_id.iter().filter_map(|(id, entry)| {
            let grant = entry.grant.as_ref().filter(|grant| of(grant))?;
            Some((*id, grant.clone()))
        });
        granted.collect()
    }

    /// Circuits that reached hosts with one of these tokens.
    pub(super) fn hosted_circuits(&self, tokens: &HashSet<String>) -> Vec<Conn> {
        let conns = self.conns.lock();
        let hosted = conns.by_id.values().filter_map(|entry| {
            let grant = entry.grant.as_ref().filter(|grant| grant.purpose == Use::Bind)?;
            let is_circuit = matches!(entry.what, Conn::Local(_) | Conn::Sdk(_));
            (is_circuit && tokens.contains(&grant.token)).then(|| entry.what.clone())
        });
        hosted.collect()
    }

    /// What a connection id stands for, if it is still what was granted.
    pub(super) fn still(&self, id: u32, grant: &Grant) -> Option<Conn> {
        let conns = self.conns.lock();
        let entry = conns.by_id.get(&id).filter(|entry| entry.grant.as_ref() == Some(grant))?;
        if let Conn::Pending(cancel) = &entry.what {
            // Here, so that it is not filled from now on.
            cancel.cancel();
        }
        Some(entry.what.clone())
    }

    /// Says what a reserved connection id stands for. False if it was given up meanwhile.
    pub(super) fn fill(
        &self,
        id: u32,
        reserved: &CancellationToken,
        what: Conn,
        grant: Grant,
    ) -> bool {
        let mut conns = self.conns.lock();
        // One that was given up may be in use again.
        if conns.closed || reserved.is_cancelled() || !conns.by_id.contains_key(&id) {
            return false;
        }
        if let Conn::Sdk(circuit) = &what {
            let id = Arc::clone(&circuit.circuit().id);
            conns.circuits(circuit.role()).insert(id, Arc::clone(circuit));
        }
        conns.by_id.insert(id, Entry { what, grant: Some(grant) });
        true
    }

    /// Gives a connection id back that was not filled. False if that was done already: the id may
    /// be in use again.
    pub(super) fn release_reserved(&self, id: u32, reserved: &CancellationToken) -> bool {
        let mut conns = self.conns.lock();
        let own = conns.by_id.get(&id).is_some_and(|entry| match &entry.what {
            // The SDK's cancelling took it away.
            Conn::Pending(cancel) => cancel.is_cancelled() == reserved.is_cancelled(),
            _ => false,
        });
        if own {
            conns.by_id.remove(&id);
        }
        own
    }

    /// Gives the connection id of a listener back, also of one that is being made.
    pub(super) fn release_listener(&self, id: u32) -> Option<Conn> {
        let mut conns = self.conns.lock();
        let listens = |entry: &Entry| matches!(entry.what, Conn::Host(_) | Conn::Pending(_));
        conns.by_id.get(&id).filter(|entry| listens(entry))?;
        conns.by_id.remove(&id).map(|entry| entry.what)
    }

    /// Gives the connection id of this listener back. False if the SDK has closed the listener: the
    /// id may be in use again.
    pub(super) fn release_host(&self, hosted: &Arc<Hosted>) -> bool {
        let mut conns = self.conns.lock();
        let known = conns.by_id.get(&hosted.conn_id).map(|entry| &entry.what);
        let own = matches!(known, Some(Conn::Host(known)) if Arc::ptr_eq(known, hosted));
        if own {
            conns.by_id.remove(&hosted.conn_id);
        }
        own
    }

    /// Gives a connection id back.
    pub(super) fn release(&self, id: u32) -> Option<Conn> {
        let mut conns = self.conns.lock();
        let entry = conns.by_id.remove(&id)?;
        if let Conn::Sdk(circuit) = &entry.what {
            let (id, circuits) = (&circuit.circuit().id, conns.circuits(circuit.role()));
            // Another attempt at the same circuit may have led to this SDK too.
            if circuits.get(id).is_some_and(|known| Arc::ptr_eq(known, circuit)) {
                circuits.remove(id);
            }
        }
        Some(entry.what)
    }

    /// The listener of this connection id.
    pub(super) fn hosted(&self, id: u32) -> Option<Arc<Hosted>> {
        match self.conns.lock().by_id.get(&id).map(|entry| &entry.what) {
            Some(Conn::Host(hosted)) => Some(Arc::clone(hosted)),
            _ => None,
        }
    }
}
