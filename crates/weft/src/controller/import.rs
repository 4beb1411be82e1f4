//! `weft controller import`: takes the network of a controller of OpenZiti over, or tells what it would take.
//!
//! ```text
//!  controller's file ──> keys, certificates ──┐
//!        └──> database ──> entities ──────────┼──> report ──> folder: store, controller's file, keys
//! ```

mod compare;
mod database;
mod file;
mod folder;
mod make;
mod original;
mod report;
pub(super) mod since;
#[cfg(test)]
mod tests;
mod trust;

pub(crate) use compare::compare;
use weft_config::original::{KeyNote, KeyOutcome};
use weft_config::{ControllerConfig, ProcessEnvironment};

use self::database::read;
use self::original::{Original, OriginalFile};
use self::report::Report;
use self::trust::Trusted;
use crate::check::{self, Purpose};
use crate::cli::ImportArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};

/// Runs the command.
pub(crate) async fn run(args: &ImportArgs) -> Result<()> {
    let original = Original::find(&args.file, args.database.as_deref())?;
    if let Some(place) = &args.since {
        return since::since(&original, place, args.format);
    }
    match &args.folder {
        None => dry_run(&original, args.index, args.format),
        Some(folder) => make::make(&original, folder, args).await,
    }
}

/// Prints what weft would keep of a network, and what it would not.
fn dry_run(original: &Original, index: Option<u64>, format: Format) -> Result<()> {
    let (_database, import) = read(&original.database)?;
    let keys = original.file.as_ref().map(trust::read).transpose()?;
    let (mut problems, notes) = match (&original.file, &keys) {
        (Some(file), Some(keys)) => {
            let Judgement { problems, notes, .. } = judge(file, keys)?;
            (problems, notes)
        }
        _ => Default::default(),
    };
    problems.extend(make::behind(&import, &original.database, index));
    let report = Report {
        database: &original.database,
        import: &import,
        keys: keys.as_deref(),
        notes: &notes,
        problems: &problems,
    };
    let text = || report::text(&report) + "\n\nnothing was written";
    output::value(format, &report::values(&report), text);
    match problems.is_empty() {
        true => Ok(()),
        false => {
            Err(Failure::refused(format!("an import would write nothing: {}", problems.join("; "))))
        }
    }
}

/// What a file and its keys are for weft's controller.
struct Judgement {
    /// Why they cannot be its own.
    problems: Vec<String>,
    /// What becomes of keys of the file.
    notes: Vec<KeyNote>,
    /// The configuration, with keys and certificates in it; none if there is a problem.
    config: Option<ControllerConfig>,
}

fn judge(file: &OriginalFile, keys: &[Trusted]) -> Result<Judgement> {
    let found = keys.iter().filter_map(|one| {
        let problem = one.problem.as_ref()?;
        Some(format!("line {}: {}: {problem}", one.reference.line, one.reference.path))
    });
    let mut problems: Vec<String> = found.collect();
    let database = file.path.with_file_name("controller.db").display().to_string();
    let converted = file::converted(file, &database, &|path| trust::inline(keys, path))?;
    // What is wrong with a key or certificate was told with it.
    let is_told = |note: &KeyNote| keys.iter().any(|one| one.reference.path == note.key);
    let unsolved = converted.notes.iter().filter(|it| it.outcome == KeyOutcome::Unsolved);
    problems.extend(unsolved.filter(|note| !is_told(note)).map(KeyNote::to_string));
    let mut notes = converted.notes;
    notes.retain(|note| note.outcome != KeyOutcome::Unsolved);
    if !problems.is_empty() {
        return Ok(Judgement { problems, notes, config: None });
    }
    match ControllerConfig::examine(&converted.text, &file.path, &ProcessEnvironment) {
        Err(error) => problems.push(crate::failure::chain(&error)),
        Ok(mut examined) => {
            check::controller(&mut examined, Purpose::Advice);
            // Lines would be those of the text that was converted.
            problems
                .extend(examined.problems.iter().map(|it| format!("{}: {}", it.key, it.message)));
            if problems.is_empty() {
                return Ok(Judgement { problems, notes, config: Some(examined.config) });
            }
        }
    }
    Ok(Judgement { problems, notes, config: None })
}
