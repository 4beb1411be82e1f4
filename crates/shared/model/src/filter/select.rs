//! A whole list request: filter, sort, limit and offset, bound and run.

use super::access::Access;
use super::ast::LimitClause;
use super::bind::{Audience, bind, bind_sort};
use super::error::FilterError;
use super::order::Order;
use super::page::{Page, PageRules};
use super::parser::{parse, parse_sort};
use super::plan::Plan;
use super::schema::{Record, Schema};
use super::units::{LOOK, ROW};
use crate::meter::{Ended, Meter, Part};

/// The parameters of a list request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListQuery<'a> {
    /// `filter`; empty means everything.
    pub filter: &'a str,
    /// `sort`; empty means by id.
    pub sort: &'a str,
    /// `limit`, as read by [`super::parse_param`].
    pub limit: Option<i64>,
    /// `offset`, as read by [`super::parse_param`].
    pub offset: Option<i64>,
}

/// A bound list request: matches, order and page.
#[derive(Debug, Clone)]
pub struct Selection {
    plan: Plan,
    order: Order,
    page: Page,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<R> {
    /// The records on the page, in order.
    pub rows: Vec<R>,
    /// Number of matches on all pages.
    pub total: u64,
    /// The page, after defaults and limits.
    pub page: Page,
}

impl Selection {
    /// Parses and binds a request. `sort by`, `skip` and `limit` in the filter override the
    /// parameters (docs/protocol/management-api.md 2.2, precedence).
    pub fn new(
        request: &ListQuery<'_>,
        schema: &dyn Schema,
        audience: Audience<'_>,
        rules: &PageRules,
    ) -> Result<Self, FilterError> {
        let plan = bind(&parse(request.filter)?, schema, audience)?;
        let mut order = plan.order().clone();
        let (mut skip, mut limit) = (plan.skip(), plan.limit());
        if rules.parameters {
            let sort = bind_sort(&parse_sort(request.sort)?, schema, audience)?;
            if order.keys().is_empty() {
                order = sort;
            }
            skip = skip.or(request.offset);
            limit = limit.or(request.limit.map(LimitClause::Count));
        }
        let page = rules.page(skip, limit);
        Ok(Self { plan, order, page })
    }

    /// The bound filter.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The order of the list.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The page.
    pub fn page(&self) -> Page {
        self.page
    }

    /// The same selection with another page.
    #[must_use]
    pub fn with_page(self, page: Page) -> Self {
        Self { page, ..self }
    }

    /// The indexes that narrow the candidates.
    pub fn access(&self) -> Access<'_> {
        self.plan.access()
    }

    /// Most units of a list that looks at so many records, each of them once, and of the details on its page.
    pub fn effort_of(&self, records: usize) -> u64 {
        let (records, end) = (records as u64, self.page.bounds().1);
        let test = LOOK.saturating_add(self.plan.condition.most_units());
        let sort = self.order.most_units(records, end);
        records
            .saturating_mul(test)
            .saturating_add(sort)
            .saturating_add(self.effort_of_page(records))
    }

    /// Units of the details on a page of so many matches.
    pub(super) fn effort_of_page(&self, matches: u64) -> u64 {
        let (start, end) = self.page.bounds();
        matches.min(end.saturating_sub(start) as u64).saturating_mul(ROW)
    }

    /// True if the record matches and the search goes on.
    pub(super) fn matches(&self, record: &dyn Record, meter: &Meter) -> bool {
        self.plan.holds(record, meter)
    }

    /// The page of the matches, out of candidates in any order.
    pub fn run<R: Record>(
        &self,
        candidates: impl IntoIterator<Item = R>,
        meter: &Meter,
    ) -> Result<Listed<R>, Ended> {
        let found = self.pick(self.matching(candidates, meter), meter);
        meter.check().map(|()| found)
    }

    /// The candidates that match, until the search has to end.
    fn matching<R: Record>(
        &self,
        candidates: impl IntoIterator<Item = R>,
        meter: &Meter,
    ) -> impl Iterator<Item = R> {
        let looks = candidates.into_iter().take_while(|_| meter.spend(Part::Tests, LOOK));
        looks.filter(|record| self.matches(record, meter))
    }

    /// The page of these matches, which are in any order.
    pub(super) fn pick<R: Record>(
        &self,
        matches: impl Iterator<Item = R>,
        meter: &Meter,
    ) -> Listed<R> {
        let mut total = 0;
        let (start, end) = self.page.bounds();
        let rows = self.order.pick(matches.inspect(|_| total += 1), start, end, meter);
        Listed { rows, total, page: self.page }
    }

    /// The page of the matches, out of candidates ordered by id: for a list in that order only the
    /// page is kept.
    pub fn run_by_id<R: Record>(
        &self,
        candidates: impl IntoIterator<Item = R>,
        meter: &Meter,
    ) -> Result<Listed<R>, Ended> {
        if !self.order.is_by_id() {
            return self.run(candidates, meter);
        }
        let (start, end) = self.page.bounds();
        let mut rows = Vec::new();
        let mut total = 0;
        for record in self.matching(candidates, meter) {
            if (start..end).contains(&total) {
                rows.push(record);
            }
            total += 1;
        }
        meter.check().map(|()| Listed { rows, total: total as u64, page: self.page })
    }
}
