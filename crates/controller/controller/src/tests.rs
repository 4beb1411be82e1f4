//! Effects that need several parts of the controller.

mod auth;
mod clients;
mod cluster;
mod control;
mod gate;
mod keyring;
mod lapsed;
mod revocations;
mod service_session;
mod sessions;
mod terminators;
mod waits;
