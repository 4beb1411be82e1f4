//! Sends one router the data model, as it subscribed (docs/protocol/edge-control-plane.md 6).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_channel::{ChannelHandle, SendError};
use weft_model::Id;
use weft_wire::edge_ctrl::data_model::{
    ChangeSet, Config, DataState, SubscribeToDataModelRequest, for_subscription,
};
use weft_wire::{Message, ProtoBody};

use super::log::Replay;
use super::{NotEncoded, RouterModel, events};

/// Shortest and longest subscription, in seconds.
const DURATION: std::ops::RangeInclusive<u32> = 10..=360;
/// The interval at which a router is told the index of the model.
const TELL_INDEX: Duration = Duration::from_secs(30);
/// Pause after the channel had no room for a message.
const RETRY: Duration = Duration::from_secs(1);

/// The position of a router in the model.
#[derive(Debug)]
struct Position {
    subscription: String,
    /// The index up to which the router has everything; 0 means nothing.
    index: u64,
    timeline: String,
    /// The epoch of the model in which the router was last sent something; `None` if it was sent
    /// nothing yet, and the index is its own claim.
    sent: Option<u64>,
    /// The configs that the router was sent; `None` if it was sent none in this subscription.
    managed: Option<Vec<Config>>,
    /// The version of the public keys that the router was sent; `None` if it was sent none in this
    /// subscription.
    keys: Option<u64>,
    until: Instant,
}

/// Why missing changes were not sent to a router. The router keeps its model until they are.
#[derive(Debug, thiserror::Error)]
enum NotSent {
    #[error(transparent)]
    Channel(#[from] SendError),
    #[error(transparent)]
    Model(#[from] NotEncoded),
}

/// Feeds one router until its channel closes.
pub(crate) async fn run(
    model: Arc<RouterModel>,
    router: Id,
    channel: ChannelHandle,
    mut requests: mpsc::Receiver<SubscribeToDataModelRequest>,
    in_step: impl Fn(bool),
) {
    let (mut changes, mut keys) = (model.changes(), model.key_changes());
    let mut managed = model.managed_changes();
    let mut ticks = tokio::time::interval(TELL_INDEX);
    let mut position: Option<Position> = None;
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(request) => subscribe(&mut position, request),
                None => return,
            },
            changed = changes.changed() => if changed.is_err() { return },
            changed = keys.changed() => if changed.is_err() { return },
            changed = managed.changed() => if changed.is_err() { return },
            _ = ticks.tick() => {
                // Also without news: the router may have begun anew, or found no room to hand it on.
                let _ = channel.try_send(model.current_index().to_message());
            }
        }
        let Some(position) = position.as_mut() else { continue };
        loop {
            match push(&model, &router, &channel, position, &in_step).await {
                Ok(()) => break,
                Err(NotSent::Channel(SendError::Closed(_))) => return,
                Err(problem) => {
                    tracing::warn!(router = %channel, %problem, "the data model was not sent to a router; it is tried again");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// Applies a subscription. A renewal of the running one keeps the known position; any other begins
/// at the position that the router claims.
fn subscribe(position: &mut Option<Position>, request: SubscribeToDataModelRequest) {
    let seconds = request.subscription_duration_seconds.clamp(*DURATION.start(), *DURATION.end());
    let until = Instant::now() + Duration::from_secs(seconds.into());
    match position {
        Some(known) if request.renew && known.subscription == request.subscription_id => {
            known.until = until;
        }
        _ => {
            *position = Some(Position {
                subscription: request.subscription_id,
                index: request.current_index,
                timeline: request.timeline_id,
                sent: None,
                managed: None,
                keys: None,
                until,
            });
        }
    }
}

/// Sends missing changes, unless the subscription has run out.
async fn push(
    model: &RouterModel,
    router: &Id,
    channel: &ChannelHandle,
    position: &mut Position,
    in_step: &impl Fn(bool),
) -> Result<(), NotSent> {
    if Instant::now() > position.until {
        return Ok(());
    }
    loop {
        let known = position.index > 0 && position.timeline == model.timeline();
        if known && position.sent.is_none() && model.is_behind(position.index).await {
            // It is fed when the model has caught up.
            in_step(false);
            return Ok(());
        }
        let (replay, epoch) = match position.sent.is_some() || known {
            true => model.replay(position.index, position.sent),
            false => (Replay::Full, 0),
        };
        match replay {
            Replay::Nothing => {
                position.sent = Some(epoch);
                break;
            }
            Replay::Entries(entries) => {
                position.sent = Some(epoch);
                for entry in entries {
                    let message = entry.message_after(position.index);
                    channel.send(for_subscription(message, &position.subscription)).await?;
                    position.index = entry.index();
                }
                break;
            }
            // The full state may be a kept one that is older; the changes since follow.
            Replay::Full => {
                in_step(false);
                let full = model.full().await?;
                let message = Message::new(DataState::CONTENT_TYPE, full.body);
                channel.send(for_subscription(message, &position.subscription)).await?;
                position.index = full.index;
                position.sent = Some(full.epoch);
                position.keys = Some(full.keys);
                position.managed = None;
            }
        }
    }
    // After a full state, because it replaces the keys too.
    let keys = model.keys_told();
    if position.keys != Some(keys) {
        channel.send(model.key_set().to_message()).await?;
        position.keys = Some(keys);
    }
    // Deleted configs are removed by the event of the router itself, which does not name them any
    // more.
    let managed = model.managed(router);
    if position.managed.as_ref() != Some(&managed) {
        let told = position.managed.take().unwrap_or_default();
        let other: Vec<Config> =
            managed.iter().filter(|config| !told.contains(config)).cloned().collect();
        if !other.is_empty() {
            let changes = events::of_managed(&other).collect();
            if let Err(problem) = channel.send(ChangeSet::synthetic(changes).to_message()).await {
                position.managed = Some(told);
                return Err(problem.into());
            }
        }
        position.managed = Some(managed);
    }
    in_step(true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str, index: u64, renew: bool) -> SubscribeToDataModelRequest {
        SubscribeToDataModelRequest {
            current_index: index,
            subscription_duration_seconds: 300,
            renew,
            timeline_id: "t".into(),
            subscription_id: id.into(),
        }
    }

    #[tokio::test]
    async fn a_renewal_keeps_our_own_position() {
        let mut position = None;
        subscribe(&mut position, request("s1", 7, true));
        assert_eq!(position.as_ref().unwrap().index, 7, "nothing was known");
        position.as_mut().unwrap().index = 9;
        subscribe(&mut position, request("s1", 7, true));
        assert_eq!(position.as_ref().unwrap().index, 9);
        subscribe(&mut position, request("s2", 7, true));
        assert_eq!(position.as_ref().unwrap().index, 7);
        position.as_mut().unwrap().index = 9;
        subscribe(&mut position, request("s2", 0, false));
        assert_eq!(position.as_ref().unwrap().index, 0);
    }
}
