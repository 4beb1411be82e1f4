//! `weft database`: snapshots, and the integrity check with its progress.

use std::time::Duration;

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;

use super::row;
use crate::cli::{DatabaseArgs, DatabaseCommand};
use crate::failure::{Failure, Result};
use crate::output::progress::spinner;
use crate::output::{self, Format, counted};

/// Pause between two looks at a running check.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the subcommand.
pub(crate) async fn database(args: DatabaseArgs) -> Result<()> {
    let client = args.session.client().await?;
    let format = args.output.format();
    match args.command {
        DatabaseCommand::Snapshot { path } => snapshot(&client, path, format).await,
        DatabaseCommand::Check { fix, no_wait } => check(&client, fix, !no_wait, format).await,
        DatabaseCommand::Status => {
            let state = results(&client).await?;
            report(&state, format);
            Ok(())
        }
    }
}

async fn snapshot(client: &ManagementClient, path: Option<String>, format: Format) -> Result<()> {
    let writing = spinner("the controller writes a snapshot");
    // The fabric's operation takes a path and returns the one that was used.
    let by_path = row(Api::Fabric, "createDatabaseSnapshotWithPath");
    let made: Value = match by_path {
        Ok(row) => {
            let body = json!({"path": path.unwrap_or_default()});
            client.call_in(Api::Fabric, row, &[], &[], Some(&body)).await?
        }
        Err(unknown) if path.is_some() => return Err(unknown),
        Err(_) => {
            client.call(row(Api::Management, "createDatabaseSnapshot")?, &[], &[], None).await?
        }
    };
    writing.finish_and_clear();
    output::value(format, &made, || match made.get("path").and_then(Value::as_str) {
        Some(path) => format!("snapshot at {path}, on the controller's machine"),
        None => "snapshot beside the database of the controller".to_owned(),
    });
    Ok(())
}

async fn results(client: &ManagementClient) -> Result<Value> {
    Ok(client.call(row(Api::Management, "dataIntegrityResults")?, &[], &[], None).await?)
}

async fn check(client: &ManagementClient, fix: bool, wait: bool, format: Format) -> Result<()> {
    let operation = if fix { "fixDataIntegrity" } else { "checkDataIntegrity" };
    let _: Value = client.call(row(Api::Management, operation)?, &[], &[], None).await?;
    if !wait {
        output::line("the check runs; `weft database status` tells how it goes");
        return Ok(());
    }
    let progress = spinner("the controller checks its data");
    let mut state = results(client).await?;
    let begun = text(&state, "startTime").to_owned();
    while goes_on(&state, &begun) {
        let found = state.get("results").and_then(Value::as_array).map_or(0, Vec::len);
        progress.set_message(format!(
            "the controller checks its data: {} so far",
            counted(found, "fault", "faults")
        ));
        tokio::time::sleep(LOOK).await;
        state = results(client).await?;
    }
    progress.finish_and_clear();
    report(&state, format);
    outcome(&state, &begun)
}

/// True if the check that began at `begun` is still running.
fn goes_on(state: &Value, begun: &str) -> bool {
    state.get("inProgress") == Some(&Value::Bool(true)) && text(state, "startTime") == begun
}

/// Result of the check that began at `begun`. It is a success only if the check was completed and
/// left no faults.
fn outcome(state: &Value, begun: &str) -> Result<()> {
    let now = text(state, "startTime");
    if now.is_empty() {
        let text = "the controller knows nothing of the check any more: it was started again \
                    meanwhile; check again";
        return Err(Failure::new(text));
    }
    if now != begun {
        let text = "another check was begun meanwhile, and what this one found is lost; \
                    `weft database status` tells of the other";
        return Err(Failure::new(text));
    }
    let left = left(state);
    let error = text(state, "error");
    if !error.is_empty() || text(state, "endTime").is_empty() {
        let why = if error.is_empty() { "the reason is unknown" } else { error };
        let failure = Failure::new(format!("the check did not come to its end: {why}"));
        return Err(match left {
            0 => failure,
            _ => failure.and(format!("faults that are left so far: {left}")),
        });
    }
    if state.get("tooManyErrors") == Some(&Value::Bool(true)) {
        let text = "there are more faults than are listed; `weft database check --fix` repairs, \
                    and checking again tells what is left";
        return Err(Failure::refused(text));
    }
    match left {
        0 => Ok(()),
        count => Err(Failure::refused(format!(
            "{} left; `weft database check --fix` repairs",
            counted(count, "fault is", "faults are")
        ))),
    }
}

