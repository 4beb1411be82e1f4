//! `weft apply --tokens`: files with the enrollment tokens of new entities.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use weft_client::ManagementClient;
use weft_contract::Kind;
use weft_contract::resource::change::ChangePlan;
use weft_contract::resource::{self};

use crate::entity::token;
use crate::failure::{Failure, Result};
use crate::output;

/// Kinds whose new entities enroll.
const ENROLLED: [&str; 2] = ["identities", "edge-routers"];
/// Most files of one name, with a number in the names of all but the first.
const NAMES: u32 = 1000;

/// A new entity, which may have a token.
struct Made<'a> {
    kind: &'static Kind,
    id: &'a str,
    name: &'a str,
}

fn made(plan: &ChangePlan) -> impl Iterator<Item = Made<'_>> {
    let new = plan.changes.iter().filter(|change| change.action == "create" && change.is_asked_for);
    let new = new.filter(|change| ENROLLED.contains(&change.section.as_str()));
    new.filter_map(|change| {
        let kind = resource::kind(&change.section)?;
        Some(Made { kind, id: &change.id, name: &change.name })
    })
}

/// Creates the folder, before anything is applied, so that a failure is known early.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("{}: {error}; nothing was done", folder.display())))
}

/// Reads the tokens and writes them. A failure names every entity whose token may be missing.
pub(super) async fn save(
    client: &ManagementClient,
    plan: &ChangePlan,
    folder: &Path,
) -> Result<()> {
    let made: Vec<Made<'_>> = made(plan).collect();
    let mut read = Vec::new();
    let mut problem = None;
    let mut left = made.iter();
    for one in left.by_ref() {
        match token::find(client, one.kind, one.id).await {
            Ok(Some(token)) => read.push((one, token)),
            // Most identities have no token.
            Ok(None) => {}
            Err(failure) => {
                problem = Some((failure, vec![one]));
                break;
            }
        }
    }
    if let Some((_, lost)) = &mut problem {
        lost.extend(left);
    }
    let stems = stems(read.iter().map(|(one, _)| (one.kind.name, one.name)));
    for ((one, token), stem) in read.into_iter().zip(stems) {
        match write(folder, &stem, &token) {
            Ok(path) => output::line(format!(
                "enrollment token of {} {} in {}",
                one.kind.name,
                one.name,
                path.display()
            )),
            Err(failure) => problem.get_or_insert_with(|| (failure, Vec::new())).1.push(one),
        }
    }
    let Some((failure, lost)) = problem else { return Ok(()) };
    let failure =
        failure.during("the files are applied, but enrollment tokens are not all written");
    Err(lost.into_iter().fold(failure, |failure, Made { kind, name, .. }| {
        failure.and(format!("if {name} has a token: weft jwt {} {name} -o FILE", kind.name))
    }))
}

/// Names of the files, without their ending: the entity's name, with its kind if that is ambiguous.
fn stems<'a>(named: impl Iterator<Item = (&'static str, &'a str)> + Clone) -> Vec<String> {
    let plain = |name: &str| {
        let fits = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let text: String = name.chars().map(fits).collect();
        text.trim_start_matches('.').to_owned()
    };
    let mut count = HashMap::new();
    for (_, name) in named.clone() {
        // Some file systems do not distinguish upper and lower case.
        *count.entry(plain(name).to_lowercase()).or_insert(0) += 1;
    }
    let stem = |(kind, name)| {
        let stem = plain(name);
        match count.get(&stem.to_lowercase()) {
            Some(1) if !stem.is_empty() => stem,
            _ => format!("{stem}.{kind}").trim_start_matches('.').to_owned(),
        }
    };
    named.map(stem).collect()
}

/// Writes a new file, with a number in its name if needed.
fn write(folder: &Path, stem: &str, token: &str) -> Result<PathBuf> {
    for number in 1..=NAMES {
        let name = match number {
            1 => format!("{stem}.jwt"),
            _ => format!("{stem}.{number}.jwt"),
        };
        let path = folder.join(name);
        match token::write_new(&path, token) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
        }
    }
    Err(Failure::new(format!("{}: too many files are called {stem}", folder.display())))
}

/// Prints, for each new edge router, the command that shows its enrollment token.
pub(super) fn hint(plan: &ChangePlan) {
    for Made { kind, name, .. } in made(plan).filter(|one| one.kind.name == "edge-router") {
        let kind = kind.name;
        output::say(format!(
            "enrollment token of {kind} {name}: weft jwt {kind} {name} -o {name}.jwt"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart() {
        let named =
            [("identity", "gw"), ("edge-router", "gw"), ("identity", "laptop"), ("identity", "..")];
        assert_eq!(
            stems(named.into_iter()),
            ["gw.identity", "gw.edge-router", "laptop", "identity"]
        );
        let named = [("identity", "a b"), ("identity", "a/b"), ("identity", "A_B")];
        assert_eq!(stems(named.into_iter()), ["a_b.identity", "a_b.identity", "A_B.identity"]);
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["1", "2", "3"].map(|token| write(folder.path(), "a_b", token).unwrap());
        for (path, token) in paths.iter().zip(["1", "2", "3"]) {
            assert_eq!(fs::read_to_string(path).unwrap(), token);
        }
        assert_eq!(paths[1], folder.path().join("a_b.2.jwt"));
        let missing = folder.path().join("no");
        assert!(write(&missing, "a", "1").unwrap_err().to_string().contains("no/a.jwt"));
    }
}
