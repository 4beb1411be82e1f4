//! Files as one document, and the line of each of its members.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value as Json};
use weft_contract::resource::change::{MAX_DOCUMENT, Problem};
use weft_identity::text_of;

use super::openziti::{self, EntryRemark};
use crate::failure::{Failure, Result};
use crate::yaml::{self, Node, Value};

/// Format version of the files.
pub(super) const FORMAT: u64 = 1;
/// Member that holds the format version.
pub(super) const HEADER: &str = "weft";
/// Name of standard input.
const STDIN: &str = "-";

/// The contents of several files.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The sections, in the form of the API.
    pub(super) network: Map<String, Json>,
    /// Places of the entries of each section, in order.
    entries: BTreeMap<String, Vec<EntryLocation>>,
    /// Place of the first beginning of each section.
    sections: BTreeMap<String, (usize, usize)>,
    /// Names of the files.
    names: Vec<String>,
    /// What documents of OpenZiti say and weft's do not, each with its file.
    remarks: Vec<(usize, EntryRemark)>,
    /// Names of the default administrators of exported networks.
    pub(super) admins: Vec<String>,
}

/// Place of an entry.
#[derive(Debug)]
struct EntryLocation {
    file: usize,
    node: Node,
    /// Whether the document has the form of OpenZiti.
    is_of_openziti: bool,
}

impl Files {
    /// Reads files; of a folder, the files that end in `.yaml` or `.yml`, sorted by name.
    pub(super) fn read(paths: &[String]) -> Result<Self> {
        let mut files = Self::default();
        for (name, text) in texts(paths)? {
            files.add(name, &text)?;
        }
        Ok(files)
    }

    fn add(&mut self, name: String, text: &str) -> Result<()> {
        let file = self.names.len();
        let documents = yaml::read(text).map_err(|error| {
            Failure::refused(format!("{name}:{}:{}: {}", error.line, error.column, error.message))
        })?;
        self.names.push(name);
        for document in documents {
            if document.is_null() {
                continue;
            }
            let line = document.line;
            let Value::Map(sections) = document.value else {
                return Err(self.wrong(
                    file,
                    line,
                    "sections are wanted: `services:`, `identities:`, ...",
                ));
            };
            let has_header = sections.iter().any(|section| section.key == HEADER);
            if !has_header && openziti::is_openziti(&sections) {
                self.add_openziti(file, sections)?;
                continue;
            }
            for section in sections {
                if section.key == HEADER {
                    self.check_header(file, &section)?;
                    continue;
                }
                self.add_section(file, section, false)?;
            }
        }
        Ok(())
    }

    fn add_openziti(&mut self, file: usize, sections: Vec<yaml::DocumentMember>) -> Result<()> {
        let entered =
            openziti::enter(sections).map_err(|(line, text)| self.wrong(file, line, &text))?;
        self.remarks.extend(entered.remarks.into_iter().map(|remark| (file, remark)));
        self.admins.extend(entered.admin);
        entered.sections.into_iter().try_for_each(|section| self.add_section(file, section, true))
    }

    fn check_header(&self, file: usize, header: &yaml::DocumentMember) -> Result<()> {
        match header.node.to_json().as_u64() {
            Some(FORMAT) => Ok(()),
            _ => Err(self.wrong(
                file,
                header.line,
                &format!("this release reads files of version {FORMAT}: `{HEADER}: {FORMAT}`"),
            )),
        }
    }

    fn add_section(
        &mut self,
        file: usize,
        section: yaml::DocumentMember,
        is_of_openziti: bool,
    ) -> Result<()> {
        let yaml::DocumentMember { key, line, node } = section;
        self.sections.entry(key.clone()).or_insert((file, line));
        let items = match node.value {
            Value::List(items) => items,
            Value::Scalar(Json::Null) => Vec::new(),
            _ => {
                let text = format!("`{key}` wants a list: each entity begins with `- name: ...`");
                return Err(self.wrong(file, line, &text));
            }
        };
        let entries = self.entries.entry(key.clone()).or_default();
        let sent = self.network.entry(key).or_insert_with(|| Json::Array(Vec::new()));
        for node in items {
            if let Json::Array(sent) = sent {
                sent.push(node.to_json());
            }
            entries.push(EntryLocation { file, node, is_of_openziti });
        }
        Ok(())
    }

    fn wrong(&self, file: usize, line: usize, text: &str) -> Failure {
        Failure::refused(format!("{}:{line}: {text}", self.name(file)))
    }

    fn name(&self, file: usize) -> &str {
        self.names.get(file).map_or("", String::as_str)
    }

