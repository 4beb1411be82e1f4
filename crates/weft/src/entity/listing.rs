//! Lists of any length, read page by page.
//!
//! The API pages by offset, up to a largest offset. A longer list with a unique order is continued
//! behind the last name or id that was read.

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::envelope::{MAX_LIMIT, MAX_OFFSET};
use weft_contract::{Api, Operation, filter_text, headers};

use crate::failure::{Failure, Result};

/// From here on a list of circuits is gone on with by the last id: of several controllers, each tells the others all that
/// lies before a page.
const DEEP: i64 = 2_000;

/// A list that is being read.
pub(crate) struct Listing<'c> {
    client: &'c ManagementClient,
    api: Api,
    operation: &'static Operation,
    ids: Vec<String>,
    query: Vec<(&'static str, String)>,
    filter: Option<String>,
    order: Order,
    /// Number of entries that are still wanted.
    wanted: usize,
    offset: i64,
    /// Last name or id that was read before the offset was reset.
    after: Option<String>,
    total: Option<i64>,
    /// True if the controller is asked how the list is found.
    explain: bool,
    /// How the list is found, as the first page says.
    explained: Option<String>,
    /// Controllers that have not told their part of a page.
    missing: std::collections::BTreeSet<String>,
    done: bool,
}

/// Order of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By this member, whose values are unique: long lists can be continued behind a value.
    By(&'static str),
    /// As the user asked for.
    Said(String),
    /// As the filter says, or as the API does by default.
    AsIs,
}

impl<'c> Listing<'c> {
    /// A list of which nothing was read yet.
    pub(crate) fn new(
        client: &'c ManagementClient,
        api: Api,
        operation: &'static Operation,
        ids: Vec<String>,
    ) -> Self {
        Self {
            client,
            api,
            operation,
            ids,
            query: Vec::new(),
            filter: None,
            order: Order::AsIs,
            wanted: usize::MAX,
            offset: 0,
            after: None,
            total: None,
            explain: false,
            explained: None,
            missing: std::collections::BTreeSet::new(),
            done: false,
        }
    }

    /// Sets a filter.
    pub(crate) fn filtered(mut self, filter: Option<String>) -> Self {
        self.filter = filter.filter(|filter| !filter.trim().is_empty());
        self
    }

    /// Sets the order.
    pub(crate) fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets the most entries to read.
    pub(crate) fn limited(mut self, limit: Option<usize>) -> Self {
        self.wanted = limit.unwrap_or(usize::MAX);
        self
    }

    /// Asks how the list is found.
    pub(crate) fn explaining(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }

    /// Sets further query parameters.
    pub(crate) fn asking(mut self, query: Vec<(&'static str, String)>) -> Self {
        self.query = query;
        self
    }

    /// Number of entries, according to the first page.
    pub(crate) fn total(&self) -> Option<i64> {
        self.total
    }

    /// How the first page was found, according to the controller.
    pub(crate) fn explained(&self) -> Option<&str> {
        self.explained.as_deref()
    }

    /// Controllers that have not told their part of the list.
    pub(crate) fn missing_controllers(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(String::as_str)
    }

    /// The next page; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Value>>> {
        if self.done || self.wanted == 0 {
            return Ok(None);
        }
        let asked = i64::try_from(self.wanted).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
        let (limit, offset) = (asked.to_string(), self.offset.to_string());
        let filter = self.filter_now();
        let mut query: Vec<(&str, &str)> =
            self.query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        query.extend(filter.as_deref().map(|filter| ("filter", filter)));
        match &self.order {
            Order::By(member) => query.push(("sort", member)),
            Order::Said(order) => query.push(("sort", order)),
            Order::AsIs => {}
        }
        if self.operation.paged {
            query.extend([("limit", limit.as_str()), ("offset", offset.as_str())]);
        }
        if self.explain {
            query.push((headers::EXPLAIN, "true"));
        }
        let ids: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        let page = self.client.page_in::<Value>(self.api, self.operation, &ids, &query).await?;
        let mut items = page.items;
        self.missing.extend(page.missing_controllers);
        let got = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let at = page.pagination.unwrap_or_default();
        if self.total.is_none() {
            self.total = page.pagination.map(|at| at.total_count);
            // Quotes are escaped in a header.
            self.explained = page.explained.map(|text| text.replace("\\\"", "\""));
        }
        // A page with another limit or offset than was asked for: the filter has paging of its own.
        let own = !self.operation.paged || at.limit != asked || at.offset != self.offset;
        self.done = got == 0 || own || self.offset.saturating_add(got) >= at.total_count;
        if !self.done {
            self.turn(got, items.last())?;
        }
        items.truncate(self.wanted);
        self.wanted = self.wanted.saturating_sub(items.len());
        Ok((!items.is_empty()).then_some(items))
    }

    /// Moves on to the next page.
    fn turn(&mut self, got: i64, last: Option<&Value>) -> Result<()> {
        self.offset = self.offset.saturating_add(got);
        let is_gone_on_with = self.operation.id == "listCircuits"
            && self.offset >= DEEP
            && matches!(self.order, Order::By(_))
            && self.can_go_on();
        if self.offset < MAX_OFFSET && !is_gone_on_with {
            return Ok(());
        }
        let member = match &self.order {
            Order::By(member) if self.can_go_on() => *member,
            _ => {
                return Err(Failure::refused(format!(
                    "the list is longer than {MAX_OFFSET} and in no order in which it could be \
                     gone on with; narrow the filter, or leave out --sort"
                )));
            }
        };
        let last = last.and_then(|last| last.get(member)).and_then(Value::as_str);
        self.after = last.map(str::to_owned);
        self.offset = 0;
        Ok(())
    }

    /// True if a condition can be added to the filter, because the filter has neither order nor paging.
    fn can_go_on(&self) -> bool {
        let filter = self.filter.as_deref().unwrap_or_default().to_lowercase();
        !["sort by", "limit ", "skip "].iter().any(|tail| filter.contains(tail))
    }

    fn filter_now(&self) -> Option<String> {
        let (Order::By(member), Some(last)) = (&self.order, &self.after) else {
            return self.filter.clone();
        };
        let behind = format!("{member} > {}", filter_text(last));
        Some(match &self.filter {
            Some(filter) => format!("({filter}) and {behind}"),
            None => behind,
        })
    }
}
