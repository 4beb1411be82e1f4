//! Identities on the command line: files, enrollment tokens, and folders of both.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use weft_sdk::{Context, ContextBuilder};

use super::explain;
use crate::{
    enroll::{enroll_beside, read_token},
    failure::Failure,
    output,
};

/// The identity files that paths on the command line name. A token is enrolled, once; from then on its
/// identity file lies beside it.
pub(super) async fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = BTreeSet::new();
    for path in named {
        if path.is_dir() {
            let inside = inside(path)?;
            if inside.is_empty() {
                let text = format!("the folder {} has no .json or .jwt file", path.display());
                return Err(Failure::not_found(text));
            }
            for path in inside {
                files.insert(file(&path).await?);
            }
        } else {
            files.insert(file(path).await?);
        }
    }
    Ok(files.into_iter().collect())
}

/// The identity file that one path names.
pub(super) async fn file(path: &Path) -> Result<PathBuf, Failure> {
    if !is(path, "jwt") {
        return Ok(path.to_owned());
    }
    let file = path.with_extension("json");
    if file.exists() {
        return Ok(file);
    }
    enroll_beside(&read_token(path)?, &file).await?;
    output::say(format!("enrolled {}: the identity is in {}", path.display(), file.display()));
    Ok(file)
}

/// Identity files and tokens in a folder. A token with an identity file counts as that file.
fn inside(folder: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() && (is(&path, "json") || is(&path, "jwt")) {
            found.insert(path);
        }
    }
    let known = found.clone();
    found.retain(|path| is(path, "json") || !known.contains(&path.with_extension("json")));
    Ok(found)
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|known| known.eq_ignore_ascii_case(extension))
}

/// A builder of contexts, which ask for the configs that tunnelers read.
pub(super) fn builder(refresh: Duration) -> ContextBuilder {
    Context::builder()
        .config_types(weft_tunnel::config::TYPES)
        .refresh_interval(refresh)
        .application("weft", env!("CARGO_PKG_VERSION"))
}

/// Logs in as the identity of a file or token.
pub(super) async fn log_in(path: &Path, refresh: Duration) -> Result<Context, Failure> {
    log_in_with(path, builder(refresh)).await
}

/// Logs in as the identity of a file or token, with this builder.
pub(super) async fn log_in_with(path: &Path, builder: ContextBuilder) -> Result<Context, Failure> {
    let file = file(path).await?;
    let context = builder.load(&file).await;
    context.map_err(|error| explain::failure(&error).during(file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_a_folder_is_used_until_it_is_enrolled() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a.json", "a.jwt", "b.jwt", "c.txt"] {
            std::fs::write(at(name), "x").unwrap();
        }
        std::fs::create_dir(at("d.json")).unwrap();
        let found: Vec<PathBuf> = inside(folder.path()).unwrap().into_iter().collect();
        assert_eq!(found, [at("a.json"), at("b.jwt")]);
    }
}
