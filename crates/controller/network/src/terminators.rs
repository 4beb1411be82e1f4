//! Terminators that routers report (docs/protocol/edge-control-plane.md 14). The router chooses the
//! id, which is also the address. A report that is repeated is answered like the first one.
//!
//! Reports are judged on the tip, which includes earlier requests that are decided and not durable
//! yet: a removal may follow its creation at once. While etcd cannot be written, they are judged on what is held
//! ([`Kernel::decide_or_hold`]), count at once, and are written later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use weft_config::controller::PerIdentity;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Kernel};
use weft_model::entity::{Precedence, Router, Service, Terminator};
use weft_model::{Base, Id, Kind, Snapshot};
use weft_wire::edge_ctrl::{MAX_TERMINATOR_DATA, MAX_TERMINATOR_TEXT};

use crate::away::CountVersion;
use crate::clock;
use crate::full::{IsFull, LimitedResource};
use crate::misreports::Misreport;
use crate::network::Network;
use crate::routers::LiveRouter;

/// A router's report of a terminator that it hosts.
#[derive(Debug, Clone)]
pub struct ReportedTerminator {
    /// Id and address, chosen by the router.
    pub id: Id,
    /// The router.
    pub router: Id,
    /// The service.
    pub service: Id,
    /// `edge`, `tunnel`, `transport`, ...
    pub binding: String,
    /// The address that the router dials; for `edge` the id.
    pub address: String,
    /// Instance id; empty if the host has none.
    pub instance_id: String,
    /// The secret that comes with the instance id, and is kept.
    pub instance_secret: Bytes,
    /// Data for dialers.
    pub peer_data: BTreeMap<u32, Bytes>,
    /// Cost.
    pub cost: u16,
    /// Precedence.
    pub precedence: Precedence,
    /// The hosting identity; empty if there is none.
    pub host: Id,
    /// Whether the host has named a key that proves it to dialers.
    pub host_proves: bool,
}

/// Most terminators that are removed in one change set.
const REMOVED_AT_ONCE: usize = 1000;
/// Most terminators of one router: each is kept in memory and in the database.
const MOST: u64 = 50_000;

/// Why a report was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// A terminator of this id belongs to another service, router or host.
    #[error("terminator {0} belongs to another service, router or host")]
    Conflict(Id),
    /// Another identity hosts the same instance of the service.
    #[error(
        "sibling terminator {sibling} with shared identity {instance} belongs to different identity"
    )]
    Instance {
        /// The terminator of that identity.
        sibling: Id,
        /// The instance id.
        instance: String,
    },
    /// The router or the service was deleted.
    #[error("{0}")]
    Gone(String),
    /// The router has as many terminators as it may have.
    #[error("router {router} has {MOST} terminators already; host at another router")]
    TooMany {
        /// The router.
        router: Id,
    },
    /// The host has as many terminators as it may have.
    #[error(transparent)]
    TooManyOfHost(#[from] IsFull),
    /// A text or the peer data of the terminator is too long.
    #[error("the {what} of a terminator has at most {limit} bytes")]
    TooLong {
        /// The text.
        what: &'static str,
        /// Most bytes.
        limit: usize,
    },
    /// The router has no terminator of this id and binding.
    #[error("terminator {0} does not exist")]
    Unknown(Id),
    /// The terminator belongs to another router.
    #[error("terminator not owned by requesting router")]
    Router,
    /// The terminator belongs to this router and another host.
    #[error("terminator {0} belongs to another identity")]
    Host(Id),
    /// The writer refused the change.
    #[error("{0}")]
    Write(#[from] Failure),
}

impl Refused {
    /// Whether a later try may succeed: the writer is busy, or cannot write now.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Write(failure) if matches!(failure.status(), 429 | 503))
    }
}

/// A change of a terminator by its router.
#[derive(Debug, Clone, Copy, Default)]
pub struct TerminatorPatch {
    /// The new cost.
    pub cost: Option<u16>,
    /// The new precedence.
    pub precedence: Option<Precedence>,
}

/// The terminators that a request may be about.
#[derive(Debug, Clone)]
pub struct Owned {
    /// Its router.
    pub router: Id,
    /// The binding; any if there is none.
    pub binding: Option<&'static str>,
    /// The host; any if there is none.
    pub host: Option<Id>,
}

