//! Lists of any length, page by page, without anybody noticing the pages.
//!
//! The API pages by offset, up to an offset that it refuses; longer lists that are in an order of
//! their own go on behind the last name, or the last id, seen.

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::{
    Api, Operation,
    envelope::{MAX_LIMIT, MAX_OFFSET},
    filter_text, headers,
};

use crate::failure::Failure;

/// A list that is being read.
pub(super) struct Listing<'c> {
    client: &'c ManagementClient,
    api: Api,
    operation: &'static Operation,
    ids: Vec<String>,
    query: Vec<(&'static str, String)>,
    filter: Option<String>,
    /// How the list is ordered.
    order: Order,
    /// How many are still wanted.
    wanted: usize,
    offset: i64,
    /// The last name or id of what was read before the current offset began.
    after: Option<String>,
    total: Option<i64>,
    /// Whether to ask how the list is found, and how the first page was.
    explain: bool,
    explained: Option<String>,
    done: bool,
}

/// How a list is ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By this member, whose values are unique and ascend: long lists can go on behind one.
    By(&'static str),
    /// As somebody said.
    Said(String),
    /// As the filter says, or as they come.
    AsIs,
}

impl<'c> Listing<'c> {
    /// A list of which nothing was read yet.
    pub(super) fn new(
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
            done: false,
        }
    }

    /// Only what passes this filter.
    pub(super) fn filtered(mut self, filter: Option<String>) -> Self {
        self.filter = filter.filter(|filter| !filter.trim().is_empty());
        self
    }

    /// In this order.
    pub(super) fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// At most so many.
    pub(super) fn limited(mut self, limit: Option<usize>) -> Self {
        self.wanted = limit.unwrap_or(usize::MAX);
        self
    }

    /// Asking how the list is found.
    pub(super) fn explaining(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }

    /// With these query parameters.
    pub(super) fn asking(mut self, query: Vec<(&'static str, String)>) -> Self {
        self.query = query;
        self
    }

    /// How many there are, as the first page said.
    pub(super) fn total(&self) -> Option<i64> {
        self.total
    }

    /// How the first page was found, as the controller said.
    pub(super) fn explained(&self) -> Option<&str> {
        self.explained.as_deref()
    }

    /// The next of them; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, Failure> {
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
        let got = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let at = page.pagination.unwrap_or_default();
        if self.total.is_none() {
            self.total = page.pagination.map(|at| at.total_count);
            // Quotes are escaped in a header.
            self.explained = page.explained.map(|text| text.replace("\\\"", "\""));
        }
        // A page that is not what was asked for: the filter has paging of its own.
        let own = !self.operation.paged || at.limit != asked || at.offset != self.offset;
        self.done = got == 0 || own || self.offset.saturating_add(got) >= at.total_count;
        if !self.done {
            self.turn(got, items.last())?;
        }
        items.truncate(self.wanted);
        self.wanted = self.wanted.saturating_sub(items.len());
        Ok((!items.is_empty()).then_some(items))
    }

    /// Goes on to the next page.
    fn turn(&mut self, got: i64, last: Option<&Value>) -> Result<(), Failure> {
        self.offset = self.offset.saturating_add(got);
        if self.offset < MAX_OFFSET {
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

    /// Whether a condition can be added to the filter: not behind an order or a page.
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
