//! How far a comparison has come, in a file.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::difference::Found;
use super::side::Sides;
use crate::failure::{Failure, Result};

/// The file is written this often.
const EACH: Duration = Duration::from_secs(5);
/// Largest file that is read, in bytes.
const MAX_STATE: u64 = 256 << 20;

/// How far a comparison has come.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// The addresses of both controllers.
    original: String,
    weft: String,
    /// Number of pairs that are wanted.
    pairs: u64,
    /// The last identity whose services were compared; empty = none.
    last_identity: String,
    pairs_done: u64,
    found: Found,
}

/// How far a comparison has come, and the file that says so.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    kept: Kept,
    written: Instant,
}

impl State {
    /// The state in a file, or that of a comparison that has not begun.
    pub(super) fn open(path: PathBuf, sides: &Sides, pairs: u64) -> Result<Self> {
        let (original, weft) = sides.addresses();
        let at = |problem: &dyn std::fmt::Display| {
            Failure::new(format!("{}: {problem}", path.display()))
        };
        let mut text = Vec::new();
        let kept = match fs::File::open(&path) {
            Ok(file) => {
                file.take(MAX_STATE).read_to_end(&mut text).map_err(|error| at(&error))?;
                let hint = "it is no state of a comparison; name another file with --state, or remove this one";
                let kept: Kept = serde_json::from_slice(&text).map_err(|_| at(&hint))?;
                if (&kept.original, &kept.weft, kept.pairs) != (&original, &weft, pairs) {
                    let Kept { original, weft, pairs, .. } = kept;
                    let what = format!(
                        "it is of a comparison of {original} with {weft} and {pairs} pairs; name another file with --state, or remove this one"
                    );
                    return Err(at(&what));
                }
                kept
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kept {
                original,
                weft,
                pairs,
                last_identity: String::new(),
                pairs_done: 0,
                found: Found::default(),
            },
            Err(error) => return Err(at(&error)),
        };
        Ok(Self { path, kept, written: Instant::now() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn found(&self) -> &Found {
        &self.kept.found
    }

    pub(super) fn pairs(&self) -> u64 {
        self.kept.pairs
    }

    pub(super) fn pairs_done(&self) -> u64 {
        self.kept.pairs_done
    }

    pub(super) fn last_identity(&self) -> &str {
        &self.kept.last_identity
    }

    /// The services of an identity were compared.
    pub(super) fn identity_done(&mut self, id: &str, found: Found) -> Result<()> {
        self.kept.last_identity = id.to_owned();
        self.done(found)
    }

    /// A pair was compared.
    pub(super) fn pair_done(&mut self, found: Found) -> Result<()> {
        self.kept.pairs_done += 1;
        self.done(found)
    }

    fn done(&mut self, found: Found) -> Result<()> {
        self.kept.found.extend(found);
        if self.written.elapsed() < EACH {
            return Ok(());
        }
        self.save()
    }

    /// Writes the file.
    pub(super) fn save(&mut self) -> Result<()> {
        self.written = Instant::now();
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("{} is not written: {error}", self.path.display()))
        };
        let text = serde_json::to_vec(&self.kept).map_err(|error| failed(&error))?;
        weft_identity::write_private(&self.path, &text).map_err(|error| failed(&error))
    }

    /// Removes the file: the comparison is complete.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "the state of the comparison is not removed");
        }
    }
}
