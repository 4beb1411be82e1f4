//! The effects of health checks (docs/protocol/tunnel.md 8). Pure: results and `now` in, changes of
//! the terminator out.

use std::time::{Duration, Instant};

use weft_wire::ctrl::TerminatorPrecedence;

use crate::config::{CheckAction, Effect, TerminatorCheck, Trigger};

/// Cost and precedence of a terminator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostAndPrecedence {
    /// Cost.
    pub cost: u16,
    /// Precedence.
    pub precedence: TerminatorPrecedence,
}

/// The effect of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOutcome {
    /// The new cost and precedence of the terminator, if they change.
    pub terms: Option<CostAndPrecedence>,
    /// True if controllers have to be told the result.
    pub event: bool,
}

/// The health of one terminator, by the results of its checks.
#[derive(Clone, Debug)]
pub struct TerminatorHealth {
    /// Cost and precedence without any check.
    baseline: CostAndPrecedence,
    terms: CostAndPrecedence,
    checks: Vec<Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    actions: Vec<CheckAction>,
    series: Option<Series>,
}

/// Consecutive results of one kind.
#[derive(Clone, Copy, Debug)]
struct Series {
    passed: bool,
    count: u64,
    since: Instant,
}

/// The precision with which times of checks are compared.
const GRAIN: Duration = Duration::from_millis(100);

impl TerminatorHealth {
    /// A healthy terminator with these checks.
    #[must_use]
    pub fn new(baseline: CostAndPrecedence, checks: &[TerminatorCheck]) -> Self {
        let watched =
            |check: &TerminatorCheck| Watched { actions: check.actions.clone(), series: None };
        Self { baseline, terms: baseline, checks: checks.iter().map(watched).collect() }
    }

    /// The present cost and precedence.
    #[must_use]
    pub fn terms(&self) -> CostAndPrecedence {
        self.terms
    }

    /// Takes the result of a check, and returns its effect.
    pub fn result(&mut self, check: usize, passed: bool, now: Instant) -> CheckOutcome {
        let Some(watched) = self.checks.get_mut(check) else { return CheckOutcome::default() };
        let series = match watched.series {
            Some(series) if series.passed == passed => {
                Series { count: series.count.saturating_add(1), ..series }
            }
            _ => Series { passed, count: 1, since: now },
        };
        watched.series = Some(series);
        let (before, mut next, mut event) = (self.terms, self.terms, false);
        for action in watched.actions.iter().filter(|action| follows(action, &series, now)) {
            match action.effect {
                Effect::MarkUnhealthy => next.precedence = TerminatorPrecedence::Failed,
                Effect::MarkHealthy => next.precedence = self.baseline.precedence,
                // A terminator that is dialed last anyway does not become more and more expensive.
                Effect::IncreaseCost(by) if before.precedence != TerminatorPrecedence::Failed => {
                    next.cost = next.cost.saturating_add(by);
                }
                Effect::IncreaseCost(_) => {}
                Effect::DecreaseCost(by) => {
                    next.cost = next.cost.saturating_sub(by).max(self.baseline.cost);
                }
                Effect::SendEvent => event = true,
            }
        }
        self.terms = next;
        CheckOutcome { terms: (next != before).then_some(next), event }
    }
}

fn follows(action: &CheckAction, series: &Series, now: Instant) -> bool {
    let triggered = match action.trigger {
        Trigger::Fail => !series.passed,
        Trigger::Pass => series.passed,
        Trigger::Change => series.count == 1,
    };
    let lasted = now.saturating_duration_since(series.since) + GRAIN / 2;
    triggered
        && action.consecutive_events.is_none_or(|least| series.count >= u64::from(least))
        && action.duration.is_none_or(|least| lasted >= least)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::CheckProbe;

    const SECOND: Duration = Duration::from_secs(1);

    fn action(trigger: Trigger, effect: Effect) -> CheckAction {
        CheckAction { trigger, consecutive_events: None, duration: None, effect }
    }

    fn health(cost: u16, actions: &[CheckAction]) -> TerminatorHealth {
        let check = TerminatorCheck {
            probe: CheckProbe::Port("localhost:1".into()),
            interval: SECOND,
            timeout: SECOND,
            actions: actions.to_vec(),
        };
        TerminatorHealth::new(
            CostAndPrecedence { cost, precedence: TerminatorPrecedence::Required },
            &[check],
        )
    }

    /// Results a second apart, and the terminator after each.
    fn run(health: &mut TerminatorHealth, results: &[bool]) -> Vec<(u16, TerminatorPrecedence)> {
        let start = Instant::now();
        let at = |index: usize| start + SECOND * u32::try_from(index).unwrap();
        let mut out = Vec::new();
        for (index, passed) in results.iter().enumerate() {
            health.result(0, *passed, at(index));
            out.push((health.terms().cost, health.terms().precedence));
        }
        out
    }

    #[test]
    fn cost_goes_up_and_back_and_no_further() {
        let actions = [
            action(Trigger::Fail, Effect::IncreaseCost(40_000)),
            action(Trigger::Pass, Effect::DecreaseCost(30_000)),
        ];
        let costs: Vec<u16> = run(&mut health(10, &actions), &[false, false, true, true, true])
            .into_iter()
            .map(|(cost, _)| cost)
            .collect();
        assert_eq!(costs, [40_010, 65_535, 35_535, 5_535, 10]);
    }

    #[test]
    fn a_terminator_is_marked_and_its_mark_taken_back() {
        let actions = [
            CheckAction {
                consecutive_events: Some(2),
                ..action(Trigger::Fail, Effect::MarkUnhealthy)
            },
            CheckAction {
                duration: Some(2 * SECOND),
                ..action(Trigger::Pass, Effect::MarkHealthy)
            },
            action(Trigger::Fail, Effect::IncreaseCost(5)),
        ];
        let (well, failed) = (TerminatorPrecedence::Required, TerminatorPrecedence::Failed);
        let results = [false, false, false, true, true, true];
        let expected =
            [(5, well), (10, failed), (10, failed), (10, failed), (10, failed), (10, well)];
        assert_eq!(run(&mut health(0, &actions), &results), expected);
    }

    #[test]
    fn a_change_is_the_first_of_a_series() {
        let mut health = health(0, &[action(Trigger::Change, Effect::SendEvent)]);
        let now = Instant::now();
        let events: Vec<bool> = [true, true, false, false, true]
            .into_iter()
            .map(|passed| health.result(0, passed, now).event)
            .collect();
        assert_eq!(events, [true, false, true, false, true]);
        assert_eq!(health.result(7, true, now), CheckOutcome::default(), "no such check");
    }

    #[test]
    fn what_stays_is_not_told() {
        let mut health = health(0, &[action(Trigger::Fail, Effect::MarkUnhealthy)]);
        let now = Instant::now();
        assert!(health.result(0, false, now).terms.is_some());
        assert!(health.result(0, false, now).terms.is_none());
    }

    proptest! {
        #[test]
        fn the_cost_stays_between_its_beginning_and_the_most(
            cost: u16,
            results in prop::collection::vec(any::<bool>(), 0..60),
            up in 1..=u16::MAX,
            down in 1..=u16::MAX,
        ) {
            let actions = [
                action(Trigger::Fail, Effect::IncreaseCost(up)),
                action(Trigger::Pass, Effect::DecreaseCost(down)),
            ];
            for (now, _) in run(&mut health(cost, &actions), &results) {
                prop_assert!(now >= cost);
            }
        }
    }
}
