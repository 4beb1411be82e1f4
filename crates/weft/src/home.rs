//! The folder of a network of `weft quickstart`, or of a controller of `weft controller config`.
//!
//! ```text
//! <home>/controller.yaml    the controller's configuration
//! <home>/controller.db      the model of the network: entities and policies
//! <home>/router.yaml        the edge router's configuration; its state lies beside it
//! <home>/pki/               certificates and keys: root, edge signer, controller, router
//! <home>/router.log         the router's log, if it is a process of its own
//! <home>/routers/2/         the second router: its configuration, keys and log; and so on
//! <home>/controller.log     the controller's log, if it is a process of its own
//! <home>/controllers/2/     the second controller, if several share the network: a home like this one; and so on
//! <home>/etcd/              the etcd of several controllers: its configuration, log and data
//! <home>/lock               held while a process uses the home
//! ```
//!
//! Paths are absolute, so that the files also work from another working directory.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use weft_identity::give_to_owner_of_folder;

use crate::failure::{Failure, Result};

const CONTROLLER_FILE: &str = "controller.yaml";
const CONTROLLER_LOG: &str = "controller.log";
const CONTROLLERS: &str = "controllers";
const ETCD: &str = "etcd";
const DATABASE: &str = "controller.db";
const ROUTER_FILE: &str = "router.yaml";
const ROUTER_LOG: &str = "router.log";
const ROUTERS: &str = "routers";
const PKI: &str = "pki";
const LOCK: &str = "lock";

/// Names that a home without a network may hold: they were made before its creation was interrupted.
const BEGINNINGS: &[&str] = &[LOCK, PKI, ROUTER_FILE, ROUTERS, CONTROLLERS, ETCD, DATABASE];

/// A home that is locked by this process.
#[derive(Debug)]
pub(crate) struct Home {
    root: PathBuf,
    /// The locked file. The lock ends with the process, too.
    _lock: File,
    /// Folders that this process made for the home, the innermost first.
    made: Vec<PathBuf>,
    /// True if this process made the file of the lock.
    is_lock_made: bool,
}

impl Home {
    /// Locks the folder, which is created if it does not exist.
    pub(crate) fn open(given: Option<&Path>) -> Result<Self> {
        let root = match given {
            Some(given) => given.to_owned(),
            None => default_root()?,
        };
        let at = |what: &str, error: io::Error| {
            Failure::new(format!("{what} the home {}: {error}", root.display()))
        };
        check_path(&root)?;
        let missing =
            root.ancestors().take_while(|one| !one.as_os_str().is_empty() && !one.exists());
        let made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        make_private(&root).map_err(|error| at("cannot make", error))?;
        let root = fs::canonicalize(&root).map_err(|error| at("cannot use", error))?;
        check_path(&root)?;
        refuse_strangers(&root)?;
        let is_lock_made = !root.join(LOCK).exists();
        let lock = lock(&root)?;
        Ok(Self { root, _lock: lock, made, is_lock_made })
    }

    /// Removes the files and folders that opening made, for a network that is not created.
    pub(crate) fn leave_nothing(&self) {
        if !self.is_lock_made {
            return;
        }
        // Errors are ignored: a folder that holds anything else stays.
        let _ = fs::remove_dir(self.root.join(PKI));
        let _ = fs::remove_file(self.root.join(LOCK));
        for folder in &self.made {
            let _ = fs::remove_dir(folder);
        }
    }

    /// True if the home has no network yet. The controller's file is the last that is created.
    pub(crate) fn is_new(&self) -> bool {
        !self.controller_file().exists()
    }

    /// A file or folder of the home that an earlier command made: the controller's file, its database, or
    /// the folder of certificates and keys.
    pub(crate) fn existing(&self) -> Option<PathBuf> {
        [CONTROLLER_FILE, DATABASE, PKI]
            .iter()
            .map(|name| self.root.join(name))
            .find(|it| it.exists())
    }

    /// Makes the folder of certificates and keys.
    pub(crate) fn make_pki_folder(&self) -> Result<()> {
        make_folder(&self.root.join(PKI))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A certificate or key.
    pub(crate) fn pki(&self, name: &str) -> PathBuf {
        self.root.join(PKI).join(name)
    }

    /// The controller's configuration.
    pub(crate) fn controller_file(&self) -> PathBuf {
        self.root.join(CONTROLLER_FILE)
    }

    /// The model of the network.
    pub(crate) fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    /// The folder of one of several controllers, by its number: this home for the first one. It is a home, too.
    pub(crate) fn controller_folder(&self, number: u8) -> PathBuf {
        match number {
            ..=1 => self.root.clone(),
            number => self.root.join(CONTROLLERS).join(number.to_string()),
        }
    }

    /// The configuration of one of several controllers.
    pub(crate) fn file_of_controller(&self, number: u8) -> PathBuf {
        self.controller_folder(number).join(CONTROLLER_FILE)
    }

    /// Log of a controller that is a process of its own.
    pub(crate) fn controller_log(&self, number: u8) -> PathBuf {
        self.controller_folder(number).join(CONTROLLER_LOG)
    }

    /// Number of controllers with a configuration here.
    pub(crate) fn controller_count(&self) -> u8 {
        (1..=u8::MAX).take_while(|it| self.file_of_controller(*it).exists()).last().unwrap_or(0)
    }

    /// Removes the configurations of all controllers but the first, whose creation was interrupted. Keys in their
    /// folders stay.
    pub(crate) fn forget_further_controllers(&self) -> Result<()> {
        for number in 2..=u8::MAX {
            let path = self.file_of_controller(number);
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
            }
        }
        Ok(())
    }

