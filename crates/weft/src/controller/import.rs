//! `weft controller import`: what weft would keep of the network of OpenZiti's controller. Writes nothing.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_bolt::{Bolt, BoltError};
use weft_import::{Import, ImportError};

use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted, table};
use crate::yaml;

/// The name of the database in a cluster's data folder.
const IN_CLUSTER: &str = "ctrl-ha.db";
/// Most bytes of a controller's file.
const MAX_FILE: u64 = 1 << 20;
/// What the first page of a database has at offset 16.
const DATABASE: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();

/// Prints what weft would keep of a network, and what it would not.
pub(crate) fn dry_run(file: &Path, format: Format) -> Result<()> {
    let path = database(file)?;
    let opened = Bolt::open(&path).map_err(|error| refused(&error))?;
    let import = Import::read(&opened).map_err(|error| match &error {
        ImportError::Database(error) => refused(error),
        other => Failure::caused_by(other).during(format!("{} is not read", path.display())),
    })?;
    output::value(format, &values(&path, &import), || text(&path, &import));
    Ok(())
}

fn refused(error: &BoltError) -> Failure {
    Failure::caused_by(error)
}

fn at(path: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {problem}", path.display()))
}

/// The database that an argument means: itself, or that of a controller's file.
fn database(file: &Path) -> Result<PathBuf> {
    let is_file = std::fs::metadata(file).map_err(|error| at(file, error))?.is_file();
    if !is_file {
        return Err(at(file, "is not a file: name the controller's file or its database"));
    }
    let mut begin = Vec::new();
    let mut opened = File::open(file).map_err(|error| at(file, error))?.take(MAX_FILE + 1);
    opened.read_to_end(&mut begin).map_err(|error| at(file, error))?;
    // A database with a damaged beginning is told from text by its zeros.
    let is_database = begin.get(16..20) == Some(&DATABASE) || begin.contains(&0);
    if is_database || begin.len() as u64 > MAX_FILE {
        return Ok(file.to_owned());
    }
    let text = String::from_utf8(begin).map_err(|_| at(file, "is neither text nor a database"))?;
    named(file, &text)
}

/// The database that a controller's file names.
fn named(file: &Path, text: &str) -> Result<PathBuf> {
    let documents = yaml::read(text)
        .map_err(|error| at(file, format_args!("line {}: {}", error.line, error.message)))?;
    let settings = documents.first().map(yaml::Node::to_json).unwrap_or_default();
    let member = |pointer: &str| settings.pointer(pointer).and_then(Value::as_str);
    let folder = member("/cluster/dataDir").or_else(|| member("/raft/dataDir"));
    let path = match (folder, member("/db")) {
        (Some(folder), _) => Path::new(&expanded(file, folder)?).join(IN_CLUSTER),
        (None, Some(path)) => PathBuf::from(expanded(file, path)?),
        (None, None) => {
            let problem = "names no database: neither `db` nor `cluster.dataDir` is set";
            return Err(at(file, problem));
        }
    };
    // The original begins relative paths at its working folder, which is often that of the file.
    let beside = file.parent().map(|folder| folder.join(&path));
    Ok(match beside {
        Some(beside) if path.is_relative() && !path.exists() => beside,
        _ => path,
    })
}

/// A text with the values of the variables that it names as `${NAME}`.
fn expanded(file: &Path, text: &str) -> Result<String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        let value = std::env::var(name)
            .map_err(|_| at(file, format_args!("names the variable {name}, which is not set")))?;
        expanded.push_str(before);
        expanded.push_str(&value);
        rest = behind;
    }
    Ok(expanded + rest)
}

/// The result for scripts.
fn values(path: &Path, import: &Import) -> Value {
    json!({
        "database": path.display().to_string(),
        "layout": import.layout.number(),
        "release": import.layout.release(),
        "clusterIndex": import.cluster_index,
        "kinds": import.sections,
        "losses": import.losses,
        "unlistedLosses": import.unlisted_losses,
        "reportedAgain": import.reported,
        "loginsAgain": import.logins,
    })
}

/// The result for people.
fn text(path: &Path, import: &Import) -> String {
    let (number, release) = (import.layout.number(), import.layout.release());
    let mut text = format!("{}: layout {number}, of OpenZiti {release}", path.display());
    if let Some(index) = import.cluster_index {
        let _ = write!(text, ", of a cluster, up to index {index} of its log");
    }
    let kinds = import.sections.iter().filter(|section| section.found > 0);
    let columns =
        [("KIND", "/name"), ("FOUND", "/found"), ("TAKEN", "/taken"), ("LOSSY", "/lossy")];
    part(&mut text, "", &columns, kinds.map(|it| json!(it)));
    let columns = [
        ("KIND", "/kind"),
        ("NAME", "/name"),
        ("ID", "/id"),
        ("FIELD", "/field"),
        ("REASON", "/reason"),
    ];
    part(&mut text, "Lost:", &columns, import.losses.iter().map(|it| json!(it)));
    if import.unlisted_losses > 0 {
        let _ = write!(text, "\nand {}", counted(import.unlisted_losses, "more", "more"));
    }
    let columns =
        [("KIND", "/kind"), ("FIELD", "/field"), ("ENTITIES", "/count"), ("WHY", "/reason")];
    let reported = import.reported.iter().map(|it| json!(it));
    part(&mut text, "Not taken, because it is reported again:", &columns, reported);
    let columns = [("NAME", "/name"), ("ID", "/id"), ("ENTERS", "/enters")];
    let logins = import.logins.iter().map(|login| {
        let enters = match (login.password, login.code) {
            (true, true) => "its password and a one-time code",
            (true, false) => "its password",
            _ => "a one-time code",
        };
        json!({ "name": login.name, "id": login.id, "enters": enters })
    });
    part(&mut text, "Logged in now, and to enter something again:", &columns, logins);
    text.push_str("\n\nnothing was written");
    text
}

/// Adds a table with a heading, unless it is empty.
fn part(
    text: &mut String,
    heading: &str,
    columns: &[(&str, &str)],
    rows: impl Iterator<Item = Value>,
) {
    let column = |(title, pointer): &(&str, &str)| table::Column {
        title: (*title).to_owned(),
        pointer: (*pointer).to_owned(),
    };
    let mut found = table::Rows::new(columns.iter().map(column).collect());
    found = found.breaking(&["/reason", "/id"]);
    rows.for_each(|row| found.push(&row));
    if found.count() > 0 {
        let heading = if heading.is_empty() { String::new() } else { format!("\n{heading}") };
        let _ = write!(text, "\n{heading}\n{}", found.fitted().text);
    }
}
