//! Opening files below a location and nowhere else.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::encodings::{Encoding, Encodings};

/// Files beside a file that hold it in another form.
const SIBLINGS: [(Encoding, &str); 2] = [(Encoding::Brotli, ".br"), (Encoding::Gzip, ".gz")];

/// A file that is open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) modified: Option<SystemTime>,
    /// Another one whenever the file has changed.
    pub(super) version: String,
}

/// What was found for a request.
#[derive(Debug)]
pub(super) struct Found {
    /// Its place below the location.
    pub(super) place: PathBuf,
    pub(super) plain: Opened,
    /// Forms of it that somebody has put beside it and that the client takes.
    pub(super) siblings: Vec<(Encoding, Opened)>,
}

/// Opens the file at a place; what is not there, or is no file, is the index. The kernel sees to
/// it that no link leads out of the location (`openat2`; elsewhere every step is looked at).
pub(super) fn find(
    location: &Path,
    place: Option<PathBuf>,
    index: &Path,
    encodings: &Encodings,
) -> io::Result<Found> {
    // Opened anew, because an update may put another directory in its place.
    let location = Dir::open_ambient_dir(location, ambient_authority())?;
    let asked = match place {
        Some(place) if !place.as_os_str().is_empty() => {
            open(&location, &place)?.map(|plain| (place, plain))
        }
        _ => None,
    };
    let (place, plain) = match asked {
        Some(asked) => asked,
        None => {
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
            // One that stayed behind when the file was replaced is another version.
            if sibling.modified >= plain.modified {
                siblings.push((encoding, sibling));
            }
        }
    }
    Ok(Found { place, plain, siblings })
}

/// Opens a file; none if nothing is there, or if it is no file.
fn open(location: &Dir, place: &Path) -> io::Result<Option<Opened>> {
    // Looked at before it is opened: opening a pipe would wait for who writes into it.
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
    /// Whether the file is still what it was when it was opened.
    pub(super) fn is_unchanged(file: &File, version_then: &str) -> bool {
        file.metadata().is_ok_and(|now| version(&now) == version_then)
    }

    /// When it was changed, as far as that is known: packages give all their files the time zero.
    pub(super) fn last_modified(&self) -> Option<SystemTime> {
        let earliest = UNIX_EPOCH + Duration::from_secs(24 * 3600);
        self.modified.filter(|time| (earliest..=SystemTime::now()).contains(time))
    }
}

/// Length and times. The time of the last change of the entry is among them because packages give
/// all their versions of a file the same time of modification.
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
