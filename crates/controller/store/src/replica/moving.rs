//! The way of a network from a file into a shared log, and back. Revision, timeline and sessions go on.
//!
//! ```text
//! file ──sessions──> copy of the log of sessions ──checkpoint──> log of sessions
//!   └───────────────────────────────────────────── checkpoint ──> log of the model: from here on the network is there
//! ```
//!
//! The head of the log of the model decides where the network is. What an interrupted move has left behind is replaced when
//! it is made again. A note in the file says that its network was taken out of the log, so that the other copies, which
//! have no such note, are not taken for it. The copy of a log that has lost everything goes there on a new timeline
//! ([`restoring`](super::restoring)): others may have had more, and routers may have heard of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_model::{Change, ChangeSet, Entity, Revision};

use super::shared_live::path_beside;
use super::shared_log::{ALIVE, LogDigest, LogError, LogHead, SharedLog};
use super::taken::{MODEL, TAKEN, is_copy};
use super::{Replica, driver, unreadable};
use crate::standing::Presence;
use crate::{AppendError, BatchId, CommitError, Embedded, Head, OpenError, Options, Store};

/// The interval of looks whether a controller still speaks.
const LOOK: Duration = Duration::from_millis(500);
/// Most sessions in one change set.
const SESSIONS: usize = 500;

/// Why a network was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file holds no network.
    #[error("the file holds no network: nothing was ever written to it")]
    Empty,
    /// The log holds another network.
    #[error("there is another network already, of timeline {0}, at revision {1}")]
    Another(String, Revision),
    /// Other controllers are alive.
    #[error("controllers that share the network are alive: {}. Stop them first", .0.join(", "))]
    Alive(Vec<String>),
    /// The copy lacks what others have written.
    #[error("this controller does not have everything that others have written: {0}")]
    Behind(String),
    /// It is not known whether the network is in the log: the same move made again finds out.
    #[error("it is not known whether the network was moved: {0}")]
    Unknown(String),
    /// The shared log, or the file, cannot be written.
    #[error("{0}")]
    Failed(String),
}

