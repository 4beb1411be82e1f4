//! Checkpoints of the log in etcd: all rows at one revision, in parts, and the key that says which one counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf as _, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use weft_model::{Revision, Timeline};
use weft_store::{AppendError, Checkpoint, HeadVersion, LogError, LogHead};
use weft_wire::etcd::request_op::Request;
use weft_wire::etcd::{DeleteRangeResponse, KeyValue, PutResponse, RangeResponse, TxnResponse};

use crate::keys::{StoredCheckpoint, StoredHead, damage};
use crate::log::{Log, PART, append_error, refused};
use crate::requests::{compare_revision, delete, put, range, read, revision_of};

/// A checkpoint is wanted after so many bytes.
const GROWN_BYTES: u64 = 64 << 20;
/// Parts of a checkpoint that are read at once.
const CHUNKS: usize = 4;
/// Values that are looked at at once.
const VALUES: i64 = 4;

impl Log {
    /// The checkpoint that counts.
    pub(crate) async fn newest_checkpoint(self: Arc<Self>) -> Result<Checkpoint, LogError> {
        let stored = self.read_checkpoint().await?;
        let (stored, _) = stored.ok_or_else(|| damage("checkpoint"))?;
        let chunks = chunks(self, &stored);
        Ok(Checkpoint { head: stored.at.head.head, digest: stored.at.head.digest, chunks })
    }

    /// The checkpoint that counts, and the mod revision of its key; none if there is none.
    pub(crate) async fn read_checkpoint(
        &self,
    ) -> Result<Option<(StoredCheckpoint, i64)>, LogError> {
        let Some((value, mod_revision)) = self.read_sealed(self.keys.checkpoint(), None).await?
        else {
            return Ok(None);
        };
        let stored = StoredCheckpoint::from_bytes(&value)?;
        *self.checkpoint.lock() = Some(stored.clone());
        Ok(Some((stored, mod_revision)))
    }

    /// Whether every value that a controller reads is sealed with the key that seals now, or a newer one; announcements,
    /// which last for some seconds, aside.
    pub(crate) async fn is_sealed_anew(&self) -> Result<bool, LogError> {
        let mut former = None;
        for (mut from, to) in self.keys.kept() {
            while former.is_none() {
                let found: RangeResponse =
                    self.call("KV/Range", &range(from, to.clone(), VALUES)).await?;
                let is_former = |kv: &&KeyValue| self.sealing.is_of_former(&kv.value);
                former = found.kvs.iter().find(is_former).map(|kv| kv.key.clone());
                let Some(last) = found.kvs.last().filter(|_| found.more) else { break };
                from = [&last.key, [0].as_slice()].concat().into();
            }
        }
        if let Some(key) = &former {
            tracing::debug!(key = %String::from_utf8_lossy(key), "a value is sealed with a former key of the network");
        }
        self.has_former.store(former.is_some(), Ordering::Release);
        Ok(former.is_none())
    }

