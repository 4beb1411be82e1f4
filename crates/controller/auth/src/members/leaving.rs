//! Controllers that leave the network, or are removed from it.

use weft_contract::ErrorCode;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Notice, Result};
use weft_model::entity::ControllerMember;
use weft_model::{Id, Kind, Snapshot};

use super::next_list;
use crate::handle::Auth;

impl Auth {
    /// Removes another controller, or this one, from the network.
    ///
    /// # Errors
    /// If there is no such controller.
    pub async fn remove_member(&self, caller: &Caller, id: Id) -> Result<()> {
        let decide = move |decision: &mut Decision<'_>| {
            let known = decision.tip().get::<ControllerMember>(&id);
            match known.cloned() {
                None => Err(ErrorCode::NotFound.into()),
                // Whoever removes it again lets it come back.
                Some(known) if known.is_removed => decision.delete(Kind::ControllerMember, &id),
                Some(known) => {
                    let index = next_list(decision);
                    let now = decision.now();
                    decision.put(ControllerMember { list_index: index, ..known.removed(now) });
                    Ok(())
                }
            }
        };
        self.kernel().decide(caller, decide).await.map(drop)
    }

    /// Takes this controller out of the lists of controllers. Its tokens are good until they end.
    ///
    /// # Errors
    /// If nothing can be written now.
    pub async fn leave(&self) -> Result<()> {
        let own = Id::new(&self.kernel().settings().id);
        let decide = move |decision: &mut Decision<'_>| {
            let known = decision.tip().get::<ControllerMember>(&own).cloned();
            if let Some(known) = known.filter(|known| known.is_present()) {
                let (index, now) = (next_list(decision), decision.now());
                decision.put(ControllerMember { list_index: index, ..known.left(now) });
            }
            Ok(())
        };
        self.kernel().decide(&Caller::own("leaving"), decide).await.map(drop)
    }

    /// Waits until this controller was removed from the network by somebody.
    pub async fn removed(&self) {
        let own = Id::new(&self.kernel().settings().id);
        let (snapshot, mut changes) = self.kernel().subscribe();
        let is_removed = |snapshot: &Snapshot| {
            snapshot.get::<ControllerMember>(&own).is_some_and(|known| known.is_removed)
        };
        if is_removed(&snapshot) {
            return;
        }
        drop(snapshot);
        while let Some(notice) = changes.next().await {
            let after = match &notice {
                Notice::Change(published) => &published.after,
                Notice::Resync(after) => after,
            };
            if is_removed(after) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Deletes the entries of controllers that left so long ago that none of their tokens is good.
    ///
    /// # Errors
    /// If nothing can be written now.
    pub async fn forget_left(&self) -> Result<()> {
        // Its tokens were good for this long at most when it left.
        let kept = self.kernel().settings().durations.longest_token.saturating_mul(2);
        let now = self.kernel().now();
        let is_over = move |it: &ControllerMember| {
            !it.is_removed && it.left_at.is_some_and(|at| at.plus(kept) < now)
        };
        let snapshot = self.kernel().snapshot();
        let over = snapshot.list::<ControllerMember>().filter(|member| is_over(member));
        let over: Vec<Id> = over.map(|member| member.base.id.clone()).collect();
        if over.is_empty() {
            return Ok(());
        }
        let decide = move |decision: &mut Decision<'_>| {
            for id in &over {
                if decision.tip().get::<ControllerMember>(id).is_some_and(|member| is_over(member))
                {
                    decision.delete(Kind::ControllerMember, id)?;
                }
            }
            Ok(())
        };
        self.kernel().decide(&Caller::own("members"), decide).await.map(drop)
    }
}
