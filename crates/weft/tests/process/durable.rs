//! Acknowledged means durable: entities answered with 201 survive `kill -9`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use weft_contract::Kind;
use weft_contract::resource::{identity, service};

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::{Operator, create};
use crate::program::{Program, text as text_of, weft};
use crate::wait::{PATIENCE, until};

/// With `WEFT_LONG`, and without.
const ROUNDS: [usize; 2] = [40, 8];
/// Number of concurrent writers.
const WRITERS: usize = 8;
/// The kill comes at a random moment within this time.
const MOMENT: Duration = Duration::from_millis(400);

/// Entities answered with 201: ids and names.
type Acknowledged = BTreeMap<String, String>;

/// True if a database was closed properly: the bit of its header that marks it as in use is clear.
fn is_closed(database: &Path) -> bool {
    fs::read(database).unwrap()[9] & 2 == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_made_or_left_in_order_is_opened_without_a_word() {
    let place = NetworkFolder::made().await;
    assert!(is_closed(&place.home().join("controller.db")), "the network was stopped");
    // Another controller with the same keys, made as the documents say.
    let [file, other] = ["controller.yaml", "other.yaml"].map(|name| place.home().join(name));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&other, text.replace("controller.db", "other.db")).unwrap();
    let other = other.to_str().unwrap();
    let init = ["controller", "init", other, "-u", USER, "-p", PASSWORD];
    let made = weft(place.folder(), &init).await;
    assert!(made.status.success(), "{}", text_of(&made));
    assert!(is_closed(&place.home().join("other.db")));
    // No entity is created, and the database is closed anyway.
    let again = weft(place.folder(), &init).await;
    assert!(!again.status.success() && text_of(&again).contains("already initialized"));
    assert!(is_closed(&place.home().join("other.db")));

    for round in 0..3 {
        let log = place.folder().join(format!("other-{round}.log"));
        let mut controller = Program::start(&log, &["controller", "run", other]);
        controller.says("controller runs", PATIENCE).await;
        assert!(controller.stop().await.success());
        assert!(is_closed(&place.home().join("other.db")));
        let said = fs::read_to_string(&log).unwrap();
        assert!(!said.contains("did not count") && !said.contains("left out"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_create_that_was_answered_201_is_lost_by_kill_9() {
    let place = NetworkFolder::made().await;
    let mut acknowledged = Acknowledged::new();
    let [long, short] = ROUNDS;
    let rounds = if std::env::var("WEFT_LONG").is_ok() { long } else { short };
    for round in 0..rounds {
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
    check(&Operator::log_in(place.control).await, &acknowledged, rounds).await;
    println!("{} creates were answered 201 in {rounds} rounds; all are there", acknowledged.len());
}

/// Creates entities until the controller is gone.
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

/// Checks that every acknowledged entity exists, complete.
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
