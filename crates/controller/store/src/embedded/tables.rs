//! The tables of the file, and how it is opened.

use redb::TableDefinition;

use crate::FORMAT;

pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
pub(super) const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
pub(super) const TALLIES: TableDefinition<'_, u16, &[u8]> = TableDefinition::new("tallies");
pub(super) const COLD: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("cold");
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
pub(super) const LIVE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("live");
pub(super) const NOTES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("notes");
/// The key of the head in `meta`.
pub(super) const HEAD: &str = "head";
/// Memory for pages while a file is checked, in bytes.
pub(super) const CHECKING: usize = 1 << 20;

/// Settings of an embedded store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of change sets kept for followers.
    pub log_limit: usize,
    /// Most bytes of these change sets; beyond that the oldest go, except those of the last batch.
    pub log_bytes: usize,
    /// Cache for the file's pages, in bytes.
    pub cache_bytes: usize,
    /// The newest format of stored data that is read.
    pub reads: u32,
}

impl Default for Options {
    fn default() -> Self {
        // The cache is for the upper pages only: all rows are in memory, and the system caches the
        // file.
        Self { log_limit: 10_000, log_bytes: 256 << 20, cache_bytes: 16 << 20, reads: FORMAT }
    }
}
