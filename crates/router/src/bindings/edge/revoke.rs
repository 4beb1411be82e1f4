//! Closes connections, listeners and dials that an SDK is no longer allowed.
//!
//! Rights are judged without holding a lock, because judging takes long compared with a payload. A
//! grant is noted as soon as it is given, so that a revocation meanwhile finds it.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio_util::sync::CancellationToken;
use weft_wire::edge::ErrorCode;

use super::connection::SdkConnection;
use super::entries::Conn;
use super::refusals::{SHUTTING_DOWN, access_lost, closed_message, draining, refusal};
use crate::seam::{AccessGrant, ApiSession, Refusal, Use};

impl SdkConnection {
    /// Judges a service token for a connection id that is being made.
    pub(super) fn judge(
        &self,
        id: u32,
        reserved: &CancellationToken,
        session: &ApiSession,
        token: &[u8],
        purpose: Use,
    ) -> Result<AccessGrant, Refusal> {
        if self.binding.is_draining() {
            return Err(draining());
        }
        let access = &self.binding.access;
        let heard = self.binding.heard();
        let grant = access.judge(session, token, purpose)?;
        self.ids.note_grant(id, reserved, &grant);
        if heard != self.binding.heard() {
            // Rights changed meanwhile. A revocation closes noted grants only, and may have missed
            // this one.
            access.judge(session, token, purpose)?;
        }
        if self.binding.is_draining() {
            // The drain began meanwhile, and ends listeners whose grants were noted by then.
            return Err(draining());
        }
        Ok(grant)
    }

    /// Closes everything made with one of these service sessions.
    pub(super) fn service_sessions_ended(&self, service_sessions: &BTreeSet<String>) {
        let lost = self.ids.granted_by(service_sessions);
        self.close_granted(lost, &refusal(ErrorCode::INVALID_SESSION, "session ended"));
    }

    /// Closes connections and listeners after an identity has lost a use of a service.
    pub(super) fn access_lost(&self, service: &str, purpose: Use) {
        let Some(session) = self.session() else { return };
        let granted = self.ids.grants(|grant| grant.service == service && grant.purpose == purpose);
        self.judge_again(&session, granted);
    }

    /// The router drains: listeners end, so that the SDK hosts at another router, and so does the
    /// channel if nothing else is on it.
    pub(super) fn drain(&self) {
        for (id, grant) in self.ids.grants(|grant| grant.purpose == Use::Bind) {
            let Some(Conn::Host(hosted)) = self.ids.still(id, &grant) else { continue };
            let known = self.ids.release_host(&hosted);
            self.binding.withdraw(&hosted);
            if known {
                self.tell_hosting(closed_message(id, &Refusal::plain(SHUTTING_DOWN)));
            }
        }
        if self.ids.conns.lock().by_id.is_empty() {
            self.close(SHUTTING_DOWN);
        }
    }

    /// Judges every grant again.
    pub(super) fn look_again(&self) {
        let Some(session) = self.session() else { return };
        if !self.binding.access.stands(&session) {
            return self.close("the API session ended");
        }
        let granted = self.ids.grants(|_| true);
        self.judge_again(&session, granted);
    }

    /// Closes the connections whose grants would not be given again. Many connections may be made with
    /// one token, which is judged once.
    fn judge_again(&self, session: &ApiSession, mut granted: Vec<(u32, AccessGrant)>) {
        let access = &self.binding.access;
        let mut judged: HashMap<(String, Use), bool> = HashMap::new();
        granted.retain(|(_, grant)| {
            let (token, purpose) = (grant.token.as_bytes(), grant.purpose);
            *judged
                .entry((grant.token.clone(), purpose))
                .or_insert_with(|| access.judge(session, token, purpose).is_err())
        });
        self.close_granted(granted, &access_lost());
    }

    /// Closes connection ids that still have these grants.
    fn close_granted(&self, lost: Vec<(u32, AccessGrant)>, why: &Refusal) {
        let mut listeners = HashSet::new();
        for (id, grant) in lost {
            match self.ids.still(id, &grant) {
                // The task that makes the connection tells the SDK.
                Some(Conn::Pending(cancel)) => cancel.cancel(),
                Some(Conn::Host(hosted)) => {
                    let known = self.ids.release_host(&hosted);
                    self.binding.revoke(&hosted);
                    if known {
                        self.tell_hosting(closed_message(id, why));
                    }
                    listeners.insert(grant.token);
                }
                Some(circuit) => close_circuit(&circuit),
                None => {}
            }
        }
        // Circuits that reached one of these listeners after the grants were read are closed, too.
        if !listeners.is_empty() {
            self.ids.hosted_circuits(&listeners).iter().for_each(close_circuit);
        }
    }
}

fn close_circuit(conn: &Conn) {
    match conn {
        Conn::Local(end) => end.abort(),
        Conn::Sdk(circuit) => {
            circuit.unrouted();
            circuit.end_here();
        }
        Conn::Pending(_) | Conn::Host(_) => {}
    }
}
