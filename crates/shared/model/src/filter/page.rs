//! Paging: the part of a list that is answered (docs/protocol/management-api.md 2.2).

use super::ast::LimitClause;

/// Defaults and limits of paging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRules {
    /// Limit when the request has none, zero or an invalid one; `None`: no limit.
    pub default_limit: Option<u64>,
    /// Largest limit; larger ones are reduced to it.
    pub max_limit: u64,
    /// Largest offset; larger ones are reduced to it.
    pub max_offset: u64,
    /// True if the parameters `limit`, `offset` and `sort` count, besides the filter's clauses.
    pub parameters: bool,
}

impl PageRules {
    /// Rules for lists of entities.
    pub const LIST: Self =
        Self { default_limit: Some(10), max_limit: 500, max_offset: 100_000, parameters: true };

    /// Rules for lists of role attributes: no limit, unless the filter has one.
    pub const ATTRIBUTES: Self = Self {
        default_limit: None,
        max_limit: i64::MAX as u64,
        max_offset: 100_000,
        parameters: false,
    };

    /// The page for a request. `-1` is no limit, like `none`; a negative offset is 0.
    pub fn page(&self, skip: Option<i64>, limit: Option<LimitClause>) -> Page {
        let offset = skip.and_then(|skip| u64::try_from(skip).ok()).unwrap_or(0);
        let limit = match limit {
            Some(LimitClause::None | LimitClause::Count(-1)) => None,
            Some(LimitClause::Count(count)) if count > 0 => {
                Some(count.unsigned_abs().min(self.max_limit))
            }
            _ => self.default_limit,
        };
        Page { offset: offset.min(self.max_offset), limit }
    }
}

/// A window on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Number of entries before the page.
    pub offset: u64,
    /// Most entries on the page; `None`: no limit.
    pub limit: Option<u64>,
}

impl Page {
    /// The limit as answers state it: the largest number for no limit.
    pub fn stated_limit(&self) -> i64 {
        self.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX)
    }

    /// First position, and position behind the last; never overflows.
    pub fn bounds(&self) -> (usize, usize) {
        let clamp = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        let end = self.limit.map_or(u64::MAX, |limit| self.offset.saturating_add(limit));
        (clamp(self.offset), clamp(end))
    }
}

/// A paging parameter is not an integer. The error code is `INVALID_PAGINATION`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parameter {field} must be a whole number, not \"{value}\"")]
pub struct PageError {
    /// `limit` or `offset`.
    pub field: &'static str,
    /// The value, at most 60 characters of it.
    pub value: String,
}

/// Reads a `limit` or `offset` parameter.
pub fn parse_param(field: &'static str, text: &str) -> Result<i64, PageError> {
    text.parse().map_err(|_| PageError { field, value: text.chars().take(60).collect() })
}
