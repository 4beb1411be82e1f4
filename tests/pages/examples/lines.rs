//! Counts the lines of code that ship, for each crate: without tests, comments, blank lines and imports.
//!
//! ```text
//! cargo run -p weft-pages --example lines              this checkout
//! cargo run -p weft-pages --example lines -- FOLDER    another checkout, for a comparison
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use weft_pages::circle::Crate;
use weft_pages::files::{self, File};
use weft_pages::source::Reader;

fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args_os().nth(1).map_or_else(files::root, PathBuf::from);
    let files = files::below(&root)?;
    let by_path: BTreeMap<&str, &File> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    let (reader, mut lines) = (Reader::new()?, BTreeMap::<&str, usize>::new());
    for path in by_path.keys().filter(|path| path.starts_with("crates/")) {
        let root = path.strip_suffix("/src/lib.rs").or_else(|| path.strip_suffix("/src/main.rs"));
        if let Some(name) = root.and_then(|folder| folder.rsplit('/').next()) {
            *lines.entry(name).or_default() += Crate::read(&reader, &by_path, path).lines();
        }
    }
    for (name, count) in &lines {
        println!("{count:>8} {name}");
    }
    println!("{:>8} in all", lines.values().sum::<usize>());
    Ok(())
}
