//! The lock of a running controller.

use std::fs::File;

use super::writer::{Layout, write};
use super::{Stored, example};
use crate::{Bolt, BoltError};

#[test]
fn a_locked_database_is_refused_with_the_command_for_a_copy() {
    let stored = Stored::new(&write(&example(), &Layout::default()));
    let holder = File::open(&stored.path).unwrap();
    holder.lock().unwrap();
    let error = Bolt::open(&stored.path).unwrap_err();
    assert!(matches!(error, BoltError::InUse(_)));
    let text = error.to_string();
    assert!(
        text.contains("ziti fabric db snapshot")
            && text.contains("ziti agent controller snapshot-db")
    );
    holder.unlock().unwrap();
    drop(Bolt::open(&stored.path).unwrap());
}

#[test]
fn an_open_database_can_be_read_by_others_and_written_by_none() {
    let stored = Stored::new(&write(&example(), &Layout::default()));
    let first = Bolt::open(&stored.path).unwrap();
    let second = Bolt::open(&stored.path).unwrap();
    let writer = File::open(&stored.path).unwrap();
    assert!(writer.try_lock().is_err());
    drop((first, second));
    assert!(writer.try_lock().is_ok());
}

#[test]
fn a_database_that_cannot_be_written_is_read_and_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let bytes = write(&example(), &Layout::default());
    let stored = Stored::new(&bytes);
    std::fs::set_permissions(&stored.path, PermissionsExt::from_mode(0o400)).unwrap();
    assert_eq!(super::read(&stored.path).unwrap(), example());
    assert_eq!(std::fs::read(&stored.path).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(stored.path.parent().unwrap()).unwrap().count(), 1);
}
