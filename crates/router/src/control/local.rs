//! The control half for a user of the router's machine.

use std::collections::BTreeSet;
use std::time::Duration;

use weft_channel::RequestError;
use weft_wire::Message;

use super::ControlHalf;
use super::inspect::{MAX_VALUES, value};

/// Whether the connection to a controller is kept cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The connection is kept.
    No,
    /// There is none, and none is made.
    Yes,
}

impl ControlHalf {
    /// The values of these names, without unknown ones.
    pub(crate) fn inspect(&self, names: &[String]) -> Vec<(String, String)> {
        // Each value once, however often it is named: some are large.
        let known: BTreeSet<&String> = names.iter().take(MAX_VALUES).collect();
        let with_value = |name: &String| Some((name.clone(), value(&self.0, name)?.to_string()));
        known.into_iter().filter_map(with_value).collect()
    }

    /// Sends a request to a controller; `None` if no controller is connected.
    pub(crate) async fn ask_any(
        &self,
        request: Message,
        within: Duration,
    ) -> Option<Result<Message, RequestError>> {
        let controller = self.0.controllers.any()?;
        Some(controller.channel.request(request, within).await)
    }

    /// Holds the connection to the controller of this id, or to all controllers without one, or holds it no more. Returns
    /// the names of those that are meant.
    pub(crate) fn hold(&self, id: &str, held: Held) -> Vec<String> {
        let targets = self.0.cluster.targets.lock().clone();
        let is_meant = |known: Option<&str>| id.is_empty() || known == Some(id);
        let meant = targets.into_iter().filter(|target| is_meant(target.id().as_deref()));
        let mut names = Vec::new();
        for target in meant {
            target.held.send_replace(held == Held::Yes);
            let own = target.id();
            if let Some(there) = own.as_ref().and_then(|own| self.0.controllers.get(own))
                && held == Held::Yes
            {
                there.channel.close("a user of this router's machine has cut it");
            }
            let address = || target.addresses().first().map(ToString::to_string);
            names.extend(own.map(|own| own.to_string()).or_else(address));
        }
        names
    }
}
