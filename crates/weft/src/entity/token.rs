//! Enrollment tokens: where a kind keeps them, and the files they are written to.

use std::path::Path;

use clap::{Arg, ValueHint};
use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::kind::Kind;

use super::api_of;
use crate::failure::Failure;

/// The flag that names the file for an enrollment token.
pub(crate) const FLAG: &str = "jwt-output-file";

/// Where an entity keeps its token, as JSON pointers; the first that is there counts.
fn places(kind: &Kind) -> &'static [&'static str] {
    match kind.name {
        "identity" => &["/enrollment/ott/jwt", "/enrollment/ottca/jwt", "/enrollment/updb/jwt"],
        "edge-router" | "transit-router" => &["/enrollmentJwt"],
        "enrollment" => &["/jwt"],
        _ => &[],
    }
}

/// Whether entities of this kind come with a token.
pub(super) fn is_made_with(kind: &Kind) -> bool {
    !places(kind).is_empty()
}

/// The flag.
pub(super) fn arg(help: &'static str) -> Arg {
    Arg::new(FLAG)
        .long(FLAG)
        .short('o')
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .help(help)
}

/// A file that must not be there yet, because a token that is lost is lost.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        return Err(Failure::new(format!("{} exists already; nothing was done", path.display())));
    }
    Ok(())
}

/// The token of an entity.
pub(crate) async fn read(
    client: &ManagementClient,
    kind: &'static Kind,
    id: &str,
) -> Result<String, Failure> {
    let missing = || Failure::not_found(format!("{} {id} has no enrollment token", kind.name));
    let detail = kind.detail().ok_or_else(missing)?;
    let entity: Value = client.call_in(api_of(detail), detail, &[id], &[], None).await?;
    let mut found = places(kind).iter().filter_map(|place| entity.pointer(place)?.as_str());
    found.find(|token| !token.is_empty()).map(str::to_owned).ok_or_else(missing)
}

/// Writes the token of an entity to a file.
pub(super) async fn save(
    client: &ManagementClient,
    kind: &'static Kind,
    id: &str,
    path: &Path,
) -> Result<(), Failure> {
    let token = read(client, kind, id).await?;
    std::fs::write(path, token).map_err(|error| {
        Failure::new(format!(
            "the enrollment token of {} {id} cannot be written to {}: {error}; `weft jwt {} {id}` \
             shows it",
            kind.name,
            path.display(),
            kind.name
        ))
    })
}
