//! Acknowledged means durable: what was answered 201 outlives `kill -9`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use weft_contract::{
    Kind,
    resource::{identity, service},
};

use crate::{
    network::Place,
    operator::{Operator, create},
    wait::{PATIENCE, until},
};

const ROUNDS: usize = 20;
/// Who creates at the same time.
const WRITERS: usize = 8;
/// The kill comes at a random moment of so long.
const MOMENT: Duration = Duration::from_millis(400);

/// What was answered 201: ids with names.
type Acknowledged = BTreeMap<String, String>;

#[tokio::test(flavor = "multi_thread")]
async fn no_create_that_was_answered_201_is_lost_by_kill_9() {
    let place = Place::made().await;
    let mut acknowledged = Acknowledged::new();
    for round in 0..ROUNDS {
        let controller = place.start_controller();
        let operator = Arc::new(Operator::log_in(place.control).await);
        check(&operator, &acknowledged, round).await;
        let answered = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (operator, answered) = (Arc::clone(&operator), Arc::clone(&answered));
                tokio::spawn(write(operator, format!("{round}-{writer}"), answered))
            })
            .collect();
        let flows = async || match answered.load(Ordering::Relaxed) {
            0 => Err("nothing was answered yet"),
            _ => Ok(()),
        };
        until("creates are answered", PATIENCE, flows).await;
        tokio::time::sleep(MOMENT.mul_f64(rand::random_range(0.0..1.0))).await;
        controller.kill();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
    }
    let _controller = place.start_controller();
    check(&Operator::log_in(place.control).await, &acknowledged, ROUNDS).await;
    println!("{} creates were answered 201 in {ROUNDS} rounds; all are there", acknowledged.len());
}

/// Creates until the controller is gone.
async fn write(operator: Arc<Operator>, prefix: String, answered: Arc<AtomicU64>) -> Acknowledged {
    let mut made = Acknowledged::new();
    for count in 0.. {
        let name = format!("{prefix}-{count}");
        let (kind, body): (&Kind, _) = match count % 2 {
            0 => (&service::KIND, json!({"name": name, "encryptionRequired": true})),
            _ => {
                let enrollment = json!({"ott": true});
                let body = json!({
                    "name": name, "type": "Default", "isAdmin": false, "enrollment": enrollment,
                });
                (&identity::KIND, body)
            }
        };
        match create(&operator.client, kind, &body).await {
            Ok(id) => made.insert(id, name),
            Err(error) if error.status().is_none() => return made,
            Err(error) => panic!("{name} was refused: {error}"),
        };
        answered.fetch_add(1, Ordering::Relaxed);
    }
    made
}

/// Everything is there, whole.
async fn check(operator: &Operator, acknowledged: &Acknowledged, round: usize) {
    let mut there = BTreeMap::new();
    for kind in [&service::KIND, &identity::KIND] {
        for entity in operator.list(kind).await {
            let whole = kind.name != "identity"
                || entity["isDefaultAdmin"] == json!(true)
                || entity["typeId"] == json!("Router")
                || entity.pointer("/enrollment/ott/jwt").is_some();
            assert!(whole, "after round {round} it has no enrollment: {entity}");
            let text = |member: &str| entity[member].as_str().unwrap().to_owned();
            there.insert(text("id"), text("name"));
        }
    }
    for (id, name) in acknowledged {
        assert_eq!(there.get(id), Some(name), "after round {round} {name} ({id}) is lost");
    }
}
