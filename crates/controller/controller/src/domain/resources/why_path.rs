//! Explains the path of a dial: [`explain`](weft_paths::explain) on the current network, and the
//! policies that apply.

use std::sync::Arc;

use weft_contract::permission::{Action, Subject};
use weft_contract::resource::fabric::router::COLLECTION as ROUTERS;
use weft_contract::resource::identity::COLLECTION as IDENTITIES;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::resource::why_path::{
    BlockedPath, ExplainedPath, MAX_ENTRIES, MAX_TERMINATORS, PathAccess, PathEntry,
    PathExplanation, PathStep, PathTerminator, Verdict as Word,
};
use weft_contract::{Api, EntityRef};
use weft_kernel::call::HandlerRow;
use weft_kernel::work_limiter::BUDGET;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::access::{Posture, decide};
use weft_model::entity::{Identity, IdentityType, PolicyType, Record, Router, Service};
use weft_model::filter::ROW;
use weft_model::{Choice as _, Id, Meter, Part, Snapshot, Timestamp};
use weft_paths::explain::mesh::{Mesh, MeshRoute, Obstacle, WorkBudget};
use weft_paths::explain::{Explained, Offer, Question, Verdict, explain};

use super::fabric::network;
use crate::Controller;

/// The operation.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[(Api::Weft, "explainPath", &explain_path)];

/// Links that one request may look at for other paths.
const WORK: usize = 5_000_000;
/// Units of work of a terminator that is looked at from a router.
const OFFER: u64 = 64;
/// The kinds of entities that the answer names; the caller needs the permission to read them.
const NAMED: [Subject; 5] = [
    Subject::Identity,
    Subject::Service,
    Subject::ServicePolicy,
    Subject::Router,
    Subject::Terminator,
];

async fn explain_path(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    for subject in NAMED {
        if !caller.may(subject, Action::Read) {
            let read = Action::Read;
            let reason =
                format!("the explanation names entities that need the permission {subject}.{read}");
            return Err(Failure::unauthorized(reason));
        }
    }
    let asked = Asked::read(&controller, &call)?;
    let request = controller.kernel().scans().asked_by(&caller);
    let meter = request.meter(BUDGET);
    Reply::detail(&request.work(move || asked.answer(&meter)).await?)
}

/// The dialer.
enum Dialer {
    /// An application, which enters over any router that policies let it use.
    Identity(Arc<Identity>),
    /// A router, which enters over itself.
    Router(Arc<Router>),
}

/// The dial to explain.
struct Asked {
    controller: Controller,
    snapshot: Arc<Snapshot>,
    now: Timestamp,
    dialer: Dialer,
    service: Arc<Service>,
    instance: String,
}

impl Asked {
    fn read(controller: &Controller, call: &Call) -> Result<Self> {
        let snapshot = controller.kernel().snapshot();
        let (from, to) = (call.id(0), call.id(1));
        let service = snapshot.by_id_or_name::<Service>(to).cloned();
        Ok(Self {
            dialer: dialer(&snapshot, from)
                .ok_or_else(|| Failure::not_found("identity or router", from))?,
            service: service.ok_or_else(|| Failure::not_found("service", to))?,
            instance: call.query.get("instance").unwrap_or_default().to_owned(),
            now: controller.kernel().now(),
            controller: controller.clone(),
            snapshot,
        })
    }

    fn answer(&self, meter: &Meter) -> Result<PathExplanation> {
        let network = network(&self.controller)?;
        let mesh = network.mesh(&self.snapshot);
        let offers = network.offers(&self.service.base.id);
        let mut work = WorkBudget::new(WORK);
        let mut entries = self.entries(&mesh, meter)?;
        let more_entries = entries.len().saturating_sub(MAX_ENTRIES) as i64;
        entries.truncate(MAX_ENTRIES);
        for entry in entries.iter_mut().filter(|entry| entry.is_usable) {
            meter.take(Part::Policies, (offers.len() as u64 + 1) * OFFER)?;
            self.explain(&mesh, &offers, entry, &mut work);
        }
        Ok(PathExplanation {
            access: self.access(),
            entries,
            from: match &self.dialer {
                Dialer::Identity(it) => EntityRef::new(IDENTITIES, it.base.id.as_str(), &it.name),
                Dialer::Router(it) => EntityRef::new(ROUTERS, it.base.id.as_str(), &it.name),
            },
            instance: self.instance.clone(),
            is_cut: work.is_cut(),
            more_entries,
            revision: i64::try_from(self.snapshot.revision().0).unwrap_or(i64::MAX),
            service: EntityRef::new(SERVICES, self.service.base.id.as_str(), &self.service.name),
            strategy: self.service.terminator_strategy.as_str().to_owned(),
        })
    }

