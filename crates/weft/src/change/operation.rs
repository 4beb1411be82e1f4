//! The operations that export and change a network.

use weft_contract::{Api, Operation, resource};

use crate::failure::{Failure, Result};

/// An operation of weft's own API, by id.
pub(super) fn row(id: &str) -> Result<&'static Operation> {
    resource::operation(Api::Weft, id)
        .ok_or_else(|| Failure::new(format!("this release of weft does not know {id}")))
}
