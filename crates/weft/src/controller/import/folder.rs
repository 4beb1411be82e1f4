//! The folder of a controller that an import makes: all of it, or nothing.
//!
//! ```text
//! DIR.importing/   the folder while it is made; a leftover of an interrupted import is removed by the next one
//! DIR/             the finished folder: it gets its name when everything is on the disk
//! DIR.replaced-1/  a finished folder that an import with --force replaced; and so on
//! ```
//!
//! `DIR/import.json` says what was imported, so that the same import is not made twice.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_identity::{give_to_owner_of_folder, write_private};
use weft_store::{Hold, sync_folder_of};

use super::original::at;
use super::trust;
use crate::failure::{Failure, Result};
use crate::home;

/// The file that says what was imported.
pub(super) const NOTE: &str = "import.json";
/// The file that is locked while the folder is made, and the lock of a finished folder.
const LOCK: &str = "lock";
/// The store.
pub(super) const DATABASE: &str = "controller.db";
/// The controller's file.
const FILE: &str = "controller.yaml";

/// What is at the place of the folder before an import.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing, or an empty folder.
    Nothing,
    /// The result of the same import.
    Same,
    /// The result of another one.
    Other,
}

/// The place of the folder.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
}

impl Place {
    /// The place, as a path that stays right in another working folder.
    pub(super) fn new(given: &Path) -> Result<Self> {
        let root = std::path::absolute(given).map_err(|error| at(given, error))?;
        if root.file_name().is_none() {
            return Err(Failure::usage(format!("{}: name a new folder", given.display())));
        }
        home::check_path(&root)?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The controller's file in it.
    pub(super) fn file(&self) -> PathBuf {
        self.root.join(FILE)
    }

    /// The store in it.
    pub(super) fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    /// What is there. `source` is the digest of what is to be imported.
    pub(super) fn before(&self, source: &str) -> Result<Before> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Before::Nothing),
            entries => entries.map_err(|error| at(&self.root, error))?,
        };
        let first = entries.filter_map(io::Result::ok).map(|entry| entry.file_name()).next();
        let Some(first) = first else { return Ok(Before::Nothing) };
        let note = fs::read(self.root.join(NOTE)).ok();
        let note = note.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        match note.as_ref().and_then(|note| note["source"].as_str()) {
            Some(found) if found == source && self.file().exists() => Ok(Before::Same),
            Some(_) => Ok(Before::Other),
            None => Err(Failure::usage(format!(
                "{} holds other things ({}): name a new folder with --output",
                self.root.display(),
                first.display()
            ))),
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.root.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }

    /// Begins to make the folder.
    pub(super) fn begin(self) -> Result<Building> {
        let folder = self.beside(".importing");
        if let Some(above) = folder.parent() {
            fs::create_dir_all(above).map_err(|error| at(above, error))?;
        }
        make_private(&folder)?;
        let lock = folder.join(LOCK);
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&lock).map_err(|error| at(&lock, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(at(&folder, "another import writes there now"));
            }
            Err(TryLockError::Error(error)) => return Err(at(&lock, error)),
        }
        give_to_owner_of_folder(&file, &lock);
        // What an interrupted import left was never used.
        for entry in fs::read_dir(&folder).map_err(|error| at(&folder, error))? {
            let path = entry.map_err(|error| at(&folder, error))?.path();
            if path == lock {
                continue;
            }
            let removed = match path.is_dir() && !path.is_symlink() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            removed.map_err(|error| at(&path, error))?;
        }
        make_private(&folder.join(trust::FOLDER))?;
        Ok(Building { place: self, folder, _lock: file, is_finished: false })
    }
}

/// A folder that is being made. It is removed if it is not finished.
#[derive(Debug)]
pub(super) struct Building {
    place: Place,
    folder: PathBuf,
    _lock: File,
    is_finished: bool,
}

impl Building {
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The folder of keys and certificates.
    pub(super) fn trust(&self) -> PathBuf {
        self.folder.join(trust::FOLDER)
    }

