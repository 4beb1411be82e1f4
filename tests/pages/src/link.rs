//! Links from one document to another.

use std::path::{Path, PathBuf};

use regex::Regex;

use crate::files::{File, line_of};

/// A link that is relative, to a file or to a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The line of the link, from 1.
    pub line: usize,
    /// The path of the file from the folder of the document; empty for the document itself.
    pub file: String,
    /// The heading; empty if the link names none.
    pub heading: String,
}

/// The relative links of a document. Text inside of code is no link.
///
/// # Errors
/// When the regular expression is invalid.
pub fn links(document: &File) -> Result<Vec<Link>, regex::Error> {
    let expression = Regex::new(r"(?s)```.*?```|`[^`\n]*`|\]\(([^)\s]+)\)")?;
    let found = expression.captures_iter(&document.text).filter_map(|found| found.get(1));
    let relative = found.filter(|it| !it.as_str().contains(':'));
    Ok(relative
        .map(|it| {
            let (file, heading) = it.as_str().split_once('#').unwrap_or((it.as_str(), ""));
            let line = line_of(&document.text, it.start());
            Link { line, file: file.to_owned(), heading: heading.to_owned() }
        })
        .collect())
}

impl Link {
    /// The target of the link, as a path from the root of the repository.
    pub fn target(&self, document: &str) -> PathBuf {
        let folder = Path::new(document).parent().unwrap_or(Path::new(""));
        match self.file.as_str() {
            "" => document.into(),
            file => folder.join(file),
        }
    }
}

/// The names under which the headings of a document are linked to.
pub fn headings(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if !is_code && line.starts_with('#') && title.starts_with(' ') {
            found.push(name_of(title.trim()));
        }
    }
    found
}

fn name_of(title: &str) -> String {
    let kept = title.chars().filter(|one| one.is_alphanumeric() || "-_ ".contains(*one));
    kept.map(|one| if one == ' ' { '-' } else { one }).flat_map(char::to_lowercase).collect()
}
