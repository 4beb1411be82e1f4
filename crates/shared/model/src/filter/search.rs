//! Lists of a table's entities, by its indexes where they help.
//!
//! ```text
//! condition -- indexes --> candidates -- test, unless exact -----------> matches
//! matches   -- walk the index of the order, or sort them -------------> page
//! ```
//!
//! Rows, order and total are the same as those of a scan. Only the rows of the page are made,
//! however deep in the list it is, unless matches have to be tested or sorted.

use std::fmt;
use std::ops::Range;

use roaring::RoaringBitmap;

use super::access::Access;
use super::candidates::{Candidates, is_usable};
use super::effort::Bounds;
use super::schema::{Index, Record};
use super::select::{Listed, Selection};
use super::units::{LOOK, VISIBLE};
use crate::meter::{Ended, Meter, Part, of_set};
use crate::table::Ranking;
use crate::{Entity, Table};

/// Approximate costs in nanoseconds: a step along an index, and a row that is sorted.
const STEP: u64 = 12;
const SORTED: u64 = 250;

/// The entities that are searched.
pub struct Source<'t, F> {
    /// The table.
    pub table: &'t Table,
    /// Ordinals to search among; `None`: all.
    pub within: Option<RoaringBitmap>,
    /// True if `row` gives a row for every one of these entities. Otherwise `row` is called for each
    /// entity that is counted.
    pub all_have_rows: bool,
    /// The row of an entity; `None` if the list must not show it.
    pub row: F,
}

/// How a list was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTrace {
    /// The questions to the indexes.
    access: String,
    /// Number of candidates; `None`: every entity.
    candidates: Option<u64>,
    /// Number of entities that were tested.
    pub tested: u64,
    /// Number of matches.
    matched: u64,
    /// How the order was established.
    order: Order,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Order {
    /// The ranks in an index were known.
    Ranks(String),
    /// A walk along an index, of this many steps.
    Walk(String, u64),
    /// A sort by this key, of this many rows.
    Sort(String, u64),
}

impl fmt::Display for SearchTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.access)?;
        if let Some(candidates) = self.candidates {
            write!(f, "{candidates} {}, ", noun(candidates, "candidate", "candidates"))?;
        }
        write!(f, "{} tested, {} match; ", self.tested, self.matched)?;
        match &self.order {
            Order::Ranks(by) => write!(f, "page by rank in the index of {by}"),
            Order::Walk(by, steps) => {
                let noun = noun(*steps, "step", "steps");
                write!(f, "page after {steps} {noun} in the index of {by}")
            }
            Order::Sort(by, rows) => write!(f, "{rows} sorted by {by}"),
        }
    }
}

/// The noun behind a count.
fn noun(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

impl Selection {
    /// Most units of a search, and of the details on its page.
    pub fn effort<F>(&self, source: &Source<'_, F>) -> u64 {
        let table = source.table;
        let access = self.access();
        let Bounds { found, exact, work, .. } = access.bounds(table);
        let within = source.within.as_ref().map_or(u64::MAX, RoaringBitmap::len);
        let found = found.min(within);
        let look = source.units_of_look();
        let test = match exact {
            true => look,
            false => look.saturating_add(self.plan().condition.most_units()),
        };
        let (start, end) = self.page().bounds();
        let on_page = found.min(end.saturating_sub(start) as u64);
        let is_all = matches!(access, Access::Always) && source.within.is_none();
        // The ranks of a page of all entities are known.
        let is_ranked = is_all && source.all_have_rows;
        let order = match self.walk(table) {
            Some(walk) if is_ranked && !walk.regroups() => units_of_walk(on_page, table),
            Some(walk) => {
                let window = start..end.min(usize::try_from(found).unwrap_or(usize::MAX));
                let steps = if walk.is_cheaper(&window, found) { table.len() as u64 } else { 0 };
                let sort = self.order().most_units(found, end);
                sort.saturating_add(units_of_walk(steps, table)) + found * look
            }
            None => self.order().most_units(found, end),
        };
        let tests = if is_ranked && self.walk(table).is_some() { 0 } else { found };
        let sets = 4 * of_set(table.len() as u64, table.highest());
        let rows = self.effort_of_page(found) + on_page * look;
        let parts = [tests.saturating_mul(test), sets, order, rows];
        parts.into_iter().fold(work, u64::saturating_add)
    }

    /// The page of the matches in a table, and how it was found.
    pub fn search<'t, R: Record, F: Fn(&'t Entity) -> Option<R>>(
        &self,
        source: Source<'t, F>,
        meter: &Meter,
    ) -> Result<(Listed<R>, SearchTrace), Ended> {
        let access = self.access();
        let search = Search::new(self, &access, source, meter)?;
        let found = match self.walk(search.source.table) {
            Some(walk) => search.along(walk),
            None => search.sorted(),
        };
        meter.check().map(|()| found)
    }

    /// The walk along an index that has the order of the list.
    fn walk<'t>(&self, table: &'t Table) -> Option<Walk<'t>> {
        let keys = self.order().keys();
        let (ranking, descending) = match keys.first() {
            None => (Ranking::Id, false),
            Some(key) => match key.index {
                // Ids differ, so that further keys do not matter.
                Index::Id => (Ranking::Id, key.descending),
                Index::Name => (Ranking::Name, key.descending),
                Index::Created if keys.len() == 1 => (Ranking::Created, key.descending),
                _ => return None,
            },
        };
        is_usable(table, ranking).then_some(Walk { table, ranking, descending })
    }
}

