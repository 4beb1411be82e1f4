//! A full disk: reads continue, nothing is lost, and the store recovers by itself.
//!
//! An ordinary user cannot fill a disk of his own, but can limit the size of a process's files,
//! which the process sees as a failing write.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode, Word as _, resource};

use crate::network::NetworkFolder;
use crate::operator::{Operator, create};
use crate::program::Program;
use crate::wait::{PATIENCE, until};

/// Limits the size of a process's files, in bytes.
fn limit(program: &Program, bytes: &str) {
    let pid = program.id().to_string();
    let limit = format!("--fsize={bytes}:");
    let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(set.success(), "prlimit --pid {pid} {limit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_writes_and_nobody_who_reads() {
    let place = NetworkFolder::made().await;
    let database = place.home().join("controller.db");
    let file = place.home().join("controller.yaml");
    // Started by a shell that ignores the signal for too large files. The log goes elsewhere.
    let run =
        format!("trap '' XFSZ; exec {} controller run {}", crate::program::WEFT, file.display());
    let controller = place.start_shell("controller", &run);
    let operator = Operator::log_in(place.control).await;
    let body = |name: &str| json!({"name": name, "encryptionRequired": false, "tags": {"x": "y".repeat(3000)}});
    operator.create(&resource::service::KIND, &body("before")).await;

    let length = fs::metadata(&database).unwrap().len();
    limit(&controller, &length.to_string());
    // Free space in the file is used up first.
    let fill = async || {
        for number in 0..10_000 {
            let made =
                create(&operator.client, &resource::service::KIND, &body(&format!("{number}")))
                    .await;
            if let Err(error) = made {
                return error;
            }
        }
        panic!("the disk is never full");
    };
    let error = fill().await;
    assert_eq!(error.status(), Some(503), "{error}");
    assert_eq!(error.api().unwrap().code(), ErrorCode::ClusterNoLeader.as_str(), "{error}");
    assert!(error.to_string().contains("disk"), "{error}");

    let snapshot = weft_contract::resource::operation(Api::Management, "createDatabaseSnapshot");
    let made = operator.client.call::<Value>(snapshot.unwrap(), &[], &[], None).await;
    let error = made.unwrap_err();
    assert_eq!(error.status(), Some(503), "{error}");

    // Lists, and logins of people, even while writes are attempted all the time.
    let known = operator.list(&resource::service::KIND).await.len();
    let begun = tokio::time::Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(5) {
        let late = body(&format!("late {rounds}"));
        let (refused, found, other) = tokio::join!(
            create(&operator.client, &resource::service::KIND, &late),
            operator.list(&resource::service::KIND),
            Operator::log_in(place.control),
        );
        assert_eq!(refused.unwrap_err().status(), Some(503));
        assert_eq!(found.len(), known);
        let own: Vec<Value> = other.client.list(&resource::service::KIND, None).await.unwrap();
        assert_eq!(own.len(), known);
        rounds += 1;
        // An identity has 256 sessions at most, and every round begins one.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(rounds >= 3, "{rounds} rounds in 5 s");

    limit(&controller, "unlimited");
    let again = async || create(&operator.client, &resource::service::KIND, &body("after")).await;
    until("writes go on by themselves", PATIENCE, again).await;
    assert_eq!(operator.list(&resource::service::KIND).await.len(), known + 1);
    assert!(controller.stop().await.success());
    // The file is undamaged.
    let again = place.start_controller();
    let operator = Operator::log_in(place.control).await;
    assert_eq!(operator.list(&resource::service::KIND).await.len(), known + 1);
    drop(again);
}

/// Writes fail at once in the first place, and as soon as the reader has gone in the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_stops_nothing() {
    let place = NetworkFolder::made().await;
    let file = place.home().join("controller.yaml");
    let weft = crate::program::WEFT;
    let runs = [
        format!("exec {weft} controller run {} 2>/dev/full", file.display()),
        format!("{weft} controller run {} 2>&1 | head -1", file.display()),
    ];
    for (round, run) in runs.into_iter().enumerate() {
        // A level at which every request is logged.
        let run = format!("export RUST_LOG=debug; {run}");
        let mut controller = place.start_shell(&format!("controller-{round}"), &run);
        let operator = Operator::log_in(place.control).await;
        for number in 0..20 {
            let body = json!({"name": format!("s{round}-{number}"), "encryptionRequired": false});
            operator.create(&resource::service::KIND, &body).await;
        }
        assert_eq!(operator.list(&resource::service::KIND).await.len(), 20 * (round + 1));
        let pid = Command::new("pkill").args(["-TERM", "-f", &file.display().to_string()]).status();
        assert!(pid.unwrap().success());
        controller.ended().await;
    }
}