    /// Number of entities.
    pub(super) fn count(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// The entries that came in the form of OpenZiti, each with its section, for changes of what is sent.
    pub(super) fn of_openziti(&mut self) -> impl Iterator<Item = (&str, &mut Map<String, Json>)> {
        let places = &self.entries;
        self.network.iter_mut().flat_map(move |(section, sent)| {
            let places = places.get(section).into_iter().flatten();
            let sent = sent.as_array_mut().into_iter().flatten();
            let pairs = sent.zip(places).filter(|(_, place)| place.is_of_openziti);
            pairs.filter_map(move |(sent, _)| Some((section.as_str(), sent.as_object_mut()?)))
        })
    }

    /// What the documents say and is not kept, each with its file and line: all that `is_told` picks.
    pub(super) fn remarks(&self, is_told: impl Fn(&EntryRemark) -> bool) -> Vec<String> {
        let told = self.remarks.iter().filter(|(_, remark)| is_told(remark));
        told.map(|(file, remark)| format!("{}:{}: {remark}", self.name(*file), remark.line))
            .collect()
    }

    /// The problems that the controller reports, each with file and line, in the order of the files.
    pub(super) fn locate_all(&self, problems: &[Problem]) -> Vec<String> {
        let mut located: Vec<_> = problems.iter().map(|problem| self.locate(problem)).collect();
        located.sort_by_key(|(at, _)| *at);
        located.into_iter().map(|(_, text)| text).collect()
    }

    /// A problem that the controller reports: its file and line, and the text with them.
    fn locate(&self, problem: &Problem) -> ((usize, usize), String) {
        let index = usize::try_from(problem.index).unwrap_or(usize::MAX);
        let place = self.entries.get(&problem.section).and_then(|entries| entries.get(index));
        let place = place.filter(|place| is_called(&place.node, &problem.name));
        let at = match place {
            Some(place) => (place.file, line_of(&place.node, &problem.field)),
            None => self.sections.get(&problem.section).copied().unwrap_or((0, 1)),
        };
        let mut what = problem.section.clone();
        if !problem.name.is_empty() {
            what.push_str(&format!(" `{}`", problem.name));
        }
        if !problem.field.is_empty() {
            what.push_str(&format!(", {}", problem.field));
        }
        let reason = match self.named_before(problem) {
            Some((file, line)) => format!("{}:{line} has the same name", self.name(file)),
            None => problem.reason.clone(),
        };
        (at, format!("{}:{}: {what}: {reason}", self.name(at.0), at.1))
    }

    /// File and line of an earlier entry with the name of a problem, if the problem is that name.
    fn named_before(&self, problem: &Problem) -> Option<(usize, usize)> {
        let index = usize::try_from(problem.index).ok()?;
        let before = self.entries.get(&problem.section)?.get(..index)?;
        let is_of_name = problem.field == "name" && !problem.name.is_empty();
        let first = before.iter().find(|it| is_of_name && is_called(&it.node, &problem.name))?;
        Some((first.file, line_of(&first.node, "name")))
    }
}

/// The line of a member, which the controller names as its API does; it may be inside `data`.
fn line_of(entry: &Node, field: &str) -> usize {
    let steps: Vec<&str> = field.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect();
    let Some((first, rest)) = steps.split_first() else { return entry.line };
    let has = |name: &str| {
        entry.entries().is_some_and(|entries| entries.iter().any(|entry| entry.key == name))
    };
    let short = document_name_of(first);
    for name in [*first, short.as_str()] {
        if has(name) {
            return entry.line_of(std::iter::once(name).chain(rest.iter().copied()));
        }
    }
    if has("data") {
        return entry.line_of(std::iter::once("data").chain(steps.iter().copied()));
    }
    entry.line
}

fn document_name_of(name: &str) -> String {
    name.strip_suffix("Id").filter(|short| !short.is_empty()).unwrap_or(name).to_owned()
}

fn is_called(node: &Node, name: &str) -> bool {
    let entries = node.entries().unwrap_or_default();
    let own = entries.iter().find(|entry| entry.key == "name");
    let own = own.map(|entry| entry.node.to_json());
    name.is_empty() || own.and_then(|own| own.as_str().map(|own| own == name)).unwrap_or(false)
}

/// A file that cannot be read. One that does not exist was named wrongly.
fn unread(name: &str, error: &io::Error) -> Failure {
    let text = format!("{name}: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => Failure::usage(text),
        _ => Failure::new(text),
    }
}

/// Reads a text of at most `room` bytes, and takes its length from `room`.
fn text(name: &str, source: io::Result<impl Read>, room: &mut usize) -> Result<String> {
    let wrong = |error: io::Error| unread(name, &error);
    let mut bytes = Vec::new();
    source.and_then(|it| it.take(*room as u64 + 1).read_to_end(&mut bytes)).map_err(wrong)?;
    let Some(left) = room.checked_sub(bytes.len()) else {
        let most = MAX_DOCUMENT >> 20;
        return Err(Failure::refused(format!("{name}: more than {most} MiB in all")));
    };
    *room = left;
    text_of(bytes).map_err(|_| Failure::refused(format!("{name}: the text is not UTF-8")))
}

/// The names and texts of files, which have at most [`MAX_DOCUMENT`] bytes in all.
fn texts(paths: &[String]) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    let mut room = MAX_DOCUMENT;
    for path in paths {
        if path == STDIN {
            let name = "standard input".to_owned();
            let text = text(&name, Ok(io::stdin().lock()), &mut room)?;
            texts.push((name, text));
            continue;
        }
        let wrong = |error: io::Error| unread(path, &error);
        if !Path::new(path).is_dir() {
            texts.push((path.clone(), text(path, File::open(path), &mut room)?));
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(wrong)? {
            let file = entry.map_err(wrong)?.path();
            if file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(Failure::refused(format!("{path}: the folder holds no .yaml file")));
        }
        inside.sort();
        for file in inside {
            let name = file.display().to_string();
            let text = text(&name, File::open(&file), &mut room)?;
            texts.push((name, text));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Files {
        let mut files = Files::default();
        files.add("net.yaml".to_owned(), text).unwrap();
        files
    }

    fn problem(section: &str, index: i64, name: &str, field: &str) -> Problem {
        Problem {
            field: field.into(),
            index,
            name: name.into(),
            reason: "no".into(),
            section: section.into(),
        }
    }

    #[test]
    fn mistakes_come_with_their_line() {
        let text = "weft: 1\nservices:\n  - name: web\n    configs:\n      - a\n      - b\n\
                    configs:\n  - name: a\n    configType: host.v1\n    data:\n      port: x\n";
        let files = files(text);
        assert_eq!(files.count(), 2);
        let at = |problem: Problem| files.locate(&problem).1;
        assert_eq!(
            at(problem("services", 0, "web", "configs.1")),
            "net.yaml:6: services `web`, configs.1: no"
        );
        assert!(at(problem("configs", 0, "a", "port")).starts_with("net.yaml:11: "));
        assert!(at(problem("configs", 0, "a", "configTypeId")).starts_with("net.yaml:9: "));
        assert!(at(problem("services", 0, "web", "")).starts_with("net.yaml:3: "));
        assert!(at(problem("services", 0, "other", "x")).starts_with("net.yaml:2: "));
    }

    #[test]
    fn endless_files_are_refused_at_the_limit() {
        let mut room = 100;
        assert_eq!(text("a", Ok(&b"a: 1\n"[..]), &mut room).unwrap(), "a: 1\n");
        assert_eq!(room, 95);
        let refused = text("zero", Ok(io::repeat(b'a')), &mut room).unwrap_err();
        assert_eq!(refused.to_string(), "zero: more than 16 MiB in all");
        assert_eq!(text("b", Ok(io::repeat(b'b').take(95)), &mut room).unwrap().len(), 95);
        assert!(text("c", Ok(&b"c"[..]), &mut room).is_err());
    }

    #[test]
    fn a_file_that_does_not_exist_is_a_mistake_of_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.yaml").display().to_string();
        let failure = texts(std::slice::from_ref(&path)).unwrap_err();
        assert!(failure.to_string().starts_with(&path));
        assert!(format!("{failure:?}").contains("status: 2"), "{failure:?}");
    }

    #[test]
    fn several_files_are_one_document() {
        let mut files = files("services:\n- name: a\n---\nservices:\n- name: b\n");
        files.add("more.yaml".to_owned(), "\n\nservices:\n- name: c\nidentities:\n").unwrap();
        assert_eq!(files.network["services"].as_array().unwrap().len(), 3);
        assert_eq!(files.network["identities"], serde_json::json!([]));
        assert_eq!(
            files.locate(&problem("services", 2, "c", "x")).1,
            "more.yaml:4: services `c`, x: no"
        );
    }

    #[test]
    fn mistakes_come_in_the_order_of_the_files_and_name_the_other_of_two_entries() {
        let mut files = files("services:\n- name: a\n- name: b\n");
        files.add("more.yaml".to_owned(), "configs:\n- name: c\nservices:\n- name: a\n").unwrap();
        let told = files.locate_all(&[
            problem("configs", 0, "c", "data"),
            problem("services", 2, "a", "name"),
            problem("services", 1, "b", "name"),
        ]);
        assert_eq!(
            told,
            [
                "net.yaml:3: services `b`, name: no",
                "more.yaml:2: configs `c`, data: no",
                "more.yaml:4: services `a`, name: net.yaml:2 has the same name",
            ]
        );
    }

    #[test]
    fn what_is_no_network_is_refused_with_its_line() {
        for (text, words) in [
            ("- a\n", "net.yaml:1: sections are wanted"),
            ("weft: 2\n", "net.yaml:1: this release reads"),
            ("services:\n  web: 1\n", "net.yaml:1: `services` wants a list"),
            ("services: [\n", "net.yaml:"),
        ] {
            let refused = Files::default().add("net.yaml".to_owned(), text).unwrap_err();
            assert!(refused.to_string().starts_with(words), "{refused}");
        }
    }
}
