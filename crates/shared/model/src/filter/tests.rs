//! Tests of the filter language.

mod bind;
mod index;
mod list;
mod matching;
mod net;
mod property;
mod search;
mod syntax;