impl Owned {
    /// All terminators of this router.
    pub fn by(router: &Id) -> Self {
        Self { router: router.clone(), binding: None, host: None }
    }

    /// The terminator of this id; refused if it is not one of these.
    fn find<'s>(&self, tip: &'s Snapshot, id: &Id) -> Result<&'s Arc<Terminator>, Refused> {
        let found = tip.get::<Terminator>(id);
        let found = found.filter(|found| self.binding.is_none_or(|it| *found.binding == *it));
        let found = found.ok_or_else(|| Refused::Unknown(id.clone()))?;
        if found.router_id != self.router {
            return Err(Refused::Router);
        }
        if self.host.as_ref().is_some_and(|host| *host != found.host_id) {
            return Err(Refused::Host(id.clone()));
        }
        Ok(found)
    }
}

impl ReportedTerminator {
    /// The terminator to be stored; none if the stored one is the same. `away` terminators of the host do not count.
    fn stored(
        &self,
        decision: &Decision<'_>,
        source: &Arc<str>,
        most: PerIdentity,
        away: u64,
    ) -> Result<Option<Terminator>, Refused> {
        let tip = decision.tip();
        if tip.get::<Router>(&self.router).is_none() {
            return Err(Refused::Gone(format!("there is no router {}", self.router)));
        }
        if tip.get::<Service>(&self.service).is_none() {
            return Err(Refused::Gone(format!("there is no service {}", self.service)));
        }
        self.check_lengths()?;
        let current = tip.get::<Terminator>(&self.id);
        if current.is_none() {
            let all = tip.table(Kind::Terminator);
            let limit = LimitedResource::Terminators.limit(tip, &self.host, most);
            // Hosts of terminators that routers' own bindings make may be unknown.
            let is_known = !self.host.is_empty();
            let hosted = all.count_referrers(Terminator::HOST, &self.host);
            let hosted = hosted.saturating_sub(away.min(limit.most));
            if is_known && hosted >= limit.most {
                return Err(limit.reached().into());
            }
            if all.count_referrers(Terminator::ROUTER, &self.router) >= MOST {
                return Err(Refused::TooMany { router: self.router.clone() });
            }
        }
        if current.is_none_or(|current| *current.instance_id != *self.instance_id) {
            self.check_instance(tip)?;
        }
        let Some(current) = current else {
            let base = Base { is_system: true, ..Base::new(self.id.clone(), decision.now()) };
            return Ok(Some(self.terminator(base, None, source)));
        };
        let is_same = *current.binding == *self.binding
            && current.service_id == self.service
            && current.router_id == self.router
            && current.host_id == self.host;
        if !is_same {
            return Err(Refused::Conflict(self.id.clone()));
        }
        let saved = current.saved_precedence.filter(|_| current.precedence == self.precedence);
        let mut changed = self.terminator(current.base.clone(), saved, &current.source_ctrl);
        if changed == **current {
            return Ok(None);
        }
        changed.base.updated_at = decision.now();
        changed.source_ctrl = Arc::clone(source);
        Ok(Some(changed))
    }

    fn check_lengths(&self) -> Result<(), Refused> {
        let peer_data: usize = self.peer_data.values().map(|value| 4 + value.len()).sum();
        let lengths = [
            ("binding", self.binding.len(), MAX_TERMINATOR_TEXT),
            ("address", self.address.len(), MAX_TERMINATOR_TEXT),
            ("instance id", self.instance_id.len(), MAX_TERMINATOR_TEXT),
            ("instance secret", self.instance_secret.len(), MAX_TERMINATOR_TEXT),
            ("peer data", peer_data, MAX_TERMINATOR_DATA),
        ];
        match lengths.into_iter().find(|(_, length, limit)| length > limit) {
            Some((what, _, limit)) => Err(Refused::TooLong { what, limit }),
            None => Ok(()),
        }
    }

    /// Checks that terminators with the same instance have the same host
    /// (docs/protocol/edge-control-plane.md 14.2).
    fn check_instance(&self, tip: &Snapshot) -> Result<(), Refused> {
        if self.instance_id.is_empty() {
            return Ok(());
        }
        let key = Terminator::instance_key(&self.service, &self.instance_id);
        let mut others = tip.referring::<Terminator>(Terminator::INSTANCE, &key);
        let foreign = others.find(|one| one.base.id != self.id && one.host_id != self.host);
        match foreign {
            None => Ok(()),
            Some(foreign) => Err(Refused::Instance {
                sibling: foreign.base.id.clone(),
                instance: self.instance_id.clone(),
            }),
        }
    }

