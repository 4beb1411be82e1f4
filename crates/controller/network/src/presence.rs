//! The presence of routers: which connection counts as that of a router, what follows from its beginning and its end,
//! and what a router is asked when it has connected.
//!
//! A router keeps its circuits while its control channel is down, and loses them when it restarts. Routers of weft report
//! their circuits by themselves (`adoption`); others are asked for them (`recount`). A router whose neighbours are not
//! heard is asked which links it has (`unheard`).
//!
//! [`machine`] decides, and this module carries out what it says.

pub(crate) mod machine;
pub(crate) mod shared;

use std::sync::Arc;

use weft_kernel::events::{Event, RouterEvent};
use weft_model::Id;
use weft_model::entity::Router;
use weft_paths::queue::MoveReason;

use self::machine::{Connection, Input, Newcomer, Output, Source};
use crate::adoption::is_of_before;
use crate::adoption::machine::Input as OfAdoption;
use crate::clock;
use crate::network::Network;
use crate::routers::{AlreadyConnected, LiveRouter, NotConnected};
use crate::standing::machine::Input as OfTerminators;

impl Network {
    /// Whether a further connection of a router may replace the registered one.
    pub fn may_connect(&self, router: &Id) -> Result<(), AlreadyConnected> {
        let answers = self.registered_answers(router);
        let machine = self.0.presence.machine.lock();
        machine.keeps_place(clock::now(), router, false, answers).map_or(Ok(()), Err)
    }

    /// Whether the registered connection of a router answers; none if it has closed.
    fn registered_answers(&self, router: &Id) -> Option<bool> {
        let live = self.0.routers.get(router.as_str())?;
        (!live.channel.is_closed()).then(|| live.answers())
    }

    /// Registers a router that has connected. A former connection of the router that gives way is
    /// treated as disconnected.
    ///
    /// # Errors
    /// When a young connection does not give way, or the controller is stopping.
    pub fn connected(&self, router: &Arc<LiveRouter>) -> Result<(), NotConnected> {
        let _one_by_one = self.0.presence.coming_or_going.lock();
        let newcomer = Newcomer {
            connection: &router.connection,
            is_dialed: router.dialed,
            lists_links: router.lists_links(),
            may_carry: self.cost_unheard(&router.id).is_some(),
            registered_answers: self.registered_answers(&router.id),
        };
        let mut former = None;
        for output in self.0.presence.step(Input::Connected(newcomer)) {
            match output {
                Output::Refuse(why) => return Err(why),
                Output::Register(_) => former = self.0.routers.put(Arc::clone(router)),
                Output::Close(_) => {
                    let former = former.iter();
                    former.for_each(|it| it.channel.close("the router has connected anew"));
                }
                other => self.carry_out(other),
            }
        }
        Ok(())
    }

    /// Handles the end of a router's connection; nothing happens if another connection is
    /// registered by then. True if this connection was the registered one.
    pub fn disconnected(&self, router: &LiveRouter) -> bool {
        let _one_by_one = self.0.presence.coming_or_going.lock();
        let may_carry = self.cost_unheard(&router.id).is_some();
        let ended = Input::Ended { connection: &router.connection, may_carry };
        let outputs = self.0.presence.step(ended);
        let is_registered = !outputs.is_empty();
        outputs.into_iter().for_each(|output| self.carry_out(output));
        is_registered
    }

    /// Refuses all routers from now on.
    pub(super) fn refuse_routers(&self) {
        let _one_by_one = self.0.presence.coming_or_going.lock();
        self.presence(Input::Stop);
    }

    /// Ends the circuits of a router that may not be used any more, and removes its links, also if it is not
    /// connected.
    pub fn shut_out(&self, router: &Id) {
        self.presence(Input::ShutOut(router));
    }

    /// Whether a router has reported all its circuits.
    pub fn has_told(&self, router: &Id) -> bool {
        self.0.presence.machine.lock().has_reported(router)
    }

    /// Whether a link of a router that broke may be back without a report.
    pub(crate) fn may_have_link(&self, router: &Id) -> bool {
        let mut silent = self.0.presence.machine.lock().dialers(router);
        silent.retain(|dialer| self.is_unheard(dialer));
        self.0.presence.machine.lock().may_have_link(router, &silent)
    }

    /// Whether a router has reported the end of a circuit that was not known.
    pub(crate) fn has_ended(&self, router: &LiveRouter, circuit: &str) -> bool {
        self.0.presence.machine.lock().has_ended(&router.connection, circuit)
    }

