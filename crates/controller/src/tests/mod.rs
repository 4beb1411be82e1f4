//! What is seen of the parts only when all of them are there.

mod auth;
mod control;
mod gate;
mod keyring;
mod lapsed;
mod revocations;
mod service_session;
mod sessions;
mod terminators;
