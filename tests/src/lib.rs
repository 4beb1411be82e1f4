//! Whole networks in one process.