    /// The folder of the etcd that belongs to the network.
    pub(crate) fn etcd_folder(&self) -> PathBuf {
        self.root.join(ETCD)
    }

    /// Makes the folder of etcd.
    pub(crate) fn make_etcd_folder(&self) -> Result<()> {
        make_folder(&self.etcd_folder())
    }

    /// The folder of a router, by its number: the home for the first router.
    pub(crate) fn router_folder(&self, number: u8) -> PathBuf {
        match number {
            ..=1 => self.root.clone(),
            number => self.root.join(ROUTERS).join(number.to_string()),
        }
    }

    /// The configuration of a router.
    pub(crate) fn router_file(&self, number: u8) -> PathBuf {
        self.router_folder(number).join(ROUTER_FILE)
    }

    /// The folder of a router's keys and certificates.
    pub(crate) fn router_keys(&self, number: u8) -> PathBuf {
        match number {
            ..=1 => self.root.join(PKI),
            number => self.router_folder(number),
        }
    }

    /// Log of a router that is a process of its own.
    pub(crate) fn router_log(&self, number: u8) -> PathBuf {
        self.router_folder(number).join(ROUTER_LOG)
    }

    /// Number of routers with a configuration here.
    pub(crate) fn router_count(&self) -> u8 {
        (1..=u8::MAX).take_while(|number| self.router_file(*number).exists()).last().unwrap_or(0)
    }

    /// Removes the configurations of routers behind `last`, whose creation was interrupted. Keys and
    /// logs in their folders stay.
    pub(crate) fn forget_routers_behind(&self, last: u8) -> Result<()> {
        for number in last + 1..=self.router_count() {
            let path = self.router_file(number);
            fs::remove_file(&path)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
        Ok(())
    }

    /// Makes the folder of a router.
    pub(crate) fn make_router_folder(&self, number: u8) -> Result<()> {
        make_folder(&self.router_folder(number))
    }
}

/// Makes a folder of the home.
fn make_folder(path: &Path) -> Result<()> {
    make_private(path)
        .map(|()| belong_to_folder(path))
        .map_err(|error| Failure::new(format!("cannot make {}: {error}", path.display())))
}

/// Refuses a folder that has no network and holds other things than [`BEGINNINGS`].
fn refuse_strangers(root: &Path) -> Result<()> {
    if root.join(CONTROLLER_FILE).exists() {
        return Ok(());
    }
    let entries =
        fs::read_dir(root).map_err(|error| Failure::new(format!("{}: {error}", root.display())))?;
    let stranger = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .find(|name| !BEGINNINGS.iter().any(|own| name == own));
    match stranger {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "{} holds other things ({}); name an empty folder with --home",
            root.display(),
            name.display()
        ))),
    }
}

/// The path as text. A home whose path is not UTF-8 was refused earlier ([`Home::open`]).
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn default_root() -> Result<PathBuf> {
    directories::ProjectDirs::from("", "", "weft")
        .map(|folders| folders.data_dir().join("quickstart"))
        .ok_or_else(|| Failure::usage("there is no home folder of the user; name one with --home"))
}

fn lock(root: &Path) -> Result<File> {
    let path = root.join(LOCK);
    let failed =
        |error: io::Error| Failure::new(format!("cannot lock {}: {error}", path.display()));
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let is_new = !path.exists();
    let file = options.open(&path).map_err(failed)?;
    if is_new {
        give_to_owner_of_folder(&file, &path);
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::new(format!(
            "the home {} is in use by a running `weft quickstart`: stop that one, or choose another \
             folder with --home",
            root.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Refuses paths with `$`, which would begin a variable in the configuration files.
pub(crate) fn check_path(root: &Path) -> Result<()> {
    match root.to_str() {
        Some(text) if !text.contains('$') => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "{}: `$` begins a variable in configuration files; choose a folder without it",
            root.display()
        ))),
        None => Err(Failure::usage(format!(
            "{}: not text in UTF-8, as configuration files are; choose another folder",
            root.display()
        ))),
    }
}

/// Gives a folder of the home to the owner of the folder around it, if root makes it for a service.
fn belong_to_folder(path: &Path) {
    if let Ok(folder) = File::open(path) {
        give_to_owner_of_folder(&folder, path);
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_holds_a_home() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        let home = Home::open(Some(&root)).unwrap();
        assert!(home.is_new());
        let error = Home::open(Some(&root)).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(home);
        Home::open(Some(&root)).unwrap();
    }

    #[test]
    fn other_peoples_folders_are_refused_until_there_is_a_network() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letter.txt"), "").unwrap();
        let error = Home::open(Some(folder.path())).unwrap_err();
        assert!(error.to_string().contains("letter.txt"), "{error}");
        assert!(!folder.path().join(LOCK).exists());
        fs::write(folder.path().join(CONTROLLER_FILE), "").unwrap();
        assert!(!Home::open(Some(folder.path())).unwrap().is_new());
    }

    #[test]
    fn a_network_that_is_not_created_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        Home::open(Some(&folder.path().join("a/b"))).unwrap().leave_nothing();
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
        // Files of other programs stay.
        fs::create_dir_all(folder.path().join("c")).unwrap();
        fs::write(folder.path().join("c").join(LOCK), "").unwrap();
        Home::open(Some(&folder.path().join("c"))).unwrap().leave_nothing();
        assert!(folder.path().join("c").join(LOCK).exists());
    }

    #[test]
    fn what_would_be_a_variable_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Home::open(Some(&folder.path().join("a$b"))).unwrap_err();
        assert!(error.to_string().contains("variable"), "{error}");
    }
}
