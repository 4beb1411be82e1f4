//! The routers, links and hosted services of a network that is to be made.

use crate::scale::Dice;

/// A link between two routers, by number.
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The latency that each end measures, in milliseconds.
    pub(crate) latency: u64,
}

/// A network that is to be made.
pub(crate) struct Plan {
    pub(crate) routers: usize,
    pub(crate) links: Vec<Link>,
    /// By service: the routers that host it.
    pub(crate) hosts: Vec<Vec<usize>>,
    /// Links whose loss is measured: the first carries all circuits between two halves.
    pub(crate) bridges: Vec<usize>,
}

/// Number of steps of the ladder, each of which every circuit goes over, and of routers in a step.
pub(crate) const STEPS: usize = 10;
const BESIDE: usize = 3;
/// Services of the large mesh, and terminators of each.
const SERVICES: usize = 200;
const HOSTS: usize = 3;
/// Links between the halves of the large mesh.
const BRIDGES: usize = 4;

impl Plan {
    /// Steps of a few routers, each linked with all routers of the next step: a path from the first step to
    /// the last leads over one router of each.
    pub(crate) fn ladder(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1, 0);
        let mut links = Vec::new();
        for step in 1..STEPS {
            for from in 0..BESIDE {
                for to in 0..BESIDE {
                    let (from, to) = ((step - 1) * BESIDE + from, step * BESIDE + to);
                    links.push(Link { from, to, latency: 1 + u64::from(dice.below(20)) });
                }
            }
        }
        let last = (STEPS - 1) * BESIDE..STEPS * BESIDE;
        let hosts = vec![last.collect()];
        Self { routers: STEPS * BESIDE, links, hosts, bridges: Vec::new() }
    }

    /// Two halves of routers that are linked at random, and a few links between the halves, of which
    /// one is the cheapest for all. Even services are hosted in the first half, odd ones in the
    /// second.
    pub(crate) fn large(routers: usize, links: usize, seed: u64) -> Self {
        let mut dice = Dice::new(seed, 2, 0);
        let half = routers / 2;
        let mut below =
            |bound: usize| dice.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize;
        let mut plan = Self { routers, links: Vec::new(), hosts: Vec::new(), bridges: Vec::new() };
        for number in 0..links.saturating_sub(BRIDGES) {
            // Every router dials the same number of routers, first the next one, so that a half is connected.
            let from = number % routers;
            let start = if from < half { 0 } else { half };
            let size = if from < half { half } else { routers - half };
            let step = if number < routers { 1 } else { 1 + below(size - 1) };
            let to = start + (from - start + step) % size;
            plan.links.push(Link { from, to, latency: 2 + below(30) as u64 });
        }
        for bridge in 0..BRIDGES {
            plan.bridges.push(plan.links.len());
            let latency = if bridge == 0 { 0 } else { 200 };
            plan.links.push(Link { from: bridge, to: half + bridge, latency });
        }
        plan.hosts = (0..SERVICES)
            .map(|service| (0..HOSTS).map(|_| (service % 2) * half + below(half)).collect())
            .collect();
        plan
    }

    /// A service that one half hosts, and a router of the other half.
    pub(crate) fn across(&self, word: u64) -> (usize, usize) {
        let half = self.routers / 2;
        let service = (word % (self.hosts.len() as u64 / 2)) as usize * 2 + 1;
        ((word >> 32) as usize % half, service)
    }

    /// Any router, or one of the first step of a ladder, and any service.
    pub(crate) fn anywhere(&self, word: u64) -> (usize, usize) {
        let from = if self.bridges.is_empty() { BESIDE } else { self.routers };
        ((word >> 32) as usize % from, (word % self.hosts.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_what_they_say() {
        let ladder = Plan::ladder(1);
        assert_eq!((ladder.routers, ladder.links.len()), (30, 81));
        let large = Plan::large(40, 400, 1);
        assert_eq!(large.links.len(), 400);
        let crosses = |link: &Link| (link.from < 20) != (link.to < 20);
        assert_eq!(large.links.iter().filter(|link| crosses(link)).count(), BRIDGES);
        assert!(large.links.iter().all(|link| link.from != link.to && link.to < 40));
        for word in [0, 7, u64::MAX / 3, u64::MAX] {
            let (from, service) = large.across(word);
            assert!(from < 20 && large.hosts[service].iter().all(|host| *host >= 20));
        }
    }
}
