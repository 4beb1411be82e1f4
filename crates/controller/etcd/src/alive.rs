//! Which controllers are alive: each keeps a key with a lease of etcd, which ends soon after the controller.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_store::{ALIVE, Announcements, LogError, LogMember, Presence};
use weft_wire::etcd::{
    DeleteRangeResponse, KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, PutResponse, RangeResponse, StatusRequest, StatusResponse,
};

use crate::grpc;
use crate::log::{Log, unavailable};
use crate::requests::{delete, put_leased, range};

/// Most controllers that are read.
const MOST: i64 = 64;

impl Log {
    /// Keeps the lease of this controller alive, or begins one.
    pub(crate) async fn announce(&self, presence: &Presence) -> Result<(), LogError> {
        let mut lease = self.lease.load(Ordering::Acquire);
        if lease == 0 || !self.keep_alive(lease).await? {
            let request = LeaseGrantRequest { ttl: ALIVE.as_secs() as i64, id: 0 };
            let granted: LeaseGrantResponse = self.call("Lease/LeaseGrant", &request).await?;
            lease = granted.id;
            self.lease.store(lease, Ordering::Release);
        }
        // Put each time, whoever has deleted it.
        let place = self.keys.alive(presence.run);
        let value = self.sealing.seal(&place, None, &presence.to_bytes())?;
        let _: PutResponse = self.call("KV/Put", &put_leased(place, value, lease)).await?;
        Ok(())
    }

    /// False if the lease has ended.
    async fn keep_alive(&self, lease: i64) -> Result<bool, LogError> {
        let body = grpc::body(&LeaseKeepAliveRequest { id: lease });
        let answers = self.channel.stream("Lease/LeaseKeepAlive", body).await;
        let mut answers = answers.map_err(|error| unavailable(&error))?;
        let answer = answers.next::<LeaseKeepAliveResponse>().await;
        let answer = answer.map_err(|error| unavailable(&error))?;
        Ok(answer.is_some_and(|answer| answer.ttl > 0))
    }

    /// Deletes the key of a run of a controller.
    pub(crate) async fn withdraw(&self, run: u128) -> Result<(), LogError> {
        let place = (self.keys.alive(run), Bytes::new());
        let _: DeleteRangeResponse = self.call("KV/DeleteRange", &delete(place)).await?;
        Ok(())
    }

    /// The members of etcd, each asked by itself.
    pub(crate) async fn members(&self) -> Vec<LogMember> {
        let asked = self.channel.endpoints().iter().map(|endpoint| async {
            let began = Instant::now();
            let answer =
                self.channel.call_at(endpoint, "Maintenance/Status", &StatusRequest {}).await;
            let round_trip = began.elapsed();
            match answer {
                Ok(status) => shown(endpoint, round_trip, &status),
                Err(error) => LogMember {
                    address: endpoint.clone(),
                    round_trip,
                    error: Some(error.to_string()),
                    ..LogMember::default()
                },
            }
        });
        futures::future::join_all(asked).await
    }

    pub(crate) async fn announced(&self) -> Result<Announcements, LogError> {
        let (from, to) = self.keys.all_alive();
        let mut found: RangeResponse = self.call("KV/Range", &range(from, to, MOST)).await?;
        found.kvs.sort_unstable_by_key(|kv| kv.create_revision);
        let moment = found.header.map_or(0, |header| header.revision).unsigned_abs();
        let presence = |kv: &KeyValue| {
            let presence = self.sealing.unseal(&kv.key, None, &kv.value).ok()?;
            let since = kv.create_revision.unsigned_abs();
            Some(Presence { since, ..Presence::from_bytes(presence)? })
        };
        Ok(Announcements { controllers: found.kvs.iter().filter_map(presence).collect(), moment })
    }
}

fn shown(address: &str, round_trip: Duration, status: &StatusResponse) -> LogMember {
    let member = status.header.as_ref().map_or(0, |header| header.member_id);
    LogMember {
        address: address.to_owned(),
        version: status.version.clone(),
        file_bytes: status.db_size.unsigned_abs(),
        bytes_in_use: status.db_size_in_use.unsigned_abs(),
        is_leader: status.leader == member && member != 0,
        round_trip,
        error: (!status.errors.is_empty()).then(|| status.errors.join("; ")),
    }
}
