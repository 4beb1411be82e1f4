//! Inspections of this controller and of connected routers (docs/protocol/operations.md 3).
//!
//! A program leaves out values that it does not know. A program that does not answer in time is
//! left out of the reply, as tools expect.

mod answers;
mod values;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use weft_channel::Lane;
use weft_contract::resource::fabric::inspection::{Inspected, InspectedValue};
use weft_model::Id;
use weft_model::entity::Router;

use self::answers::{Answer, MAX_VALUES, left_out, request, share};
use super::routers::LiveRouter;
use crate::network::Network;

/// How long routers have to answer; less than the time limit of a request.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest pattern, in bytes, and largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 1024;
const MAX_COMPILED: usize = 1 << 20;

/// Values that other parts of the controller provide, by name.
pub(crate) type Shows = Mutex<BTreeMap<&'static str, Box<dyn Fn() -> Value + Send + Sync>>>;

impl Network {
    /// Adds a value to the controller's own values.
    pub fn shows(&self, name: &'static str, value: impl Fn() -> Value + Send + Sync + 'static) {
        self.0.shows.lock().insert(name, Box::new(value));
    }

    /// Asks all routers whose id or name the pattern matches for values, and notes whether it matches this controller.
    pub async fn ask_inside(&self, pattern: &str, values: &[String]) -> Inspection {
        let mut inspection = Inspection {
            network: self.clone(),
            own: None,
            refused: None,
            share: 0,
            answers: Vec::new(),
        };
        let pattern = match compile(pattern, values) {
            Ok(pattern) => pattern,
            Err(text) => return Inspection { refused: Some(text), ..inspection },
        };
        inspection.own = pattern.is_match(&self.0.kernel.settings().id).then(|| values.to_vec());
        let snapshot = self.0.kernel.snapshot();
        let mut routers = self.0.routers.all();
        routers.retain(|live| {
            let name = snapshot.get::<Router>(&live.id).map(|router| &router.name);
            pattern.is_match(live.id.as_str()) || name.is_some_and(|name| pattern.is_match(name))
        });
        routers.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        inspection.share = share(routers.len());
        let answers = routers
            .iter()
            .map(async |live| (live.id.clone(), ask(live, values, inspection.share).await));
        inspection.answers = join_all(answers).await;
        inspection
    }

    /// Asks all programs whose id or name the pattern matches for values.
    #[cfg(any(test, feature = "testing"))]
    pub async fn inspect(&self, pattern: &str, values: &[String]) -> Inspected {
        let asked = self.ask_inside(pattern, values).await;
        let read = tokio::task::spawn_blocking(move || asked.read()).await;
        read.unwrap_or_else(|fault| Inspected {
            errors: vec![fault.to_string()],
            ..Inspected::default()
        })
    }

    /// The controller's own values of these names, each once. Some take a thread for up to some seconds.
    pub fn inspect_own(&self, names: &[String]) -> Vec<InspectedValue> {
        self.own_values(names.get(..MAX_VALUES).unwrap_or(names)).collect()
    }

    /// The controller's own values of these names, each once.
    fn own_values(&self, names: &[String]) -> impl Iterator<Item = InspectedValue> {
        let mut seen = HashSet::new();
        let names = names.iter().filter(move |name| seen.insert(name.to_lowercase()));
        names.filter_map(|name| {
            let (value, app_id) = (self.own_value(name)?, self.0.kernel.settings().id.clone());
            Some(InspectedValue { app_id, name: name.clone(), value })
        })
    }
}

/// An inspection whose routers have answered. What they answered has yet to be read, and this controller's own values
/// have yet to be made.
#[derive(Debug)]
pub struct Inspection {
    network: Network,
    /// The names of values that this controller is asked for.
    own: Option<Vec<String>>,
    /// Why nobody was asked.
    refused: Option<String>,
    /// The bytes that a router may answer.
    share: usize,
    /// None from routers that did not answer in time.
    answers: Vec<(Id, Result<Option<Answer>, String>)>,
}

impl Inspection {
    /// Makes the values, for which it takes a thread for up to some seconds.
    pub fn read(self) -> Inspected {
        let mut inspected = Inspected { success: true, ..Inspected::default() };
        if let Some(text) = self.refused {
            inspected.fail(&self.network.0.kernel.settings().id, &text);
        }
        inspected.values.extend(self.network.own_values(&self.own.unwrap_or_default()));
        for (router, answer) in self.answers {
            let read = answer.and_then(|answer| answer.map(|it| it.read(self.share)).transpose());
            match read {
                Ok(Some((success, told))) => {
                    inspected.success &= success;
                    told.errors.iter().for_each(|text| inspected.fail(router.as_str(), text));
                    for (name, value) in told.values {
                        match self.network.in_wanted_form(&router, &name, value) {
                            Ok(value) => {
                                let app_id = router.to_string();
                                inspected.values.push(InspectedValue { app_id, name, value });
                            }
                            Err(text) => {
                                let text = left_out(&name, &text);
                                inspected.fail(router.as_str(), &text);
                            }
                        }
                    }
                }
                Ok(None) => {}
                Err(text) => inspected.fail(router.as_str(), &text),
            }
        }
        inspected
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
async fn ask(live: &LiveRouter, values: &[String], share: usize) -> Result<Option<Answer>, String> {
    match live.channel.request_on(Lane::Low, request(values), PATIENCE).await {
        Ok(answer) => Answer::within(answer, share).map(Some),
        Err(weft_channel::RequestError::Timeout) => Ok(None),
        Err(problem) => Err(problem.to_string()),
    }
}

trait Fails {
    fn fail(&mut self, who: &str, text: &str);
}

impl Fails for Inspected {
    fn fail(&mut self, who: &str, text: &str) {
        self.success = false;
        self.errors.push(format!("{who}: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_bounded() {
        assert!(compile("^er[0-9]+$", &[]).unwrap().is_match("er12"));
        assert!(compile("(", &[]).unwrap_err().contains("no regular expression"));
        assert!(compile("((a{100}){100}){100}", &[]).is_err());
        assert!(compile(&"a".repeat(2000), &[]).is_err());
        assert!(compile("a", &vec![String::new(); 65]).is_err());
    }
}
