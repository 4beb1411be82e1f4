//! The shared log in etcd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use weft_model::{Revision, Timeline};
use weft_store::{
    Announcements, AppendError, BatchId, Checkpoint, FetchError, HeadVersion, LogError, LogHead,
    LogKeys, LogMember, Presence, SharedLog, SharedLogEntry,
};
use weft_wire::etcd::request_op::Request;
use weft_wire::etcd::{KeyValue, PutResponse, RangeResponse, TxnRequest, TxnResponse};

use crate::channel::Channel;
use crate::grpc::{CallError, code};
use crate::keys::{Keys, StoredBatch, StoredCheckpoint, StoredHead};
use crate::requests::{
    compare_presence, compare_revision, compare_value, delete, get, op, put, range, read,
    revision_of,
};
use crate::turn::{self, Turn};
use crate::{EtcdOptions, SealingKeys, watch};

/// Largest batch that is one value, and largest part of a larger one, in bytes. etcd takes requests of 1.5 MiB.
pub(crate) const PART: usize = 1 << 20;
/// Batches that are read at once.
const BATCHES: i64 = 16;
/// Heads whose stored form is remembered.
const HEADS: usize = 16;
/// A checkpoint is wanted after so many change sets.
const GROWN_SETS: u64 = 20_000;

/// A shared log in etcd. Clones are one connection.
#[derive(Clone)]
pub struct EtcdLog(Arc<Log>);

impl std::fmt::Debug for EtcdLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EtcdLog")
    }
}

pub(crate) struct Log {
    pub(crate) channel: Channel,
    pub(crate) keys: Keys,
    pub(crate) sealing: Arc<SealingKeys>,
    /// The newest heads and their sealed form, by version.
    pub(crate) heads: Mutex<BTreeMap<HeadVersion, (StoredHead, Bytes)>>,
    /// The checkpoint that counts, when it was last looked at.
    pub(crate) checkpoint: Mutex<Option<StoredCheckpoint>>,
    /// Change sets after which another checkpoint is wanted.
    pub(crate) grown_sets: u64,
    /// The lease of the announcement that this controller is alive; 0 for none.
    pub(crate) lease: AtomicI64,
    /// Whether the last answer with batches did not come in time: one batch is asked for then.
    is_slow: AtomicBool,
    /// Whether values sealed with a former key were found, which a checkpoint replaces.
    pub(crate) has_former: AtomicBool,
    pub(crate) turn: Turn,
}

impl EtcdLog {
    /// The log of a network. etcd is reached with the first call.
    #[must_use]
    pub fn new(options: EtcdOptions) -> Self {
        Self::with_checkpoints(options, GROWN_SETS)
    }

    /// The log of a network, with a checkpoint after so many change sets.
    pub(crate) fn with_checkpoints(options: EtcdOptions, grown_sets: u64) -> Self {
        let keys = Keys::new(&options.prefix);
        let sealing = Arc::clone(&options.sealing);
        let (heads, checkpoint) = Default::default();
        let channel = Channel::new(options);
        let (lease, is_slow, has_former) = Default::default();
        Self(Arc::new(Log {
            channel,
            keys,
            sealing,
            heads,
            checkpoint,
            grown_sets,
            lease,
            is_slow,
            has_former,
            turn: Turn::default(),
        }))
    }
}

impl Log {
    /// Reads a head, and remembers it.
    pub(crate) fn note_head(&self, kv: &KeyValue) -> Result<StoredHead, LogError> {
        let value = self.sealing.unseal(&self.keys.head(), None, &kv.value)?;
        self.sealing.keep_up(&kv.value)?;
        let stored = StoredHead::from_bytes(&value, kv.mod_revision)?;
        self.remember(stored.clone(), kv.value.clone());
        Ok(stored)
    }

    pub(crate) fn seal_head(&self, stored: &StoredHead) -> Result<Bytes, LogError> {
        self.sealing.seal(&self.keys.head(), None, &stored.to_bytes())
    }

    pub(crate) fn remember(&self, stored: StoredHead, sealed: Bytes) {
        let mut heads = self.heads.lock();
        heads.insert(stored.head.version, (stored, sealed));
        while heads.len() > HEADS {
            heads.pop_first();
        }
    }

