//! The note in a file that its network was taken out of the shared log, by which the file is told from a copy of the log.

use weft_model::Revision;

use crate::{CommitError, Embedded, Space, Store as _};

/// The space of the note that says that the network was taken out of the log, or was about to be.
pub(super) const TAKEN: Space = Space(33);
/// The name of the note.
pub(super) const MODEL: &str = "model";

/// Whether a file is the copy of a log, and nothing else: what it has was in the log, and nobody has taken the network out of
/// the log into this file.
pub(super) async fn is_copy(own: &Embedded) -> Result<bool, String> {
    let note = own.live().note(TAKEN, MODEL).map_err(|error| error.to_string())?;
    let digest = own.blocking(|shared| Ok((shared.head()?.revision, shared.digest()?))).await;
    let (revision, digest) = digest.map_err(|failure| CommitError::from(failure).to_string())?;
    Ok(revision > Revision::default() && digest.is_some() && note.is_none())
}
