//! Slow signatures, for which callers take turns.

use weft_identity::KeyAlgorithm;
use weft_kernel::{Caller, Result};

use crate::handle::Auth;
use crate::signing::is_slow;

impl Auth {
    /// Signs with the root identity or the key of tickets, in turn with other callers: a caller may
    /// ask for any number of signatures.
    pub async fn sign_in_turn<T: Send + 'static>(
        &self,
        caller: &Caller,
        key: KeyAlgorithm,
        sign: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if !is_slow(key) {
            return sign(self);
        }
        let auth = self.clone();
        self.kernel().signing().work(caller, move || sign(&auth)).await
    }
}
