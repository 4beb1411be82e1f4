//! A key that seals short secrets which must be readable again, such as session tokens that routers
//! are told. Whoever reads the database needs the key too, which is stored in another file.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;

use crate::error::{Error, Result};
use crate::file;

/// Bytes of a key.
const KEY: usize = 32;

/// A key that seals and opens secrets.
pub struct SealKey(RandomizedNonceKey);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey")
    }
}

impl SealKey {
    /// A key of these bytes.
    ///
    /// # Errors
    /// When the library refuses the key; any 32 bytes are a valid key.
    pub fn from_bytes(bytes: &[u8; KEY]) -> Result<Self> {
        Ok(Self(RandomizedNonceKey::new(&AES_256_GCM, bytes).map_err(unusable)?))
    }

    /// A random key that is not stored.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; KEY];
        aws_lc_rs::rand::fill(&mut bytes).map_err(unusable)?;
        Self::from_bytes(&bytes)
    }

    /// The key in a file that only its owner may read. A missing file is made with a new key.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds no such key.
    pub fn load_or_make(path: &Path) -> Result<Self> {
        let bytes = match file::read(path) {
            Ok(text) => decoded(&text).ok_or_else(|| Error::Document {
                what: "key of session tokens",
                reason: format!("{}: not 64 hexadecimal digits", path.display()),
            })?,
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                let mut bytes = [0; KEY];
                aws_lc_rs::rand::fill(&mut bytes).map_err(unusable)?;
                file::write_for_owner(path, format!("{}\n", hex::encode(bytes)).as_bytes())?;
                bytes
            }
            Err(error) => return Err(error),
        };
        Self::from_bytes(&bytes)
    }

    /// Seals a secret of the subject `of`, so that it opens for the same subject only.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn seal(&self, of: &str, secret: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = secret.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(of.as_bytes()), &mut sealed);
        let nonce = nonce.map_err(unusable)?;
        let mut out = nonce.as_ref().to_vec();
        out.append(&mut sealed);
        Ok(out)
    }

    /// Opens a secret that this key sealed for the same subject; `None` for any other bytes.
    pub fn open(&self, of: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut opened = sealed.to_vec();
        let aad = Aad::from(of.as_bytes());
        let length = self.0.open_in_place(nonce, aad, &mut opened).ok()?.len();
        opened.truncate(length);
        Some(opened)
    }
}

fn decoded(text: &[u8]) -> Option<[u8; KEY]> {
    let text = std::str::from_utf8(text).ok()?;
    let mut bytes = [0; KEY];
    hex::decode_to_slice(text.trim(), &mut bytes).ok()?;
    Some(bytes)
}

fn unusable(_: Unspecified) -> Error {
    Error::Key("a secret could not be sealed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_with_the_same_key_for_the_same_thing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session-tokens.key");
        let key = SealKey::load_or_make(&path).unwrap();
        let sealed = key.seal("s1", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_ne!(sealed, key.seal("s1", b"secret").unwrap());
        let again = SealKey::load_or_make(&path).unwrap();
        assert_eq!(again.open("s1", &sealed).as_deref(), Some(&b"secret"[..]));
        assert_eq!(again.open("s2", &sealed), None);
        assert_eq!(SealKey::random().unwrap().open("s1", &sealed), None);
        for at in 0..sealed.len() {
            assert_eq!(again.open("s1", &sealed[..at]), None);
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert_eq!(again.open("s1", &other), None);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_that_is_no_key_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session-tokens.key");
        std::fs::write(&path, "abc").unwrap();
        let error = SealKey::load_or_make(&path).unwrap_err().to_string();
        assert!(error.contains("session-tokens.key"), "{error}");
    }
}
