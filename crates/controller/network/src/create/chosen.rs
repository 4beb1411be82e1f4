//! The choice of a terminator for a dial, and of the path to it.

use std::sync::Arc;

use weft_model::entity::{Service, Terminator, TerminatorStrategy};
use weft_model::{Id, Snapshot};
use weft_paths::path::Path;
use weft_paths::select::{Candidate, choose};
use weft_wire::ctrl::peer_data_key;

use super::hosts::host_of;
use super::spec::CircuitSpec;
use crate::failure::FailureCause;
use crate::hosting::may_be_dialed;
use crate::network::Network;
use crate::standing::machine::Input;

/// The terminator of a dial, and the path to it.
#[derive(Debug)]
pub(super) struct DialTarget {
    pub(super) terminator: Arc<Terminator>,
    pub(super) path: Path,
    /// Whether the result of the dial counts for the terminator's cost.
    pub(super) is_counted: bool,
    /// The last number of the standing of terminators by then.
    pub(super) number: u64,
}

/// The terminators and routers at which earlier attempts failed.
#[derive(Debug, Default)]
pub(super) struct AvoidedTargets {
    terminators: Vec<Id>,
    /// Routers between the ends that failed or did not answer.
    transit: Vec<Id>,
    /// Routers at the ends that took no new circuits.
    busy: Vec<Id>,
    /// Hosts to which too many circuits were in the making.
    full: Vec<Id>,
}

impl AvoidedTargets {
    /// Notes that an attempt failed at a router, which took no new circuits if it `is_busy`. True if the
    /// router is between the ends and no attempt failed there before.
    pub(super) fn note(&mut self, chosen: &DialTarget, router: &Id, is_busy: bool) -> bool {
        if !chosen.path.has_end(router) {
            let is_new = !self.transit.contains(router);
            self.transit.push(router.clone());
            return is_new;
        }
        if *router == chosen.terminator.router_id {
            self.terminators.push(chosen.terminator.base.id.clone());
        }
        if is_busy && !self.busy.contains(router) {
            self.busy.push(router.clone());
        }
        false
    }

    /// Notes that too many circuits to the host of a terminator were in the making. True if that was not so before.
    pub(super) fn note_full(&mut self, terminator: &Terminator) -> bool {
        let host = host_of(terminator);
        let is_new = !self.full.contains(host);
        if is_new {
            self.full.push(host.clone());
        }
        is_new
    }

    /// Whether an attempt has failed at a terminator, or at its router or host for want of room.
    pub(super) fn has(&self, terminator: &Terminator) -> bool {
        self.terminators.contains(&terminator.base.id)
            || self.busy.contains(&terminator.router_id)
            || self.full.contains(host_of(terminator))
    }

    /// Whether a router at an end of the path, or the host, took no new circuits.
    pub(super) fn is_busy(&self, chosen: &DialTarget) -> bool {
        let ends = [chosen.path.first(), chosen.path.last()];
        ends.into_iter().flatten().any(|end| self.busy.contains(end))
            || self.full.contains(host_of(&chosen.terminator))
    }
}

impl Network {
    /// Chooses the terminator for a dial, and the path to it. Among terminators of one precedence,
    /// those that this dial has not tried come first, and whose routers had room.
    ///
    /// A terminator whose host has lost its right to host is not chosen. To save time, the right is
    /// checked for the chosen terminator only. If its host has lost the right, which is rare, the
    /// choice is made again with a check of every terminator.
    pub(super) fn choose(
        &self,
        snapshot: &Snapshot,
        spec: &CircuitSpec,
        tried: &AvoidedTargets,
    ) -> Result<DialTarget, FailureCause> {
        let now = self.0.kernel.now();
        let chosen = self.choose_among(snapshot, spec, tried, |_| true)?;
        if may_be_dialed(snapshot, &chosen.terminator, now) {
            return Ok(chosen);
        }
        self.choose_among(snapshot, spec, tried, |terminator| {
            let may_be = may_be_dialed(snapshot, terminator, now);
            if !may_be {
                self.note(Input::PassedOver(&terminator.base.id));
            }
            may_be
        })
    }

    /// A text that says why no terminator can be dialed.
    pub(super) fn why_none(
        &self,
        snapshot: &Snapshot,
        spec: &CircuitSpec,
        cause: FailureCause,
    ) -> String {
        let CircuitSpec { service, instance, .. } = spec;
        match cause {
            FailureCause::InvalidService => format!("service {service} does not exist"),
            FailureCause::NoPath => {
                format!("no router with a terminator of service {service} can be reached")
            }
            FailureCause::NoOnlineTerminators => {
                format!("service {service} has no online terminators for instanceId [{instance}]")
            }
            _ if self.has_unfounded(snapshot, spec) => {
                format!(
                    "the hosts of service {service} have lost the right to host it, or cannot prove who they are, \
                     which it demands (authenticatedEnds)"
                )
            }
            _ => format!("service {service} has no terminators for instanceId [{instance}]"),
        }
    }

