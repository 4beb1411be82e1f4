//! Whole lists, side by side.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde::Serialize;
use serde_json::{Value, json};
use weft_contract::kind::Kind;
use weft_contract::{Api, Operation, resource};

use super::difference::{Difference, Found};
use super::side::{Side, Sides};
use super::{entity, known};
use crate::entity::listing::{Listing, Order};
use crate::failure::{Failure, Result};
use crate::output::progress::spinner;

/// Most ids of identities, and of services, that are kept for the questions behind the lists.
const MAX_IDS: usize = 1_000_000;

/// What the lists gave.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// What was counted of each kind.
    pub(super) kinds: Vec<Counted>,
    /// Ids and names of the identities that both have, in the order of ids.
    pub(super) identities: Vec<(String, String)>,
    /// Ids and names of the services that both have, in the order of ids.
    pub(super) services: Vec<(String, String)>,
}

/// Entities of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counted {
    kind: &'static str,
    original: u64,
    weft: u64,
    different: u64,
    /// The sides that do not serve the list.
    not_served: String,
}

/// Kinds that are compared: those that administrators make, and what they have for logins.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    resource::KINDS.iter().copied().filter(|kind| {
        let is_made = kind.create().is_some() || kind.name == "enrollment";
        kind.api == Api::Management
            && is_made
            && kind.list().is_some()
            && !known::is_of_weft(kind.name)
    })
}

/// Compares all lists.
pub(super) async fn compare(sides: &mut Sides) -> Result<(Found, Read)> {
    let (mut found, mut read) = (Found::default(), Read::default());
    let progress = spinner("comparing lists");
    for kind in kinds() {
        let Some(operation) = kind.list() else { continue };
        progress.set_message(format!("comparing {}", kind.plural));
        let counted = pairwise(sides, kind, operation, &mut found, &mut read, |seen| {
            progress.set_message(format!("comparing {}: {seen}", kind.plural));
        });
        match counted.await {
            Ok(counted) => read.kinds.push(counted),
            Err(failure) => {
                progress.finish_and_clear();
                return Err(failure.during(format!("the list of {}", kind.plural)));
            }
        }
    }
    progress.finish_and_clear();
    Ok((found, read))
}

/// Walks the lists of one kind at the same time.
async fn pairwise(
    sides: &mut Sides,
    kind: &'static Kind,
    operation: &'static Operation,
    found: &mut Found,
    read: &mut Read,
    seen: impl Fn(u64),
) -> Result<Counted> {
    let mut original = Walk::begin(&mut sides.original, kind, operation).await?;
    let mut weft = Walk::begin(&mut sides.weft, kind, operation).await?;
    let mut counted = Counted {
        kind: kind.name,
        original: 0,
        weft: 0,
        different: 0,
        not_served: [("original", &original), ("weft", &weft)]
            .into_iter()
            .filter(|(_, walk)| !walk.is_served)
            .map(|(side, _)| side)
            .collect::<Vec<_>>()
            .join(", "),
    };
    if !counted.not_served.is_empty() {
        return Ok(counted);
    }
    loop {
        let order = match (original.peek().await?, weft.peek().await?) {
            (None, None) => return Ok(counted),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => id(one).cmp(id(other)),
        };
        let one = if order.is_le() { original.take() } else { None };
        let other = if order.is_ge() { weft.take() } else { None };
        counted.original += u64::from(one.is_some());
        counted.weft += u64::from(other.is_some());
        let differences = match one.as_ref().or(other.as_ref()) {
            Some(either) if known::is_passing(kind.name, either) => Vec::new(),
            _ => differences(kind, one.as_ref(), other.as_ref()),
        };
        counted.different += u64::from(!differences.is_empty());
        differences.into_iter().for_each(|difference| found.add(difference));
        if let (Some(one), Some(_)) = (&one, &other) {
            let ids = match kind.name {
                "identity" => Some(&mut read.identities),
                "service" => Some(&mut read.services),
                _ => None,
            };
            if let Some(ids) = ids.filter(|ids| ids.len() < MAX_IDS) {
                ids.push((id(one).to_owned(), name(one).to_owned()));
            }
        }
        seen(counted.original + counted.weft);
    }
}

/// What is different between two entities with the same id, or where one is missing.
fn differences(kind: &Kind, one: Option<&Value>, other: Option<&Value>) -> Vec<Difference> {
    let Some(either) = one.or(other) else { return Vec::new() };
    let difference = |member: String, original: Value, weft: Value| Difference {
        kind: kind.name.to_owned(),
        id: id(either).to_owned(),
        name: name(either).to_owned(),
        known: known::subject(kind.name, &member, &original, &weft).map(str::to_owned),
        original: known::shown(&member, original),
        weft: known::shown(&member, weft),
        member,
    };
    let (Some(one), Some(other)) = (one, other) else {
        let there = |entity: Option<&Value>| match entity {
            Some(entity) if name(entity).is_empty() => json!(id(entity)),
            Some(entity) => json!(name(entity)),
            None => Value::Null,
        };
        return vec![difference("entity".to_owned(), there(one), there(other))];
    };
    let different = entity::differences(kind, one, other);
    different.into_iter().map(|(member, one, other)| difference(member, one, other)).collect()
}

pub(super) fn id(entity: &Value) -> &str {
    entity.get("id").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(entity: &Value) -> &str {
    entity.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// A list of one side, page by page.
struct Walk<'s> {
    side: Listing<'s>,
    pace: &'s mut Option<super::pace::Pace>,
    page: VecDeque<Value>,
    last: String,
    is_served: bool,
    is_done: bool,
    kind: &'static Kind,
}

impl<'s> Walk<'s> {
    async fn begin(
        side: &'s mut Side,
        kind: &'static Kind,
        operation: &'static Operation,
    ) -> Result<Self> {
        side.ready().await?;
        let (client, pace) = side.parts();
        let listing =
            Listing::new(client, kind.api, operation, Vec::new()).ordered(Order::By("id"));
        let mut walk = Self {
            side: listing,
            pace,
            page: VecDeque::new(),
            last: String::new(),
            is_served: true,
            is_done: false,
            kind,
        };
        match walk.fill().await {
            Err(failure) if failure.is_not_found() => walk.is_served = false,
            other => other?,
        }
        Ok(walk)
    }

    async fn fill(&mut self) -> Result<()> {
        match self.side.next().await? {
            Some(page) => self.page.extend(page),
            None => self.is_done = true,
        }
        Ok(())
    }

    /// The next entity.
    async fn peek(&mut self) -> Result<Option<&Value>> {
        while self.page.is_empty() && !self.is_done {
            if let Some(pace) = self.pace.as_mut() {
                pace.turn().await;
            }
            self.fill().await?;
        }
        let next = self.page.front();
        if let Some(next) = next
            && id(next) <= self.last.as_str()
            && !self.last.is_empty()
        {
            let (own, last) = (id(next), &self.last);
            return Err(Failure::refused(format!(
                "{} are not in the order of their ids: {own} follows {last}",
                self.kind.plural
            )));
        }
        Ok(next)
    }

    fn take(&mut self) -> Option<Value> {
        let taken = self.page.pop_front()?;
        self.last = id(&taken).to_owned();
        Some(taken)
    }
}
