//! Systems on which interception is not possible.

use std::convert::Infallible;
use std::sync::Arc;

use super::{InterceptError, InterceptOptions, Interceptable};
use crate::Carrier;

/// Never made on this system.
#[derive(Debug)]
pub struct Interception(Infallible);

/// Never made on this system.
#[derive(Debug)]
pub struct Prepared(Infallible);

/// Never made on this system.
#[derive(Debug)]
pub struct Party(Infallible);

impl Interception {
    /// Fails, because only Linux can intercept.
    ///
    /// # Errors
    /// Always.
    pub async fn start(options: InterceptOptions) -> Result<Arc<Self>, InterceptError> {
        Prepared::new(options).await?.start().await
    }

    /// Never called.
    #[must_use]
    pub fn join(self: &Arc<Self>, _carrier: Arc<dyn Carrier>) -> Party {
        match self.0 {}
    }

    /// Never called.
    pub fn set_controllers(&self, _controllers: Vec<(String, u16)>) {
        match self.0 {}
    }

    /// Never called.
    pub async fn stop(&self) {
        match self.0 {}
    }
}

impl Prepared {
    /// Fails, because only Linux can intercept.
    ///
    /// # Errors
    /// Always.
    pub async fn new(_options: InterceptOptions) -> Result<Self, InterceptError> {
        Err(InterceptError::Machine("services are intercepted on Linux only".to_owned()))
    }

    /// Never called.
    ///
    /// # Errors
    /// Never.
    pub async fn start(self) -> Result<Arc<Interception>, InterceptError> {
        match self.0 {}
    }
}

impl Party {
    /// Never called.
    pub async fn set(&self, _services: &[Interceptable<'_>]) -> Vec<(String, String)> {
        match self.0 {}
    }
}
