//! `create`, `list`, `show`, `update` and `delete` for every kind of entity, and the actions on
//! entities.
//!
//! The commands are built from the tables of `weft-contract`: body members of a kind become flags,
//! its columns the table, its operations the verbs. A new kind in those tables needs nothing here.
//! References and roles are given by name or id, and resolved to ids before anything is sent.

pub(crate) mod action;
mod clear;
mod commands;
pub(crate) mod complete;
mod examples;
mod flags;
pub(crate) mod listing;
pub(crate) mod name;
mod operations;
pub(crate) mod posture;
mod request;
mod run;
mod schema;
pub(crate) mod token;

pub(crate) use commands::commands;
pub(crate) use operations::APIS;
pub(crate) use request::Request;
pub(crate) use run::run;
