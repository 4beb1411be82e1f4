//! Slow signatures, in turn by caller.

use weft_identity::KeyAlgorithm;
use weft_kernel::{Caller, Failure};

use crate::handle::Auth;
use crate::signing::is_slow;

impl Auth {
    /// Signs with the root identity or that of tickets when it is the caller's turn, for whoever
    /// may ask for as many signatures as he likes.
    pub async fn sign_in_turn<T: Send + 'static>(
        &self,
        caller: &Caller,
        key: KeyAlgorithm,
        sign: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if !is_slow(key) {
            return sign(self);
        }
        let auth = self.clone();
        self.signing().work(caller, move || sign(&auth)).await
    }
}