    fn terminator(&self, base: Base, saved: Option<Precedence>, source: &Arc<str>) -> Terminator {
        Terminator {
            base,
            service_id: self.service.clone(),
            router_id: self.router.clone(),
            binding: self.binding.as_str().into(),
            address: self.address.as_str().into(),
            instance_id: self.instance_id.as_str().into(),
            instance_secret: self.instance_secret.clone(),
            cost: self.cost,
            precedence: self.precedence,
            saved_precedence: saved,
            peer_data: self.peer_data.clone(),
            host_id: self.host.clone(),
            source_ctrl: Arc::clone(source),
            host_proves: self.host_proves,
        }
    }
}

impl Network {
    /// Creates a terminator for its router, or updates the existing one.
    pub async fn put_terminator(&self, reported: ReportedTerminator) -> Result<(), Refused> {
        let (kernel, per_identity) = (self.0.kernel.clone(), self.0.options.per_identity);
        let away = self.terminators_away(&kernel.with_held(), &reported.host);
        let done = Terminators { kernel, per_identity }.put_beside(reported, away).await;
        if let Err(full @ (Refused::TooManyOfHost(_) | Refused::TooMany { .. })) = &done {
            self.0.full.note(LimitedResource::Terminators, full);
        }
        done
    }

    /// The number of terminators of a host that do not count for its limit: those at routers that are away. Counted only
    /// if the host has reached the limit.
    fn terminators_away(&self, snapshot: &Snapshot, host: &Id) -> u64 {
        let limit =
            LimitedResource::Terminators.limit(snapshot, host, self.0.options.per_identity).most;
        let all = snapshot.table(Kind::Terminator).count_referrers(Terminator::HOST, host);
        if host.is_empty() || all < limit {
            return 0;
        }
        // Before the routers are looked at: one that connects meanwhile makes the figure one of before.
        let now = CountVersion { at: clock::now(), connections: self.0.routers.connections() };
        self.0.away.of(host, now, || {
            let all = snapshot.referring::<Terminator>(Terminator::HOST, host);
            let is_away =
                |one: &&Arc<Terminator>| self.0.routers.get(one.router_id.as_str()).is_none();
            all.filter(is_away).count() as u64
        })
    }

    /// Counts those of the terminators that belong to other routers: the router asked for a change of
    /// them.
    pub fn count_foreign<'a>(&self, router: &LiveRouter, named: impl Iterator<Item = &'a Id>) {
        let snapshot = self.0.kernel.with_held();
        let is_foreign = |id: &&Id| {
            snapshot.get::<Terminator>(id).is_some_and(|found| found.router_id != router.id)
        };
        let mut foreign = named.filter(is_foreign);
        if let Some(first) = foreign.next() {
            let (kind, times) = (Misreport::Terminator, 1 + foreign.count());
            self.0.misreports.count(&router.id, kind, times, first.as_str());
        }
    }
}

/// The terminators of routers in the model.
#[derive(Debug, Clone)]
pub struct Terminators {
    kernel: Kernel,
    per_identity: PerIdentity,
}

impl Terminators {
    /// The terminators of this kernel's model.
    pub fn of(kernel: &Kernel) -> Self {
        Self { kernel: kernel.clone(), per_identity: PerIdentity::default() }
    }

    /// Creates a terminator for its router, or updates the existing one.
    pub async fn put(&self, reported: ReportedTerminator) -> Result<(), Refused> {
        self.put_beside(reported, 0).await
    }

    /// Does so where this number of terminators of the host, at routers that are away, do not count for its limit.
    async fn put_beside(&self, reported: ReportedTerminator, away: u64) -> Result<(), Refused> {
        let source: Arc<str> = self.kernel.settings().id.as_str().into();
        let most = self.per_identity;
        let caller = Caller::router(&reported.router, "create terminator");
        self.judge(caller, move |decision| {
            if let Some(stored) = reported.stored(decision, &source, most, away)? {
                decision.put(stored);
            }
            Ok(())
        })
        .await
    }

