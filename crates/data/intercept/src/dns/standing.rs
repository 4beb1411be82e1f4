//! Whether other DNS servers answer, as their last questions have shown.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The shortest time between two questions that a silent server is asked beside the others.
const PROBE: Duration = Duration::from_secs(1);

/// The standing of one server. Silent are also servers whose answers are none, and addresses at which no
/// server is.
#[derive(Debug, Default)]
pub(super) struct Standing(Mutex<ServerState>);

#[derive(Debug, Default)]
struct ServerState {
    silent: bool,
    /// The time of the last answer.
    answered: Option<Instant>,
    /// The time of the last question to a silent server.
    probed: Option<Instant>,
}

impl Standing {
    /// True if the server did not answer its last questions.
    pub(super) fn is_silent(&self) -> bool {
        self.0.lock().silent
    }

    /// True if the server is silent and a question may show whether it still is. The caller asks it then.
    pub(super) fn is_probed(&self) -> bool {
        let mut known = self.0.lock();
        let now = Instant::now();
        let due = known.silent && known.probed.is_none_or(|last| now - last >= PROBE);
        if due {
            known.probed = Some(now);
        }
        due
    }

    /// Notes the outcome of a question that was asked at `begun`. A server that has answered another
    /// question meanwhile does not know this name, and is not silent. True if the standing has changed.
    pub(super) fn note(&self, begun: Instant, answered: bool) -> bool {
        let mut known = self.0.lock();
        let before = known.silent;
        if answered {
            known.silent = false;
            known.answered = Some(Instant::now());
        } else if known.answered.is_none_or(|last| last < begun) {
            known.silent = true;
        }
        known.silent != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_is_silent_from_a_question_without_answer_to_the_next_answer() {
        let standing = Standing::default();
        let begun = Instant::now();
        assert!(!standing.is_silent() && !standing.is_probed());
        assert!(standing.note(begun, false) && standing.is_silent());
        // One question at a time shows whether it answers again.
        assert!(standing.is_probed() && !standing.is_probed());
        assert!(!standing.note(begun, false));
        tokio::time::advance(PROBE).await;
        assert!(standing.is_probed() && !standing.is_probed());
        assert!(standing.note(begun, true));
        assert!(!standing.is_silent() && !standing.is_probed());
        // A name about which it cannot find out anything, while it answers other questions.
        assert!(!standing.note(begun, false) && !standing.is_silent());
        tokio::time::advance(PROBE).await;
        assert!(standing.note(Instant::now(), false) && standing.is_silent());
    }
}
