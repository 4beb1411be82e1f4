//! What the programs hold while nothing flows, to be compared with what they held before.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, headers, resource};

use super::bed::Bed;
use crate::program::Program;
use crate::wait::until;

const MIB: u64 = 1 << 20;
/// Memory by which a program may have grown: what the allocator keeps, and tables that keep their room.
const GROWTH: u64 = 40 * MIB;
/// Descriptors by which a program may differ: connections of HTTP clients that are kept for a while, and connections of a
/// controller to members of etcd, of which it has as many as streams in the end.
const FILES: usize = 8;

/// What a program holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) resident: u64,
    pub(super) files: usize,
}

impl Held {
    fn by(program: &Program) -> Self {
        let files = fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap().count();
        Self { resident: program.resident(), files }
    }
}

/// What a router says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RouterReport {
    circuits: usize,
    buffered: u64,
    drops: Value,
}

/// What all programs hold: by name.
pub(super) type Baseline = BTreeMap<String, Held>;

/// What every program holds, once nothing flows.
pub(super) async fn measure(bed: &Bed, limit: Duration) -> Baseline {
    until("queues are empty", limit, async || empty(bed).await).await;
    now(bed)
}

fn now(bed: &Bed) -> Baseline {
    let held = |program: &Option<Program>| Held::by(program.as_ref().unwrap());
    // How much a program of another make holds is its own concern.
    let routers = bed.routers.iter().filter(|one| one.foreign.is_none());
    let routers = routers.map(|one| (one.name.clone(), held(&one.program)));
    let controllers = bed.controllers.iter();
    let controllers = controllers.map(|one| (one.name.to_owned(), held(&one.program)));
    routers.chain(controllers).collect()
}

/// Waits until every program holds what it held before, within bounds.
pub(super) async fn back(bed: &Bed, before: &Baseline, limit: Duration) {
    until("queues are empty", limit, async || empty(bed).await).await;
    let look = async || {
        let wrong: Vec<String> = now(bed)
            .iter()
            .filter_map(|(name, now)| {
                let before = &before[name];
                let is_back = now.resident <= before.resident + GROWTH
                    && now.files.abs_diff(before.files) <= FILES;
                (!is_back).then(|| format!("{name}: {before:?} before, {now:?} now"))
            })
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    };
    until("memory and descriptors are as before", limit, look).await;
    for (name, now) in now(bed) {
        let [was, is] =
            [before[&name].resident, now.resident].map(|bytes| bytes as f64 / MIB as f64);
        println!(
            "{name}: {was:.1} MiB and {} descriptors before, {is:.1} MiB and {} now",
            before[&name].files, now.files
        );
    }
    for (name, said) in ask(bed).await.unwrap() {
        println!("{name}: dropped {}", said.drops);
    }
}

/// Fails while circuits, their data or their moves are left anywhere.
async fn empty(bed: &Bed) -> Result<(), String> {
    for (at, controller) in bed.controllers.iter().enumerate() {
        let (name, waiting) = (controller.name, counters(bed, at).await?);
        if waiting != [0, 0, 0] {
            let what = "circuits, those that wait to move, those without path";
            return Err(format!("{name}: {what}: {waiting:?}"));
        }
    }
    let said = ask(bed).await?;
    let wrong = said.iter().find(|(_, said)| (said.circuits, said.buffered) != (0, 0));
    match wrong {
        Some((name, said)) => Err(format!("{name}: {said:?}")),
        None if said.len() != bed.routers.len() => Err(format!("{} routers answered", said.len())),
        None => Ok(()),
    }
}

/// A controller's numbers of circuits: all, those that wait for a move, those that wait for a path.
async fn counters(bed: &Bed, at: usize) -> Result<[u64; 3], String> {
    let answers = inspect(bed, at, &["metrics"]).await?;
    let names =
        ["weft.circuits", "weft.circuits.waiting_for_a_move", "weft.circuits.waiting_for_a_path"];
    let controller = answers
        .iter()
        .find(|one| bed.routers.iter().all(|router| one["appId"] != *router.id))
        .ok_or("the controller did not answer")?;
    let values = names.map(|name| metric(&controller["value"], name));
    match values {
        [Some(all), Some(moves), Some(paths)] => Ok([all, moves, paths]),
        _ => Err(format!("there is no metric {names:?} in {}", controller["value"])),
    }
}

/// A metric in an answer.
fn metric(answer: &Value, name: &str) -> Option<u64> {
    let event = answer.as_array()?.iter().find(|event| event["metric"] == name)?;
    event["metrics"]["value"].as_u64()
}

/// The answers of all routers.
async fn ask(bed: &Bed) -> Result<BTreeMap<String, RouterReport>, String> {
    let answers = inspect(bed, 0, &["router-circuits", "router-drops", "metrics"]).await?;
    let mut all: BTreeMap<String, RouterReport> = BTreeMap::new();
    for answer in answers {
        let Some(router) = bed.routers.iter().find(|one| answer["appId"] == *one.id) else {
            continue;
        };
        let (said, value) = (all.entry(router.name.clone()).or_default(), &answer["value"]);
        match answer["name"].as_str() {
            Some("router-circuits") => {
                said.circuits = value["circuits"].as_object().map_or(0, serde_json::Map::len);
            }
            Some("router-drops") => said.drops = value.clone(),
            _ if router.foreign.is_some() => {}
            _ => said.buffered = metric(value, "weft.buffered_bytes").ok_or("not measured")?,
        }
    }
    Ok(all)
}

/// Asks all programs by this controller.
async fn inspect(bed: &Bed, at: usize, values: &[&str]) -> Result<Vec<Value>, String> {
    let row = resource::operation(Api::Fabric, "inspect").unwrap();
    let body = json!({"appRegex": ".*", "requestedValues": values}).to_string();
    let sent = Some((headers::JSON, body.into_bytes()));
    let answer = bed.operators[at].client.raw(Api::Fabric, row, &[], &[], sent).await;
    let answer: Value = serde_json::from_slice(&answer.map_err(|error| error.to_string())?)
        .map_err(|error| error.to_string())?;
    let answer = answer.get("data").unwrap_or(&answer);
    Ok(answer["values"].as_array().cloned().unwrap_or_default())
}
