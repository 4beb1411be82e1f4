//! Citations of pages and their sections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use regex::Regex;

use crate::files::{File, line_of};

/// Folder of the pages.
pub const FOLDER: &str = "docs/protocol/";

/// Number of a section.
const NUMBER: &str = r"\d+(?:\.\d+)*";
/// The space between two words, also across the lines of a comment.
const GAP: &str = r"(?:[ \t]|\n[ \t]*(?://[/!]?|#)?[ \t]*)+";

/// The sections of each page, by its name.
#[derive(Default)]
pub struct Pages(BTreeMap<String, BTreeSet<String>>);

/// A citation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The file that cites.
    pub file: String,
    /// Line of the citation, from 1.
    pub line: usize,
    /// Name of the page.
    pub page: String,
    /// Numbers of the sections.
    pub sections: Vec<String>,
}

/// A citation that leads nowhere.
#[derive(Debug)]
pub struct Wrong {
    /// The citation.
    pub citation: Citation,
    /// The reason why it leads nowhere.
    pub problem: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Citation { file, line, page, sections } = &self.citation;
        let sections = sections.join(", ");
        write!(to, "{file}:{line}: cites `{FOLDER}{page} {sections}`: {}", self.problem)
    }
}

/// The forms of citations in code, in documents and in pages.
pub struct Grammar {
    by_path: Regex,
    by_name: Regex,
    table: Regex,
    own: Regex,
    number: Regex,
    heading: Regex,
}

impl Grammar {
    /// The expressions.
    ///
    /// # Errors
    /// When one of them is no expression.
    pub fn new() -> Result<Self, regex::Error> {
        let more = format!(r"(?:(?:[,;]{GAP}|{GAP}(?:and|to){GAP})§?{NUMBER})*");
        Ok(Self {
            by_path: Regex::new(&format!(
                r"{FOLDER}([\w-]+\.(?:md|csv))((?:{GAP}{NUMBER}{more})?)"
            ))?,
            by_name: Regex::new(&format!(r"(?:^|[^\w/.-])([a-z-]+\.md)`?{GAP}(§?{NUMBER}{more})"))?,
            table: Regex::new(r"(?:^|[^\w/.-])([a-z-]+\.csv)\b")?,
            own: Regex::new(&format!(r"(?:§|\b[Ss]ections?{GAP})({NUMBER}{more})"))?,
            number: Regex::new(NUMBER)?,
            heading: Regex::new(&format!(r"(?m)^#{{1,6}} ({NUMBER})\b"))?,
        })
    }

    /// The sections of the pages among these files.
    pub fn pages(&self, files: &[File]) -> Pages {
        let sections = |text: &str| {
            self.heading.captures_iter(text).map(|found| found[1].to_owned()).collect()
        };
        let pages = files.iter().filter_map(|file| {
            let name = file.path.strip_prefix(FOLDER)?;
            Some((name.to_owned(), sections(&file.text)))
        });
        Pages(pages.collect())
    }

    /// The citations in a file.
    pub fn citations(&self, file: &File) -> Vec<Citation> {
        let mut found: Vec<Citation> = self
            .by_path
            .captures_iter(&file.text)
            .map(|it| self.citation(file, &it[1], &it[2], &it))
            .collect();
        let Some(own) = file.path.strip_prefix(FOLDER) else { return found };
        for it in self.by_name.captures_iter(&file.text) {
            found.push(self.citation(file, &it[1], &it[2], &it));
        }
        for it in self.table.captures_iter(&file.text) {
            found.push(self.citation(file, &it[1], "", &it));
        }
        for it in self.own.captures_iter(&file.text) {
            let before = it.get(0).map_or("", |all| &file.text[..all.start()]);
            let is_of_another = before.trim_end_matches(['`', ' ']).ends_with(".md");
            if !is_of_another {
                found.push(self.citation(file, own, &it[1], &it));
            }
        }
        found
    }

    fn citation(
        &self,
        file: &File,
        page: &str,
        numbers: &str,
        found: &regex::Captures<'_>,
    ) -> Citation {
        let at = found.get(1).map_or(0, |it| it.start());
        Citation {
            file: file.path.clone(),
            line: line_of(&file.text, at),
            page: page.to_owned(),
            sections: self.number.find_iter(numbers).map(|it| it.as_str().to_owned()).collect(),
        }
    }
}

impl Pages {
    /// Number of pages with sections.
    pub fn len(&self) -> usize {
        self.0.values().filter(|sections| !sections.is_empty()).count()
    }

    /// Whether no page has any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The mistake of a citation, if it has one.
    pub fn judge(&self, citation: Citation) -> Option<Wrong> {
        let problem = self.problem(&citation)?;
        Some(Wrong { citation, problem })
    }

    fn problem(&self, citation: &Citation) -> Option<String> {
        let Some(sections) = self.0.get(&citation.page) else {
            return Some("there is no such page".to_owned());
        };
        if citation.sections.is_empty() {
            let may_be_whole = sections.is_empty() || citation.file.ends_with(".md");
            return (!may_be_whole).then(|| "it names no section".to_owned());
        }
        let missing = citation.sections.iter().find(|section| !sections.contains(*section))?;
        Some(format!("the page has no heading with the number {missing}"))
    }
}
