//! Loads the model from the store.

use weft_model::{ApplyError, Entity, Revision, Snapshot, Timeline};
use weft_store::{OpenError, Store};

/// Rows in a batch that the reading thread hands to the indexing thread, and batches that may wait.
const LOAD_BATCH: usize = 1024;
const LOAD_AHEAD: usize = 16;

/// Why the model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelLoadError {
    /// The rows cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Two rows contradict each other, such as two entities with one name.
    #[error("the store is damaged: {0}; keep a copy of the file and restore the last backup")]
    Contradiction(#[from] ApplyError),
    /// The reading thread has ended in a fault.
    #[error("the rows could not be read: the thread that reads them has ended")]
    Stopped,
}

/// Loads the model at the head of a store: one thread reads and checks rows while another builds the indexes.
pub fn load(store: &dyn Store) -> Result<Snapshot, ModelLoadError> {
    let (rows, received) = std::sync::mpsc::sync_channel::<Vec<Entity>>(LOAD_AHEAD);
    let snapshot = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut batch = Vec::with_capacity(LOAD_BATCH);
            let head = store.load(&mut |entity| {
                batch.push(entity);
                if batch.len() == LOAD_BATCH {
                    // After a refused row the receiver is gone; its error is the result.
                    let _ =
                        rows.send(std::mem::replace(&mut batch, Vec::with_capacity(LOAD_BATCH)));
                }
            });
            let _ = rows.send(batch);
            head
        });
        let mut loader = Snapshot::loader(Timeline::default(), Revision::default());
        let put = received.into_iter().flatten().try_for_each(|entity| loader.put(entity));
        // An error of the reading thread is reported first: a damaged row explains why another one
        // is refused.
        let head = reader.join().map_err(|_| ModelLoadError::Stopped)??;
        put?;
        loader.set_position(head.timeline, head.revision);
        Ok::<_, ModelLoadError>(loader.finish()?)
    })?;
    // Dangling references do not keep a network from running: they are logged.
    let dangling = snapshot.dangling();
    if let Some(first) = dangling.first() {
        tracing::warn!(
            count = dangling.len(),
            %first,
            "entities refer to others that do not exist; a check of the database lists them, and its fix removes the references"
        );
    }
    Ok(snapshot)
}