    /// The policies that apply; none for a router without identity.
    fn access(&self) -> PathAccess {
        let identity = match &self.dialer {
            Dialer::Identity(identity) => &identity.base.id,
            Dialer::Router(router) => {
                if self.is_unrestricted(router) {
                    let reason = "network.unrestrictedBindings of the controller names the router"
                        .to_owned();
                    return PathAccess { allowed: true, policies: Vec::new(), reason };
                }
                if tunneler(&self.snapshot, &router.base.id).is_none() {
                    let reason = "the router has no identity of its own (no tunneler is enabled)";
                    return PathAccess { reason: reason.to_owned(), ..PathAccess::default() };
                }
                &router.base.id
            }
        };
        let service = self.service.base.id.as_str();
        let (action, posture) = (PolicyType::Dial, Posture::Ignored);
        let decision =
            decide(&*self.snapshot, identity.as_str(), service, action, posture, self.now);
        match decision.granted() {
            Ok(granting) => {
                let policies: Vec<String> = granting.into_iter().map(|it| it.name).collect();
                let reason = format!("allowed by {}", policies.join(", "));
                PathAccess { allowed: true, policies, reason }
            }
            Err(denial) => PathAccess { reason: denial.to_string(), ..PathAccess::default() },
        }
    }

    fn is_unrestricted(&self, router: &Router) -> bool {
        let listed = &self.controller.kernel().settings().unrestricted_bindings;
        let names = ["*", router.base.id.as_str(), &*router.name];
        listed.iter().any(|it| names.contains(&it.as_str()))
    }

    /// The routers over which the dial could enter, before the network is looked at from each of
    /// them.
    fn entries(&self, mesh: &Mesh, meter: &Meter) -> Result<Vec<PathEntry>> {
        let service = &self.service.base.id;
        let entry = |router: &Arc<Router>, reason: Option<String>| {
            let is_online = mesh.has(&router.base.id);
            let reason = match reason {
                _ if router.disabled => "it is disabled".to_owned(),
                Some(reason) => reason,
                None if !is_online => "it is not connected".to_owned(),
                None => String::new(),
            };
            PathEntry {
                is_online,
                is_usable: reason.is_empty(),
                reason,
                router: EntityRef::new(ROUTERS, router.base.id.as_str(), &router.name),
                ..PathEntry::default()
            }
        };
        let identity = match &self.dialer {
            Dialer::Router(router) => return Ok(vec![entry(router, None)]),
            Dialer::Identity(identity) => &identity.base.id,
        };
        let advice = self.snapshot.advice(identity, service, meter)?;
        meter.take(Part::Rows, advice.identity_routers.len() * ROW)?;
        let routers = self.snapshot.entities::<Router>(&advice.identity_routers);
        let mut entries: Vec<PathEntry> = routers
            .map(|router| {
                let ordinal = self.snapshot.ordinal_of::<Router>(&router.base.id);
                let is_common = ordinal.is_some_and(|at| advice.common_routers.contains(at));
                let apart = format!(
                    "no service edge router policy lets {} be reached over it",
                    self.service.name
                );
                entry(router, (!is_common).then_some(apart))
            })
            .collect();
        entries.sort_by(|one, other| {
            let usable = other.is_usable.cmp(&one.is_usable);
            usable.then_with(|| one.router.name.cmp(&other.router.name))
        });
        Ok(entries)
    }

    /// Fills in the paths from one of these routers.
    fn explain(&self, mesh: &Mesh, offers: &[Offer], entry: &mut PathEntry, work: &mut WorkBudget) {
        let router = Id::new(&entry.router.id);
        let question = Question {
            mesh,
            entry: &router,
            strategy: self.service.terminator_strategy,
            instance: &self.instance,
            offers,
        };
        let explained = explain(&question, work);
        entry.more_terminators = explained.len().saturating_sub(MAX_TERMINATORS) as i64;
        let shown = explained.iter().take(MAX_TERMINATORS);
        entry.terminators = shown.map(|one| self.terminator(mesh, one)).collect();
    }

