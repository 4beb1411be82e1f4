//! Changes that wait until etcd can be written: sessions, and terminators of routers. They count at the controller where
//! they are made, and by these messages at the others, too.

use std::sync::Arc;
use std::time::Duration;

use weft_channel::{ChannelHandle, Lane};
use weft_kernel::HeldChange;
use weft_model::{Change, ChangeSet, Entity, Kind, Timestamp};
use weft_store::WaitingChange;
use weft_wire::ctrl::WaitingChanges;
use weft_wire::ctrl::waiting_changes::DeferredChange;
use weft_wire::{Message, ProtoBody as _, WireError};

use super::dial::GATHERING;
use crate::plane::Plane;

/// The time after which a session that is told as a new one is none to a controller that reaches etcd.
const FRESH: Duration = Duration::from_secs(10);
/// The interval at which it is looked whether changes of terminators that were held before are to be told.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest wait until a message is written.
const WRITING: Duration = Duration::from_secs(10);
/// Most sessions, and most terminators, in a message. Each has some KiB, and at most 100.
const MOST_IN_PART: usize = 16;

fn tell(change: Change, at: Timestamp, known: bool) -> DeferredChange {
    DeferredChange { change_set: ChangeSet::of([change]).to_bytes().into(), at: at.0, known }
}

fn message(sessions: Vec<WaitingChange>, terminators: Vec<HeldChange>) -> WaitingChanges {
    let sessions = sessions.into_iter();
    let sessions = sessions.map(|it| tell(it.change, Timestamp::default(), it.is_known));
    let terminators = terminators.into_iter().map(|it| tell(it.change, it.at, true));
    WaitingChanges { changes: sessions.chain(terminators).collect() }
}

/// The changes in a message. What a later release tells beside sessions and terminators is left out.
fn told(message: WaitingChanges) -> (Vec<WaitingChange>, Vec<HeldChange>) {
    let (mut sessions, mut terminators) = (Vec::new(), Vec::new());
    for DeferredChange { change_set, at, known } in message.changes {
        let Ok(set) = ChangeSet::from_bytes(&change_set) else { continue };
        for change in set.changes {
            match change.kind() {
                Kind::ApiSession | Kind::ServiceSession => {
                    sessions.push(WaitingChange { change, is_known: known });
                }
                Kind::Terminator => {
                    terminators.push(HeldChange { number: 0, at: Timestamp(at), change });
                }
                _ => {}
            }
        }
    }
    (sessions, terminators)
}

/// Whether a session is so old that a controller which reaches etcd knows it, unless it has ended.
fn is_old(change: &Change, now: Timestamp) -> bool {
    let begun = match change {
        Change::Put(Entity::ApiSession(session)) => session.base.created_at,
        Change::Put(Entity::ServiceSession(session)) => session.base.created_at,
        _ => return false,
    };
    begun.plus(FRESH) < now
}

impl Plane {
    /// Tells a controller what waits here, until the channel closes; the reason for that.
    pub(super) async fn tell_waiting(&self, channel: &ChannelHandle) -> String {
        let kernel = self.auth.kernel();
        let live = kernel.settings().store.live();
        let (mut held, Some(mut waiting)) = (kernel.last_held(), live.last_waiting()) else {
            return std::future::pending().await;
        };
        let (mut last_session, mut last_terminator) = (0, 0);
        let teller = kernel.held_teller();
        loop {
            held.mark_unchanged();
            waiting.mark_unchanged();
            let (sessions, last) = live.waiting_after(last_session, MOST_IN_PART);
            // What can be written is known to the others soon.
            let terminators = match kernel.cannot_write() {
                true => kernel.held_after(last_terminator, MOST_IN_PART),
                false => Vec::new(),
            };
            if sessions.is_empty() && terminators.is_empty() {
                // Many sessions may change together; the router of a terminator waits.
                let changed = tokio::select! {
                    changed = held.changed() => changed,
                    changed = waiting.changed() => {
                        let more = tokio::time::timeout(GATHERING, held.changed());
                        changed.and(more.await.unwrap_or(Ok(())))
                    }
                    // Changes are held on that could be written for a moment.
                    () = tokio::time::sleep(AGAIN), if kernel.holds_any() => Ok(()),
                };
                if changed.is_err() {
                    return "the controller stops".to_owned();
                }
                continue;
            }
            last_session = last;
            last_terminator = terminators.last().map_or(last_terminator, |it| it.number);
            let message = message(sessions, terminators).to_message();
            if let Err(problem) = channel.send_written(Lane::Default, message, WRITING).await {
                return problem.to_string();
            }
            teller.told(last_terminator);
        }
    }

    /// Takes over what waits at another controller. Rows are read from the disk, on a thread for that.
    pub(super) async fn take_waiting(self: &Arc<Self>, message: &Message) -> Result<(), WireError> {
        let (mut sessions, terminators) = told(WaitingChanges::from_message(message)?);
        let kernel = self.auth.kernel().clone();
        if !kernel.is_cut_off() {
            let now = kernel.now();
            sessions.iter_mut().for_each(|told| told.is_known |= is_old(&told.change, now));
        }
        let taking = tokio::task::spawn_blocking(move || {
            // A terminator may rest on a session.
            kernel.settings().store.live().take_waiting(sessions);
            kernel.hold_theirs(terminators);
        });
        if let Err(error) = taking.await {
            tracing::error!(%error, "changes that wait at another controller could not be taken over");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_model::entity::{ApiSession, Service, Terminator};
    use weft_model::{Base, Id};

    use super::*;

    #[test]
    fn changes_come_as_they_were_told() {
        let base = |id| Base::new(Id::new(id), Timestamp(1));
        let session = ApiSession { base: base("s"), ..ApiSession::default() };
        let sessions = vec![
            WaitingChange { change: Change::Put(session.into()), is_known: false },
            WaitingChange {
                change: Change::Delete(Kind::ServiceSession, Id::new("t")),
                is_known: true,
            },
        ];
        let terminator = Terminator { base: base("t"), cost: 7, ..Terminator::default() };
        let held = |change| HeldChange { number: 0, at: Timestamp(9), change };
        let terminators = vec![
            held(Change::Put(terminator.into())),
            held(Change::Delete(Kind::Terminator, Id::new("u"))),
        ];
        let mut message = message(sessions.clone(), terminators.clone());
        let service = Service { base: base("x"), ..Service::default() };
        message.changes.push(tell(Change::Put(service.into()), Timestamp(1), true));
        message.changes.push(DeferredChange { change_set: "?".into(), at: 1, known: true });
        assert_eq!(told(message), (sessions, terminators));
    }
}