    pub(crate) async fn read_head(&self) -> Result<Option<StoredHead>, LogError> {
        let answer: RangeResponse = self.call("KV/Range", &get(self.keys.head())).await?;
        answer.kvs.first().map(|kv| self.note_head(kv)).transpose()
    }

    pub(crate) async fn call<M: prost::Message + Default>(
        &self,
        path: &str,
        message: &impl prost::Message,
    ) -> Result<M, LogError> {
        self.channel.call(path, message).await.map_err(|error| unavailable(&error))
    }

    /// Carries requests out, all or none, if the comparisons hold; reads the head in any case.
    pub(crate) fn transaction(
        &self,
        compare: Vec<weft_wire::etcd::Compare>,
        then: Vec<Request>,
    ) -> TxnRequest {
        let success = then.into_iter().map(op).collect();
        let failure = vec![op(Request::RequestRange(get(self.keys.head())))];
        TxnRequest { compare, success, failure }
    }

    /// The stored form of a head that this controller was told.
    async fn stored(&self, at: &LogHead) -> Result<(StoredHead, Bytes), AppendError> {
        let known = || self.heads.lock().get(&at.version).filter(|(it, _)| it.head == *at).cloned();
        if let Some(known) = known() {
            return Ok(known);
        }
        let gone = || AppendError::Refused("the log in etcd is gone".to_owned());
        let read = self.read_head().await.map_err(refused)?.ok_or_else(gone)?;
        known().ok_or(AppendError::Moved(read.head))
    }

    async fn append(
        &self,
        at: LogHead,
        entries: Vec<SharedLogEntry>,
    ) -> Result<LogHead, AppendError> {
        let none = || AppendError::Refused("there is nothing to append".to_owned());
        let last = entries.last().ok_or_else(none)?;
        let (before, sealed_before) = self.stored(&at).await?;
        let timeline = at.head.timeline.clone();
        let sets = Bytes::from(SharedLogEntry::encode(&entries));
        let size = sets.len() as u64;
        let mut compare = vec![
            compare_revision(self.keys.head(), at.version.0 as i64),
            compare_value(self.keys.head(), sealed_before),
        ];
        let batch = match sets.len() <= PART {
            true => StoredBatch::Whole(sets),
            false => {
                let count = self.put_parts(last.batch, &timeline, &sets).await?;
                compare.push(compare_presence(self.keys.part(last.batch, count - 1)));
                StoredBatch::Parts(last.batch, count)
            }
        };
        let mut head = at;
        head.head.revision = last.revision;
        head.head.batch = last.batch;
        head.head.format = SharedLogEntry::format_after(head.head.format, &entries);
        head.digest = last.digest;
        let mut stored = StoredHead { appended: before.appended.saturating_add(size), head };
        let sealed = self.seal_head(&stored).map_err(refused)?;
        let place = self.keys.log(last.revision);
        let batch =
            self.sealing.seal(&place, Some(&timeline), &batch.to_bytes()).map_err(refused)?;
        let then = vec![
            Request::RequestPut(put(self.keys.head(), sealed.clone())),
            Request::RequestPut(put(place, batch)),
        ];
        let answer = match self.append_in_turn(compare, then, &before.head).await {
            // A member whose quota is used up says so of a transaction that it may have carried out.
            Err(error @ CallError::Status { code: code::RESOURCE_EXHAUSTED, .. }) => {
                return self.after_full(&before.head, last.batch, &error).await;
            }
            answer => answer.map_err(append_error)?,
        };
        if !answer.succeeded {
            return Err(self.after_loss(&before.head, &answer));
        }
        self.turn.over();
        let revision = revision_of(answer.header.as_ref());
        stored.head.version = HeadVersion(revision.unsigned_abs());
        self.remember(stored.clone(), sealed);
        Ok(stored.head)
    }