    fn terminator(&self, mesh: &Mesh, one: &Explained<'_>) -> PathTerminator {
        let terminator = &one.terminator;
        let least = one.routes.first().map_or(0, |route| route.cost);
        let path = |route: &MeshRoute| ExplainedPath {
            cost: route.cost,
            more: route.cost.saturating_sub(least),
            steps: self.steps(mesh, route),
        };
        let blocked = one.blocked.as_ref().map(|(route, by)| BlockedPath {
            by: by.iter().map(|obstacle| self.obstacle(obstacle)).collect(),
            cost: route.cost,
            steps: self.steps(mesh, route),
        });
        let host = self.snapshot.get::<Identity>(&terminator.host_id);
        let (verdict, why) = self.verdict(one);
        PathTerminator {
            binding: terminator.binding.to_string(),
            blocked,
            circuits: one.costs.circuits,
            cost: one.cost,
            dynamic_cost: one.dynamic_cost,
            failure_cost: one.costs.failures,
            host: host.map(|it| EntityRef::new(IDENTITIES, it.base.id.as_str(), &it.name)),
            id: terminator.base.id.to_string(),
            instance_id: terminator.instance_id.to_string(),
            paths: one.routes.iter().map(path).collect(),
            precedence: convert::word(terminator.precedence),
            router: self.mention(&terminator.router_id),
            share: match one.verdict {
                Verdict::Chosen => 1.0,
                Verdict::Chance(share) => share,
                _ => 0.0,
            },
            static_cost: terminator.cost,
            verdict,
            why,
        }
    }

    fn verdict(&self, one: &Explained<'_>) -> (Word, String) {
        let router = self.name(&one.terminator.router_id);
        match one.verdict {
            Verdict::Chosen => (Word::Chosen, "dialed now".to_owned()),
            Verdict::Chance(share) => {
                (Word::Chance, format!("dialed by chance, in {:.0} of 100 dials", share * 100.0))
            }
            Verdict::Dearer(0) => (
                Word::Dearer,
                "costs as much as the one that is dialed, and comes later".to_owned(),
            ),
            Verdict::Dearer(more) => {
                (Word::Dearer, format!("costs {more} more than the one that is dialed"))
            }
            Verdict::Precedence(best) => {
                let own = one.terminator.precedence.as_str();
                let why = format!("its precedence is {own}, and there is one of {}", best.as_str());
                (Word::Precedence, why)
            }
            Verdict::NoPath => (Word::NoPath, format!("no path leads to {router}")),
            Verdict::Offline => (Word::Offline, format!("its router {router} is not connected")),
            Verdict::Unfounded => {
                (Word::Unfounded, "its host has lost the right to host the service".to_owned())
            }
            Verdict::OtherInstance => {
                let why = match &*one.terminator.instance_id {
                    "" => "it has no instance id, and one was asked for".to_owned(),
                    own => format!("it is the instance `{own}`, which was not asked for"),
                };
                (Word::OtherInstance, why)
            }
        }
    }

    fn obstacle(&self, obstacle: &Obstacle<'_>) -> String {
        match obstacle {
            Obstacle::Down(link) => format!(
                "link {} between {} and {} is down",
                link.id,
                self.name(&link.source),
                self.name(&link.destination)
            ),
            Obstacle::Closed(router) => {
                format!("{} carries nothing for others (noTraversal)", self.name(&router.id))
            }
        }
    }

    fn steps(&self, mesh: &Mesh, route: &MeshRoute) -> Vec<PathStep> {
        let steps = mesh.steps(route).map(|step| PathStep {
            dest_latency: step.link.destination_latency,
            down: step.link.down,
            link: step.link.id.clone(),
            link_cost: step.link.cost,
            router: self.mention(&step.router.id),
            router_cost: step.router_cost,
            source_latency: step.link.source_latency,
            static_cost: step.link.static_cost,
        });
        steps.collect()
    }

    fn mention(&self, router: &Id) -> EntityRef {
        EntityRef::new(ROUTERS, router.as_str(), &self.name(router))
    }

    fn name(&self, router: &Id) -> String {
        let name = self.snapshot.get::<Router>(router).and_then(|it| it.name().cloned());
        name.map_or_else(|| router.to_string(), |name| name.to_string())
    }
}

/// The identity or the router with this id or name. A router with a tunneler is both; it dials as a
/// router.
fn dialer(snapshot: &Snapshot, text: &str) -> Option<Dialer> {
    let router = snapshot.by_id_or_name::<Router>(text);
    let identity = snapshot.by_id_or_name::<Identity>(text);
    match (identity, router) {
        (Some(identity), _) if identity.identity_type != IdentityType::Router => {
            Some(Dialer::Identity(Arc::clone(identity)))
        }
        (_, Some(router)) => Some(Dialer::Router(Arc::clone(router))),
        (Some(identity), None) => {
            let router = snapshot.get::<Router>(&identity.base.id)?;
            Some(Dialer::Router(Arc::clone(router)))
        }
        (None, None) => None,
    }
}

/// The identity of a router's tunneler.
fn tunneler<'s>(snapshot: &'s Snapshot, router: &Id) -> Option<&'s Arc<Identity>> {
    let entity = snapshot.get::<Router>(router)?;
    let identity = snapshot.get::<Identity>(router)?;
    let is_own = entity.is_edge
        && entity.is_tunneler_enabled
        && identity.identity_type == IdentityType::Router;
    is_own.then_some(identity)
}
