//! Damaged files are refused, or their damage lies where nothing is stored.

use std::{fs, path::Path};

use proptest::prelude::*;
use weft_model::{Entity, Revision};

use super::{commit, put, rows, service};
use crate::{Embedded, OpenError, Options, Store};

/// Opens and loads a file; the rows, or what was wrong.
fn load(path: &Path) -> Result<Vec<Entity>, OpenError> {
    let store = Embedded::open(path, Options::default())?;
    let mut rows = Vec::new();
    store.load(&mut |entity| rows.push(entity))?;
    Ok(rows)
}

fn sample(folder: &Path) -> (Vec<u8>, Vec<Entity>) {
    let path = folder.join("db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rows = runtime.block_on(async {
        let store = Embedded::open(&path, Options::default()).unwrap();
        for n in 0..200 {
            let id = format!("id-{n}");
            commit(&store, vec![put(service(&id, &format!("a longer name {n}")))]).await;
        }
        assert_eq!(store.head().unwrap().revision, Revision(200));
        rows(&store)
    });
    (fs::read(&path).unwrap(), rows)
}

#[test]
fn damage_is_found_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, rows) = sample(folder.path());
    let file = folder.path().join("damaged");
    let check = |bytes: &[u8]| -> Result<bool, TestCaseError> {
        fs::write(&file, bytes).unwrap();
        match load(&file) {
            Ok(found) => {
                prop_assert!(found == rows, "wrong rows were believed");
                Ok(false)
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(matches!(error, OpenError::Damaged(_)), "{text}");
                prop_assert!(text.contains("restore the last backup"), "{text}");
                Ok(true)
            }
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(48));
    let flips = (0..whole.len(), 1..=64usize, 1u8..);
    let flipped = runner.run(&flips, |(at, count, mask)| {
        let mut bytes = whole.clone();
        bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte ^= mask);
        check(&bytes).map(drop)
    });
    let cut = runner.run(&(0..whole.len()), |len| {
        // An empty file is a new store.
        prop_assume!(len > 0);
        prop_assert!(check(&whole[..len])?, "a cut file was believed");
        Ok(())
    });
    drop(std::panic::take_hook());
    flipped.unwrap();
    cut.unwrap();

    // Flipping inside every stored name: rows are always checked.
    let needle = b"a longer name 1";
    let places = whole.windows(needle.len()).enumerate().filter(|(_, part)| part == needle);
    let mut bytes = whole.clone();
    for (at, _) in places {
        bytes[at] ^= 1;
    }
    assert!(check(&bytes).unwrap());
    fs::write(&file, b"this is not a store at all").unwrap();
    assert!(load(&file).is_err());
}
