//! The channel to another controller that this one has dialed: it tells posture data, its revision,
//! what waits for etcd and wrong passwords, and asks.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_channel::{
    ChannelHandle, ChannelOptions, DialOptions, Established, HeartbeatOptions, InboxLimits,
    ServerScreen, dial, inbox,
};
use weft_kernel::events::ClusterChange;
use weft_model::Id;
use weft_model::entity::ControllerMember;
use weft_network::elsewhere::AnswerFromElsewhere;
use weft_wire::ctrl::{ControllerAnswer, ControllerCall};
use weft_wire::hello::{Hello, alpn, header};
use weft_wire::{Address, ProtoBody as _, VersionInfo};

use super::shared::Dialed;
use super::{posture, proof};
use crate::plane::Plane;

/// Shortest and longest pause between two dials of a controller.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// A channel that was open for this long was no failure.
const LASTING: Duration = Duration::from_secs(10);
/// One failure in this many in a row is logged, the third one first: a controller that is restarted is back by then.
const COMPLAIN: u32 = 60;
const FIRST: u32 = 2;
/// The interval at which the revision is told.
const REVISION: Duration = Duration::from_secs(5);
/// How long a change waits for others, so that they leave together.
pub(super) const GATHERING: Duration = Duration::from_millis(50);
/// Most owners of posture data in a message. Each has a few KiB, and at most 400.
const MOST_IN_PART: usize = 4;
/// How long another controller may take to answer.
const PATIENCE: Duration = Duration::from_millis(900);
/// Heartbeats between controllers: one that says nothing for 10 s is lost.
const HEARTBEATS: HeartbeatOptions = HeartbeatOptions {
    send_interval: Duration::from_secs(3),
    check_interval: Duration::from_secs(1),
    close_unresponsive: Some(Duration::from_secs(10)),
    grace: Duration::ZERO,
};

/// A channel that is closed, and asked no more, when this is dropped.
struct OpenChannel<'a> {
    plane: &'a Plane,
    id: &'a Id,
    channel: &'a ChannelHandle,
}

impl Drop for OpenChannel<'_> {
    fn drop(&mut self) {
        self.channel.close("nobody uses the channel any more");
        let mut state = self.plane.controllers.state.lock();
        // Another task may have dialed the same controller since, after it was removed and came back.
        if state.dialed.get(self.id).is_none_or(|it| !it.channel.same_channel(self.channel)) {
            return;
        }
        state.dialed.remove(self.id);
        drop(state);
        self.plane.auth.reaches(self.id, false);
        self.plane.tell_cluster(ClusterChange::PeerDisconnected, Some(self.id));
    }
}

impl Plane {
    /// Keeps a channel to a controller. A pause between two dials ends when the controller is there.
    pub(super) async fn keep_dialed(
        self: Arc<Self>,
        id: Id,
        tls: Arc<rustls::ClientConfig>,
        is_there: &Notify,
    ) {
        let (mut failures, mut turn) = (0_u32, 0_usize);
        loop {
            let member = self.auth.kernel().snapshot().get::<ControllerMember>(&id).cloned();
            let addresses = member.as_ref().map(|it| &it.ctrl_addresses[..]).unwrap_or_default();
            if let (Some(member), Some(address)) =
                (&member, addresses.get(turn % addresses.len().max(1)))
            {
                let problem = match self.dial_member(member, address, &tls).await {
                    Ok(established) => {
                        let begun = Instant::now();
                        let reason = self.tell(&id, established).await;
                        if begun.elapsed() > LASTING {
                            failures = 0;
                        }
                        reason
                    }
                    Err(problem) => {
                        turn = turn.wrapping_add(1);
                        problem
                    }
                };
                if failures % COMPLAIN == FIRST {
                    tracing::warn!(controller = %id, address, %problem, "there is no channel to a controller; it is dialed again");
                }
            }
            failures = failures.saturating_add(1);
            let [shortest, longest] = PAUSES;
            let pause = (shortest * 2_u32.pow(failures.min(5))).min(longest);
            let _ = tokio::time::timeout(pause, is_there.notified()).await;
        }
    }

