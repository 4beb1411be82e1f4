//! Commands that answer a question, or do one thing that does not depend on a kind of entity.
//!
//! - [`why`]: why an identity can, or cannot, reach a service; [`why_path`]: over which path;
//!   [`unproven`]: who could not use a service that demands proofs of both ends;
//! - [`status`]: the login, and the size of the network;
//! - [`jwt`]: enrollment tokens; [`ca`]: authorities of the operator's own; [`verify_ca`]: proof that one
//!   holds the key of one;
//! - [`cluster`]: the controllers of a network;
//! - [`keys`]: the keys that sign tokens; [`signer`]: signers of identity providers, and tests of their tokens;
//! - [`password`]: passwords; [`overrides`]: configs of one identity;
//! - [`database`]: snapshots and the integrity check; [`inspect`]: inner state of controllers and
//!   routers; [`trace`]: trace files; [`call`]: any operation of any API.

pub(crate) mod ca;
pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod inspect;
pub(crate) mod jwt;
pub(crate) mod keys;
pub(crate) mod overrides;
pub(crate) mod password;
pub(crate) mod signer;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod unproven;
pub(crate) mod verify_ca;
pub(crate) mod why;
pub(crate) mod why_path;

use weft_contract::kind::Kind;
use weft_contract::{Api, Operation, resource};

use crate::failure::{Failure, Result};

/// An operation by its id.
fn row(api: Api, id: &str) -> Result<&'static Operation> {
    resource::operation(api, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id} of {api}")))
}

/// A kind by its name.
fn kind(name: &str) -> Result<&'static Kind> {
    resource::kind(name).ok_or_else(|| {
        let names: Vec<&str> = resource::KINDS.iter().map(|kind| kind.name).collect();
        Failure::usage(format!("there is no kind `{name}`; there is {}", names.join(", ")))
    })
}