/// A text of the state; empty if there is none.
fn text<'a>(state: &'a Value, name: &str) -> &'a str {
    state.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Number of faults that are left.
fn left(state: &Value) -> usize {
    let results = state.get("results").and_then(Value::as_array);
    let open = |fault: &&Value| fault.get("fixed") != Some(&Value::Bool(true));
    results.map_or(0, |results| results.iter().filter(open).count())
}

fn report(state: &Value, format: Format) {
    output::value(format, state, || {
        let text = |name| text(state, name);
        let mut lines = Vec::new();
        if state.get("inProgress") == Some(&Value::Bool(true)) {
            lines.push(format!("a check runs since {}", text("startTime")));
        } else if text("endTime").is_empty() {
            lines.push("no check has run since the controller started".to_owned());
        } else {
            lines.push(format!("the last check ended {}", text("endTime")));
        }
        if !text("error").is_empty() {
            lines.push(format!("it stopped: {}", text("error")));
        }
        let results = state.get("results").and_then(Value::as_array);
        for fault in results.into_iter().flatten() {
            let fixed = fault.get("fixed") == Some(&Value::Bool(true));
            let about = fault.get("description").and_then(Value::as_str).unwrap_or_default();
            lines.push(format!("  {} {about}", if fixed { "fixed:" } else { "fault:" }));
        }
        if results.is_some_and(Vec::is_empty) && !text("endTime").is_empty() {
            lines.push("no fault was found".to_owned());
        }
        if state.get("tooManyErrors") == Some(&Value::Bool(true)) {
            lines.push("there are more; these are the first".to_owned());
        }
        lines.join("\n")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_are_fixed_are_not_left() {
        let state = json!({"results": [{"description": "a", "fixed": true},
            {"description": "b", "fixed": false}]});
        assert_eq!(left(&state), 1);
        assert_eq!(left(&json!({"results": null})), 0);
    }

    #[test]
    fn only_a_check_that_came_to_its_end_and_left_nothing_is_a_success() {
        let run = |more: Value| {
            let mut state = json!({"startTime": "t1", "endTime": "t2", "inProgress": false,
                "error": null, "results": [], "tooManyErrors": false});
            let members = more.as_object().unwrap().clone();
            state.as_object_mut().unwrap().extend(members);
            outcome(&state, "t1").map_err(|failure| failure.to_string())
        };
        run(json!({})).unwrap();
        run(json!({"results": null})).unwrap();
        run(json!({"results": [{"description": "a", "fixed": true}]})).unwrap();
        let refusals = [
            (json!({"results": [{"description": "a", "fixed": false}]}), "1 fault is left"),
            (json!({"error": "too much was written"}), "its end: too much was written"),
            (json!({"endTime": null}), "did not come to its end"),
            (json!({"startTime": null, "endTime": null, "results": null}), "started again"),
            (json!({"startTime": "t3", "inProgress": true}), "another check"),
            (json!({"tooManyErrors": true}), "more faults than are listed"),
        ];
        for (state, words) in refusals {
            let said = run(state.clone()).unwrap_err();
            assert!(said.contains(words), "{state}: {said}");
        }
    }

    #[test]
    fn waiting_ends_when_the_run_is_not_the_same_any_more() {
        let runs = json!({"startTime": "t1", "inProgress": true});
        assert!(goes_on(&runs, "t1"));
        assert!(!goes_on(&runs, "t0"));
        assert!(!goes_on(&json!({"startTime": "t1", "inProgress": false}), "t1"));
        assert!(!goes_on(&json!({"startTime": null, "inProgress": false}), "t1"));
    }
}
