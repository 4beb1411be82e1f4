//! The loop that keeps a listener bound on its routers.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use weft_contract::entity::DialBind;
use weft_contract::resource::service_session::SessionDetail;

use super::binding::{BindEnd, Bound};
use super::host::Host;
use super::rereading::{Need, Rereading};
use super::router_slots::{Ended, LONGEST_WAIT, RouterSlots, wait};
use crate::addresses::{are_usable, unusable};
use crate::error::{Error, Failure, Result};
use crate::inner::Inner;
use crate::jitter::{jittered, spread};
use crate::routers::{Slot, Waiting};
use crate::service::Service;

/// The wait for the next reading while every router is offline. A router that comes back at its last address
/// is found without a reading.
const OFFLINE_WAIT: Duration = Duration::from_secs(15);

/// The longest wait for the next reading after the endpoint has forgotten a router.
const FORGOTTEN_WAIT: Duration = Duration::from_secs(1);

/// A service session that is being read.
type Reading = BoxFuture<'static, Result<Arc<SessionDetail>>>;

/// The binds of a listener, and the routers that it may be bound on.
pub(super) struct Following<'a> {
    host: &'a Arc<Host>,
    inner: &'a Arc<Inner>,
    slots: RouterSlots<Arc<Slot>>,
    rereading: Rereading,
    binds: JoinSet<Bound>,
    /// True if the controller names routers that have no usable address.
    are_some_away: bool,
    /// True if a router refused the session, because it may have ended.
    is_session_doubtful: bool,
    /// True until the routers have been read.
    is_first: bool,
    /// Readings that failed in a row.
    failures: u32,
    /// All routers of the listener, while it has no slot.
    waiting: Vec<Waiting>,
}

impl<'a> Following<'a> {
    pub(super) fn new(host: &'a Arc<Host>, inner: &'a Arc<Inner>) -> Self {
        Self {
            host,
            inner,
            slots: RouterSlots::new(host.options.max_terminators),
            rereading: Rereading::new(inner.settings.refresh_interval, Instant::now()),
            binds: JoinSet::new(),
            are_some_away: false,
            is_session_doubtful: false,
            is_first: true,
            failures: 0,
            waiting: Vec::new(),
        }
    }

    /// Binds on the routers of the service session. Ends with an error that stays until an operator
    /// changes something: an error of the controller, or that of a router if every router refuses for
    /// good.
    pub(super) async fn run(mut self) -> Result<()> {
        let mut routers = self.inner.routers.changes();
        let mut services = self.inner.account.service_changes();
        let mut service = self.service_of(&services.borrow_and_update());
        let mut reading: Option<Reading> = None;
        loop {
            let now = Instant::now();
            self.take_slots(now);
            if self.slots.have_none_taken() {
                self.wait_for_routers();
            } else {
                self.waiting.clear();
            }
            let due = self.rereading.due(self.need());
            if reading.is_none() && due <= now {
                reading = Some(self.read());
            }
            let (is_reading, has_slot) = (reading.is_some(), !self.slots.are_taken());
            tokio::select! {
                read = end_of(&mut reading) => {
                    reading = None;
                    self.was_read(read)?;
                }
                Some(Ok(bound)) = self.binds.join_next() => self.was_bound(bound)?,
                () = sleep_until(due), if !is_reading => {}
                () = end_of_pause(self.slots.next_pause_end(now)) => {}
                Ok(()) = routers.changed(), if has_slot => self.look_for_forgotten(),
                Ok(()) = services.changed() => {
                    let now = self.service_of(&services.borrow_and_update());
                    if service.is_some() && now != service {
                        self.rereading.read_at(Instant::now());
                    }
                    service = now;
                }
            }
        }
    }

    /// The service, as the identity could use it when the services were read last.
    fn service_of(&self, services: &[Service]) -> Option<Service> {
        services.iter().find(|one| one.id == self.host.service.base.id).cloned()
    }

    /// Starts binds on the free slots, at routers that are connected.
    fn take_slots(&mut self, now: Instant) {
        let distance = |slot: &Arc<Slot>| slot.channel().map(|_| slot.rtt());
        while let Some((name, slot)) = self.slots.take(now, distance) {
            if let Some(channel) = slot.channel() {
                let (host, inner) = (Arc::clone(self.host), Arc::clone(self.inner));
                self.binds.spawn(host.bind_on(inner, slot, channel));
            } else {
                let lasted = LONGEST_WAIT;
                let cut = Ended { was_established: false, lasted, is_cut: true, refusal: None };
                self.slots.free(&name, cut, now, lasted);
            }
        }
    }

