//! Enrollment tokens: the members that hold them, and the files they are written to.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::{Arg, ValueHint};
use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::kind::Kind;

use super::operations::api_of;
use crate::failure::{Failure, Result};

/// The flag that names the file for an enrollment token.
pub(crate) const FLAG: &str = "jwt-output-file";

/// Members of an entity that may hold its token, as JSON pointers; the first that exists is used.
fn places(kind: &Kind) -> &'static [&'static str] {
    match kind.name {
        "identity" => &["/enrollment/ott/jwt", "/enrollment/ottca/jwt", "/enrollment/updb/jwt"],
        "edge-router" | "transit-router" => &["/enrollmentJwt"],
        "enrollment" => &["/jwt"],
        _ => &[],
    }
}

/// True if new entities of this kind have a token.
pub(super) fn is_made_with(kind: &Kind) -> bool {
    !places(kind).is_empty()
}

/// The argument of the flag.
pub(super) fn arg(help: &'static str) -> Arg {
    Arg::new(FLAG)
        .long(FLAG)
        .short('o')
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .help(help)
}

/// Checks that the file does not exist and its folder does: a token that could not be written would
/// be lost.
pub(super) fn check(path: &Path) -> Result<()> {
    if path.exists() {
        return Err(Failure::new(format!("{} exists already; nothing was done", path.display())));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::new(format!(
            "{}: there is no such folder; nothing was done",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// The token of an entity, if it has one.
pub(crate) async fn find(
    client: &ManagementClient,
    kind: &'static Kind,
    id: &str,
) -> Result<Option<String>> {
    let Some(detail) = kind.detail() else { return Ok(None) };
    let entity: Value = client.call_in(api_of(detail), detail, &[id], &[], None).await?;
    let mut found = places(kind).iter().filter_map(|place| entity.pointer(place)?.as_str());
    Ok(found.find(|token| !token.is_empty()).map(str::to_owned))
}

/// The failure that an entity has no token.
pub(crate) fn missing(kind: &Kind, id: &str) -> Failure {
    Failure::not_found(format!("{} {id} has no enrollment token", kind.name))
}

/// Writes the token of an entity to a file.
pub(super) async fn save(
    client: &ManagementClient,
    kind: &'static Kind,
    id: &str,
    path: &Path,
) -> Result<()> {
    let token = find(client, kind, id).await?.ok_or_else(|| missing(kind, id))?;
    write_new(path, &token).map_err(|error| {
        Failure::new(format!(
            "the enrollment token of {} {id} cannot be written to {}: {error}; `weft jwt {} {id}` \
             shows it",
            kind.name,
            path.display(),
            kind.name
        ))
    })
}

/// Writes a token to a new file that only its owner may read, because any holder of the token can
/// enroll with it.
pub(crate) fn write_new(path: &Path, token: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    let written = file.write_all(token.as_bytes()).and_then(|()| file.sync_all());
    written.inspect_err(|_| {
        // A part of a token is useless.
        let _ = fs::remove_file(path);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_known_before_anything_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("laptop.jwt");
        check(&path).unwrap();
        check(Path::new("laptop-that-is-not-here.jwt")).unwrap();
        fs::write(&path, "").unwrap();
        assert!(check(&path).unwrap_err().to_string().contains("exists already"));
        let missing = check(&folder.path().join("no/laptop.jwt")).unwrap_err().to_string();
        assert!(missing.contains("no such folder"), "{missing}");
    }

    #[test]
    fn tokens_are_for_their_owner_and_overwrite_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("laptop.jwt");
        write_new(&path, "a.b.c").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a.b.c");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = write_new(&path, "d.e.f").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a.b.c");
    }
}
