//! A channel that another controller has dialed: it tells and asks, and this one answers.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use tokio::sync::Semaphore;
use weft_channel::{ChannelHandle, Established, Inbox, InboxLimits, inbox};
use weft_model::Id;
use weft_wire::ctrl::{self, ControllerAnswer, ControllerCall, PostureNews};
use weft_wire::edge_ctrl::data_model::CurrentIndex;
use weft_wire::{Message, ProtoBody as _, WireError, edge_ctrl};

use super::posture;
use super::shared::Accepted;
use crate::plane::Plane;

/// Most calls about one circuit that are carried out at once for one controller.
const CALLS_AT_ONCE: usize = 32;
/// Most lists that are made at once for one controller. They may be long, and are kept until they are sent.
const LISTS_AT_ONCE: usize = 4;

/// Serves a controller that has proved itself, until its channel closes.
pub(crate) fn welcome(
    plane: &Arc<Plane>,
    controller: Id,
    leaf: CertificateDer<'static>,
    established: Established,
) {
    let (behaviour, messages) = inbox(InboxLimits::default());
    let handle = established.handle();
    let accepted = Accepted { controller, channel: handle.clone(), leaf, has_told_all: false };
    let mut state = plane.controllers.state.lock();
    if let Some(task) = state.dialing.get(&accepted.controller) {
        task.is_there.notify_one();
    }
    state.accepted.push(accepted);
    drop(state);
    let channel = established.start(behaviour);
    // Its entry may have changed since the gate looked at it, and this controller may stop.
    plane.look_at_members();
    if plane.is_stopping() {
        channel.close("the controller is stopping");
    }
    let (serving, plane) = (Arc::clone(plane), Arc::clone(plane));
    serving.network.spawn(async move {
        serve(&plane, &channel, messages).await;
        let is_other = |it: &Accepted| !it.channel.is_closed();
        plane.controllers.state.lock().accepted.retain(is_other);
        plane.judge_what_was_heard();
    });
}

async fn serve(plane: &Arc<Plane>, channel: &ChannelHandle, mut messages: Inbox) {
    let room = [CALLS_AT_ONCE, LISTS_AT_ONCE].map(|most| Arc::new(Semaphore::new(most)));
    while let Some(message) = messages.recv().await {
        let done = match message.content_type {
            ctrl::content_type::POSTURE_NEWS => take_news(plane, channel, &message).await,
            ctrl::content_type::WAITING_CHANGES => plane.take_waiting(&message).await,
            ctrl::content_type::COUNTED_PASSWORDS => plane.take_passwords(&message),
            ctrl::content_type::CONTROLLER_CALL => answer(plane, channel, message, &room),
            edge_ctrl::content_type::CURRENT_INDEX => {
                CurrentIndex::from_message(&message).map(|told| plane.model.hear(&told))
            }
            _ => Ok(()),
        };
        if let Err(problem) = done {
            channel.close(format!("malformed message: {problem}"));
        }
    }
}

/// Takes over posture data. What follows from a change is a matter of all sessions of an identity, so that it has a thread
/// of its own; the next message waits for it.
async fn take_news(
    plane: &Arc<Plane>,
    channel: &ChannelHandle,
    message: &Message,
) -> Result<(), WireError> {
    let news = PostureNews::from_message(message)?;
    let (is_last, told, auth) = (news.last, posture::told(news), plane.auth.clone());
    if !told.is_empty()
        && let Err(error) = tokio::task::spawn_blocking(move || auth.take_over_posture(told)).await
    {
        tracing::error!(%error, "posture data of another controller could not be taken over");
    }
    if is_last {
        let mut state = plane.controllers.state.lock();
        let own = state.accepted.iter_mut().filter(|it| it.channel.same_channel(channel));
        own.for_each(|it| it.has_told_all = true);
        drop(state);
        plane.judge_what_was_heard();
    }
    Ok(())
}

fn answer(
    plane: &Arc<Plane>,
    channel: &ChannelHandle,
    message: Message,
    [calls, lists]: &[Arc<Semaphore>; 2],
) -> Result<(), WireError> {
    let call = ControllerCall::from_message(&message)?;
    let (network, channel) = (plane.network.clone(), channel.clone());
    let room = if call.entity.is_empty() { lists } else { calls };
    let Ok(place) = Arc::clone(room).try_acquire_owned() else {
        let busy = ControllerAnswer { status: 429, ..ControllerAnswer::default() };
        let _ = channel.try_send(busy.to_message().in_reply_to(&message));
        return Ok(());
    };
    plane.network.spawn(async move {
        let answer = network.answer_elsewhere(call).await;
        if let Err(problem) = channel.send(answer.to_message().in_reply_to(&message)).await {
            tracing::debug!(%problem, "an answer to another controller was not sent");
        }
        drop(place);
    });
    Ok(())
}
