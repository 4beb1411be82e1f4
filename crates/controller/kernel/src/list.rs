//! Lists of any records: filter, sort and page of a request, and the reply.

use serde::Serialize;
use weft_contract::envelope::Pagination;
use weft_model::filter::{
    Audience, ListQuery, Listed, PageRules, ROW, Row, Selection, Symbols, parse_param,
};
use weft_model::role::{Roles, Semantic};
use weft_model::{Choice as _, Meter, Part};

use super::call::{QueryParameters, Reply};
use crate::caller::Caller;
use crate::failure::{Failure, Result};
use crate::gate;

/// The reply with a list of records with these symbols. The rows have to be in the order of their ids.
pub fn answer<'c, C: 'static, R: 'static, D: Serialize>(
    selection: &Selection,
    symbols: &'static Symbols<C, R>,
    rows: impl Iterator<Item = Row<'c, C, R>>,
    meter: &Meter,
    shown: impl Fn(&'c R) -> Result<D>,
) -> Result<Reply> {
    let listed = selection.run_by_id(rows, meter)?;
    reply(&listed, symbols, meter, shown)
}

/// The reply with the details of a page.
pub fn reply<'c, C: 'static, R: 'static, D: Serialize>(
    listed: &Listed<Row<'c, C, R>>,
    symbols: &'static Symbols<C, R>,
    meter: &Meter,
    shown: impl Fn(&'c R) -> Result<D>,
) -> Result<Reply> {
    let detail = |row: &Row<'c, C, R>| {
        meter.take(Part::Rows, ROW)?;
        shown(row.record())
    };
    let details = listed.rows.iter().map(detail).collect::<Result<Vec<_>>>()?;
    let pagination = Pagination {
        limit: listed.page.stated_limit(),
        offset: i64::try_from(listed.page.offset).unwrap_or(i64::MAX),
        total_count: i64::try_from(listed.total).unwrap_or(i64::MAX),
    };
    Reply::list(&details, pagination, symbols.public_names().map(str::to_owned).collect())
}

/// Filter, sort and page of a request. A filter may follow links to kinds that the caller may read.
pub fn selection(
    caller: &Caller,
    query: &QueryParameters,
    schema: &dyn weft_model::filter::Schema,
    rules: &PageRules,
) -> Result<Selection> {
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
    Ok(Selection::new(&request, schema, Audience::Caller(&reads), rules)?)
}

/// Reads `roleFilter` and `roleSemantic` (docs/protocol/management-api.md 2.6); none if they are
/// absent.
pub fn role_filter(query: &QueryParameters) -> Result<Option<(Roles, Semantic)>> {
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