    /// Whether a terminator of the dialed instance is left whose host has lost its right to host.
    fn has_unfounded(&self, snapshot: &Snapshot, spec: &CircuitSpec) -> bool {
        let now = self.0.kernel.now();
        let mut all = snapshot.referring::<Terminator>(Terminator::SERVICE, &spec.service);
        all.any(|it| *it.instance_id == *spec.instance && !may_be_dialed(snapshot, it, now))
    }

    /// Chooses among the terminators that `may_be` accepts.
    fn choose_among(
        &self,
        snapshot: &Snapshot,
        spec: &CircuitSpec,
        tried: &AvoidedTargets,
        may_be: impl Fn(&Terminator) -> bool,
    ) -> Result<DialTarget, FailureCause> {
        let service = snapshot.get::<Service>(&spec.service).ok_or(FailureCause::InvalidService)?;
        let ways = self.ways(&spec.router);
        let strategy = service.terminator_strategy;
        let (mut offline, mut apart) = (false, false);
        let mut candidates = Vec::new();
        for terminator in snapshot.referring::<Terminator>(Terminator::SERVICE, &spec.service) {
            if *terminator.instance_id != *spec.instance || !may_be(terminator) {
                continue;
            }
            let Some(reached) = ways.reach(&terminator.router_id) else {
                offline = true;
                continue;
            };
            let Some(path_cost) = reached else {
                apart = true;
                continue;
            };
            let was_tried = tried.has(terminator);
            let terminator = Arc::clone(terminator);
            candidates.push(Candidate { terminator, path_cost, dynamic_cost: 0, was_tried });
        }
        // A random choice does not look at dynamic costs.
        if strategy != TerminatorStrategy::Random {
            let ids = candidates.iter().map(|one| &one.terminator.base.id);
            let costs = self.0.costs.of_each(ids);
            candidates.iter_mut().zip(costs).for_each(|(one, cost)| one.dynamic_cost = cost);
        }
        let wanted = spec.peer_data.get(&peer_data_key::STICKINESS_TOKEN);
        let wanted = wanted.and_then(|token| std::str::from_utf8(token).ok());
        let random = u64::from_le_bytes(self.0.kernel.ids().bytes());
        let none = match (apart, offline) {
            (true, _) => FailureCause::NoPath,
            (_, true) => FailureCause::NoOnlineTerminators,
            _ => FailureCause::NoTerminators,
        };
        let Candidate { terminator, .. } =
            choose(strategy, candidates, wanted, random).ok_or(none)?;
        let to = &terminator.router_id;
        let around = match tried.transit.is_empty() {
            true => None,
            false => ways.path_around(to, &tried.transit),
        };
        let path = around.or_else(|| ways.path(to)).ok_or(FailureCause::NoPath)?;
        // The result of a random choice does not count (docs/protocol/control-plane.md 11).
        let is_counted = strategy != TerminatorStrategy::Random;
        let number = self.0.standing.lock().last_number();
        Ok(DialTarget { terminator, path, is_counted, number })
    }
}

#[cfg(test)]
mod tests {
    use weft_model::{Base, Timestamp};

    use super::*;

    #[test]
    fn a_router_without_room_counts_for_all_of_its_terminators() {
        let terminator = |id: &str, router: &str| {
            let base = Base::new(Id::new(id), Timestamp(0));
            Arc::new(Terminator { base, router_id: Id::new(router), ..Terminator::default() })
        };
        let chosen = |id: &str, nodes: [&str; 3]| DialTarget {
            terminator: terminator(id, nodes[2]),
            path: Path { nodes: nodes.iter().map(|id| Id::new(id)).collect(), ..Path::default() },
            is_counted: true,
            number: 0,
        };
        let (mut tried, first) = (AvoidedTargets::default(), chosen("t1", ["er1", "er2", "er3"]));
        assert!(tried.note(&first, &Id::new("er2"), true), "it is between the ends");
        assert!(!tried.note(&first, &Id::new("er3"), false));
        assert!(tried.has(&terminator("t1", "er3")) && !tried.has(&terminator("t2", "er3")));
        assert!(!tried.note(&first, &Id::new("er3"), true));
        assert!(tried.has(&terminator("t2", "er3")) && !tried.has(&terminator("t3", "er4")));
        assert!(tried.is_busy(&chosen("t2", ["er1", "er2", "er3"])));
        assert!(!tried.is_busy(&chosen("t3", ["er1", "er3", "er4"])));
    }

    #[test]
    fn a_full_host_counts_for_all_of_its_terminators() {
        let hosted = |id: &str, host: &str| {
            let base = Base::new(Id::new(id), Timestamp(0));
            Terminator { base, host_id: Id::new(host), ..Terminator::default() }
        };
        let mut tried = AvoidedTargets::default();
        assert!(tried.note_full(&hosted("t1", "bad")));
        assert!(!tried.note_full(&hosted("t2", "bad")), "it is one host");
        assert!(tried.has(&hosted("t2", "bad")) && !tried.has(&hosted("t3", "good")));
        assert!(tried.note_full(&hosted("t4", "")) && tried.note_full(&hosted("t5", "")));
    }
}
