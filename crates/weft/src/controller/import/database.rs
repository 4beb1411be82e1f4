//! The database of the original.

use std::path::Path;

use weft_bolt::{Bolt, BoltError};
use weft_import::{Import, ImportError};

use crate::failure::{Failure, Result};

/// Opens a database, which stays locked, and reads it.
pub(super) fn read(path: &Path) -> Result<(Bolt, Import)> {
    let refused = |error: &BoltError| Failure::caused_by(error);
    let opened = Bolt::open(path).map_err(|error| refused(&error))?;
    let import = Import::read(&opened).map_err(|error| match &error {
        ImportError::Database(error) => refused(error),
        other => Failure::caused_by(other).during(format!("{} is not read", path.display())),
    })?;
    Ok((opened, import))
}