    /// Whether a checkpoint is wanted: the log has grown enough since the one that counts, or holds what a former key has
    /// sealed.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.has_former.load(Ordering::Acquire) || self.has_grown()
    }

    /// Whether the log has grown enough since the checkpoint that counts.
    fn has_grown(&self) -> bool {
        let (checkpoint, heads) = (self.checkpoint.lock(), self.heads.lock());
        let (Some(since), Some((_, (now, _)))) = (checkpoint.as_ref(), heads.last_key_value())
        else {
            return false;
        };
        let sets = now.head.head.revision.0.saturating_sub(since.at.head.head.revision.0);
        now.appended.saturating_sub(since.at.appended) >= GROWN_BYTES || sets >= self.grown_sets
    }

    /// Writes the parts of a checkpoint under a new id.
    async fn put_chunks(
        &self,
        timeline: &Timeline,
        mut chunks: BoxStream<'static, Result<Bytes, LogError>>,
    ) -> Result<(u128, u32), LogError> {
        let (id, mut count) = (rand::random(), 0);
        let written = async {
            while let Some(chunk) = chunks.next().await {
                for piece in pieces(&chunk?) {
                    let place = self.keys.chunk(id, count);
                    let piece = self.sealing.seal(&place, Some(timeline), &piece)?;
                    let _: PutResponse = self.call("KV/Put", &put(place, piece)).await?;
                    count += 1;
                }
            }
            Ok(())
        };
        if let Err(error) = written.await {
            self.sweep(id).await;
            return Err(error);
        }
        Ok((id, count))
    }

    pub(crate) async fn begin_anew(
        &self,
        over: Option<LogHead>,
        from: Checkpoint,
        timelines: Vec<Timeline>,
    ) -> Result<LogHead, AppendError> {
        let replaced = match over {
            Some(_) => self.read_checkpoint().await.map_err(refused)?,
            None => None,
        };
        let chunks = self.put_chunks(&from.head.timeline, from.chunks).await;
        let (id, chunks) = chunks.map_err(refused)?;
        let version = HeadVersion::default();
        let head = LogHead { head: from.head, digest: from.digest, version };
        let mut at = StoredHead { appended: 0, head };
        let former = replaced.as_ref().map_or(0, |(_, mod_revision)| *mod_revision);
        let checkpoint = StoredCheckpoint { id, chunks, former, timelines, at: at.clone() };
        let version = over.map_or(0, |over| over.version.0 as i64);
        let compare = vec![compare_revision(self.keys.head(), version)];
        let sealed = self.seal_head(&at).map_err(refused)?;
        let place = self.keys.checkpoint();
        let begins = self.sealing.seal(&place, None, &checkpoint.to_bytes()).map_err(refused)?;
        let log = (self.keys.log(Revision(0)), self.keys.log_end());
        let then = vec![
            Request::RequestPut(put(self.keys.head(), sealed.clone())),
            Request::RequestPut(put(place, begins)),
            Request::RequestDeleteRange(delete(log)),
        ];
        let transaction = self.transaction(compare, then);
        let answer: TxnResponse =
            self.channel.call("KV/Txn", &transaction).await.map_err(append_error)?;
        if !answer.succeeded {
            self.sweep(id).await;
            let gone = || AppendError::Refused("the log in etcd is gone".to_owned());
            let kv = read(&answer, 0).first().ok_or_else(gone)?;
            return Err(AppendError::Moved(self.note_head(kv).map_err(refused)?.head));
        }
        at.head.version = HeadVersion(revision_of(answer.header.as_ref()).unsigned_abs());
        self.remember(at.clone(), sealed);
        *self.checkpoint.lock() = Some(checkpoint);
        if let Some((replaced, _)) = replaced {
            self.sweep(replaced.id).await;
        }
        Ok(at.head)
    }

    pub(crate) async fn write_checkpoint(&self, checkpoint: Checkpoint) -> Result<(), LogError> {
        let former = self.read_checkpoint().await?;
        let revision = checkpoint.head.revision;
        let has_newer = |(stored, _): &(StoredCheckpoint, i64)| match stored.at.head.head.revision {
            stored if stored == revision => !self.has_former.load(Ordering::Acquire),
            stored => stored > revision,
        };
        if former.as_ref().is_some_and(has_newer) || !self.wants_checkpoint() {
            return Ok(());
        }
        let appended = self.heads.lock().last_key_value().map_or(0, |(_, (last, _))| last.appended);
        let Checkpoint { head, digest, chunks } = checkpoint;
        let (id, chunks) = self.put_chunks(&head.timeline, chunks).await?;
        let version = HeadVersion::default();
        let head = LogHead { head, digest, version };
        let mod_revision = former.as_ref().map_or(0, |(_, mod_revision)| *mod_revision);
        let at = StoredHead { appended, head };
        let timelines = former.as_ref().map(|(former, _)| former.timelines.clone());
        let timelines = timelines.unwrap_or_default();
        let stored = StoredCheckpoint { id, chunks, former: mod_revision, timelines, at };
        let compare = vec![compare_revision(self.keys.checkpoint(), mod_revision)];
        let sealed = self.sealing.seal(&self.keys.checkpoint(), None, &stored.to_bytes())?;
        let then = vec![Request::RequestPut(put(self.keys.checkpoint(), sealed))];
        let answer: TxnResponse = self.call("KV/Txn", &self.transaction(compare, then)).await?;
        if !answer.succeeded {
            self.sweep(id).await;
            self.read_checkpoint().await?;
            return Ok(());
        }
        *self.checkpoint.lock() = Some(stored);
        if self.has_former.swap(false, Ordering::AcqRel) {
            // Without changes nobody else would seal the head anew. What is left is found by a further look.
            self.fence().await?;
        }
        if let Some((former, _)) = former {
            self.forget(&former).await;
        }
        Ok(())
    }

    /// Deletes the log up to a checkpoint that counts no more, its parts, and what writers left behind before it.
    async fn forget(&self, former: &StoredCheckpoint) {
        self.sweep(former.id).await;
        let log = (self.keys.log(Revision(0)), self.keys.log(former.at.head.head.revision.next()));
        self.delete(log).await;
        // Parts from before the checkpoint before that one belong to no batch that is kept and to no writer.
        for all in [self.keys.all_parts(), self.keys.all_chunks()] {
            self.delete_before(all, former.former).await;
        }
    }

    /// Deletes keys of a range that were last changed before a revision of etcd.
    async fn delete_before(&self, all: (Bytes, Bytes), before: i64) {
        let current = self.checkpoint.lock().as_ref().map(|stored| self.keys.chunks(stored.id));
        let mut request = range(all.0, all.1, 0);
        request.keys_only = true;
        let Ok(found) = self.call::<RangeResponse>("KV/Range", &request).await else { return };
        let is_current =
            |key: &Bytes| current.as_ref().is_some_and(|(from, to)| *key >= *from && *key < *to);
        for kv in found.kvs {
            if kv.mod_revision < before && !is_current(&kv.key) {
                self.delete((kv.key, Bytes::new())).await;
            }
        }
    }

    /// Deletes the parts of a checkpoint.
    async fn sweep(&self, id: u128) {
        self.delete(self.keys.chunks(id)).await;
    }

    /// Deletes a range. What stays after a failure goes with a later checkpoint.
    async fn delete(&self, keys: (Bytes, Bytes)) {
        let deleted = self.call::<DeleteRangeResponse>("KV/DeleteRange", &delete(keys)).await;
        if let Err(error) = deleted {
            tracing::debug!(%error, "old keys of the log in etcd were not deleted");
        }
    }
}

