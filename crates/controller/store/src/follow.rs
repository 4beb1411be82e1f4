//! Following the log: first the kept change sets, then new commits.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::watch;
use weft_model::Revision;

use crate::{Committed, FollowError};

/// Most change sets that are read at once.
const CHUNK: usize = 64;

/// An engine's log, for [`follow`].
pub(crate) trait History: Send + Sync + 'static {
    /// At most `most` change sets after a revision, or why the log cannot be followed from there.
    fn read(&self, after: Revision, most: usize) -> Result<Vec<Committed>, FollowError>;

    /// The revision of the head, updated with each commit.
    fn heads(&self) -> watch::Receiver<Revision>;
}

struct Position<H> {
    history: Arc<H>,
    heads: watch::Receiver<Revision>,
    after: Revision,
    ready: VecDeque<Committed>,
    ended: bool,
}

/// An endless stream of the change sets after a revision.
pub(crate) fn follow<H: History>(
    history: Arc<H>,
    after: Revision,
) -> BoxStream<'static, Result<Committed, FollowError>> {
    let heads = history.heads();
    let start = Position { history, heads, after, ready: VecDeque::new(), ended: false };
    futures::stream::unfold(start, |mut at| async move {
        if at.ended {
            return None;
        }
        match at.next().await {
            Ok(Some(committed)) => Some((Ok(committed), at)),
            Ok(None) => None,
            Err(error) => {
                at.ended = true;
                Some((Err(error), at))
            }
        }
    })
    .boxed()
}

impl<H: History> Position<H> {
    async fn next(&mut self) -> Result<Option<Committed>, FollowError> {
        loop {
            if let Some(committed) = self.ready.pop_front() {
                self.after = committed.revision;
                return Ok(Some(committed));
            }
            self.heads.mark_unchanged();
            self.ready = self.history.read(self.after, CHUNK)?.into();
            if self.ready.is_empty() && self.heads.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