    async fn dial_member(
        &self,
        member: &Arc<ControllerMember>,
        address: &str,
        tls: &Arc<rustls::ClientConfig>,
    ) -> Result<Established, String> {
        let address: Address =
            address.parse().map_err(|problem| format!("its address: {problem}"))?;
        let mut hello = Hello::new(self.auth.kernel().settings().id.clone());
        hello.headers = self.headers();
        let label = format!("controller {}", member.base.id);
        let channel =
            ChannelOptions { heartbeat: Some(HEARTBEATS), ..ChannelOptions::control(label) };
        let options = DialOptions::new(address, Arc::clone(tls), alpn::CTRL, hello, channel);
        let expected = Arc::clone(member);
        let screen = ServerScreen::new(move |chain| match chain.first() {
            Some(leaf) if proof::is_of(&expected, leaf) => Ok(()),
            _ => Err("another program than the controller answers there".to_owned()),
        });
        let dialed = dial(DialOptions { screen: Some(screen), ..options }).await;
        dialed.map_err(|problem| problem.to_string())
    }

    /// Tells a controller what it has to know, until the channel closes; the reason for that.
    async fn tell(&self, id: &Id, established: Established) -> String {
        // The other side answers, and sends nothing else.
        let (behaviour, _) = inbox(InboxLimits::default());
        let version = established.peer().headers.get_str(header::HELLO_VERSION);
        let version = version.and_then(VersionInfo::from_header);
        let leaf = established.peer().leaf().cloned();
        let channel = established.start(behaviour);
        tracing::info!(controller = %id, "there is a channel to a controller");
        let version = version.map(|it| it.version).unwrap_or_default();
        let dialed = Dialed { channel: channel.clone(), leaf, version };
        self.controllers.state.lock().dialed.insert(id.clone(), dialed);
        self.auth.reaches(id, true);
        self.tell_cluster(ClusterChange::PeerConnected, Some(id));
        let _open = OpenChannel { plane: self, id, channel: &channel };
        tokio::select! {
            reason = channel.closed() => reason.to_string(),
            problem = self.tell_posture(&channel) => problem,
            problem = self.tell_revision(&channel) => problem,
            problem = self.tell_waiting(&channel) => problem,
            problem = self.tell_passwords(&channel) => problem,
        }
    }

    async fn tell_posture(&self, channel: &ChannelHandle) -> String {
        let postures = self.auth.postures();
        let (mut changes, mut number, mut has_told_all) = (postures.changes(), 0, false);
        let known = *changes.borrow();
        let mut is_cut_off = self.auth.is_cut_off();
        loop {
            changes.mark_unchanged();
            let (told, next) = postures.changed_after(number, MOST_IN_PART);
            let is_last = next >= known && !has_told_all;
            if !told.is_empty() || is_last {
                let message = posture::news(told, is_last).to_message();
                if let Err(problem) = channel.send(message).await {
                    return problem.to_string();
                }
                (number, has_told_all) = (next, has_told_all || is_last);
                continue;
            }
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => tokio::time::sleep(GATHERING).await,
                    Err(_) => return "the controller stops".to_owned(),
                },
                () = tokio::time::sleep(REVISION) => {}
            }
            // The other one has not kept what belongs to sessions that it had not heard of.
            let was_cut_off = std::mem::replace(&mut is_cut_off, self.auth.is_cut_off());
            if was_cut_off && !is_cut_off {
                number = 0;
            }
        }
    }

    async fn tell_revision(&self, channel: &ChannelHandle) -> String {
        let mut ticks = tokio::time::interval(REVISION);
        loop {
            ticks.tick().await;
            let told = self.model.current_index();
            if told.sealed.is_some()
                && let Err(problem) = channel.send(told.to_message()).await
            {
                return problem.to_string();
            }
        }
    }

    /// Asks all other members at once. Each has its answer within a second, or none.
    pub(crate) fn ask_controllers(
        &self,
        call: &ControllerCall,
    ) -> BoxFuture<'static, Vec<AnswerFromElsewhere>> {
        let (snapshot, now) = (self.auth.kernel().snapshot(), std::time::Instant::now());
        let members = self.auth.other_members(&snapshot);
        let state = self.controllers.state.lock();
        // One that was invited and has not started yet owns nothing, and one that has ended neither.
        let members = members
            .filter(|it| it.is_present() && it.joined_at.0 > 0 && state.may_own(&it.base.id, now));
        let asked = members.map(|member| {
            let controller = member.base.id.to_string();
            let channel = state.dialed.get(&member.base.id).map(|it| it.channel.clone());
            let message = call.to_message();
            async move {
                let answer = match channel {
                    Some(channel) => channel.request(message, PATIENCE).await.ok(),
                    None => None,
                };
                let answer = answer.and_then(|it| ControllerAnswer::from_message(&it).ok());
                AnswerFromElsewhere { controller, answer }
            }
        });
        futures::future::join_all(asked.collect::<Vec<_>>()).boxed()
    }
}