impl<F> Source<'_, F> {
    /// Units of the row of an entity.
    fn units_of_look(&self) -> u64 {
        if self.all_have_rows { LOOK } else { LOOK + VISIBLE }
    }
}

/// Units of a walk of so many steps along an index.
fn units_of_walk(steps: u64, table: &Table) -> u64 {
    steps + table.len() as u64 / 1024
}

/// A search with its candidates.
struct Search<'s, 't, F> {
    selection: &'s Selection,
    meter: &'s Meter,
    source: Source<'t, F>,
    /// The questions to the indexes.
    access: String,
    /// Ordinals of the candidates; `None`: every entity.
    candidates: Option<RoaringBitmap>,
    /// True if the candidates are exactly the matches.
    pass: bool,
    exact: bool,
}

impl<'s, 't, R: Record, F: Fn(&'t Entity) -> Option<R>> Search<'s, 't, F> {
    fn new(
        selection: &'s Selection,
        access: &Access<'_>,
        source: Source<'t, F>,
        meter: &'s Meter,
    ) -> Result<Self, Ended> {
        let Candidates { set, exact } = access.candidates(source.table, meter);
        let sets = 4 * of_set(source.table.len() as u64, source.table.highest());
        meter.take(Part::Index, sets)?;
        let candidates = match (set, &source.within) {
            (Some(set), Some(within)) => Some(set & within),
            (set, within) => set.or_else(|| within.clone()),
        };
        let (pass, exact) = (exact, exact && source.all_have_rows);
        Ok(Self { selection, meter, access: access.to_string(), candidates, pass, exact, source })
    }

    /// The row of an entity; none if the list must not show it, or if the search has to end.
    fn row(&self, entity: &'t Entity) -> Option<R> {
        let goes_on = self.meter.spend(Part::Tests, self.source.units_of_look());
        if goes_on { (self.source.row)(entity) } else { None }
    }

    /// The row of an entity, if it matches.
    fn matching(&self, entity: &'t Entity) -> Option<R> {
        self.row(entity).filter(|row| self.pass || self.selection.matches(row, self.meter))
    }

    /// Tests the candidates and sorts all matches.
    fn sorted(self) -> (Listed<R>, SearchTrace) {
        let (table, meter) = (self.source.table, self.meter);
        let listed = match &self.candidates {
            Some(set) => {
                let entities = set.iter().filter_map(|ordinal| table.at(ordinal));
                self.selection.pick(entities.filter_map(|entity| self.matching(entity)), meter)
            }
            None => {
                let entities = table.occupied().map(|(_, entity)| entity);
                self.selection.pick(entities.filter_map(|entity| self.matching(entity)), meter)
            }
        };
        let order = Order::Sort(self.selection.order().to_string(), listed.total);
        let trace = self.trace(listed.total, order);
        (listed, trace)
    }

    /// Takes the page from an index that has the order, if that costs less.
    fn along(self, walk: Walk<'t>) -> (Listed<R>, SearchTrace) {
        let (table, selection, meter) = (self.source.table, self.selection, self.meter);
        let matches = self.matches();
        let total = matches.as_ref().map_or(table.len() as u64, RoaringBitmap::len);
        let (start, end) = selection.page().bounds();
        let window = start..end.min(total as usize);
        let row = |ordinal: u32| self.row(table.at(ordinal)?);
        let by = selection.order().to_string();
        meter.spend(Part::Index, units_of_walk(0, table));
        let (rows, order) = match &matches {
            _ if window.is_empty() => (Vec::new(), Order::Ranks(by)),
            None if !walk.regroups() => {
                meter.spend(Part::Index, window.len() as u64);
                (walk.at_ranks(window).filter_map(row).collect(), Order::Ranks(by))
            }
            matches if walk.is_cheaper(&window, total) => {
                let mut steps = 0;
                let walked = walk.ordinals().take_while(|_| meter.spend(Part::Index, 1));
                let mut members = walked.inspect(|_| steps += 1).filter(|ordinal| {
                    matches.as_ref().is_none_or(|matches| matches.contains(*ordinal))
                });
                let page = members.by_ref().skip(window.start).take(window.len());
                let rows = page.filter_map(row).collect();
                drop(members);
                (rows, Order::Walk(by, steps))
            }
            matches => {
                let ordinals = matches.as_ref().unwrap_or(table.live());
                let rows = ordinals.iter().filter_map(row);
                (selection.order().pick(rows, start, end, meter), Order::Sort(by, total))
            }
        };
        let trace = self.trace(total, order);
        (Listed { rows, total, page: selection.page() }, trace)
    }

    /// Ordinals of the matches; `None`: every entity.
    fn matches(&self) -> Option<RoaringBitmap> {
        if self.exact {
            return self.candidates.clone();
        }
        let table = self.source.table;
        let is_match = |entity: &'t Entity| self.matching(entity).is_some();
        let found: Vec<u32> = match &self.candidates {
            Some(set) => {
                set.iter().filter(|ordinal| table.at(*ordinal).is_some_and(is_match)).collect()
            }
            None => {
                let found = table.occupied().filter(|(_, entity)| is_match(entity));
                found.map(|(ordinal, _)| ordinal).collect()
            }
        };
        Some(found.into_iter().collect())
    }

    fn trace(self, matched: u64, order: Order) -> SearchTrace {
        let candidates = self.candidates.as_ref().map(RoaringBitmap::len);
        let tested = match self.exact {
            true => 0,
            false => candidates.unwrap_or(self.source.table.len() as u64),
        };
        SearchTrace { access: self.access, candidates, tested, matched, order }
    }
}

