//! `weft database`: snapshots, and the integrity check with its progress.

use std::time::Duration;

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;

use super::row;
use crate::{
    cli::{DatabaseArgs, DatabaseCommand},
    failure::Failure,
    output::{self, Format, progress::spinner},
};

/// Time between two looks at a check that runs.
const LOOK: Duration = Duration::from_millis(500);

/// Does what was asked for.
pub(crate) async fn database(args: DatabaseArgs) -> Result<(), Failure> {
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

async fn snapshot(
    client: &ManagementClient,
    path: Option<String>,
    format: Format,
) -> Result<(), Failure> {
    let writing = spinner("the controller writes a snapshot");
    // The fabric's operation takes a path, and says which one was used.
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

async fn results(client: &ManagementClient) -> Result<Value, Failure> {
    Ok(client.call(row(Api::Management, "dataIntegrityResults")?, &[], &[], None).await?)
}

async fn check(
    client: &ManagementClient,
    fix: bool,
    wait: bool,
    format: Format,
) -> Result<(), Failure> {
    let operation = if fix { "fixDataIntegrity" } else { "checkDataIntegrity" };
    let _: Value = client.call(row(Api::Management, operation)?, &[], &[], None).await?;
    if !wait {
        output::line("the check runs; `weft database status` tells how it goes");
        return Ok(());
    }
    let progress = spinner("the controller checks its data");
    let state = loop {
        let state = results(client).await?;
        let found = state.get("results").and_then(Value::as_array).map_or(0, Vec::len);
        progress.set_message(format!("the controller checks its data: {found} faults so far"));
        if state.get("inProgress") != Some(&Value::Bool(true)) {
            break state;
        }
        tokio::time::sleep(LOOK).await;
    };
    progress.finish_and_clear();
    report(&state, format);
    match left(&state) {
        0 => Ok(()),
        1 => Err(Failure::refused("one fault is left; `weft database check --fix` repairs")),
        count => Err(Failure::refused(format!(
            "{count} faults are left; `weft database check --fix` repairs"
        ))),
    }
}

/// Faults that were found and are still there.
fn left(state: &Value) -> usize {
    let results = state.get("results").and_then(Value::as_array);
    let open = |fault: &&Value| fault.get("fixed") != Some(&Value::Bool(true));
    results.map_or(0, |results| results.iter().filter(open).count())
}

fn report(state: &Value, format: Format) {
    output::value(format, state, || {
        let text = |name: &str| state.get(name).and_then(Value::as_str).unwrap_or_default();
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
}
