//! Inspections of this controller and of connected routers (docs/protocol/operations.md 3).
//!
//! A program leaves out values that it does not know. A program that does not answer in time is
//! left out of the reply, as tools expect.

mod values;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use tokio::task::JoinError;
use weft_channel::Lane;
use weft_contract::resource::fabric::inspection::{Inspected, InspectedValue};
use weft_model::entity::Router;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{InspectRequest, InspectResponse};

use super::routers::LiveRouter;
use crate::network::Network;

/// How long routers have to answer; less than the time limit of a request.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest pattern, in bytes, and largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 1024;
const MAX_COMPILED: usize = 1 << 20;
/// Most values in one request.
const MAX_VALUES: usize = 64;

/// Values that other parts of the controller provide, by name.
pub(crate) type Shows = Mutex<BTreeMap<&'static str, Box<dyn Fn() -> Value + Send + Sync>>>;

impl Network {
    /// Adds a value to the controller's own values.
    pub fn shows(&self, name: &'static str, value: impl Fn() -> Value + Send + Sync + 'static) {
        self.0.shows.lock().insert(name, Box::new(value));
    }

    /// Asks all programs whose id or name the pattern matches for values.
    pub async fn inspect(&self, pattern: &str, values: &[String]) -> Inspected {
        let mut inspected = Inspected { success: true, ..Inspected::default() };
        let id = self.0.kernel.settings().id.clone();
        let pattern = match compile(pattern, values) {
            Ok(pattern) => pattern,
            Err(text) => {
                inspected.fail(&id, &text);
                return inspected;
            }
        };
        if pattern.is_match(&id) {
            match self.own_values(values).await {
                Ok(own) => inspected.values.extend(own.into_iter().map(|(name, value)| {
                    let app_id = id.clone();
                    InspectedValue { app_id, name, value }
                })),
                Err(fault) => inspected.fail(&id, &format!("the values are not made: {fault}")),
            }
        }
        let snapshot = self.0.kernel.snapshot();
        let mut routers = self.0.routers.all();
        routers.retain(|live| {
            let name = snapshot.get::<Router>(&live.id).map(|router| &router.name);
            pattern.is_match(live.id.as_str()) || name.is_some_and(|name| pattern.is_match(name))
        });
        routers.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let answers = routers.iter().map(|live| ask(live, values));
        for (live, answer) in routers.iter().zip(join_all(answers).await) {
            inspected.add(live.id.as_str(), answer);
        }
        for value in &mut inspected.values {
            // The controller's own values have the wanted form already.
            if value.name.starts_with("metrics") && value.app_id != id {
                let told = std::mem::take(&mut value.value);
                let made = self.metrics_of(&value.app_id, &value.name, told.clone());
                value.value = made.unwrap_or(told);
            }
        }
        inspected
    }
}

impl Network {
    /// The controller's own values of these names, each once. Some are long lists, which are made
    /// on a thread for blocking work.
    async fn own_values(&self, names: &[String]) -> Result<Vec<(String, Value)>, JoinError> {
        let mut seen = HashSet::new();
        let names = names.iter().filter(|name| seen.insert(name.to_lowercase()));
        let (network, names): (_, Vec<String>) = (self.clone(), names.cloned().collect());
        let make = move || {
            let own = names.into_iter().filter_map(|name| {
                let value = network.own_value(&name)?;
                Some((name, value))
            });
            own.collect()
        };
        tokio::task::spawn_blocking(make).await
    }
}

/// Compiles the pattern, if the pattern and the values are within their limits.
fn compile(pattern: &str, values: &[String]) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("appRegex is longer than {MAX_PATTERN} bytes"));
    }
    if values.len() > MAX_VALUES {
        return Err(format!("more than {MAX_VALUES} values are asked for"));
    }
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
    compiled.map_err(|error| format!("appRegex is no regular expression: {error}"))
}

/// Asks a router. None if it did not answer in time.
async fn ask(live: &LiveRouter, values: &[String]) -> Result<Option<InspectResponse>, String> {
    let request = InspectRequest { requested_values: values.to_vec() }.to_message();
    match live.channel.request_on(Lane::Low, request, PATIENCE).await {
        Ok(answer) => match InspectResponse::from_message(&answer) {
            Ok(response) => Ok(Some(response)),
            Err(problem) => Err(format!("the answer cannot be read: {problem}")),
        },
        Err(weft_channel::RequestError::Timeout) => Ok(None),
        Err(problem) => Err(problem.to_string()),
    }
}

trait Collects {
    fn fail(&mut self, who: &str, text: &str);
    fn add(&mut self, who: &str, answer: Result<Option<InspectResponse>, String>);
}

impl Collects for Inspected {
    fn fail(&mut self, who: &str, text: &str) {
        self.success = false;
        self.errors.push(format!("{who}: {text}"));
    }

    fn add(&mut self, who: &str, answer: Result<Option<InspectResponse>, String>) {
        match answer {
            Ok(Some(response)) => {
                self.success &= response.success;
                self.errors.extend(response.errors.iter().map(|text| format!("{who}: {text}")));
                self.values.extend(response.values.into_iter().map(|value| InspectedValue {
                    app_id: who.to_owned(),
                    name: value.name,
                    value: json_or_text(value.value),
                }));
            }
            Ok(None) => {}
            Err(text) => self.fail(who, &text),
        }
    }
}

/// Text as JSON if it is an object or an array; otherwise as a string.
fn json_or_text(text: String) -> Value {
    if !text.starts_with(['{', '[']) {
        return Value::String(text);
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_json_and_the_rest_is_text() {
        assert_eq!(json_or_text("{\"a\":[1]}".into()), json!({"a": [1]}));
        for text in ["plain", "{not json", "[1,", "\"quoted\"", "7", ""] {
            assert_eq!(json_or_text(text.into()), json!(text));
        }
    }

    #[test]
    fn patterns_are_bounded() {
        assert!(compile("^er[0-9]+$", &[]).unwrap().is_match("er12"));
        assert!(compile("(", &[]).unwrap_err().contains("no regular expression"));
        assert!(compile("((a{100}){100}){100}", &[]).is_err());
        assert!(compile(&"a".repeat(2000), &[]).is_err());
        assert!(compile("a", &vec![String::new(); 65]).is_err());
    }
}
