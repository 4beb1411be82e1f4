//! The certificates with whose keys the controllers of a cluster have signed tokens.

use weft_bolt::{Bolt, BoltContent};

use crate::ImportError;
use crate::fields::{Value, value_of};
use crate::layout::ROOT;

/// Most controllers of which the certificates are taken. A cluster of Raft has a handful.
pub const MAX_SIGNERS: usize = 32;

/// The certificates of all controllers that the database knows, in PEM. That of the one with the database may be missing.
pub(crate) fn signers(database: &Bolt) -> Result<Vec<String>, ImportError> {
    let mut found = Vec::new();
    let controllers = database.bucket(&[ROOT, b"controllers"])?;
    for entry in controllers.iter().flat_map(|bucket| bucket.entries()) {
        let BoltContent::Bucket(controller) = entry?.content else { continue };
        if let Some(Value::Text(pem)) = controller.value(b"certPem")?.as_ref().map(value_of)
            && let Ok(pem) = String::from_utf8(pem.to_vec())
            && !pem.is_empty()
            && found.len() < MAX_SIGNERS
        {
            found.push(pem);
        }
    }
    Ok(found)
}
