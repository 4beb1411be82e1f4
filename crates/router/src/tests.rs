//! The control half and access against a hand-made controller.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod acting;
mod circuits;
mod connecting;
mod data_model;
mod dialed;
pub(crate) mod events;
mod fake_data;
mod modes;
mod no_hello;
mod old_links;
pub(crate) mod support;
mod terminators;
mod whole;
