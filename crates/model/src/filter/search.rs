//! Lists of the entities of a table, by its indexes where they serve.
//!
//! ```text
//! condition -- indexes --> candidates -- test those that have to be --> matches
//! matches   -- walk the index of the order, or sort them -------------> page
//! ```
//!
//! The rows, their order and their number are those that a scan gives. Only the rows of the page
//! are made, however deep in the list it lies, unless matches have to be tested or sorted.

use std::fmt;
use std::ops::Range;

use roaring::RoaringBitmap;

use super::access::Access;
use super::candidates::{Candidates, is_usable};
use super::schema::{Index, Record};
use super::select::{Listed, Selection};
use crate::table::Ranking;
use crate::{Entity, Table};

/// Rough costs in nanoseconds: a step along an index, and a row that is sorted.
const STEP: u64 = 12;
const SORTED: u64 = 250;

/// What is searched.
pub struct Source<'t, F> {
    /// The table.
    pub table: &'t Table,
    /// The ordinals that count; none means all.
    pub within: Option<RoaringBitmap>,
    /// Whether every entity within has a row. If not, each has to be looked at.
    pub all_have_rows: bool,
    /// The row of an entity; none if the list is not to show it.
    pub row: F,
}

/// How a list was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What the indexes were asked.
    access: String,
    /// How many candidates they left; none means every entity.
    candidates: Option<u64>,
    /// How many entities were looked at to find the matches.
    pub tested: u64,
    /// How many match.
    matched: u64,
    /// Where the order comes from.
    order: Order,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Order {
    /// The place in an index is known.
    Ranks(String),
    /// Along an index, so many steps.
    Walk(String, u64),
    /// So many rows were sorted.
    Sort(String, u64),
}

impl Trace {
    /// Whether an index narrowed the candidates to the matches, or there was nothing to narrow.
    pub fn is_served_by_index(&self) -> bool {
        self.tested == 0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.access)?;
        if let Some(candidates) = self.candidates {
            write!(f, "{candidates} candidates, ")?;
        }
        write!(f, "{} tested, {} match; ", self.tested, self.matched)?;
        match &self.order {
            Order::Ranks(by) => write!(f, "page by rank in the index of {by}"),
            Order::Walk(by, steps) => write!(f, "page after {steps} steps in the index of {by}"),
            Order::Sort(by, rows) => write!(f, "{rows} sorted by {by}"),
        }
    }
}

impl Selection {
    /// About how many rows a search has to look at: those it tests, sorts or answers.
    pub fn effort<F>(&self, source: &Source<'_, F>) -> u64 {
        let access = self.access();
        let within = source.within.as_ref().map_or(u64::MAX, RoaringBitmap::len);
        let candidates = access.estimate(source.table).min(within);
        let tests = if access.is_exact() && source.all_have_rows { 0 } else { candidates };
        let sorts = if self.walk(source.table).is_some() { 0 } else { candidates };
        let (start, end) = self.page().bounds();
        tests + sorts + candidates.min(end.saturating_sub(start) as u64)
    }

