//! Compares the rows on the disk with the model in memory. The model in memory was checked when it
//! was loaded. Where the two differ, memory is right and the row is written again.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use hashbrown::HashMap;
use roaring::RoaringBitmap;
use tokio::time::{Instant, timeout};
use weft_kernel::Health;
use weft_model::{Id, Kind, Revision, Snapshot};
use weft_store::{Examination, ExaminationItem, Mend, ReadError, StoreLocation, StoredFault};

use crate::domain::integrity::run::Report;
use crate::{Controller, Notice, Subscription};

/// Longest wait for the snapshot of a revision on the disk. The writer publishes a revision at once,
/// or after the 35 s in which it waits for the store and asks about the outcome.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which that wait looks whether writing has stopped.
const LOOK: Duration = Duration::from_secs(1);

/// A fault on the disk, and the location to mend.
struct Fault {
    description: String,
    location: StoreLocation,
}

impl Controller {
    pub(super) async fn examine_stored(&self, fix: bool, report: &Report) -> Result<(), String> {
        let faults = self.stored_faults().await?;
        let fixed = fix && !faults.is_empty() && self.mend_stored(&faults).await?;
        for fault in faults {
            report.found(fault.description, fixed);
        }
        Ok(())
    }

    async fn stored_faults(&self) -> Result<Vec<Fault>, String> {
        // The subscription begins before the examination, so that it delivers the revision of the
        // examination unless that is already published.
        let (snapshot, changes) = self.kernel().subscribe();
        let store = Arc::clone(&self.kernel().settings().store);
        let examination = blocking(move || store.examine()).await?;
        let revision = examination.head().revision;
        let snapshot = snapshot_at(snapshot, changes, revision, || self.kernel().health()).await?;
        blocking(move || compare(&*examination, &snapshot)).await
    }

    /// Writes damaged rows again, while the writer waits.
    async fn mend_stored(&self, faults: &[Fault]) -> Result<bool, String> {
        let locations: Vec<StoreLocation> =
            faults.iter().map(|fault| fault.location.clone()).collect();
        let sessions = locations.clone();
        let store = Arc::clone(&self.kernel().settings().store);
        let work = self.kernel().writer().alone(Box::new(move |published| {
            async move {
                let mends = locations.into_iter().map(|location| mend(&published, location));
                let mended = store.mend(published.revision(), mends.collect()).await;
                mended.map(|()| None).map_err(|error| error.to_string())
            }
            .boxed()
        }));
        work.await?;
        // A damaged row of a session is written again if the session is in memory.
        let live = sessions.iter().filter(|location| matches!(location, StoreLocation::Live(_)));
        for (kind, id) in live.filter_map(StoreLocation::entity) {
            self.auth().sessions().write_again(kind, &id);
        }
        let flushed = self.kernel().settings().store.live().flush().await;
        flushed.map(|()| true).map_err(|error| error.to_string())
    }
}

/// The write that mends a location, from the published snapshot.
fn mend(published: &Snapshot, location: StoreLocation) -> Mend {
    let known = match &location {
        StoreLocation::Row(_) => {
            location.entity().and_then(|(kind, id)| published.entity(kind, &id).cloned())
        }
        _ => None,
    };
    known.map_or(Mend::Drop(location), Mend::Put)
}

/// The snapshot of a durable revision: the published one, or one that the subscription delivers. An
/// error if writing has stopped before the revision is published, or after [`PATIENCE`].
async fn snapshot_at(
    mut current: Arc<Snapshot>,
    mut changes: Subscription,
    revision: Revision,
    health: impl Fn() -> Health,
) -> Result<Arc<Snapshot>, String> {
    let until = Instant::now() + PATIENCE;
    while current.revision() < revision {
        current = match timeout(LOOK, changes.next()).await {
            Ok(Some(Notice::Change(published))) => Arc::clone(&published.after),
            Ok(Some(Notice::Resync(snapshot))) => snapshot,
            Ok(None) => return Err("the controller is stopping".to_owned()),
            Err(_) => {
                let published = current.revision();
                let ahead =
                    format!("the database is at revision {revision}, memory still at {published}");
                match health() {
                    Health::Stopped(cause) => {
                        return Err(format!("{ahead}, and writing has stopped: {cause}"));
                    }
                    _ if Instant::now() >= until => {
                        return Err(format!("{ahead} after {} s", PATIENCE.as_secs()));
                    }
                    _ => continue,
                }
            }
        };
    }
    if current.revision() == revision {
        return Ok(current);
    }
    // The subscriber fell too far behind.
    Err("too much was written while the check began; begin again".to_owned())
}

