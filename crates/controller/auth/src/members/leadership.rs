//! Which of several controllers does what one of them has to do.
//!
//! Nothing depends on there being exactly one: what a leader writes has the state that it was decided on as its
//! precondition, so that a paused controller that wakes up and still believes that it leads does no harm.

use weft_model::Id;
use weft_model::entity::ControllerMember;
use weft_store::{Alive, Presence};

use crate::handle::Auth;

impl Auth {
    /// Whether this controller does what one of several has to do: it is alone, or it leads.
    pub fn is_leader(&self) -> bool {
        match self.kernel().settings().store.alive() {
            Some(alive) => self.leads(&alive.borrow()),
            None => true,
        }
    }

    /// The name of the controller that leads the others; none of a controller that is alone, or while nobody is heard of.
    pub fn leader_name(&self) -> Option<String> {
        let alive = self.kernel().settings().store.alive()?;
        let alive = alive.borrow();
        self.leader(&alive).map(|leader| leader.name.clone())
    }

    fn leads(&self, alive: &Alive) -> bool {
        self.leader(alive).is_some_and(|leader| leader.name == self.kernel().settings().id)
    }

    /// The controller that leads. One that was removed does not, whatever it says of itself.
    pub(super) fn leader<'a>(&self, alive: &'a Alive) -> Option<&'a Presence> {
        let snapshot = self.kernel().snapshot();
        alive.leader(|name| {
            let known = snapshot.get::<ControllerMember>(&Id::new(name));
            known.is_none_or(|known| !known.is_removed)
        })
    }

    /// Waits until this controller begins to lead, or leads no more. `led` is what it was. Never ends for a controller that
    /// is alone.
    pub async fn leader_changed(&self, led: bool) {
        let alive = self.kernel().settings().store.alive();
        let Some(mut alive) = alive else { return std::future::pending().await };
        if alive.wait_for(|alive| self.leads(alive) != led).await.is_err() {
            std::future::pending().await
        }
    }
}