/// The values that a part of a checkpoint becomes: 1 before the last one, 0 before those before it.
fn pieces(chunk: &[u8]) -> impl Iterator<Item = Bytes> + '_ {
    let mut rest = chunk.chunks(PART).peekable();
    std::iter::from_fn(move || {
        let piece = rest.next()?;
        let is_last = u8::from(rest.peek().is_none());
        Some(Bytes::from([&[is_last], piece].concat()))
    })
}

/// The part of a checkpoint of which this is the last piece; none before that.
fn whole(so_far: &mut BytesMut, mut piece: Bytes) -> Result<Option<Bytes>, LogError> {
    let is_last = piece.try_get_u8().map_err(|_| damage("checkpoint"))? == 1;
    so_far.extend_from_slice(&piece);
    Ok(is_last.then(|| so_far.split().freeze()))
}

/// The parts of a checkpoint in order, some of them read ahead.
fn chunks(log: Arc<Log>, stored: &StoredCheckpoint) -> BoxStream<'static, Result<Bytes, LogError>> {
    let (id, count, timeline) = (stored.id, stored.chunks, stored.at.head.head.timeline.clone());
    let read = stream::iter(0..count).map(move |number| {
        let (log, timeline) = (Arc::clone(&log), timeline.clone());
        async move {
            let piece = log.read_sealed(log.keys.chunk(id, number), Some(&timeline)).await?;
            let gone = || LogError::Unavailable("the checkpoint was replaced meanwhile".to_owned());
            piece.map(|(piece, _)| piece).ok_or_else(gone)
        }
    });
    let mut so_far = BytesMut::new();
    let whole = move |piece: Result<Bytes, LogError>| {
        let whole = piece.and_then(|piece| whole(&mut so_far, piece)).transpose();
        async { whole }
    };
    read.buffered(CHUNKS).filter_map(whole).boxed()
}
