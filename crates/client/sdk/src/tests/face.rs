//! What every item of the crate's face has.

use std::fs;
use std::path::{Path, PathBuf};

/// The sources of a folder and those below it, without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let folders = folders.into_iter().filter(|path| !path.ends_with("tests"));
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|one| one == "rs"));
    files.chain(folders.flat_map(|folder| sources(&folder))).collect()
}

/// The documentation above a line.
fn documentation<'t>(lines: &[&'t str], at: usize) -> Vec<&'t str> {
    let above = lines[..at].iter().rev().map(|line| line.trim());
    above.take_while(|line| line.starts_with("///") || line.starts_with("#[")).collect()
}

#[test]
fn each_asynchronous_method_says_whether_it_is_cancel_safe() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for path in sources(&folder) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let line = line.trim();
            let returns_future = line.starts_with("pub fn") && line.contains("impl Future");
            if line.starts_with("pub async fn") || returns_future {
                let says = documentation(&lines, at).contains(&"/// # Cancel safety");
                assert!(says, "{}:{}: {line}", path.display(), at + 1);
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}
