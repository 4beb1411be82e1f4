//! Password hashing (docs/protocol/auth.md 7.2): argon2id, on the blocking pool, a bounded number
//! at a time. A hash never runs on an async thread and never under a lock.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::Semaphore;

/// Argon2 parameters: passes, memory in KiB, lanes, output length in bytes (docs/protocol/auth.md
/// 7.2).
const PASSES: u32 = 1;
const MEMORY_KIB: u32 = 3072;
const LANES: u32 = 4;
const OUTPUT: usize = 32;
/// Length of a salt in bytes.
pub const SALT: usize = 10;
/// Hashes that may wait or run; above that the answer is "busy". Each of them is a request in work of the web server,
/// which has fewer places.
const WAITING: usize = 2048;

/// A stored password: hash and salt as standard base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// The hash.
    pub password: String,
    /// The salt.
    pub salt: String,
}

/// Why there is no hash, or no result of other work.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// More logins wait than the controller accepts.
    #[error("too many logins are being checked, try again")]
    Busy,
    /// The hash function failed or the runtime is going down.
    #[error("the login could not be checked")]
    Failed,
}

/// Hashes passwords on a bounded number of threads.
#[derive(Debug, Clone)]
pub struct Hasher {
    running: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl Hasher {
    /// Hashes so many passwords at the same time, and lets further ones wait in line; 0 means half as many as there are
    /// processors.
    pub fn new(at_once: u32) -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let at_once = if at_once == 0 { processors.div_ceil(2) } else { at_once as usize };
        Self {
            running: Arc::new(Semaphore::new(at_once)),
            queue: Arc::new(Semaphore::new(WAITING)),
        }
    }

    /// Hashes a new password with a new salt.
    pub async fn hash(&self, password: &str, salt: [u8; SALT]) -> Result<Hashed, Error> {
        let hash = self.run(password.to_owned(), salt.to_vec()).await?;
        Ok(Hashed { password: STANDARD.encode(hash), salt: STANDARD.encode(salt) })
    }

    /// Whether `password` is the stored one. For an unknown user a dummy is hashed and the result
    /// is false, so that the time reveals nothing.
    pub async fn verify(&self, password: &str, stored: Option<&Hashed>) -> Result<bool, Error> {
        let decoded = stored.and_then(|stored| {
            let hash = STANDARD.decode(&stored.password).ok()?;
            let salt = STANDARD.decode(&stored.salt).ok()?;
            (hash.len() == OUTPUT && salt.len() >= 8).then_some((hash, salt))
        });
        let (expected, salt) = decoded.unwrap_or_else(|| (Vec::new(), vec![0; SALT]));
        let hash = self.run(password.to_owned(), salt).await?;
        Ok(equal(&hash, &expected))
    }

    /// Runs other expensive work of logins, in the same queue as hashes.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let _place = self.queue.try_acquire().map_err(|_| Error::Busy)?;
        let permit = Arc::clone(&self.running).acquire_owned().await.map_err(|_| Error::Failed)?;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        })
        .await
        .map_err(|_| Error::Failed)
    }

    async fn run(&self, password: String, salt: Vec<u8>) -> Result<[u8; OUTPUT], Error> {
        self.work(move || {
            let params =
                Params::new(MEMORY_KIB, PASSES, LANES, Some(OUTPUT)).map_err(|_| Error::Failed)?;
            let mut hash = [0; OUTPUT];
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(password.as_bytes(), &salt, &mut hash)
                .map_err(|_| Error::Failed)?;
            Ok(hash)
        })
        .await
        .map_err(|_| Error::Failed)?
    }
}

/// Compares in a time that does not depend on the place of the first difference.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn verifies_its_own_hash_and_nothing_else() {
        let hasher = Hasher::new(0);
        let stored = hasher.hash("correct horse", [7; SALT]).await.unwrap();
        assert_eq!(hasher.verify("correct horse", Some(&stored)).await, Ok(true));
        assert_eq!(hasher.verify("correct hors", Some(&stored)).await, Ok(false));
        assert_eq!(hasher.verify("correct horse", None).await, Ok(false));
    }

    #[tokio::test]
    async fn damaged_rows_are_wrong_passwords() {
        let broken = Hashed { password: "?".into(), salt: "?".into() };
        assert_eq!(Hasher::new(1).verify("x", Some(&broken)).await, Ok(false));
    }
}
