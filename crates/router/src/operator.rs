//! What a user of the router's machine asks of it and tells it (docs/protocol/operations.md 7).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use weft_channel::{CloseReason, RequestError};
use weft_wire::ctrl::content_type;
use weft_wire::{Message, Outcome};

use crate::control::{ControlHalf, Held};
use crate::data::DataHalf;
use crate::running::Router;
use crate::seam::Data as _;

/// Longest wait for a controller.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running router, for a user of its machine. Clones share it.
#[derive(Clone)]
pub struct RouterOperator {
    id: String,
    control: ControlHalf,
    data: Arc<DataHalf>,
    runtimes: Vec<runtime::Handle>,
}

impl Router {
    /// The router, for a user of its machine.
    #[must_use]
    pub fn operator(&self) -> RouterOperator {
        RouterOperator {
            id: self.id.clone(),
            control: self.control.clone(),
            data: Arc::clone(&self.data),
            runtimes: self.runtimes(),
        }
    }
}

impl RouterOperator {
    /// Id of the router.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The runtimes that the router works on.
    #[must_use]
    pub fn runtimes(&self) -> &[runtime::Handle] {
        &self.runtimes
    }

    /// The values of these names as JSON, without unknown ones (docs/protocol/control-plane.md 18).
    #[must_use]
    pub fn inspect(&self, names: &[String]) -> Vec<(String, String)> {
        self.control.inspect(names)
    }

    /// The circuits through this router: for each address that messages come from, the one that they go to.
    #[must_use]
    pub fn routes(&self) -> String {
        let mut routes = self.data.routes();
        routes.sort_by(|(_, one), (_, other)| one.circuit_id.cmp(&other.circuit_id));
        let mut text = format!("circuits ({}):\n", routes.len());
        for (owner, route) in &routes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n\tc/{} (made by {owner})", route.circuit_id);
            for forward in &route.forwards {
                let _ =
                    writeln!(text, "\t\t@/{} -> @/{}", forward.src_address, forward.dst_address);
            }
        }
        text
    }

    /// The open links, a line for each.
    #[must_use]
    pub fn links(&self) -> String {
        let inspected = self.data.inspect_links();
        let links = inspected["links"].as_array();
        let of = |link: &serde_json::Value, member: &str| {
            link[member].as_str().unwrap_or_default().to_owned()
        };
        let line = |link: &serde_json::Value| {
            let [id, dest, protocol] = ["id", "dest", "protocol"].map(|member| of(link, member));
            format!("id: {id} dest: {dest} protocol: {protocol}\n")
        };
        let mut lines: Vec<String> = links.into_iter().flatten().map(line).collect();
        lines.sort_unstable();
        if lines.is_empty() { "no links\n".to_owned() } else { lines.concat() }
    }

    /// Asks a controller to use the terminators of this router only if there are no others.
    ///
    /// # Errors
    /// The reason, for people.
    pub async fn quiesce(&self) -> Result<String, String> {
        self.asked(content_type::QUIESCE_ROUTER).await
    }

    /// Ends what [`quiesce`](Self::quiesce) has begun.
    ///
    /// # Errors
    /// The reason, for people.
    pub async fn dequiesce(&self) -> Result<String, String> {
        self.asked(content_type::DEQUIESCE_ROUTER).await
    }

    async fn asked(&self, content_type: i32) -> Result<String, String> {
        let asked = self.control.ask_any(Message::new(content_type, ""), PATIENCE).await;
        let reply = asked.ok_or_else(unreachable)?;
        let failed = |problem: String| format!("error in controller communications: {problem}");
        let reply = reply.map_err(|problem| failed(problem.to_string()))?;
        let outcome = Outcome::from_message(&reply).map_err(|error| failed(error.to_string()))?;
        if outcome.success { Ok(outcome.text) } else { Err(outcome.text) }
    }

    /// Has a controller delete this router, which the controller shows by the end of the channel. The program should end
    /// then.
    ///
    /// # Errors
    /// The reason, for people.
    pub async fn decommission(&self) -> Result<String, String> {
        let message = Message::new(content_type::DECOMMISSION_ROUTER, "");
        let asked = self.control.ask_any(message, PATIENCE).await;
        match asked.ok_or_else(unreachable)? {
            Err(RequestError::Closed(CloseReason::Peer)) => Ok("router decommissioned".to_owned()),
            Err(RequestError::Closed(reason)) => Err(format!(
                "the connection to the controller ended ({reason}): look there whether the router is still known"
            )),
            Ok(refused) => Err(refused.text()),
            Err(RequestError::Timeout) => {
                Err("controller didn't disconnect after decommission".to_owned())
            }
            Err(problem) => Err(format!("error in controller communications: {problem}")),
        }
    }

    /// Closes a link, for tests of what follows; false if there is none of this id. The link is dialed again.
    #[must_use]
    pub fn forget_link(&self, id: &str) -> bool {
        let is_there = !self.data.inspect_links_of(&HashSet::from([id])).is_empty();
        if is_there {
            tracing::warn!(link = id, "a user of this machine has the router forget a link");
            self.data.link_faulted(id, 0);
        }
        is_there
    }

    /// Cuts the connection to a controller and keeps it cut, or restores it, for tests of what follows. Without an id all
    /// controllers are meant. Returns the ids of those that were.
    #[must_use]
    pub fn set_connected(&self, controller: &str, is_connected: bool) -> Vec<String> {
        let held = if is_connected { Held::No } else { Held::Yes };
        let meant = self.control.hold(controller, held);
        for controller in &meant {
            tracing::warn!(controller, is_connected, "a user of this machine toggles a controller");
        }
        meant
    }
}

fn unreachable() -> String {
    "unable to reach controller".to_owned()
}

impl std::fmt::Debug for RouterOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterOperator").field("id", &self.id).finish_non_exhaustive()
    }
}