    /// Gives the machine what a source names next, and finds out which circuits a router has to name with the first
    /// part. True if the part counts.
    pub(crate) fn begin_part(&self, router: &LiveRouter, source: Source) -> bool {
        let outputs = self.0.presence.step(Input::Part(&router.connection, source));
        if outputs.iter().any(|output| matches!(output, Output::Expect(_))) {
            let circuits = self.of_before(router).iter().map(|it| it.id.clone()).collect();
            self.presence(Input::Expected(&router.connection, source, circuits));
        }
        outputs.contains(&Output::Take)
    }

    /// Gives the machine an input, and carries out what follows from it.
    pub(crate) fn presence(&self, input: Input<'_>) {
        self.0.presence.step(input).into_iter().for_each(|output| self.carry_out(output));
    }

    /// Gives the machine each moment at which something is due; never returns.
    pub(super) async fn attend(self) {
        loop {
            let next = self.0.presence.machine.lock().next_due();
            let sooner = self.0.presence.sooner.notified();
            match next {
                Some(at) => _ = tokio::time::timeout_at(at.into(), sooner).await,
                None => sooner.await,
            }
            self.presence(Input::Tick);
        }
    }

    fn carry_out(&self, output: Output) {
        match output {
            Output::Unregister(of) => self.0.routers.remove(&of),
            Output::Come(of) => self.come(&of),
            Output::Leave(router) => self.leave(&router),
            Output::GoOffline(of) => self.go_offline(&of),
            Output::DropDialed(router) => {
                let mut links = self.0.links.at(&router);
                links.retain(|link| link.source == router);
                self.drop_links(&links);
            }
            Output::ShutOut(router) => {
                self.end_circuits_at(&router);
                self.drop_links(&self.0.links.at(&router));
            }
            Output::AskCircuits(of) => self.with(&of, Self::ask_circuits),
            Output::JudgeLinks(of, dialers) => {
                self.with(&of, |network, router| network.judge_links(router, dialers));
            }
            Output::AskLinks(of) => self.with(&of, Self::ask_links),
            Output::NotCarried(of, circuits) => {
                let Some(router) = self.0.routers.of(&of) else { return };
                for circuit in circuits.iter().filter_map(|id| self.0.circuits.get(id)) {
                    if is_of_before(&circuit, &router) {
                        self.not_carried(&circuit.id, &router.id);
                    }
                }
            }
            Output::LookForGaps => self.adoption(OfAdoption::News),
            Output::DropLink(link) => self.drop_unless_new(&link),
            Output::Restore(link) => self.restore(&link),
            // They are carried out where the connection or the part is.
            Output::Refuse(_) | Output::Register(_) | Output::Close(_) => {}
            Output::Expect(_) | Output::Take => {}
        }
    }

    /// Begins a task for a router, if the connection is still registered.
    fn with<T>(&self, of: &Connection, task: impl FnOnce(Self, Arc<LiveRouter>) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        if let Some(router) = self.0.routers.of(of) {
            self.spawn_on_runtime(task(self.clone(), router));
        }
    }

    fn come(&self, of: &Connection) {
        let Some(router) = self.0.routers.of(of) else { return };
        self.claim_all_at(&router);
        self.note(OfTerminators::Connected(&router.id));
        self.count_left_out(&router);
        self.router_changed(&router.id);
        self.0
            .links
            .at(&router.id)
            .iter()
            .for_each(|link| self.move_over(&link.id, MoveReason::Back));
        self.try_again_at(&router.id);
        self.0.kernel.online().put_router(&router.id, of.number, router.facts());
        let (router, at) = (router.id.clone(), router.connected_at);
        self.0.events.tell(Event::Router(RouterEvent { at, router, online: true }));
    }

    /// Handles the end of a router's connection. The router may go on carrying data, so that its links and the
    /// circuits over them stay until a router at another end says that a link has broken
    /// ([`unheard`](super::unheard)).
    fn leave(&self, router: &Id) {
        self.router_changed(router);
        self.presence(Input::Doubted(&self.0.links.neighbours(router)));
        self.try_again_at(router);
        self.end_ended_at(router);
        self.note(OfTerminators::Lost(router));
    }

    fn go_offline(&self, of: &Connection) {
        let (online, id) = (self.0.kernel.online(), &of.router);
        self.0.reported.forget(id);
        online.remove_router(id, of.number);
        if self.0.kernel.snapshot().get::<Router>(id).is_none() {
            online.forget(id.as_str());
        }
        let (at, router) = (self.0.kernel.now(), id.clone());
        self.0.events.tell(Event::Router(RouterEvent { at, router, online: false }));
    }
}
