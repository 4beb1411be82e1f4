//! A network in a shared log goes on from another state, on a new timeline: from a backup, from the copy of a controller after
//! the log was lost, or from what the log has after it was put back to an older state.
//!
//! ```text
//! backup, copy or log ──checked──> file on a new timeline ──checkpoint──> log, at once, in place of what is there
//! ```
//!
//! Routers and controllers believe nothing that they have of another timeline, so that no change that was lost counts for
//! anybody. The log names the timelines before: a controller whose copy is of one of them takes everything anew when it
//! starts. Sessions are not kept, since some that have ended would come back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_model::Timeline;

use super::moving::{begun, publish_sessions, refuse_alive, remove};
use super::shared_live::path_beside;
use super::shared_log::SharedLog;
use super::{Replica, driver, unreadable};
use crate::embedded::Journal;
use crate::standing::ReplicaState;
use crate::{AppendError, Embedded, Head, MoveError, Options, Store};

/// Most former timelines that a log names.
const FORMER: usize = 64;

impl Replica {
    /// Reads what the shared log has into a new file, for [`Self::restore`].
    ///
    /// # Errors
    /// If there is no network in the log, or it cannot be read.
    pub async fn fetch(
        into: &Path,
        options: Options,
        log: Arc<dyn SharedLog>,
    ) -> Result<Head, MoveError> {
        if log.head().await?.is_none() {
            return Err(MoveError::Empty);
        }
        let copy = Self::open(into, options, log).await?;
        let fetched = copy
            .caught_up()
            .await
            .and_then(|()| copy.copy.head().map_err(|error| MoveError::Failed(error.to_string())));
        let closed = copy.close().await;
        let head = fetched?;
        closed?;
        Ok(head)
    }

    /// Waits until the copy has everything that the shared log has.
    pub(super) async fn caught_up(&self) -> Result<(), MoveError> {
        let mut states = self.states();
        let is_caught_up = |state: &ReplicaState| state.obstacle.is_none() && state.lag == 0;
        // What is waited for locks the state: it is let go at once.
        let is_late = !matches!(
            tokio::time::timeout(driver::REQUEST * 5, states.wait_for(is_caught_up)).await,
            Ok(Ok(_))
        );
        let why = is_late.then(|| states.borrow().obstacle.clone());
        match why.map(|obstacle| obstacle.unwrap_or_else(|| "it is behind".to_owned())) {
            Some(why) => Err(MoveError::Behind(why)),
            None => Ok(()),
        }
    }

    /// Puts the network of a backup, or of a copy that no program has open, in the place of what the logs have, at the same
    /// revision, on a new timeline and without sessions. `own` is the copy of the controller that does it, which takes
    /// everything anew when it starts, as all others do. No controller may be alive.
    ///
    /// # Errors
    /// The logs have what they had, without the sessions if the last step fails.
    pub async fn restore(
        from: &Path,
        own: &Path,
        options: Options,
        (model, live): (&dyn SharedLog, &dyn SharedLog),
    ) -> Result<Head, MoveError> {
        refuse_alive(model).await?;
        let fresh = beside(own, "restoring");
        remove_all(&fresh)?;
        crate::restore(from, &fresh)?;
        let head = async {
            let file = Embedded::open(&fresh, options.clone())?;
            let begun = begin(&file, &fresh, own, options, (model, live)).await;
            let closed = file.close().await;
            let head = begun?;
            closed?;
            Ok(head)
        };
        let head = head.await;
        remove_all(&fresh)?;
        head
    }
}

/// Puts the network of a new file in the place of what the logs have.
async fn begin(
    file: &Embedded,
    fresh: &Path,
    own: &Path,
    options: Options,
    (model, live): (&dyn SharedLog, &dyn SharedLog),
) -> Result<Head, MoveError> {
    let over = model.head().await?;
    let mut former = match &over {
        Some(over) => [model.former().await?, vec![over.head.timeline.clone()]].concat(),
        None => Vec::new(),
    };
    former.extend(timeline_of(own, &options).await?.filter(|own| !former.contains(own)));
    former.drain(..former.len().saturating_sub(FORMER));
    publish_sessions(file, fresh, options, live).await?;
    let checkpoint = begun(file, fresh).await?;
    let begun = model.begin_anew(over, checkpoint, former).await;
    begun.map(|begun| begun.head).map_err(|error| match error {
        AppendError::Moved(head) => MoveError::Behind(format!(
            "somebody has written revision {} meanwhile",
            head.head.revision
        )),
        AppendError::Refused(why) => MoveError::Failed(why),
        AppendError::Unanswered(why) => MoveError::Unknown(why),
    })
}

/// The timeline of a copy; none if there is no copy.
async fn timeline_of(path: &Path, options: &Options) -> Result<Option<Timeline>, MoveError> {
    if !std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        return Ok(None);
    }
    let copy = Embedded::open(path, options.clone())?;
    let head = copy.head().map_err(|error| unreadable(path, &error));
    copy.close().await?;
    Ok(Some(head?.timeline))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Removes a file of this work, and what lies beside it.
fn remove_all(fresh: &Path) -> Result<(), MoveError> {
    for file in [fresh, &path_beside(fresh)] {
        remove(file)?;
        remove(&Journal::path_of(file))?;
    }
    Ok(())
}
