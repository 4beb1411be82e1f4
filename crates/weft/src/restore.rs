//! Replaces the database of a controller with a snapshot.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use weft_store::{Hold, sync_folder_of};

use crate::failure::{Failure, Result};
use crate::output;

/// Suffix of the name of a replaced database; a number follows.
const KEPT: &str = "before-restore";
/// The first bytes of a database.
const DATABASE_BEGINS: &[u8] = b"redb";

/// Checks the snapshot, writes it as a new database on a new timeline, and replaces the present
/// one, which is kept. The present database stays locked meanwhile, because later writes to it
/// would be lost.
pub(crate) fn restore(database: &Path, snapshot: &Path) -> Result<()> {
    let during = |failure: Failure| failure.during("nothing was restored");
    check(snapshot).map_err(during)?;
    let held = hold(database).map_err(during)?;
    let fresh = beside(database, "restoring");
    if fresh.exists() {
        // A leftover of an interrupted restore, which was never used.
        fs::remove_file(&fresh).map_err(|error| during(at(&fresh, &error)))?;
    }
    let head = weft_store::restore(snapshot, &fresh).map_err(|error| {
        during(Failure::caused_by(&error).during(format!("snapshot {}", snapshot.display())))
    })?;
    let held = match held {
        // There was no database to hold at the beginning.
        None => hold(database).map_err(during)?,
        held => held,
    };
    keep_owner(database, &fresh).map_err(|error| during(at(&fresh, &error)))?;
    let kept = keep(database).map_err(during)?;
    fs::rename(&fresh, database).map_err(|error| during(at(database, &error)))?;
    sync_folder_of(database).map_err(|error| at(database, &error).during("not yet durable"))?;
    drop(held);
    output::line(format_args!("restored {} to {}", snapshot.display(), database.display()));
    output::line(format_args!("revision {}, timeline {}", head.revision, head.timeline));
    if let Some(kept) = kept {
        output::line(format_args!("the database that was there is now {}", kept.display()));
    }
    output::line(
        "run the controller: everybody logs in anew, and routers take the whole data model",
    );
    Ok(())
}

/// Refuses a file that is no database. The store finds damage in a database.
pub(crate) fn check(snapshot: &Path) -> Result<()> {
    let mut begin = Vec::new();
    let read = File::open(snapshot)
        .and_then(|file| file.take(DATABASE_BEGINS.len() as u64).read_to_end(&mut begin));
    read.map_err(|error| at(snapshot, &error))?;
    match begin == DATABASE_BEGINS {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} is no snapshot of a database of weft; `weft database snapshot` makes one",
            snapshot.display()
        ))),
    }
}

/// Locks the database, so that no process has it open; `None` if there is no database. A damaged one is
/// locked, too, because damage is a reason to restore.
fn hold(database: &Path) -> Result<Option<Hold>> {
    Hold::take(database).map_err(|error| Failure::caused_by(&error))
}

/// Gives the new database the owner, group and mode of the present one: the controller may run as another
/// user than this command. Without a present one, the new one belongs to the owner of its folder already.
#[cfg(unix)]
pub(crate) fn keep_owner(database: &Path, fresh: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let former = match fs::metadata(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        former => former?,
    };
    let own = fs::metadata(fresh)?;
    if own.uid() != former.uid() || own.gid() != former.gid() {
        // Only root may give files to another user; the file of a group's member stays usable.
        let _ = chown(fresh, Some(former.uid()), Some(former.gid()));
    }
    fs::set_permissions(fresh, former.permissions())
}