    /// Changes cost or precedence of a terminator of this router.
    pub async fn update(
        &self,
        router: &Id,
        id: &Id,
        update: TerminatorPatch,
    ) -> Result<(), Refused> {
        self.update_if(router, id, update, |_| true).await
    }

    /// Changes cost or precedence of a terminator of this router, if `picks` accepts it when the change is decided.
    pub async fn update_if(
        &self,
        router: &Id,
        id: &Id,
        update: TerminatorPatch,
        picks: impl Fn(&Terminator) -> bool + Send + Sync + 'static,
    ) -> Result<(), Refused> {
        self.change(Owned::by(router), id, update, picks).await
    }

    /// Changes cost or precedence of one of these terminators.
    pub async fn update_owned(
        &self,
        owned: Owned,
        id: &Id,
        update: TerminatorPatch,
    ) -> Result<(), Refused> {
        self.change(owned, id, update, |_| true).await
    }

    async fn change(
        &self,
        owned: Owned,
        id: &Id,
        update: TerminatorPatch,
        picks: impl Fn(&Terminator) -> bool + Send + Sync + 'static,
    ) -> Result<(), Refused> {
        let id = id.clone();
        let caller = Caller::router(&owned.router, "update terminator");
        self.judge(caller, move |decision| {
            let current = owned.find(decision.tip(), &id)?;
            if !picks(current) {
                return Ok(());
            }
            let mut changed = (**current).clone();
            changed.cost = update.cost.unwrap_or(changed.cost);
            changed.precedence = update.precedence.unwrap_or(changed.precedence);
            if changed != **current {
                changed.base.updated_at = decision.now();
                decision.put(changed);
            }
            Ok(())
        })
        .await
    }

    /// Removes terminators of this router; ids that are unknown or another router's are ignored.
    pub async fn remove(&self, router: &Id, ids: &[Id]) -> Result<(), Refused> {
        let caller = Caller::router(router, "remove terminators");
        for some in ids.chunks(REMOVED_AT_ONCE) {
            self.remove_if(caller.clone(), router, some, |_| true).await?;
        }
        Ok(())
    }

    /// Removes those terminators of this router that `picks` accepts when the change is decided; returns how many.
    pub async fn remove_if(
        &self,
        caller: Caller,
        router: &Id,
        ids: &[Id],
        pick: impl Fn(&Terminator) -> bool + Send + Sync + 'static,
    ) -> Result<usize, Refused> {
        let (router, ids) = (router.clone(), ids.to_vec());
        let removed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&removed);
        self.judge(caller, move |decision| {
            let mut count = 0;
            for id in &ids {
                let current = decision.tip().get::<Terminator>(id);
                if current.is_some_and(|current| current.router_id == router && pick(current)) {
                    decision.delete(Kind::Terminator, id)?;
                    count += 1;
                }
            }
            counted.store(count, Ordering::Relaxed);
            Ok(())
        })
        .await?;
        Ok(removed.load(Ordering::Relaxed))
    }

    /// Removes one of these terminators.
    pub async fn remove_owned(&self, owned: Owned, id: &Id) -> Result<(), Refused> {
        let id = id.clone();
        let caller = Caller::router(&owned.router, "remove terminator");
        self.judge(caller, move |decision| {
            owned.find(decision.tip(), &id)?;
            Ok(decision.delete(Kind::Terminator, &id)?)
        })
        .await
    }

    /// Submits a change, and returns the refusal with which it was judged. A change that cannot be written is held.
    async fn judge(
        &self,
        caller: Caller,
        decide: impl Fn(&mut Decision<'_>) -> Result<(), Refused> + Send + Sync + 'static,
    ) -> Result<(), Refused> {
        let refused = Arc::new(Mutex::new(None));
        let told = Arc::clone(&refused);
        let done = self.kernel.decide_or_hold(&caller, move |decision| {
            decide(decision).map_err(|refusal| match refusal {
                Refused::Write(failure) => failure,
                refusal => Failure::unhandled(told.lock().insert(refusal).to_string()),
            })
        });
        let done = done.await;
        done.map_err(|failure| refused.lock().take().unwrap_or(Refused::Write(failure)))
    }
}
