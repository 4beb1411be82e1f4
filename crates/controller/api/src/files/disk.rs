//! Opens files below a location, and nothing outside of it.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::encodings::{Encoding, Encodings};

/// Suffixes of files that hold another file in compressed form.
const SIBLINGS: [(Encoding, &str); 2] = [(Encoding::Brotli, ".br"), (Encoding::Gzip, ".gz")];

/// An open file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) modified: Option<SystemTime>,
    /// The version of the file; it differs after every change.
    pub(super) version: String,
}

/// The files found for a request.
#[derive(Debug)]
pub(super) struct Found {
    /// The path of the file below the location.
    pub(super) place: PathBuf,
    pub(super) plain: Opened,
    /// The compressed forms beside the file that the client accepts.
    pub(super) siblings: Vec<(Encoding, Opened)>,
}

/// Opens the file at a path. A path without a regular file leads to the index, unless it has the ending of a file:
/// `None` then, so that a script or a picture that is missing is not taken for a page. No symbolic link can lead
/// out of the location: the kernel checks it (`openat2`; on other systems each step is checked).
pub(super) fn find(
    location: &Path,
    place: Option<PathBuf>,
    index: &Path,
    encodings: &Encodings,
) -> io::Result<Option<Found>> {
    // The directory is opened for each request, because an update may replace it.
    let location = Dir::open_ambient_dir(location, ambient_authority())?;
    let asked = place.filter(|place| !place.as_os_str().is_empty());
    let opened = asked.as_ref().map(|place| open(&location, place)).transpose()?.flatten();
    let (place, plain) = match (asked, opened) {
        (Some(place), Some(plain)) => (place, plain),
        (Some(place), None) if has_ending(&place) && !is_directory(&location, &place) => {
            return Ok(None);
        }
        _ => {
            let plain = open(&location, index)?.ok_or(io::ErrorKind::NotFound)?;
            (index.to_owned(), plain)
        }
    };
    let mut siblings = Vec::new();
    for (encoding, suffix) in SIBLINGS {
        if !encodings.takes(encoding) {
            continue;
        }
        let mut beside = OsString::from(&place);
        beside.push(suffix);
        if let Ok(Some(sibling)) = open(&location, Path::new(&beside)) {
            // A compressed form that is older than the file is of another version.
            if sibling.modified >= plain.modified {
                siblings.push((encoding, sibling));
            }
        }
    }
    Ok(Some(Found { place, plain, siblings }))
}

/// Whether a path ends like the name of a file of a known type. The ids of entities, which are in the paths that an
/// application interprets, may have dots, too.
fn has_ending(place: &Path) -> bool {
    mime_guess::from_path(place).first_raw().is_some()
}

fn is_directory(location: &Dir, place: &Path) -> bool {
    location.metadata(place).is_ok_and(|found| found.is_dir())
}

/// Opens a regular file; `None` if there is none at the path.
fn open(location: &Dir, place: &Path) -> io::Result<Option<Opened>> {
    // Checked before opening, because opening a pipe waits for its writer.
    match location.metadata(place) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let file = location.open(place)?.into_std();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let modified = metadata.modified().ok();
    let version = version(&metadata);
    Ok(Some(Opened { length: metadata.len(), modified, version, file }))
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

impl Opened {
    /// Whether a file is still unchanged since it was opened.
    pub(super) fn is_unchanged(file: &File, version_then: &str) -> bool {
        file.metadata().is_ok_and(|now| version(&now) == version_then)
    }

    /// The time of the last change of the file. `None` for a time on the first day of 1970, which
    /// packages give all their files, and for a time in the future.
    pub(super) fn last_modified(&self) -> Option<SystemTime> {
        let earliest = UNIX_EPOCH + Duration::from_secs(24 * 3600);
        self.modified.filter(|time| (earliest..=SystemTime::now()).contains(time))
    }
}

/// The version of a file, from its length and times. The change time of the inode is included,
/// because packages give all versions of a file the same modification time.
fn version(metadata: &Metadata) -> String {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{:x}-{:x}-{:x}", metadata.len(), since.as_nanos(), changed(metadata))
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> i128 {
    use std::os::unix::fs::MetadataExt as _;
    i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn changed(_metadata: &Metadata) -> i128 {
    0
}