    /// The store.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join(DATABASE)
    }

    /// Writes the controller's file.
    pub(super) fn write_file(&self, text: &str) -> Result<()> {
        Ok(write_private(&self.folder.join(FILE), text.as_bytes())?)
    }

    /// Gives the folder its name, after everything in it is on the disk. Returns the new name of the folder that was there.
    pub(super) fn finish(mut self, source: &str, about: Value) -> Result<Option<PathBuf>> {
        let mut note = json!({ "source": source });
        if let (Some(note), Value::Object(about)) = (note.as_object_mut(), about) {
            note.extend(about);
        }
        write_private(&self.folder.join(NOTE), format!("{note:#}\n").as_bytes())?;
        for file in [self.trust(), self.folder.clone()] {
            let synced = File::open(&file).and_then(|folder| folder.sync_all());
            if cfg!(unix) {
                synced.map_err(|error| at(&file, error))?;
            }
        }
        let root = self.place.root.clone();
        // Held until the folder has another name, so that no controller starts with it meanwhile.
        let held = Hold::take(&self.place.database()).map_err(|error| {
            Failure::caused_by(&error)
                .during("a controller of weft runs in the folder; nothing was replaced")
        })?;
        let replaced = match self.place.before(source)? {
            Before::Nothing => {
                fs::rename(&self.folder, &root).map_err(|error| at(&root, error))?;
                None
            }
            Before::Same | Before::Other => Some(self.exchange()?),
        };
        drop(held);
        self.is_finished = true;
        sync_folder_of(&root).map_err(|error| at(&root, error).during("not yet durable"))?;
        Ok(replaced)
    }

    /// Exchanges the folder with the one that is there, which gets a name of its own.
    fn exchange(&mut self) -> Result<PathBuf> {
        let root = &self.place.root;
        let free = (1..).map(|number| self.place.beside(&format!(".replaced-{number}")));
        let kept = { free }.find(|path| path.symlink_metadata().is_err());
        let kept = kept.ok_or_else(|| at(root, "no name is free beside it"))?;
        // Under its later name the new folder waits for the exchange, so that an interruption leaves both whole.
        fs::rename(&self.folder, &kept).map_err(|error| at(&kept, error))?;
        self.folder.clone_from(&kept);
        exchange(&kept, root).map_err(|error| at(root, error))?;
        Ok(kept)
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.is_finished {
            // Errors are ignored: the next import removes what is left.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Makes a folder that only its owner may use, if it does not exist.
fn make_private(path: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made.map_err(|error| at(path, error))?,
    }
    if let Ok(folder) = File::open(path) {
        give_to_owner_of_folder(&folder, path);
    }
    Ok(())
}

/// Exchanges two folders in one step, where the system can.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        // Some file systems cannot.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => in_turn(one, other),
        exchanged => exchanged.map_err(io::Error::from),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    in_turn(one, other)
}

/// Exchanges two folders in three steps.
fn in_turn(one: &Path, other: &Path) -> io::Result<()> {
    let mut between = one.as_os_str().to_owned();
    between.push(".new");
    fs::rename(one, &between)?;
    if let Err(error) = fs::rename(other, one) {
        fs::rename(&between, one)?;
        return Err(error);
    }
    fs::rename(&between, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path) -> Place {
        Place::new(&folder.join("new")).unwrap()
    }

    fn make(folder: &Path, source: &str) -> Result<Option<PathBuf>> {
        let building = place(folder).begin()?;
        building.write_file(source)?;
        building.finish(source, json!({ "about": 1 }))
    }

    #[test]
    fn a_folder_appears_as_a_whole_and_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let root = place(folder.path()).root().to_owned();
        assert_eq!(place(folder.path()).before("a").unwrap(), Before::Nothing);
        let building = place(folder.path()).begin().unwrap();
        building.write_file("half").unwrap();
        let error = place(folder.path()).begin().unwrap_err().to_string();
        assert!(error.contains("another import"), "{error}");
        assert!(!root.exists());
        drop(building);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left of half an import"
        );

        assert_eq!(make(folder.path(), "a").unwrap(), None);
        assert_eq!(place(folder.path()).before("a").unwrap(), Before::Same);
        assert_eq!(place(folder.path()).before("b").unwrap(), Before::Other);
        let kept = make(folder.path(), "b").unwrap().unwrap();
        assert_eq!(fs::read_to_string(kept.join(FILE)).unwrap(), "a");
        assert_eq!(fs::read_to_string(root.join(FILE)).unwrap(), "b");
        assert_eq!(place(folder.path()).before("b").unwrap(), Before::Same);
        let again = make(folder.path(), "c").unwrap().unwrap();
        assert_ne!(again, kept);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn an_interrupted_import_leaves_what_was_there_and_the_next_one_cleans_up() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), "a").unwrap();
        let building = place(folder.path()).begin().unwrap();
        building.write_file("half").unwrap();
        fs::write(building.trust().join("identity.key.pem"), "key").unwrap();
        // As if the process had ended: nothing is cleaned up, and the lock is gone.
        let left = folder.path().join("new.importing");
        let copy = folder.path().join("copy");
        fs::rename(&left, &copy).unwrap();
        drop(building);
        fs::rename(&copy, &left).unwrap();
        assert_eq!(place(folder.path()).before("a").unwrap(), Before::Same);
        let building = place(folder.path()).begin().unwrap();
        assert_eq!(fs::read_dir(building.trust()).unwrap().count(), 0);
        assert!(!left.join(FILE).exists());
    }

    #[test]
    fn folders_with_other_things_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = place(folder.path()).root().to_owned();
        fs::create_dir(&root).unwrap();
        assert_eq!(place(folder.path()).before("a").unwrap(), Before::Nothing);
        fs::write(root.join("letter.txt"), "").unwrap();
        let error = place(folder.path()).before("a").unwrap_err().to_string();
        assert!(error.contains("letter.txt"), "{error}");
        assert!(make(folder.path(), "a").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(Place::new(Path::new("/")).is_err());
        assert!(Place::new(&folder.path().join("a$b")).is_err());
    }
}
