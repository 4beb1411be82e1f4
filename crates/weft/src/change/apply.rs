//! `weft diff` and `weft apply`: the changes that files make.

use serde_json::{Value, json};
use weft_client::{Error, ManagementClient};
use weft_contract::resource::change::{ChangePlan, MAX_PROBLEMS, Problem};
use weft_contract::{Api, ErrorCode, Word as _};

use super::file::Files;
use super::operation::row;
use super::{openziti, remarks, show, tokens};
use crate::ask;
use crate::cli::{ApplyArgs, DiffArgs};
use crate::failure::{Failure, Result};
use crate::output::progress::spinner;
use crate::output::{self, Format, counted};

/// Shows what would change.
pub(crate) async fn diff(args: DiffArgs) -> Result<()> {
    let mut files = Files::read(&args.files)?;
    let client = args.session.client().await?;
    openziti::keep(&mut files, &client).await?;
    let plan = send(&client, "planChange", &files, body(&files, args.prune, None)).await?;
    print(&plan, args.output.format());
    openziti::tell(&plan, &mut files);
    remarks::tell(&plan, &files);
    if args.exit_code && !is_empty(&plan) {
        return Err(Failure::different("the network is not as the files say"));
    }
    Ok(())
}

/// Applies the files.
pub(crate) async fn apply(args: ApplyArgs) -> Result<()> {
    if args.dry_run {
        let ApplyArgs { files, prune, output, session, .. } = args;
        return diff(DiffArgs { files, prune, exit_code: false, output, session }).await;
    }
    let mut files = Files::read(&args.files)?;
    let client = args.session.client().await?;
    openziti::keep(&mut files, &client).await?;
    let mut expect = args.expect.clone();
    if !args.yes {
        let asked = body(&files, args.prune, expect.as_deref());
        let plan = send(&client, "planChange", &files, asked).await?;
        if args.output.format() == Format::Table || is_empty(&plan) {
            print(&plan, args.output.format());
        }
        openziti::tell(&plan, &mut files);
        if is_empty(&plan) {
            return Ok(());
        }
        remarks::tell(&plan, &files);
        confirm(&plan).await?;
        // Exactly the shown plan is applied, or nothing.
        expect = Some(plan.plan);
    }
    if let Some(folder) = &args.tokens {
        tokens::prepare(folder)?;
    }
    let wanted = body(&files, args.prune, expect.as_deref());
    let unknown = Unknown;
    let applied = send(&client, "applyChange", &files, wanted).await;
    unknown.settled();
    let applied = applied?;
    if args.yes {
        openziti::tell(&applied, &mut files);
        remarks::tell(&applied, &files);
    }
    if args.yes || args.output.format() != Format::Table {
        print(&applied, args.output.format());
    } else {
        output::line(format!("done: {}", show::summary(&applied)));
    }
    match &args.tokens {
        Some(folder) => tokens::save(&client, &applied, folder).await,
        None => {
            tokens::hint(&applied);
            Ok(())
        }
    }
}

/// Between request and answer: an interrupted command reports that the outcome is unknown.
struct Unknown;