    /// Carries an append out, and again while nothing but the turn of another controller is in its way: an append that was
    /// refused has changed nothing.
    async fn append_in_turn(
        &self,
        compare: Vec<weft_wire::etcd::Compare>,
        then: Vec<Request>,
        before: &LogHead,
    ) -> Result<TxnResponse, CallError> {
        let until = tokio::time::Instant::now() + turn::PATIENCE;
        loop {
            let held = self.turn.held();
            let compare = compare.iter().cloned().chain([self.demand_turn()]).collect();
            let over = Request::RequestDeleteRange(delete((self.keys.turn(), Bytes::new())));
            let then = then.iter().cloned().chain(held.map(|_| over)).collect();
            let mut transaction = self.transaction(compare, then);
            transaction.failure.push(op(Request::RequestRange(get(self.keys.turn()))));
            let answer: TxnResponse = self.channel.call("KV/Txn", &transaction).await?;
            let is_at_head = |kv: &KeyValue| kv.mod_revision.unsigned_abs() == before.version.0;
            let has_turn = |kv: &KeyValue| Some(kv.mod_revision) == held;
            let is_first = read(&answer, 1).first().is_none_or(has_turn);
            if answer.succeeded || !read(&answer, 0).first().is_some_and(is_at_head) {
                return Ok(answer);
            }
            match held {
                // The lease has ended.
                Some(held) if !read(&answer, 1).iter().any(has_turn) => drop(self.turn.lost(held)),
                _ if !is_first && tokio::time::Instant::now() < until => {
                    tokio::time::sleep(turn::LOOK).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    /// What it means that an append was not carried out.
    fn after_loss(&self, before: &LogHead, answer: &TxnResponse) -> AppendError {
        let now = match read(answer, 0).first().map(|kv| self.note_head(kv)) {
            Some(Ok(now)) => now.head,
            Some(Err(error)) => return refused(error),
            None => return AppendError::Refused("the log in etcd is gone".to_owned()),
        };
        if now.version == before.version && !read(answer, 1).is_empty() {
            return AppendError::Refused("another controller has its turn to write".to_owned());
        }
        AppendError::Moved(now)
    }

    /// The outcome of an append that a full etcd has refused.
    async fn after_full(
        &self,
        before: &LogHead,
        batch: BatchId,
        error: &CallError,
    ) -> Result<LogHead, AppendError> {
        match self.read_head().await {
            Ok(Some(now)) if now.head.head.batch == batch => Ok(now.head),
            Ok(Some(now)) if now.head == *before => Err(AppendError::Refused(reason(error))),
            _ => Err(AppendError::Unanswered(reason(error))),
        }
    }

    /// Writes the parts of a large batch, which do not count before the head has moved. Returns their number.
    async fn put_parts(
        &self,
        batch: BatchId,
        timeline: &Timeline,
        sets: &Bytes,
    ) -> Result<u32, AppendError> {
        let mut count = 0;
        for start in (0..sets.len()).step_by(PART) {
            let part = sets.slice(start..sets.len().min(start + PART));
            let place = self.keys.part(batch, count);
            let part = self.sealing.seal(&place, Some(timeline), &part).map_err(refused)?;
            let done: Result<PutResponse, _> = self.channel.call("KV/Put", &put(place, part)).await;
            done.map_err(|error| AppendError::Refused(reason(&error)))?;
            count += 1;
        }
        Ok(count)
    }

    pub(crate) async fn fence(&self) -> Result<LogHead, LogError> {
        let gone = || LogError::Unavailable("the log in etcd is gone".to_owned());
        let mut now = self.read_head().await?.ok_or_else(gone)?;
        let before = now.head.version;
        let compare = vec![compare_revision(self.keys.head(), before.0 as i64)];
        let sealed = self.seal_head(&now)?;
        let then = vec![Request::RequestPut(put(self.keys.head(), sealed.clone()))];
        let transaction = self.transaction(compare, then);
        let answer: TxnResponse = self.call("KV/Txn", &transaction).await?;
        if !answer.succeeded {
            // Somebody else has moved it, which is as good.
            let kv = read(&answer, 0).first().ok_or_else(gone)?;
            return Ok(self.note_head(kv)?.head);
        }
        now.head.version = HeadVersion(revision_of(answer.header.as_ref()).unsigned_abs());
        self.remember(now.clone(), sealed);
        Ok(now.head)
    }

    async fn entries(
        &self,
        after: Revision,
        most: usize,
    ) -> Result<Vec<SharedLogEntry>, FetchError> {
        let most_batches = if self.is_slow.load(Ordering::Acquire) { 1 } else { BATCHES };
        let batches = range(self.keys.log(after.next()), self.keys.log_end(), most_batches);
        let both =
            vec![Request::RequestRange(get(self.keys.head())), Request::RequestRange(batches)];
        let answer = self.call("KV/Txn", &self.transaction(Vec::new(), both)).await;
        self.is_slow.store(answer.is_err(), Ordering::Release);
        let answer: TxnResponse = answer?;
        let head = read(&answer, 0).first().map(|kv| self.note_head(kv)).transpose()?;
        let Some(StoredHead { head: LogHead { head, .. }, .. }) = head else {
            return Err(LogError::Unavailable("the log in etcd is gone".to_owned()).into());
        };
        let (head, timeline) = (head.revision, head.timeline);
        let mut found: Vec<SharedLogEntry> = Vec::new();
        for kv in read(&answer, 1) {
            let batch = self.sealing.unseal(&kv.key, Some(&timeline), &kv.value)?;
            found.extend(self.batch(batch, &timeline).await?);
            if found.len() >= most {
                break;
            }
        }
        found.retain(|entry| entry.revision > after);
        let oldest = found.first().map_or(head.next(), |first| first.revision);
        if after < head && oldest > after.next() {
            return Err(FetchError::TooOld { oldest });
        }
        found.truncate(most);
        Ok(found)
    }

    /// A value and its mod revision; none if the key does not exist.
    pub(crate) async fn read_sealed(
        &self,
        place: Bytes,
        timeline: Option<&Timeline>,
    ) -> Result<Option<(Bytes, i64)>, LogError> {
        let answer: RangeResponse = self.call("KV/Range", &get(place)).await?;
        let Some(kv) = answer.kvs.first() else { return Ok(None) };
        Ok(Some((self.sealing.unseal(&kv.key, timeline, &kv.value)?, kv.mod_revision)))
    }

    /// The change sets of a stored batch.
    async fn batch(
        &self,
        value: Bytes,
        timeline: &Timeline,
    ) -> Result<Vec<SharedLogEntry>, LogError> {
        match StoredBatch::from_bytes(value)? {
            StoredBatch::Whole(sets) => SharedLogEntry::decode(sets),
            StoredBatch::Parts(batch, count) => {
                let mut sets = BytesMut::new();
                for number in 0..count {
                    let place = self.keys.part(batch, number);
                    let part = self.read_sealed(place, Some(timeline)).await?;
                    // The log may have been shortened since the batch was read.
                    let gone = || LogError::Unavailable("a part of a batch is gone".to_owned());
                    let (part, _) = part.ok_or_else(gone)?;
                    sets.extend_from_slice(&part);
                }
                SharedLogEntry::decode(sets.freeze())
            }
        }
    }

    /// Deletes all keys of the network, if the head is still this one.
    async fn erase(&self, at: LogHead) -> Result<(), AppendError> {
        let compare = vec![compare_revision(self.keys.head(), at.version.0 as i64)];
        let all = self.keys.all().into_iter();
        let then = all.map(|keys| Request::RequestDeleteRange(delete(keys))).collect();
        let transaction = self.transaction(compare, then);
        let answer: Result<TxnResponse, _> = self.channel.call("KV/Txn", &transaction).await;
        let answer = answer.map_err(append_error)?;
        if answer.succeeded {
            return Ok(());
        }
        match read(&answer, 0).first().map(|kv| self.note_head(kv)) {
            Some(Ok(now)) => Err(AppendError::Moved(now.head)),
            Some(Err(error)) => Err(refused(error)),
            None => Ok(()),
        }
    }
}

fn reason(error: &CallError) -> String {
    match error {
        CallError::Status { code: code::RESOURCE_EXHAUSTED, message } => format!(
            "etcd takes no more ({message}): raise its quota, or compact and defragment it, and disarm the alarm"
        ),
        error => error.to_string(),
    }
}

pub(crate) fn refused(error: LogError) -> AppendError {
    AppendError::Refused(error.to_string())
}

pub(crate) fn unavailable(error: &CallError) -> LogError {
    LogError::Unavailable(reason(error))
}

/// What a failed transaction of an append means for it.
pub(crate) fn append_error(error: CallError) -> AppendError {
    let why = reason(&error);
    match error {
        CallError::Unsent(_) => AppendError::Refused(why),
        CallError::Status {
            code:
                code::RESOURCE_EXHAUSTED
                | code::INVALID_ARGUMENT
                | code::PERMISSION_DENIED
                | code::UNAUTHENTICATED,
            ..
        } => AppendError::Refused(why),
        CallError::Status { .. } | CallError::Unanswered(_) => AppendError::Unanswered(why),
    }
}

impl SharedLog for EtcdLog {
    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, LogError>> {
        async { Ok(self.0.read_head().await?.map(|stored| stored.head)) }.boxed()
    }

    fn begin_anew(
        &self,
        over: Option<LogHead>,
        from: Checkpoint,
        former: Vec<Timeline>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>> {
        self.0.begin_anew(over, from, former).boxed()
    }

    fn former(&self) -> BoxFuture<'_, Result<Vec<Timeline>, LogError>> {
        async {
            let stored = self.0.read_checkpoint().await?;
            Ok(stored.map(|(stored, _)| stored.timelines).unwrap_or_default())
        }
        .boxed()
    }

    fn append(
        &self,
        at: LogHead,
        entries: Vec<SharedLogEntry>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>> {
        self.0.append(at, entries).boxed()
    }

    fn take_turn(&self) -> BoxFuture<'_, Result<Option<LogHead>, LogError>> {
        async { Ok(Some(self.0.take_turn().await?)) }.boxed()
    }

    fn fence(&self) -> BoxFuture<'_, Result<LogHead, LogError>> {
        self.0.fence().boxed()
    }

    fn entries(
        &self,
        after: Revision,
        most: usize,
    ) -> BoxFuture<'_, Result<Vec<SharedLogEntry>, FetchError>> {
        self.0.entries(after, most).boxed()
    }

    fn watch(&self) -> BoxStream<'static, Result<LogHead, LogError>> {
        watch::heads(Arc::clone(&self.0))
    }

    fn erase(&self, at: LogHead) -> BoxFuture<'_, Result<(), AppendError>> {
        self.0.erase(at).boxed()
    }