/// A walk along an index.
#[derive(Clone, Copy)]
struct Walk<'t> {
    table: &'t Table,
    ranking: Ranking,
    descending: bool,
}

impl<'t> Walk<'t> {
    /// True if the index read backwards has another order: entities with one time of creation are
    /// ordered by id, also when the newest come first.
    fn regroups(&self) -> bool {
        self.descending && self.ranking == Ranking::Created
    }

    /// The ordinals at these positions.
    fn at_ranks(&self, window: Range<usize>) -> Box<dyn Iterator<Item = u32> + 't> {
        let len = self.table.len();
        let ordinal = |(_, ordinal): (u64, u32)| ordinal;
        if !self.descending {
            return Box::new(self.table.ranks(self.ranking, window).map(ordinal));
        }
        let ranks = len.saturating_sub(window.end)..len.saturating_sub(window.start);
        Box::new(self.table.ranks(self.ranking, ranks).rev().map(ordinal))
    }

    /// Every ordinal.
    fn ordinals(&self) -> Box<dyn Iterator<Item = u32> + 't> {
        let all = 0..self.table.len();
        if self.regroups() {
            let from_the_end = self.table.ranks(self.ranking, all).rev();
            return Box::new(Regrouped { from_the_end, group: Vec::new(), next: None });
        }
        self.at_ranks(all)
    }

    /// True if walking to the end of the page costs less than sorting all matches.
    fn is_cheaper(&self, window: &Range<usize>, matched: u64) -> bool {
        let all = self.table.len() as u64;
        let steps = (window.end as u64).saturating_mul(all) / matched.max(1);
        steps.min(all) * STEP < matched * SORTED
    }
}

/// Reverses every group of entries with the same head.
struct Regrouped<I> {
    from_the_end: I,
    /// The rest of the present group, its next entry last.
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
