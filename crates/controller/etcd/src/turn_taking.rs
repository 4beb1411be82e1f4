//! Taking the [turn](crate::turn), and giving it back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_store::{LogError, LogHead};
use weft_wire::etcd::request_op::Request;
use weft_wire::etcd::{Compare, LeaseGrantRequest, LeaseGrantResponse, TxnRequest, TxnResponse};

use crate::keys::damage;
use crate::log::Log;
use crate::requests::{compare_revision, delete, get, op, put_leased, read, revision_of};

/// The longest time for which a controller keeps the turn.
const KEPT: Duration = Duration::from_secs(1);
/// Seconds after which etcd ends the turn of a controller that does not give it back.
const LEASE: i64 = 2;
impl Log {
    /// What an append demands of the turn: that nobody else has it.
    pub(crate) fn demand_turn(&self) -> Compare {
        compare_revision(self.keys.turn(), self.turn.held().unwrap_or_default())
    }

    /// Takes the turn if nobody has it. Returns the head, which nobody else moves meanwhile if it was taken.
    pub(crate) async fn take_turn(self: &Arc<Self>) -> Result<LogHead, LogError> {
        let request = LeaseGrantRequest { ttl: LEASE, id: 0 };
        let granted: LeaseGrantResponse = self.call("Lease/LeaseGrant", &request).await?;
        let place = self.keys.turn();
        let value = self.sealing.seal(&place, None, &[])?;
        let look = || op(Request::RequestRange(get(self.keys.head())));
        let taken = Request::RequestPut(put_leased(place.clone(), value, granted.id));
        let transaction = TxnRequest {
            compare: vec![compare_revision(place, 0)],
            success: vec![look(), op(taken)],
            failure: vec![look()],
        };
        let answer: TxnResponse = self.call("KV/Txn", &transaction).await?;
        let head = self.note_head(read(&answer, 0).first().ok_or_else(|| damage("head"))?)?.head;
        if answer.succeeded {
            let revision = revision_of(answer.header.as_ref());
            self.turn.begins(revision);
            tracing::debug!(
                "this controller has lost against others too often, and takes the turn"
            );
            let log = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(KEPT).await;
                let Some(log) = log.upgrade() else { return };
                if log.turn.lost(revision) {
                    log.give_turn_back(revision).await;
                }
            });
        }
        Ok(head)
    }

    async fn give_turn_back(&self, revision: i64) {
        let place = self.keys.turn();
        let transaction = TxnRequest {
            compare: vec![compare_revision(place.clone(), revision)],
            success: vec![op(Request::RequestDeleteRange(delete((place, Bytes::new()))))],
            failure: Vec::new(),
        };
        // If nobody hears it, the lease ends.
        let given: Result<TxnResponse, _> = self.call("KV/Txn", &transaction).await;
        if let Err(error) = given {
            tracing::debug!(%error, "the turn was not given back");
        }
    }
}
