//! Databases that the original wrote, which `WEFT_ORIGINAL_DB` names; a folder stands for all `.db` files in it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use weft_bolt::Bolt;

use crate::Import;

fn databases(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "db")).collect()
}

#[test]
fn a_database_of_the_original_is_read_and_nothing_of_it_contradicts() {
    let Some(path) = std::env::var_os("WEFT_ORIGINAL_DB") else {
        eprintln!("SKIPPED: WEFT_ORIGINAL_DB names no database of the original");
        return;
    };
    for path in databases(Path::new(&path)) {
        let begin = Instant::now();
        let import = Import::read(&Bolt::open(&path).unwrap()).unwrap();
        eprintln!("{}: layout {} in {:?}", path.display(), import.layout.number(), begin.elapsed());
        for section in &import.sections {
            eprintln!(
                "  {}: {}, {} taken, {} lossy",
                section.name, section.found, section.taken, section.lossy
            );
        }
        for loss in import.losses.iter().take(50) {
            eprintln!("  {loss:?}");
        }
        eprintln!("  {:?}\n  {:?}", import.reported, import.sessions.len());
        let derived = ["dialServices", "bindServices", "routers"];
        let differs = import.losses.iter().find(|loss| derived.contains(&loss.field));
        assert!(differs.is_none(), "rights differ: {differs:?}");
    }
}
