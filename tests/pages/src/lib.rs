//! Checks of this repository itself: citations of the pages on protocols, links between documents,
//! the rooms of the crates, the heads of crates and modules, the list of steps before a change lands, the newest
//! release, files of a crate that use each other, and the tests of the differences from the original.
//!
//! A citation is a path and sections: a page of `docs/protocol`, a blank, and one or more numbers
//! of headings, as in `auth.md 9.6, 9.7` or `channel.md 4 to 6`. Code and documents cite a page by
//! its path from the root, the pages each other by name; `section 4` or `§4` in a page is its own.
//! A table (`.csv`) has no sections, and is cited as a whole.

pub mod circle;
pub mod citation;
pub mod files;
pub mod link;
pub mod source;