#[cfg(not(unix))]
pub(crate) fn keep_owner(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Gives the database a second name, so that a database exists at every moment, also after a crash.
fn keep(database: &Path) -> Result<Option<PathBuf>> {
    for number in 1.. {
        let kept = beside(database, &format!("{KEPT}-{number}"));
        match fs::hard_link(database, &kept) {
            Ok(()) => return durable(kept),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Some file systems have no hard links.
            Err(_) => {
                let copied = fs::copy(database, &kept).and_then(|_| File::open(&kept)?.sync_all());
                return match copied {
                    Ok(()) => durable(kept),
                    Err(error) => Err(at(&kept, &error)),
                };
            }
        }
    }
    Ok(None)
}

fn durable(kept: PathBuf) -> Result<Option<PathBuf>> {
    match sync_folder_of(&kept) {
        Ok(()) => Ok(Some(kept)),
        Err(error) => Err(at(&kept, &error)),
    }
}

/// A path in the same folder, with another ending.
pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_model::entity::Service;
    use weft_model::{Base, Change, ChangeSet, Id, Revision, Timestamp};
    use weft_store::{Embedded, Options, Store as _};

    use super::*;

    async fn write(store: &Embedded, name: &str) {
        let base = Base::new(Id::new(name), Timestamp(1));
        let service = Service { base, name: name.into(), ..Service::default() };
        let set = Arc::new(ChangeSet::of([Change::Put(service.into())]));
        let head = store.head().unwrap().revision;
        store.commit(head, vec![set]).await.unwrap();
    }

    fn names(database: &Path) -> Vec<String> {
        let store = Embedded::open(database, Options::default()).unwrap();
        let mut names = Vec::new();
        store.load(&mut |entity| names.push(entity.id().to_string())).unwrap();
        names
    }

    #[tokio::test]
    async fn a_snapshot_takes_the_place_of_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let [database, snapshot] = ["ctrl.db", "snapshot"].map(|name| folder.path().join(name));
        let store = Embedded::open(&database, Options::default()).unwrap();
        write(&store, "early").await;
        store.backup(&snapshot).await.unwrap();
        write(&store, "late").await;
        let before = store.head().unwrap();

        let error = restore(&database, &snapshot).unwrap_err().to_string();
        assert!(error.contains("in use by another process"), "{error}");
        drop(store);
        let error = restore(&database, &folder.path().join("nothing")).unwrap_err().to_string();
        assert!(error.contains("nothing was restored"), "{error}");
        assert!(error.contains("nothing: No such file"), "{error}");
        fs::write(folder.path().join("garbage"), b"this is no database").unwrap();
        let error = restore(&database, &folder.path().join("garbage")).unwrap_err().to_string();
        assert!(error.contains("garbage is no snapshot of a database of weft"), "{error}");
        assert!(!error.contains("damaged"), "{error}");
        assert_eq!(names(&database), ["early", "late"]);

        restore(&database, &snapshot).unwrap();
        assert_eq!(names(&database), ["early"]);
        let kept = folder.path().join("ctrl.db.before-restore-1");
        assert_eq!(names(&kept), ["early", "late"]);
        let after = Embedded::open(&database, Options::default()).unwrap().head().unwrap();
        assert_eq!(after.revision, Revision(1));
        assert_ne!(after.timeline, before.timeline);

        // The database stays with its owner, whoever restores it; others cannot give a file away.
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
            fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
            let _ = chown(&database, Some(4321), Some(4322));
            let of = || fs::metadata(&database).map(|it| (it.uid(), it.gid(), it.mode())).unwrap();
            let former = of();
            restore(&database, &snapshot).unwrap();
            assert_eq!(of(), former);
            fs::remove_file(folder.path().join("ctrl.db.before-restore-2")).unwrap();
        }

        // Again, over a database that cannot be opened, and where there is none.
        fs::write(&database, b"cut").unwrap();
        restore(&database, &snapshot).unwrap();
        assert_eq!(fs::read(folder.path().join("ctrl.db.before-restore-2")).unwrap(), b"cut");
        let elsewhere = folder.path().join("new.db");
        restore(&elsewhere, &snapshot).unwrap();
        assert_eq!(names(&elsewhere), ["early"]);
    }
}
