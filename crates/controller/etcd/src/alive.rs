//! Which controllers are alive: each keeps a key with a lease of etcd, which ends soon after the controller.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use weft_store::{ALIVE, LogError};
use weft_wire::etcd::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    PutResponse, RangeResponse,
};

use crate::grpc;
use crate::log::{Log, unavailable};
use crate::requests::{put_leased, range};

/// Most controllers that are read.
const MOST: i64 = 64;

impl Log {
    /// Keeps the lease of this controller alive, or begins one.
    pub(crate) async fn announce(&self, name: &str) -> Result<(), LogError> {
        let mut lease = self.lease.load(Ordering::Acquire);
        if lease == 0 || !self.keep_alive(lease).await? {
            let request = LeaseGrantRequest { ttl: ALIVE.as_secs() as i64, id: 0 };
            let granted: LeaseGrantResponse = self.call("Lease/LeaseGrant", &request).await?;
            lease = granted.id;
            self.lease.store(lease, Ordering::Release);
        }
        // Put each time, whoever has deleted it.
        let place = self.keys.alive(name);
        let value = self.sealing.seal(&place, None, name.as_bytes())?;
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

    pub(crate) async fn announced(&self) -> Result<BTreeSet<String>, LogError> {
        let (from, to) = self.keys.all_alive();
        let found: RangeResponse = self.call("KV/Range", &range(from, to, MOST)).await?;
        let name = |kv: &weft_wire::etcd::KeyValue| {
            let value = self.sealing.unseal(&kv.key, None, &kv.value).ok()?;
            String::from_utf8(value.to_vec()).ok()
        };
        Ok(found.kvs.iter().filter_map(name).collect())
    }
}