impl Unknown {
    /// The controller has answered.
    fn settled(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unknown {
    fn drop(&mut self) {
        output::note(
            "weft: the controller was told already and may apply the files all the same; \
             `weft diff` says whether it did",
        );
    }
}

/// Asks before applying. The question counts entities that are deleted and access that is lost.
async fn confirm(plan: &ChangePlan) -> Result<()> {
    let (one, many) = ("pair of identity and service loses", "pairs of identity and service lose");
    let question = match (plan.deleted, plan.access.lost) {
        (0, 0) => "Do this?".to_owned(),
        (0, lost) => format!("Do this? {} access.", counted(lost, one, many)),
        (deleted, lost) => format!(
            "Do this? {} deleted, {} access.",
            counted(deleted, "entity is", "entities are"),
            counted(lost, one, many)
        ),
    };
    let cannot = "there is no terminal for a question; apply without asking with --yes";
    match ask::confirm(&question, cannot).await? {
        true => Ok(()),
        false => Err(Failure::new("nothing was changed")),
    }
}

fn body(files: &Files, prune: bool, expect: Option<&str>) -> Value {
    let mut body = json!({"network": files.network, "prune": prune});
    if let Some(expect) = expect {
        // A number is a revision; fingerprints are longer than any revision.
        match expect.parse::<i64>() {
            Ok(revision) => body["expectRevision"] = json!(revision),
            Err(_) => body["expectPlan"] = json!(expect),
        }
    }
    body
}

async fn send(
    client: &ManagementClient,
    operation: &str,
    files: &Files,
    body: Value,
) -> Result<ChangePlan> {
    let word = if operation == "planChange" { "comparing" } else { "applying" };
    let progress = spinner(format!("{word} {}", counted(files.count(), "entity", "entities")));
    let answer = client.call_in(Api::Weft, row(operation)?, &[], &[], Some(&body)).await;
    progress.finish_and_clear();
    answer.map_err(|error| refusal(&error, files).unwrap_or_else(|| error.into()))
}

/// The controller's problems with the files, each with its line.
fn refusal(error: &Error, files: &Files) -> Option<Failure> {
    let refusal = error.api()?;
    let cause = refusal.body.cause.as_ref();
    if refusal.code() == ErrorCode::PlanHasChanged.as_str() {
        let why = cause.and_then(|cause| cause.reason.clone()).unwrap_or_default();
        let text = "the network has changed since it was looked at; nothing was done";
        return Some(
            Failure::refused(text).and(why).and("`weft diff` says what the files would change now"),
        );
    }
    let problems = cause?.data.clone()?;
    let problems: Vec<Problem> = serde_json::from_value(problems).ok()?;
    let located = files.locate_all(&problems);
    let (first, others) = located.split_first()?;
    let failure = others.iter().fold(Failure::refused(first), Failure::and);
    let failure = match problems.len() {
        MAX_PROBLEMS.. => {
            failure.and(format!("there may be more: {MAX_PROBLEMS} are shown at once"))
        }
        _ => failure,
    };
    Some(failure.and("nothing was changed"))
}

fn is_empty(plan: &ChangePlan) -> bool {
    plan.changes.is_empty() && plan.along.is_empty()
}

fn print(plan: &ChangePlan, format: Format) {
    if format == Format::Table {
        return output::print(&(show::plan(plan) + "\n"));
    }
    let value = serde_json::to_value(plan).unwrap_or_default();
    output::value(format, &value, String::new);
}

#[cfg(test)]
mod tests {
    use weft_client::ApiError;
    use weft_contract::{Cause, ErrorBody};

    use super::*;

    #[test]
    fn expectations_are_revisions_or_plans() {
        let files = Files::default();
        assert_eq!(body(&files, false, Some("17"))["expectRevision"], 17);
        let plan = "0123456789abcdef0123456789abcdef";
        assert_eq!(body(&files, true, Some(plan))["expectPlan"], plan);
        assert_eq!(body(&files, true, None)["expectPlan"], Value::Null);
    }

    #[test]
    fn every_mistake_is_told() {
        let mut cause = Cause::field("services `web`", "no", "");
        cause.data = Some(json!([
            {"section": "services", "index": 0, "name": "web", "field": "configs.0", "reason": "a"},
            {"section": "services", "index": 1, "name": "db", "field": "", "reason": "b"},
        ]));
        let body = ErrorBody::new(ErrorCode::CouldNotValidate, "r").because(cause);
        let error: Error =
            Box::new(ApiError { status: 400, body, retry_after: None, challenge: None }).into();
        let failure = refusal(&error, &Files::default()).unwrap();
        assert!(failure.to_string().contains("services `web`, configs.0: a"), "{failure}");
    }
}