impl From<LogError> for MoveError {
    fn from(error: LogError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<CommitError> for MoveError {
    fn from(error: CommitError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Replica {
    /// Takes the network of a file, with its sessions, into logs that nobody uses yet. The file becomes the copy of the log of
    /// the model. Made again after an interruption, it goes on; returns the end of the network.
    ///
    /// # Errors
    /// The network is in the file as before, unless it had been moved already.
    pub async fn publish(
        path: &Path,
        options: Options,
        (model, live): (&dyn SharedLog, &dyn SharedLog),
    ) -> Result<Head, MoveError> {
        let own = Embedded::open(path, options.clone())?;
        let moved = async {
            let is_lost =
                is_copy(&own).await.map_err(MoveError::Failed)? && model.head().await?.is_none();
            match is_lost {
                true => Ok(None),
                false => publish(&own, path, options.clone(), (model, live)).await.map(Some),
            }
        };
        let moved = moved.await;
        let closed = own.close().await;
        let moved = moved?;
        closed?;
        match moved {
            Some(head) => Ok(head),
            None => Self::restore(path, path, options, (model, live)).await,
        }
    }

    /// Takes the network of this copy, with its sessions, out of the shared logs, so that it is in the file alone. No other
    /// controller may be alive. Returns the end of the network.
    ///
    /// # Errors
    /// The network is in the logs as before, unless an answer was lost.
    pub async fn take_back(
        self,
        logs: (&dyn SharedLog, &dyn SharedLog),
    ) -> Result<Head, MoveError> {
        let path = self.copy.shared.path().to_owned();
        let moved = self.move_out(logs).await;
        let closed = self.close().await;
        let head = moved?;
        closed?;
        remove(&path_beside(&path))?;
        Ok(head)
    }

    /// Whether the network in a file was taken out of a shared log, as far as this file is concerned, and was not brought
    /// there again.
    ///
    /// # Errors
    /// If the file cannot be opened or read.
    pub async fn is_taken_back(path: &Path, options: Options) -> Result<bool, MoveError> {
        let own = Embedded::open(path, options)?;
        let note = own.live().note(TAKEN, MODEL);
        own.close().await?;
        Ok(note.map_err(|error| MoveError::Failed(error.to_string()))?.is_some())
    }

    async fn move_out(
        &self,
        (model, live): (&dyn SharedLog, &dyn SharedLog),
    ) -> Result<Head, MoveError> {
        refuse_alive(model).await?;
        self.caught_up().await?;
        let head = self.copy.head().map_err(|error| MoveError::Failed(error.to_string()))?;
        let at = model.fence().await?;
        if at.head.revision != head.revision {
            return Err(MoveError::Behind(format!("they are at revision {}", at.head.revision)));
        }
        self.live().flush().await?;
        self.live().catch_up().await?;
        let mut sessions = Vec::new();
        let loaded = self.live().load(&mut |session| sessions.push(session));
        loaded.map_err(|error| MoveError::Failed(error.to_string()))?;
        // What an earlier try has left here may have ended since.
        for former in sessions_of(&self.copy)? {
            self.copy.live().delete(former.kind(), former.id());
        }
        sessions.into_iter().for_each(|session| self.copy.live().put(session));
        self.copy.live().put_note(TAKEN, MODEL, Some(Bytes::new()));
        self.copy.live().flush().await?;
        // From here on the network is in the file.
        erase(model, at).await?;
        if let Some(left) = live.head().await? {
            erase(live, left).await?;
        }
        Ok(head)
    }
}

/// Refuses to go on while controllers that share the network are alive. What has been said by one that has died is there for
/// some seconds, or for longer if somebody has put it there again.
pub(super) async fn refuse_alive(model: &dyn SharedLog) -> Result<(), MoveError> {
    let first = model.announced().await?.controllers;
    let until = tokio::time::Instant::now() + ALIVE + LOOK;
    let mut now = first.clone();
    while !now.is_empty() && tokio::time::Instant::now() < until {
        let has_spoken = |it: &Presence| !first.iter().any(|known| known == it);
        if now.iter().any(has_spoken) {
            return Err(MoveError::Alive(now.into_iter().map(|it| it.name).collect()));
        }
        tokio::time::sleep(LOOK).await;
        now = model.announced().await?.controllers;
    }
    Ok(())
}

pub(super) async fn erase(log: &dyn SharedLog, at: LogHead) -> Result<(), MoveError> {
    log.erase(at).await.map_err(|error| match error {
        AppendError::Moved(head) => MoveError::Behind(format!(
            "somebody has written revision {} meanwhile",
            head.head.revision
        )),
        AppendError::Refused(why) | AppendError::Unanswered(why) => MoveError::Failed(why),
    })
}

pub(super) fn remove(path: &Path) -> Result<(), MoveError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(MoveError::Failed(format!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

async fn publish(
    own: &Embedded,
    path: &Path,
    options: Options,
    (model, live): (&dyn SharedLog, &dyn SharedLog),
) -> Result<Head, MoveError> {
    let head = own.head().map_err(|error| unreadable(path, &error))?;
    if head.revision == Revision::default() {
        return Err(MoveError::Empty);
    }
    // A file that was written as a file has no digest at its head: the log lacks what it has.
    let digest = own.blocking(|shared| shared.digest()).await;
    let digest = digest.map_err(|failure| unreadable(path, &CommitError::from(failure)))?;
    let is_ours = |theirs: &LogHead| {
        let is_newer = digest.is_some() && theirs.head.revision > head.revision;
        let is_equal = theirs.head.revision == head.revision && digest == Some(theirs.digest);
        theirs.head.timeline == head.timeline && (is_newer || is_equal)
    };
    let another = |theirs: &LogHead| {
        MoveError::Another(theirs.head.timeline.to_string(), theirs.head.revision)
    };
    match model.head().await? {
        Some(theirs)
            if theirs.head.timeline != head.timeline
                && is_copy(own).await.map_err(MoveError::Failed)?
                && model.former().await?.contains(&head.timeline) =>
        {
            // An earlier try has brought it there on a new timeline; the copy is taken anew when the controller starts.
            return Ok(theirs.head);
        }
        Some(theirs) if !is_ours(&theirs) => return Err(another(&theirs)),
        Some(_) => {}
        None => {
            publish_sessions(own, path, options, live).await?;
            let checkpoint = begun(own, path).await?;
            let digest = checkpoint.digest;
            let theirs = model.begin(checkpoint).await;
            let theirs = theirs.map_err(|error| MoveError::Unknown(error.to_string()))?;
            if theirs.digest != digest || theirs.head.timeline != head.timeline {
                return Err(another(&theirs));
            }
        }
    }
    own.live().put_note(TAKEN, MODEL, None);
    // They are in the log of sessions; here they would be believed after a way back.
    for session in sessions_of(own)? {
        own.live().delete(session.kind(), session.id());
    }
    own.live().flush().await?;
    Ok(head)
}

/// A checkpoint of a file that becomes the copy of a log which begins with it.
pub(super) async fn begun(file: &Embedded, path: &Path) -> Result<super::Checkpoint, MoveError> {
    let noted = file.blocking(|shared| {
        let is_new = shared.head()?.revision == Revision::default();
        let digest = match (shared.digest()?, is_new) {
            // What was the copy of a log, and has not changed since, goes on as it: so do the other copies.
            (Some(digest), _) => digest,
            // As every log begins.
            (None, true) => LogDigest::default(),
            // Random, so that no copy of an earlier log of this timeline counts as one of this log.
            (None, false) => LogDigest(rand::random()),
        };
        shared.note_digest(digest)
    });
    noted.await.map_err(|failure| unreadable(path, &CommitError::from(failure)))?;
    driver::checkpoint_of(file).await.map_err(MoveError::Failed)
}

fn sessions_of(own: &Embedded) -> Result<Vec<Entity>, MoveError> {
    let mut sessions = Vec::new();
    let loaded = own.live().load(&mut |session| sessions.push(session));
    loaded.map_err(|error| MoveError::Failed(error.to_string()))?;
    Ok(sessions)
}

/// Makes the copy of the log of sessions, and begins the log with it.
pub(super) async fn publish_sessions(
    own: &Embedded,
    path: &Path,
    options: Options,
    live: &dyn SharedLog,
) -> Result<(), MoveError> {
    if let Some(left) = live.head().await? {
        erase(live, left).await?;
    }
    let path = path_beside(path);
    remove(&path)?;
    let copy = Embedded::open(&path, options)?;
    for sessions in sessions_of(own)?.chunks(SESSIONS) {
        let base = copy.head().map_err(|error| unreadable(&path, &error))?.revision;
        let set = ChangeSet::of(sessions.iter().cloned().map(Change::Put));
        copy.commit_as(BatchId::random(), base, vec![Arc::new(set)]).await?;
    }
    let begun = async { Ok::<_, MoveError>(live.begin(begun(&copy, &path).await?).await?) };
    let begun = begun.await;
    let closed = copy.close().await;
    begun?;
    Ok(closed?)
}
