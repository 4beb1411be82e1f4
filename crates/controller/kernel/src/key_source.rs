//! The source of key sets of external signers, which the program around the controller provides: the controller
//! itself speaks no HTTP.

use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Fetches documents with the keys of external signers, within the limits of the configuration.
pub trait KeySource: Send + Sync {
    /// The document at a URL; the error says why there is none.
    fn fetch(&self, url: &str) -> BoxFuture<'static, Result<Vec<u8>, String>>;
}

/// A source without any document, for programs that fetch none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeySource;

impl KeySource for NoKeySource {
    fn fetch(&self, _url: &str) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        async { Err("this program fetches no key sets".to_owned()) }.boxed()
    }
}
