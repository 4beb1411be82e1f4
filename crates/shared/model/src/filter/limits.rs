//! Limits on filters: the length of the text, its nesting, and the links that a name follows.

/// Longest filter or sort text that is parsed, in bytes.
///
/// Clients send filters in the request target, so that longer ones do not occur; lists of ids that
/// the server builds are far shorter.
pub const MAX_TEXT: usize = 64 * 1024;

/// Most links in one dotted name.
pub const MAX_HOPS: usize = 4;

/// Deepest nesting of parentheses, `not`, changes between `and` and `or`, and sub-queries.
pub const MAX_DEPTH: usize = 64;

/// Most tests in one filter. A list counts as one test.
pub const MAX_TESTS: usize = 4096;

/// Deepest nesting of sub-queries: each level multiplies the work per record.
pub const MAX_SUB_QUERIES: usize = 3;

/// Most sort fields; further ones are ignored (docs/protocol/management-api.md 2.2).
pub const MAX_SORT_FIELDS: usize = 5;