    /// The page of the matches in a table, and how it was found.
    pub fn search<'t, R: Record, F: Fn(&'t Entity) -> Option<R>>(
        &self,
        source: Source<'t, F>,
    ) -> (Listed<R>, Trace) {
        let access = self.access();
        let shown = access.to_string();
        let (matched, candidates, tested) = self.matches_in(&access, &source);
        let Source { table, row, .. } = source;
        let total = matched.as_ref().map_or(table.len() as u64, RoaringBitmap::len);
        let (start, end) = self.page().bounds();
        let window = start..end.min(total as usize);
        let rows = |ordinals: &mut dyn Iterator<Item = u32>| -> Vec<R> {
            ordinals.filter_map(|ordinal| row(table.at(ordinal)?)).collect()
        };
        let by = self.order().to_string();
        let (rows, order) = match (self.walk(table), &matched) {
            _ if window.is_empty() => (Vec::new(), Order::Ranks(by)),
            (Some(walk), None) if !walk.regroups() => {
                (rows(&mut walk.at_ranks(window)), Order::Ranks(by))
            }
            (Some(walk), matched) if walk.is_cheaper(&window, total) => {
                let mut steps = 0;
                let mut members = walk.ordinals().inspect(|_| steps += 1).filter(|ordinal| {
                    matched.as_ref().is_none_or(|matched| matched.contains(*ordinal))
                });
                let found = rows(&mut members.by_ref().skip(window.start).take(window.len()));
                drop(members);
                (found, Order::Walk(by, steps))
            }
            _ => {
                let mut found = match &matched {
                    Some(matched) => rows(&mut matched.iter()),
                    None => rows(&mut table.live().iter()),
                };
                self.order().window(&mut found, window.start, window.end);
                (found, Order::Sort(by, total))
            }
        };
        let trace = Trace { access: shown, candidates, tested, matched: total, order };
        (Listed { rows, total, page: self.page() }, trace)
    }

    /// The matches (none means every entity), the number of candidates, and how many of them were
    /// looked at.
    fn matches_in<'t, R: Record, F: Fn(&'t Entity) -> Option<R>>(
        &self,
        access: &Access<'_>,
        source: &Source<'t, F>,
    ) -> (Option<RoaringBitmap>, Option<u64>, u64) {
        let Candidates { set, exact } = access.candidates(source.table);
        let set = match (set, &source.within) {
            (Some(set), Some(within)) => Some(set & within),
            (set, within) => set.or_else(|| within.clone()),
        };
        let candidates = set.as_ref().map(RoaringBitmap::len);
        if exact && source.all_have_rows {
            return (set, candidates, 0);
        }
        let matches = |entity: &'t Entity| {
            (source.row)(entity).is_some_and(|row| exact || self.matches(&row))
        };
        let table = source.table;
        let (matched, tested): (Vec<u32>, _) = match &set {
            Some(set) => {
                let found = |ordinal: &u32| table.at(*ordinal).is_some_and(matches);
                (set.iter().filter(found).collect(), set.len())
            }
            None => {
                let found = table.occupied().filter(|(_, entity)| matches(entity));
                (found.map(|(ordinal, _)| ordinal).collect(), table.len() as u64)
            }
        };
        (Some(matched.into_iter().collect()), candidates, tested)
    }

    /// The way along an index that has the order of the list.
    fn walk<'t>(&self, table: &'t Table) -> Option<Walk<'t>> {
        let keys = self.order().keys();
        let (ranking, descending) = match keys.first() {
            None => (Ranking::Id, false),
            Some(key) => match key.index {
                // No two entities have one, so that further keys do not matter.
                Index::Id => (Ranking::Id, key.descending),
                Index::Name => (Ranking::Name, key.descending),
                Index::Created if keys.len() == 1 => (Ranking::Created, key.descending),
                _ => return None,
            },
        };
        is_usable(table, ranking).then_some(Walk { table, ranking, descending })
    }
}

/// A way along an index.
#[derive(Clone, Copy)]
struct Walk<'t> {
    table: &'t Table,
    ranking: Ranking,
    descending: bool,
}

impl<'t> Walk<'t> {
    /// Whether it is more than the index read from one of its ends: entities with one time of
    /// creation follow each other by id, also when the newest come first.
    fn regroups(&self) -> bool {
        self.descending && self.ranking == Ranking::Created
    }

    /// The ordinals at these places.
    fn at_ranks(&self, window: Range<usize>) -> Box<dyn Iterator<Item = u32> + 't> {
        let len = self.table.len();
        let ordinal = |(_, ordinal): (u64, u32)| ordinal;
        if !self.descending {
            return Box::new(self.table.ranks(self.ranking, window).map(ordinal));
        }
        let ranks = len.saturating_sub(window.end)..len.saturating_sub(window.start);
        Box::new(self.table.ranks(self.ranking, ranks).rev().map(ordinal))
    }

    /// All ordinals.
    fn ordinals(&self) -> Box<dyn Iterator<Item = u32> + 't> {
        let all = 0..self.table.len();
        if self.regroups() {
            let from_the_end = self.table.ranks(self.ranking, all).rev();
            return Box::new(Regrouped { from_the_end, group: Vec::new(), next: None });
        }
        self.at_ranks(all)
    }

    /// Whether walking to the end of the window costs less than sorting all matches.
    fn is_cheaper(&self, window: &Range<usize>, matched: u64) -> bool {
        let all = self.table.len() as u64;
        let steps = (window.end as u64).saturating_mul(all) / matched.max(1);
        steps.min(all) * STEP < matched * SORTED
    }
}

/// Turns every group of entries with one head around.
struct Regrouped<I> {
    from_the_end: I,
    /// The rest of the current group, its next entry last.
    group: Vec<u32>,
    /// The first entry behind the group.
    next: Option<(u64, u32)>,
}

impl<I: Iterator<Item = (u64, u32)>> Iterator for Regrouped<I> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if let Some(ordinal) = self.group.pop() {
            return Some(ordinal);
        }
        let (head, first) = self.next.take().or_else(|| self.from_the_end.next())?;
        self.group.push(first);
        for (other, ordinal) in self.from_the_end.by_ref() {
            if other != head {
                self.next = Some((other, ordinal));
                break;
            }
            self.group.push(ordinal);
        }
        self.group.pop()
    }
}
