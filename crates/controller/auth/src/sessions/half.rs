//! The table in which sessions wait for their second factor: that of all logins that are not finished, of either
//! protocol.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use parking_lot::Mutex;
use weft_model::Id;
use weft_model::entity::ApiSession;
use weft_oidc::login::CallerData;
use weft_oidc::logins::PendingLogins;

/// Sessions that are taken out while the lock is held once.
const BATCH: usize = 500;

/// The table in which sessions wait.
pub trait HalfSessions: Send + Sync {
    /// Gives a session a place. Those that lost theirs are to be ended.
    fn hold(&self, session: &ApiSession) -> Vec<Id>;
    /// These sessions wait no more.
    fn release(&self, sessions: &[Id]);
    /// Sessions that lost their places to others since the last call.
    fn take_ended(&self) -> Vec<Id>;
}

impl<D: CallerData + Send> HalfSessions for Mutex<PendingLogins<D>> {
    fn hold(&self, session: &ApiSession) -> Vec<Id> {
        let source = session.ip_address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut logins = self.lock();
        logins.hold(session.base.id.as_str(), source, bytes(session), Instant::now());
        ids(logins.take_ended())
    }

    fn release(&self, sessions: &[Id]) {
        for some in sessions.chunks(BATCH) {
            let mut logins = self.lock();
            some.iter().for_each(|id| logins.release(id.as_str()));
        }
    }

    fn take_ended(&self) -> Vec<Id> {
        ids(self.lock().take_ended())
    }
}

fn ids(ended: Vec<String>) -> Vec<Id> {
    ended.iter().map(|id| Id::new(id)).collect()
}

/// About how many bytes a session takes in memory.
fn bytes(session: &ApiSession) -> usize {
    let certificates = session.certificates.iter().map(|it| it.cert_pem.len() + 256);
    // The description of a client has twelve texts of 255 bytes at most, and mostly short ones.
    1024 + certificates.sum::<usize>() + 32 * session.config_types.len()
}

/// A table without logins.
#[cfg(test)]
pub(crate) fn no_logins() -> std::sync::Arc<dyn HalfSessions> {
    std::sync::Arc::new(Mutex::new(PendingLogins::<()>::default()))
}