/// All locations on the disk that differ from memory.
fn compare(examination: &dyn Examination, snapshot: &Snapshot) -> Result<Vec<Fault>, ReadError> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut seen: HashMap<Kind, RoaringBitmap> = HashMap::new();
    examination.run(&mut |each| match each {
        ExaminationItem::Row(row) => {
            let (kind, id) = (row.kind(), row.id());
            if let Some(ordinal) = snapshot.table(kind).ordinal(id) {
                seen.entry(kind).or_default().insert(ordinal);
            }
            let reason = match snapshot.entity(kind, id) {
                Some(known) if *known == row => return,
                Some(_) => "differs from what is in memory",
                None => "is not in memory",
            };
            let location = StoreLocation::row(kind, id);
            faults.push(Fault {
                description: format!("the stored row of {kind} {id} {reason}"),
                location,
            });
        }
        ExaminationItem::Fault(StoredFault { location, damage }) => {
            if let Some((kind, ordinal)) = ordinal_of(snapshot, &location) {
                seen.entry(kind).or_default().insert(ordinal);
            }
            let description =
                format!("stored data is damaged: {}: {}", damage.location, damage.reason);
            faults.push(Fault { description, location });
        }
    })?;
    for kind in Kind::ALL {
        let known = snapshot.table(*kind).live();
        let missing = match seen.get(kind) {
            Some(seen) => &**known - seen,
            None => (**known).clone(),
        };
        for id in missing.iter().filter_map(|ordinal| id_at(snapshot, *kind, ordinal)) {
            let description = format!("the row of {kind} {id} is missing on the disk");
            faults.push(Fault { description, location: StoreLocation::row(*kind, &id) });
        }
    }
    Ok(faults)
}

fn ordinal_of(snapshot: &Snapshot, location: &StoreLocation) -> Option<(Kind, u32)> {
    let StoreLocation::Row(_) = location else { return None };
    let (kind, id) = location.entity()?;
    Some((kind, snapshot.table(kind).ordinal(&id)?))
}

fn id_at(snapshot: &Snapshot, kind: Kind, ordinal: u32) -> Option<Id> {
    Some(snapshot.table(kind).at(ordinal)?.id().clone())
}

/// Runs work that waits for the disk on a thread for blocking work.
async fn blocking<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(format!("the check was broken off: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bed;

    #[tokio::test(start_paused = true)]
    async fn a_revision_that_is_never_published_ends_the_wait() {
        let bed = Bed::new().await;
        let failing = || Health::Failing("the disk is full".into());
        let stopped = || Health::Stopped("the log has a gap".into());
        let ask = |health: &dyn Fn() -> Health| {
            let (snapshot, changes) = bed.controller.kernel().subscribe();
            let next = snapshot.revision().next();
            let health = health();
            async move {
                let begun = Instant::now();
                let found = snapshot_at(snapshot, changes, next, || health.clone()).await;
                (found.unwrap_err(), begun.elapsed())
            }
        };
        let (error, after) = ask(&stopped).await;
        assert!(error.contains("writing has stopped: the log has a gap"), "{error}");
        assert!(after < 2 * LOOK, "{after:?}");
        let (error, after) = ask(&failing).await;
        assert!(error.contains("after 60 s"), "{error}");
        assert!((PATIENCE..PATIENCE + 2 * LOOK).contains(&after), "{after:?}");
    }
}
