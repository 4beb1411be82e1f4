//! The files of the repository that are checked.

use std::io;
use std::path::{Path, PathBuf};

/// Names of folders whose files are not of this repository (builds, downloads).
const PASSED_OVER: &[&str] = &["target", "node_modules", "__pycache__", ".venv", ".git"];
/// Endings of the names of text files.
const TEXT: &[&str] = &["rs", "proto", "toml", "md", "csv", "py", "go", "sh", "yml", "yaml"];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file, with its path from the root.
pub struct File {
    /// From the root, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// Every text file below the root, including the scripts named `run`.
///
/// # Errors
/// When a folder or a file cannot be read.
pub fn all() -> io::Result<Vec<File>> {
    below(&root())
}

/// The same of another checkout.
///
/// # Errors
/// When a folder or a file cannot be read.
pub fn below(root: &Path) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let path = entry.path();
            if kind.is_dir() && !PASSED_OVER.iter().any(|it| name == *it) {
                folders.push(path);
            } else if kind.is_file() && is_text(&path) {
                let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
                let from_root = path.strip_prefix(root).unwrap_or(&path);
                found.push(File { path: from_root.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn is_text(path: &Path) -> bool {
    match path.extension() {
        Some(ending) => TEXT.iter().any(|it| ending == *it),
        None => path.file_name().is_some_and(|name| name == "run"),
    }
}

/// The number of the line at this offset of a text, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
