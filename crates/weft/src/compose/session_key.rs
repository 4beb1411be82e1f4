//! The key that seals session tokens in the database. It is a file beside the signing key, so that
//! a copy of the database alone reveals no session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_config::controller::EdgeConfig;
use weft_identity::{Error, Location, SealKey};

use crate::failure::Failure;

/// Name of the file, in the folder of `edge.enrollment.signingCert.key`.
pub(crate) const NAME: &str = "session-tokens.key";

/// The key beside the signing key, which is made at the first start. `None` if the key cannot be
/// stored: the controller then makes one that it keeps in memory. Controllers of one network have the same key.
pub(crate) fn of(edge: &EdgeConfig, is_shared: bool) -> Result<Option<Arc<SealKey>>, Failure> {
    let Some(path) = path(edge)? else {
        not_kept("the signing key is no file, beside which it could lie");
        return Ok(None);
    };
    if is_shared && !path.exists() {
        tracing::warn!(
            path = %path.display(),
            "the key that seals session tokens is missing, and another one is made: if there are other controllers, copy \
             the file of one of them here, and start this one again; otherwise this one tells routers nothing of the \
             sessions that began elsewhere"
        );
    }
    kept_at(&path)
}

/// The path of the file; none if the signing key is no file.
pub(crate) fn path(edge: &EdgeConfig) -> Result<Option<PathBuf>, Failure> {
    let signing = Location::parse(&edge.enrollment.signing_cert.key)?;
    Ok(signing.path().map(|path| path.with_file_name(NAME)))
}

fn kept_at(path: &Path) -> Result<Option<Arc<SealKey>>, Failure> {
    match SealKey::load_or_make(path) {
        Ok(key) => Ok(Some(Arc::new(key))),
        Err(error @ Error::File { action: "write", .. }) => {
            not_kept(&error.to_string());
            Ok(None)
        }
        Err(error) => Err(Failure::from(error).during("the key of session tokens")),
    }
}

fn not_kept(why: &str) {
    tracing::warn!(
        "the key that seals session tokens is not kept: {why}; sessions of clients end when the \
         controller stops"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let sealed = kept_at(&path).unwrap().unwrap().seal("s", b"token").unwrap();
        let again = kept_at(&path).unwrap().unwrap();
        assert_eq!(again.open("s", &sealed).as_deref(), Some(&b"token"[..]));
        std::fs::write(&path, "no key").unwrap();
        assert!(kept_at(&path).unwrap_err().to_string().contains(NAME));
        let nowhere = folder.path().join("missing").join(NAME);
        assert!(kept_at(&nowhere).unwrap().is_none(), "a controller runs without it");
    }
}
