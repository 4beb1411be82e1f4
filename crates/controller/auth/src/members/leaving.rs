//! Controllers that leave the network, or are removed from it.

use weft_contract::ErrorCode;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Notice, Result};
use weft_model::entity::ControllerMember;
use weft_model::{Id, Kind, Snapshot};

use super::{next_list, roll};
use crate::handle::Auth;

impl Auth {
    /// Removes another controller from the network. One that was removed already stays so.
    ///
    /// # Errors
    /// If there is no such controller, or it is this one: the last controller cannot be removed, as nobody could let it come
    /// back.
    pub async fn remove_member(&self, caller: &Caller, id: Id) -> Result<()> {
        if id.as_str() == self.kernel().settings().id {
            let reason = "a controller is removed at another one; this one leaves with `weft controller leave`";
            return Err(Failure::field("id", reason, id.as_str()));
        }
        let decide = move |decision: &mut Decision<'_>| {
            let known = decision.tip().get::<ControllerMember>(&id).cloned();
            let known = known.ok_or(ErrorCode::NotFound)?;
            if !known.is_removed {
                let (index, now) = (next_list(decision), decision.now());
                let members: Vec<_> = decision.tip().list::<ControllerMember>().collect();
                // Whoever has its machine may have more than its entry says.
                let network_key = roll::newest(members.iter().map(|it| &***it));
                decision.put(ControllerMember {
                    list_index: index,
                    network_key,
                    ..known.removed(now)
                });
            }
            Ok(())
        };
        self.kernel().decide(caller, decide).await.map(drop)
    }

    /// Lets a controller that was removed come back.
    ///
    /// # Errors
    /// If no such controller was removed.
    pub async fn readmit_member(&self, caller: &Caller, id: Id) -> Result<()> {
        let own = Id::new(&self.kernel().settings().id);
        let decide = move |decision: &mut Decision<'_>| {
            let known = decision.tip().get::<ControllerMember>(&id);
            match known.is_some_and(|known| known.is_removed) {
                true => forget(decision, &own, &id),
                false => Err(ErrorCode::NotFound.into()),
            }
        };
        self.kernel().decide(caller, decide).await.map(drop)
    }

    /// Ends the membership of all others, as this controller has the network in a file and is alone: their tokens are good
    /// until they end.
    ///
    /// # Errors
    /// If nothing can be written now.
    pub async fn be_alone(&self) -> Result<()> {
        let own = Id::new(&self.kernel().settings().id);
        let decide = move |decision: &mut Decision<'_>| {
            let (tip, now) = (decision.tip(), decision.now());
            let others =
                tip.list::<ControllerMember>().filter(|it| it.is_present() && it.base.id != own);
            let list_index = next_list(decision);
            others.for_each(|other| {
                decision.put(ControllerMember { list_index, ..other.left(now) });
            });
            decision.delete_if_there(Kind::ControllerMember, &own)
        };
        if self.kernel().snapshot().table(Kind::ControllerMember).is_empty() {
            return Ok(());
        }
        self.kernel().decide(&Caller::own("members"), decide).await.map(drop)
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
        let authority = self.own_member().authorities.into_iter().next().unwrap_or_default();
        let is_removed = |snapshot: &Snapshot| {
            snapshot.get::<ControllerMember>(&own).is_some_and(|known| !known.admits(&authority))
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
        let own = Id::new(&self.kernel().settings().id);
        let decide = move |decision: &mut Decision<'_>| {
            for id in &over {
                if decision.tip().get::<ControllerMember>(id).is_some_and(|member| is_over(member))
                {
                    forget(decision, &own, id)?;
                }
            }
            Ok(())
        };
        self.kernel().decide(&Caller::own("members"), decide).await.map(drop)
    }
}

/// Deletes an entry. The number of the list goes on in that of this controller, if it has one.
fn forget(decision: &mut Decision<'_>, own: &Id, id: &Id) -> Result<()> {
    let list_index = next_list(decision);
    let entry = decision.tip().get::<ControllerMember>(own).map(|own| (**own).clone());
    decision.delete(Kind::ControllerMember, id)?;
    if let Some(entry) = entry.filter(|entry| entry.base.id != *id) {
        decision.put(ControllerMember { list_index, ..entry });
    }
    Ok(())
}
