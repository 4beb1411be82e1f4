//! Questions of this controller to a router about its inside: inspections (docs/protocol/control-plane.md 18).

use std::time::Duration;

use hashbrown::HashMap;
use serde::de::DeserializeOwned;
use weft_channel::Lane;
use weft_kernel::aside;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{InspectRequest, InspectResponse};

use crate::routers::LiveRouter;

/// The answers of a router, by the names of the values.
#[derive(Debug)]
pub(crate) struct Answers(HashMap<String, String>);

impl Answers {
    /// Asks a router for values, and waits for the answer. A value that the router does not know is left out.
    pub(crate) async fn of(
        router: &LiveRouter,
        names: Vec<String>,
        patience: Duration,
    ) -> Result<Self, String> {
        let request = InspectRequest { requested_values: names }.to_message();
        let answer = router.channel.request_on(Lane::Low, request, patience).await;
        let answer = answer.map_err(|problem| problem.to_string())?;
        if !router.may_report(answer.body.len()) {
            return Err(format!("{} bytes are more than it may report now", answer.body.len()));
        }
        let answer = aside(answer.body.len(), || InspectResponse::from_message(&answer));
        let answer = answer.map_err(|it| it.to_string())?;
        if !answer.success || !answer.errors.is_empty() {
            return Err(answer.errors.join("; "));
        }
        let values = answer.values.into_iter().map(|value| (value.name, value.value));
        Ok(Self(values.collect()))
    }

    /// Whether the router gave a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(String::len).sum()
    }

    /// A value; none if the router left it out.
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let value = aside(text.len(), || serde_json::from_str(text));
        value.map(Some).map_err(|problem| format!("{name}: {problem}"))
    }
}
