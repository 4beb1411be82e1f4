//! Identities on the command line: files, enrollment tokens, and folders of both.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weft_client::enroll::peek;
use weft_sdk::{DevicePrompt, Endpoint, EndpointBuilder, ExternalTokens, IdentityFile};

use super::explain;
use crate::cli::IdentityLogin;
use crate::codes::Codes;
use crate::enroll::{enroll_beside, read_token};
use crate::failure::{Failure, Result};
use crate::output;

/// The identities that paths on the command line name: for each its file, or its token if it is not
/// enrolled yet.
pub(super) fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = BTreeMap::new();
    for path in paths {
        let inside = if path.is_dir() { inside(path)? } else { BTreeSet::from([path.clone()]) };
        if inside.is_empty() {
            let text = format!("the folder {} has no .json or .jwt file", path.display());
            return Err(Failure::usage(text));
        }
        for path in inside {
            let file = file_of(&path);
            let path = if file.exists() { file.clone() } else { path };
            found.insert(file, path);
        }
    }
    Ok(found.into_values().collect())
}

/// The place of the identity file of a path.
fn file_of(path: &Path) -> PathBuf {
    if is(path, "jwt") { path.with_extension("json") } else { path.to_owned() }
}

/// The URLs of an identity's controllers; those of a token if it is not enrolled yet. Problems of the
/// files are reported when they are used.
pub(super) fn controllers(path: &Path) -> Vec<String> {
    match IdentityFile::read(&file_of(path)) {
        Ok(file) => file.apis.into_iter().chain([file.api]).collect(),
        Err(_) if is(path, "jwt") => {
            let claims = read_token(path).ok().and_then(|token| peek(&token).ok());
            claims.map(|claims| claims.iss).into_iter().collect()
        }
        Err(_) => Vec::new(),
    }
}

/// The identity file that one path names. A token is enrolled, once; from then on its identity file
/// lies beside it.
pub(super) async fn file(path: &Path) -> Result<PathBuf> {
    let file = file_of(path);
    if !is(path, "jwt") || file.exists() {
        return Ok(file);
    }
    enroll_beside(&read_token(path)?, &file).await?;
    output::say(format!("enrolled {}: the identity is in {}", path.display(), file.display()));
    Ok(file)
}

/// Identity files and tokens in a folder. A token with an identity file counts as that file.
fn inside(folder: &Path) -> Result<BTreeSet<PathBuf>> {
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

/// A builder of endpoints of the identity of a file or token, which ask for the configs that tunnelers read.
pub(super) fn builder(
    refresh: Duration,
    login: &IdentityLogin,
    codes: &Arc<Codes>,
    identity: &Path,
) -> EndpointBuilder {
    let builder = Endpoint::builder()
        .config_types(weft_tunnel::config::TYPES)
        .refresh_interval(refresh)
        .renew_certificate(!login.no_renew)
        .application("weft", env!("CARGO_PKG_VERSION"))
        .provider_login(show);
    let tokens = login.second_token.iter();
    let builder = tokens.fold(builder, |builder, token| {
        builder.second_factor_tokens(&token.signer, ExternalTokens::of_file(&token.file))
    });
    codes.with(builder, identity)
}

/// Shows the person at the terminal where to log in. Without a terminal nobody would see it.
fn show(prompt: DevicePrompt) -> Result<(), String> {
    if !std::io::stderr().is_terminal() {
        return Err("a person has to log in at the identity provider, and there is no terminal to show the address and the \
                    code at: run the command at a terminal, or name a file with the token (`weft enroll network.jwt \
                    --token-file FILE` for an identity without a certificate, `--second-token SIGNER=FILE` for a token that \
                    is a second factor)"
            .to_owned());
    }
    crate::login::show(&prompt);
    Ok(())
}

/// Logs in as the identity of a file or token.
pub(super) async fn log_in(
    path: &Path,
    refresh: Duration,
    login: &IdentityLogin,
) -> Result<Endpoint> {
    let codes = Codes::new(&login.codes, &[path.to_owned()])?;
    log_in_with(path, builder(refresh, login, &codes, path)).await
}

/// Logs in as the identity of a file or token, with this builder.
pub(super) async fn log_in_with(path: &Path, builder: EndpointBuilder) -> Result<Endpoint> {
    let file = file(path).await?;
    let endpoint = builder.load(&file).await;
    endpoint.map_err(|error| explain::failure(&error).during(file.display()))
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
        let twice = [at("a.jwt"), folder.path().to_owned(), at("b.jwt")];
        assert_eq!(named(&twice).unwrap(), [at("a.json"), at("b.jwt")]);
        std::fs::write(at("b.json"), "x").unwrap();
        assert_eq!(named(&twice).unwrap(), [at("a.json"), at("b.json")]);
        assert!(named(&[at("d.json")]).is_err(), "an empty folder");
    }
}
