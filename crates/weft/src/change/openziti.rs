//! Networks in the form of `ziti ops export` and `ziti ops import`, OpenZiti's own documents
//! (docs/protocol/operations.md 8.9).
//!
//! ```text
//!   weft's document --[ leave ]--> OpenZiti's --[ ziti ops import ]--> a network of OpenZiti
//!   weft's document <--[ enter ]-- OpenZiti's <--[ ziti ops export ]-- a network of OpenZiti
//!         ^
//!         +--[ stay ]-- members that the form has no place for, of entities that are there already
//! ```
//!
//! Both conversions name what gets lost. Entities go by name: an export has no ids.

mod enter;
mod entity;
mod form;
mod leave;
mod stay;
mod told;

pub(super) use enter::{EntryRemark, enter, is_openziti};
pub(super) use leave::{LeftNetwork, leave};
pub(super) use stay::keep;
pub(super) use told::tell;

#[cfg(test)]
mod tests;
