//! Lists of any records: filter, sort and page of a request, and the reply.

use serde::Serialize;
use weft_contract::envelope::Pagination;
use weft_model::Choice as _;
use weft_model::filter::{
    Audience, ListQuery, PageRules, Patience, Row, Selection, Symbols, parse_param,
};
use weft_model::role::{Roles, Semantic};

use super::call::{Query, Reply};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::gate;
use crate::turns::Asking;

/// A list with more effort than this many rows waits for its caller's turn, and is made on a thread for
/// blocking work.
const INLINE: usize = 4096;
/// The reply with a list of entities with these symbols. The rows have to be in the order of their ids.
pub fn answer<'c, C: 'static, R: 'static, D: Serialize>(
    caller: &Caller,
    query: &Query,
    symbols: &'static Symbols<C, R>,
    rules: &PageRules,
    rows: impl Iterator<Item = Row<'c, C, R>>,
    shown: impl Fn(&'c R) -> D,
) -> Result<Reply, Failure> {
    let listed = selection(caller, query, symbols, rules)?.run_by_id(rows)?;
    let details: Vec<_> = listed.rows.iter().map(|row| shown(row.record())).collect();
    let pagination = Pagination {
        limit: listed.page.stated_limit(),
        offset: i64::try_from(listed.page.offset).unwrap_or(i64::MAX),
        total_count: i64::try_from(listed.total).unwrap_or(i64::MAX),
    };
    Reply::list(&details, pagination, symbols.public_names().map(str::to_owned).collect())
}

/// Filter, sort and page of a request. A filter may follow links to kinds that the caller may read. The search
/// ends when the caller does not wait any more.
pub fn selection(
    caller: &Caller,
    query: &Query,
    schema: &dyn weft_model::filter::Schema,
    rules: &PageRules,
) -> Result<Selection, Failure> {
    let number = |field| query.get(field).map(|text| parse_param(field, text)).transpose();
    let (limit, offset) = match rules.parameters {
        true => (number("limit")?, number("offset")?),
        false => (None, None),
    };
    let request = ListQuery {
        filter: query.get("filter").unwrap_or_default(),
        sort: query.get("sort").unwrap_or_default(),
        limit,
        offset,
    };
    let reads = |kind: &str| gate::reads(caller, kind);
    let selection = Selection::new(&request, schema, Audience::Caller(&reads), rules)?;
    let wait = caller.origin.wait.clone();
    Ok(selection.with_patience(Patience::until(move || wait.is_over())))
}

/// The effort of a list that looks at this many rows: a row that takes long to test counts for several.
pub fn effort(selection: &Selection, rows: usize) -> usize {
    rows.saturating_mul(usize::try_from(selection.plan().weight()).unwrap_or(usize::MAX))
}

/// Reads `roleFilter` and `roleSemantic` (docs/protocol/management-api.md 2.6); none if they are
/// absent.
pub fn role_filter(query: &Query) -> Result<Option<(Roles, Semantic)>, Failure> {
    let mut roles = Roles::default();
    let mut asked = false;
    for role in query.all("roleFilter").filter(|role| !role.is_empty()) {
        asked = true;
        // Here `#all` is an ordinary attribute.
        match role.strip_prefix('#') {
            Some("") | None => {
                let parsed = Roles::parse(&[role])
                    .map_err(|error| Failure::field("roleFilter", error.to_string(), role))?;
                roles.ids.extend(parsed.ids);
            }
            Some(attribute) => roles.attributes.push(attribute.into()),
        }
    }
    roles.ids.sort_unstable();
    let semantic = match query.get("roleSemantic") {
        None | Some("") => Semantic::AllOf,
        Some(text) => [Semantic::AllOf, Semantic::AnyOf]
            .into_iter()
            .find(|semantic| semantic.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| Failure::field("semantic", "must be AllOf or AnyOf", text))?,
    };
    Ok(asked.then_some((roles, semantic)))
}

/// Runs work on this task if its effort is at most that of 4096 rows. Larger work waits for its caller's
/// turn and runs on a thread for blocking work.
pub async fn run<T: Send + 'static>(
    turns: Asking,
    effort: usize,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if effort <= INLINE {
        return work();
    }
    turns.work(work).await
}
