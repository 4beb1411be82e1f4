//! The part of the log that is kept: the last change sets, up to a number and a sum of bytes.
//!
//! The sum is stored beside the head, in the same commit as the entries, so that a commit reads no more
//! of the log than it removes. The log is counted anew if the sum belongs to another revision than
//! the head: another release of weft wrote last, or the log was dropped.

use redb::{ReadableTable, Table};
use weft_model::Revision;

use super::failure::Failure;
use super::tables::{META, Options};
use crate::codec;

/// Key in `meta` of the revision at which the log ends, and of the sum of its entries in bytes.
const KEPT: &str = "log";

type Log<'t> = Table<'t, u64, &'static [u8]>;
type Meta<'t> = Table<'t, &'static str, &'static [u8]>;

/// The sum of the log's entries in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept(u64);

impl Kept {
    /// The sum for a log that ends at a revision.
    pub(super) fn read(meta: &Meta<'_>, log: &Log<'_>, end: Revision) -> Result<Self, Failure> {
        if let Some(sealed) = meta.get(KEPT)?
            && let Some((revision, bytes)) = opened(sealed.value())
            && revision == end.0
        {
            return Ok(Self(bytes));
        }
        let mut bytes = 0;
        for entry in log.iter()? {
            bytes += entry?.1.value().len() as u64;
        }
        Ok(Self(bytes))
    }

    pub(super) fn append(
        &mut self,
        log: &mut Log<'_>,
        revision: Revision,
        entry: &[u8],
    ) -> Result<(), Failure> {
        log.insert(revision.0, entry)?;
        self.0 = self.0.saturating_add(entry.len() as u64);
        Ok(())
    }

    /// Removes the oldest entries above the limits, and stores the sum. Entries after `base`, which
    /// are those of the present batch, stay in any case: whoever waits for its outcome looks for it in
    /// the log.
    pub(super) fn finish(
        mut self,
        (meta, log): (&mut Meta<'_>, &mut Log<'_>),
        options: &Options,
        (base, end): (Revision, Revision),
    ) -> Result<(), Failure> {
        let most = options.log_limit.max(1) as u64;
        let oldest = end.0.saturating_sub(most - 1);
        loop {
            let first = log.first()?.map(|(revision, _)| revision.value());
            let Some(first) = first.filter(|first| *first <= base.0) else { break };
            if first >= oldest && self.0 <= options.log_bytes as u64 {
                break;
            }
            let removed = log.pop_first()?.map_or(0, |(_, entry)| entry.value().len());
            self.0 = self.0.saturating_sub(removed as u64);
        }
        let bytes = [end.0.to_le_bytes(), self.0.to_le_bytes()].concat();
        meta.insert(KEPT, codec::seal(KEPT.as_bytes(), &bytes).as_slice())?;
        Ok(())
    }
}

/// Forgets the sum, because the log was changed by other means.
pub(super) fn recount(transaction: &redb::WriteTransaction) -> Result<(), Failure> {
    transaction.open_table(META)?.remove(KEPT)?;
    Ok(())
}

/// Revision and sum. A value that cannot be read is as good as none: the log is counted anew.
fn opened(sealed: &[u8]) -> Option<(u64, u64)> {
    let bytes = codec::unseal("the size of the log", KEPT.as_bytes(), sealed).ok()?;
    let (revision, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*revision), u64::from_le_bytes(*rest.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures::StreamExt as _;
    use redb::ReadableDatabase as _;

    use super::super::file;
    use super::super::tables::LOG;
    use super::*;
    use crate::tests::{commit, put, service};
    use crate::{Embedded, FollowError, Mend, Store as _, StoreLocation};

    /// Length in bytes of the names of these tests, and limit of their logs in bytes.
    const NAME: usize = 4 << 10;
    const LIMIT: usize = 10 * NAME;

    fn open(path: &Path, log_bytes: usize) -> Embedded {
        Embedded::open(path, Options { log_bytes, ..Options::default() }).unwrap()
    }

    async fn write(store: &Embedded, count: usize) {
        for n in 0..count {
            let name = format!("{n:0width$}", width = NAME);
            commit(store, vec![put(service("a", &name))]).await;
        }
    }

    /// The number of entries, after a comparison of the stored sum with the entries.
    fn entries(store: &Embedded) -> usize {
        let counted = store.shared.read(|database| {
            let transaction = database.begin_read()?;
            let log = transaction.open_table(LOG)?;
            let lengths = log.iter()?.map(|entry| Ok(entry?.1.value().len()));
            let lengths = lengths.collect::<Result<Vec<usize>, Failure>>()?;
            let sealed = transaction.open_table(META)?.get(KEPT)?;
            Ok((lengths, sealed.and_then(|sealed| opened(sealed.value()))))
        });
        let (lengths, stored) = counted.unwrap();
        let sum = lengths.iter().sum::<usize>() as u64;
        assert_eq!(stored, Some((store.head().unwrap().revision.0, sum)));
        lengths.len()
    }

    #[tokio::test]
    async fn large_change_sets_leave_the_log_before_they_fill_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = open(&path, LIMIT);
        write(&store, 100).await;
        assert_eq!(entries(&store), 9);
        let first = store.follow(Revision(0)).next().await.unwrap();
        assert_eq!(first.unwrap_err(), FollowError::TooOld { oldest: Revision(92) });
        assert_eq!(store.follow(Revision(91)).next().await.unwrap().unwrap().revision.0, 92);
        assert!(std::fs::metadata(&path).unwrap().len() < 4 << 20);
    }

    #[tokio::test]
    async fn the_sum_is_right_after_a_start_a_repair_and_another_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = open(&path, 100 * LIMIT);
        write(&store, 30).await;
        assert_eq!(entries(&store), 30);
        store.close().await.unwrap();
        drop(store);
        // A release that knows no sum.
        let store = open(&path, 100 * LIMIT);
        let forget = |database: &redb::Database| {
            let transaction = file::begin(database)?;
            recount(&transaction)?;
            Ok(transaction.commit()?)
        };
        store.shared.with(forget).unwrap();
        write(&store, 1).await;
        assert_eq!(entries(&store), 31);
        store.mend(Revision(31), vec![Mend::Drop(StoreLocation::Log)]).await.unwrap();
        write(&store, 2).await;
        assert_eq!(entries(&store), 2);
        store.close().await.unwrap();
        drop(store);
        // A smaller limit holds from the next change on.
        let store = open(&path, NAME);
        write(&store, 1).await;
        assert_eq!(entries(&store), 1);
    }

    #[tokio::test]
    async fn a_batch_above_the_limit_is_in_the_log_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("db"), NAME);
        write(&store, 3).await;
        let sets = (0..20).map(|n| put(service(&format!("{n}"), &"x".repeat(NAME)))).collect();
        assert_eq!(commit(&store, sets).await, Revision(23));
        assert_eq!(entries(&store), 20);
        let batch = store.head().unwrap().batch;
        assert_eq!(store.settle(batch).await, Ok(Some(Revision(23))));
        assert_eq!(store.follow(Revision(3)).next().await.unwrap().unwrap().revision.0, 4);
    }
}