    fn announce(&self, presence: Presence) -> BoxFuture<'_, Result<(), LogError>> {
        async move { self.0.announce(&presence).await }.boxed()
    }

    fn withdraw(&self, run: u128) -> BoxFuture<'_, Result<(), LogError>> {
        self.0.withdraw(run).boxed()
    }

    fn announced(&self) -> BoxFuture<'_, Result<Announcements, LogError>> {
        self.0.announced().boxed()
    }

    fn members(&self) -> BoxFuture<'_, Vec<LogMember>> {
        self.0.members().boxed()
    }

    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, LogError>> {
        Arc::clone(&self.0).newest_checkpoint().boxed()
    }

    fn wants_checkpoint(&self) -> bool {
        self.0.wants_checkpoint()
    }

    fn keys(&self) -> Option<Arc<dyn LogKeys>> {
        Some(Arc::clone(&self.0.sealing) as _)
    }

    fn is_sealed_anew(&self) -> BoxFuture<'_, Result<bool, LogError>> {
        self.0.is_sealed_anew().boxed()
    }

    fn write_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, Result<(), LogError>> {
        self.0.write_checkpoint(checkpoint).boxed()
    }
}

#[cfg(test)]
impl EtcdLog {
    /// Calls etcd itself.
    pub(crate) async fn call<M: prost::Message + Default>(
        &self,
        path: &str,
        message: &impl prost::Message,
    ) -> Result<M, LogError> {
        self.0.call(path, message).await
    }

    /// Whether a controller has the turn.
    pub(crate) async fn has_turn(&self) -> bool {
        !self
            .0
            .call::<RangeResponse>("KV/Range", &get(self.0.keys.turn()))
            .await
            .unwrap()
            .kvs
            .is_empty()
    }
}
