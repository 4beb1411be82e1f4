//! `weft controller import`: takes the network of a controller of OpenZiti over, or tells what it would take.
//!
//! ```text
//!  controller's file ──> keys, certificates ──┐
//!        └──> database ──> entities ──────────┼──> report ──> folder: store, controller's file, keys
//! ```

mod compare;
mod file;
mod folder;
mod make;
mod original;
mod report;
#[cfg(test)]
mod tests;
mod trust;

use std::path::Path;

pub(crate) use compare::compare;
use weft_bolt::{Bolt, BoltError};
use weft_config::{ControllerConfig, ProcessEnvironment};
use weft_import::{Import, ImportError};

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
    match &args.folder {
        None => dry_run(&original, args.format),
        Some(folder) => make::make(&original, folder, args).await,
    }
}

/// Prints what weft would keep of a network, and what it would not.
fn dry_run(original: &Original, format: Format) -> Result<()> {
    let (_database, import) = read(&original.database)?;
    let keys = original.file.as_ref().map(trust::read);
    let problems = match (&original.file, &keys) {
        (Some(file), Some(keys)) => problems(file, keys).0,
        _ => Vec::new(),
    };
    let report = Report {
        database: &original.database,
        import: &import,
        keys: keys.as_deref(),
        problems: &problems,
    };
    let text = || report::text(&report) + "\n\nnothing was written";
    output::value(format, &report::values(&report), text);
    Ok(())
}

/// Opens a database, which stays locked, and reads it.
fn read(path: &Path) -> Result<(Bolt, Import)> {
    let refused = |error: &BoltError| Failure::caused_by(error);
    let opened = Bolt::open(path).map_err(|error| refused(&error))?;
    let import = Import::read(&opened).map_err(|error| match &error {
        ImportError::Database(error) => refused(error),
        other => Failure::caused_by(other).during(format!("{} is not read", path.display())),
    })?;
    Ok((opened, import))
}

/// Why a file and its keys cannot be those of weft's controller; without a problem also the configuration, with keys and
/// certificates in it.
fn problems(file: &OriginalFile, keys: &[Trusted]) -> (Vec<String>, Option<ControllerConfig>) {
    let found = keys.iter().filter_map(|one| {
        let problem = one.problem.as_ref()?;
        Some(format!("line {}: {}: {problem}", one.reference.line, one.reference.path))
    });
    let mut problems: Vec<String> = found.collect();
    if !problems.is_empty() {
        return (problems, None);
    }
    let database = file.path.with_file_name("controller.db").display().to_string();
    let converted = file::converted(&file.document, &database, &|path| trust::inline(keys, path));
    match ControllerConfig::examine(&converted.text, &file.path, &ProcessEnvironment) {
        Err(error) => problems.push(crate::failure::chain(&error)),
        Ok(mut examined) => {
            check::controller(&mut examined, Purpose::Advice);
            // Lines would be those of the text that was converted.
            problems
                .extend(examined.problems.iter().map(|it| format!("{}: {}", it.key, it.message)));
            if problems.is_empty() {
                return (problems, Some(examined.config));
            }
        }
    }
    (problems, None)
}
