//! The controller is away, for seconds or (`WEFT_LONG=1`) five minutes: circuits go on, links that are cut come
//! back by themselves, and on its return the controller knows all of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_contract::{Api, Kind, resource};

use super::bed::{Bed, PAIRS, no_circuits};
use super::wires::{State, Wires};
use super::{Ends, baseline, end, go_on};
use crate::wait::{PATIENCE, until};

const FLOWS: u64 = 6;

/// The ids of all links, or of all circuits.
async fn ids(bed: &Bed, kind: &Kind) -> BTreeSet<String> {
    let list = kind.list().unwrap();
    let all: Result<Vec<Value>, _> =
        bed.operator().client.call_in(Api::Fabric, list, &[], &[("limit", "500")], None).await;
    all.unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_go_on_and_links_re_form_while_no_controller_is_there() {
    let is_long = std::env::var("WEFT_LONG").is_ok();
    let (time, between) = if is_long { (300, 10_000) } else { (3, 100) };
    let (time, between) = (Duration::from_secs(time), Duration::from_millis(between));
    let mut bed = Bed::start().await;
    let ends = Ends::at(&bed).await;
    let (mut flows, stop) = (Vec::new(), CancellationToken::new());
    for number in 0..FLOWS {
        flows.push(ends.flow(number, &stop).await);
    }
    go_on(&flows, PATIENCE).await;
    let (links, circuits) = (&resource::fabric::link::KIND, &resource::fabric::circuit::KIND);
    let before = [ids(&bed, links).await, ids(&bed, circuits).await];
    assert_eq!(before.each_ref().map(BTreeSet::len), [PAIRS.len(), FLOWS as usize]);

    bed.controllers[0].program.take().unwrap().kill();
    let begun = Instant::now();
    // Routers of another make lose what is on its way over a link that breaks now.
    let is_alone = bed.routers.iter().all(|router| router.foreign.is_none());
    for turn in 0.. {
        if begun.elapsed() > time || !is_alone {
            break;
        }
        match turn % (PAIRS.len() + 2) {
            // All links are cut: for a moment no path is left.
            0 => bed.wires.iter().for_each(Wires::cut),
            1 => {
                let away = State { is_refusing: true, ..State::default() };
                bed.wires.iter().for_each(|wires| {
                    wires.set(away);
                    wires.cut();
                });
                tokio::time::sleep(Duration::from_secs(1)).await;
                bed.wires.iter().for_each(|wires| wires.set(State::default()));
            }
            other => bed.wires[other - 2].cut(),
        }
        go_on(&flows, PATIENCE).await;
        tokio::time::sleep(between).await;
    }
    println!("the controller was away for {:?}", begun.elapsed());

    bed.start_controller(0);
    bed.log_in().await;
    bed.whole(PATIENCE).await;
    let same = async || {
        let now = [ids(&bed, links).await, ids(&bed, circuits).await];
        if now == before { Ok(()) } else { Err(format!("{now:?} instead of {before:?}")) }
    };
    until("the controller knows the links and circuits again", PATIENCE, same).await;
    // The controller moves circuits again, and makes new ones.
    bed.routers[1].program.take().unwrap().kill();
    go_on(&flows, PATIENCE).await;
    let more = ends.flow(FLOWS, &stop).await;
    go_on(std::slice::from_ref(&more), PATIENCE).await;
    flows.push(more);
    end(flows, &stop, PATIENCE).await;
    no_circuits(bed.operator(), PATIENCE).await;
    bed.start_router(1);
    bed.whole(PATIENCE).await;
    baseline::measure(&bed, PATIENCE).await;
}
