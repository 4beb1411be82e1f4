//! What a user of the controller's machine asks of it and tells it (docs/protocol/operations.md 7).

use std::path::PathBuf;

use serde_json::Value;
use weft_contract::resource::fabric::cluster::ClusterMember;
use weft_kernel::{Caller, Failure, Result};

use crate::Controller;

impl Controller {
    /// The controllers of the network.
    ///
    /// # Errors
    /// If there is only this one, which shares nothing.
    pub fn members(&self) -> Result<Vec<ClusterMember>> {
        weft_auth::members::answers::members(self.auth())
    }

    /// Writes a snapshot of the database below the folder for snapshots; an empty path is the usual one. Returns the path
    /// of the file.
    ///
    /// # Errors
    /// If the path lies elsewhere, a snapshot was written just now, or the file cannot be written.
    pub async fn snapshot_to(&self, path: &str) -> Result<PathBuf> {
        self.write_snapshot(&Caller::own("agent"), path).await
    }

    /// The controller's own values of these names as texts, most of them JSON, without unknown ones.
    ///
    /// # Errors
    /// If the controller stops.
    pub async fn inspect_own(&self, names: Vec<String>) -> Result<Vec<(String, String)>> {
        let Some(network) = self.network() else { return Ok(Vec::new()) };
        let make = move || {
            let values = network.inspect_own(&names).into_iter();
            Ok(values.map(|it| (it.name, text(it.value))).collect())
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.map_err(|error| Failure::unhandled(error.to_string()))?
    }
}

/// A value as a text: a text as it is, everything else as JSON.
fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}