    /// Has all routers dialed soon: the service cannot be dialed before one of them is back.
    fn wait_for_routers(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = self.slots.listed().map(Slot::wanted).collect();
        }
    }

    /// Reads the routers again if the endpoint has forgotten one of them: it is not dialed any more.
    fn look_for_forgotten(&mut self) {
        if self.slots.listed().any(|slot| slot.is_dropped()) {
            // Every listener of the router is told at once.
            self.rereading.read_at(Instant::now() + FORGOTTEN_WAIT.mul_f64(rand::random()));
        }
    }

    fn need(&self) -> Need {
        if self.slots.are_taken() {
            Need::Nothing
        } else if self.slots.have_none_taken() {
            Need::Any
        } else if self.slots.have_all_routers() && !self.are_some_away {
            Need::More
        } else {
            Need::Missing
        }
    }

    /// Begins to read the service session with the present routers.
    fn read(&mut self) -> Reading {
        self.rereading.begins();
        let is_doubtful = std::mem::take(&mut self.is_session_doubtful);
        let is_first = self.is_first;
        let (host, inner) = (Arc::clone(self.host), Arc::clone(self.inner));
        Box::pin(async move {
            let account = &inner.account;
            if is_doubtful && let Err(problem) = account.check_session().await {
                host.note(problem);
            }
            match is_first {
                true => account.session(&host.service, DialBind::Bind).await,
                false => account.session_now(&host.service, DialBind::Bind).await,
            }
        })
    }

    fn was_read(&mut self, read: Result<Arc<SessionDetail>>) -> Result<()> {
        let now = Instant::now();
        let session = match read {
            Ok(session) => session,
            Err(error) if error.is_final() && self.host.is_down() => return Err(error),
            Err(error) => {
                self.host.note(error);
                self.failures = self.failures.saturating_add(1);
                self.rereading.read_at(now + jittered(self.wait_of_failure()));
                return Ok(());
            }
        };
        (self.failures, self.is_first) = (0, false);
        let wanted = self.inner.want(&session.edge_routers);
        self.are_some_away = wanted.len() < session.edge_routers.len();
        let are_others =
            self.slots.list(wanted.into_iter().map(|slot| (slot.name().to_owned(), slot)));
        self.waiting.clear();
        if let Some(error) = self.slots.refusal_of_all() {
            return Err(error);
        }
        self.take_slots(now);
        self.rereading.was_read(self.need(), are_others, now, spread());
        if self.slots.have_none_taken() && !are_usable(&session.edge_routers) {
            self.host.note(Error::NoEdgeRouters {
                service: self.host.service.name.clone(),
                reason: unusable(&session.edge_routers),
                cause: None,
            });
            let is_one_known = self.slots.listed().next().is_some();
            let wait = if is_one_known { OFFLINE_WAIT } else { LONGEST_WAIT };
            self.rereading.read_at(now + jittered(wait));
        }
        Ok(())
    }

    /// The wait after a reading that failed. A listener that can be dialed is in no hurry.
    fn wait_of_failure(&self) -> Duration {
        let wait = wait(self.failures);
        if self.host.is_down() { wait } else { wait.max(self.inner.settings.refresh_interval) }
    }

    fn was_bound(&mut self, bound: Bound) -> Result<()> {
        let (now, account) = (Instant::now(), &self.inner.account);
        let (service, router) = (&self.host.service, bound.slot.name());
        tracing::debug!(service = %service.name, %router, problem = %bound.problem, "a router refused or ended a bind, or was lost");
        let mut is_stale = false;
        let mut refused = None;
        match bound.how {
            BindEnd::NoSession(error) if error.is_final() && self.host.is_down() => {
                return Err(error);
            }
            BindEnd::Closed(Failure::Refused(refusal)) => {
                is_stale = refusal.is_stale_session();
                refused = Some((refusal, bound.problem));
            }
            _ => {}
        }
        let ended = Ended {
            was_established: bound.was_established,
            lasted: bound.lasted,
            is_cut: bound.is_cut,
            refusal: refused.as_ref().map(|(refusal, error)| (refusal, error.clone())),
        };
        let long = self.inner.settings.refresh_interval;
        let is_for_good = self.slots.free(router, ended, now, jittered(long));
        if is_stale {
            // A new session shows if the service may still be hosted.
            account.forget_session(&service.base.id, DialBind::Bind);
            self.is_session_doubtful = true;
        }
        if is_stale || is_for_good {
            self.rereading.read_at(now);
        }
        self.rereading.was_lost(now);
        Ok(())
    }
}

async fn end_of(reading: &mut Option<Reading>) -> Result<Arc<SessionDetail>> {
    match reading {
        Some(reading) => reading.await,
        None => pending().await,
    }
}

async fn end_of_pause(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
