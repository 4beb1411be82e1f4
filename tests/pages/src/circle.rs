//! Circles of files: files of a crate that use each other, directly or through others.
//!
//! A file uses the files that define the items which it names. A re-export (`pub use`) is followed:
//! the user of the item uses the file that defines it. A file that declares a module, or re-exports
//! its items, does not use it for that. Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use regex::Regex;

use crate::files::File;
use crate::source::{Import, Reader, Source};

/// Most re-exports of one name that are followed, from module to module.
const MOST_STEPS: usize = 32;

/// A module that is a file.
struct Module {
    file: String,
    source: Source,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
}

/// The modules of a crate; the first is its root.
pub struct Crate {
    modules: Vec<Module>,
    /// The modules that define macros for the whole crate.
    macros: BTreeMap<String, usize>,
}

/// Files that all use each other, and the items that each uses of the others.
#[derive(Debug)]
pub struct Circle(pub BTreeMap<String, BTreeSet<String>>);

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A module itself.
    Module(usize),
    /// An item that a module defines.
    Item(usize),
}

impl Crate {
    /// Reads the modules below a root such as `crates/shared/wire/src/lib.rs`.
    pub fn read(reader: &Reader, files: &BTreeMap<&str, &File>, root: &str) -> Self {
        let mut found = Self { modules: Vec::new(), macros: BTreeMap::new() };
        if let Some(file) = files.get(root) {
            found.add(reader, files, file, None);
        }
        for (at, module) in found.modules.iter().enumerate() {
            for name in &module.source.exported_macros {
                found.macros.insert(name.clone(), at);
            }
        }
        found
    }

    fn add(
        &mut self,
        reader: &Reader,
        files: &BTreeMap<&str, &File>,
        file: &File,
        parent: Option<usize>,
    ) -> usize {
        let (at, source) = (self.modules.len(), reader.read(&file.text));
        let declared = source.modules.clone();
        let children = BTreeMap::new();
        self.modules.push(Module { file: file.path.clone(), source, parent, children });
        let folder = folder_of_children(&file.path);
        for name in declared {
            let places = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            if let Some(file) = places.iter().find_map(|place| files.get(place.as_str())) {
                let child = self.add(reader, files, file, Some(at));
                self.modules[at].children.insert(name, child);
            }
        }
        at
    }

    /// Number of files of the crate.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether the crate has no files.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Lines of code that ships, without imports, comments and blank lines.
    pub fn lines(&self) -> usize {
        let lines = self.modules.iter().flat_map(|module| module.source.code.lines());
        lines.filter(|line| !line.trim().is_empty()).count()
    }

    /// The files that each file uses.
    ///
    /// # Errors
    /// When a name makes no expression.
    pub fn uses(&self) -> Result<BTreeMap<String, BTreeSet<String>>, regex::Error> {
        let name = |at: usize| self.modules[at].file.clone();
        let mut found = BTreeMap::new();
        for at in 0..self.modules.len() {
            found.insert(name(at), self.used_by(at)?.into_iter().map(name).collect());
        }
        Ok(found)
    }

    fn used_by(&self, at: usize) -> Result<BTreeSet<usize>, regex::Error> {
        let source = &self.modules[at].source;
        let mut used = BTreeSet::new();
        for import in &source.imports {
            let counts = !import.is_public || is_named(&source.code, &import.name)?;
            if counts && let Some(target) = self.target(at, import) {
                used.insert(target);
            }
        }
        for path in &source.paths {
            if let Some(Target::Item(target)) = self.resolve(at, path, 0) {
                used.insert(target);
            }
        }
        used.remove(&at);
        Ok(used)
    }

    /// The file that an import uses; an import of a module uses no file by itself.
    fn target(&self, at: usize, import: &Import) -> Option<usize> {
        if import.name != "*" {
            return match self.resolve(at, &import.path, 0)? {
                Target::Module(_) => None,
                Target::Item(target) => Some(target),
            };
        }
        match self.resolve(at, &import.path[..import.path.len() - 1], 0)? {
            Target::Module(target) | Target::Item(target) => Some(target),
        }
    }

    /// The target of a path in a module, if it is in this crate.
    fn resolve(&self, from: usize, path: &[String], steps: usize) -> Option<Target> {
        let (head, mut rest) = path.split_first()?;
        let mut at = match head.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => match self.named(from, name, steps)? {
                Target::Module(module) => module,
                item => return Some(item),
            },
        };
        while let Some((name, further)) = rest.split_first() {
            let is_macro = at == 0 && further.is_empty() && self.macros.contains_key(name);
            let target = match name.as_str() {
                "self" => Some(Target::Module(at)),
                "super" => self.modules[at].parent.map(Target::Module),
                name if is_macro => self.macros.get(name).copied().map(Target::Item),
                name => self.named(at, name, steps),
            };
            match target {
                Some(Target::Module(module)) => at = module,
                Some(item) => return Some(item),
                None if self.is_from_elsewhere(at, name) => return None,
                None => return Some(Target::Item(at)),
            }
            rest = further;
        }
        Some(Target::Module(at))
    }

    /// The target of a name that a module knows as that of a module or an import.
    fn named(&self, at: usize, name: &str, steps: usize) -> Option<Target> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Target::Module(*child));
        }
        if steps >= MOST_STEPS {
            return None;
        }
        let imports = || module.source.imports.iter().filter(|it| !is_itself(it));
        if let Some(import) = imports().find(|it| it.name == name) {
            return self.resolve(at, &import.path, steps + 1);
        }
        let defines = |module: usize| {
            let pattern = format!(
                r"\b(?:struct|enum|union|trait|type|fn|const|static|mod|macro_rules!)\s+{name}\b"
            );
            Regex::new(&pattern).is_ok_and(|it| it.is_match(&self.modules[module].source.code))
        };
        imports().filter(|it| it.name == "*" && it.is_public).find_map(|glob| {
            let within = self.resolve(at, &glob.path[..glob.path.len() - 1], steps + 1)?;
            let Target::Module(within) = within else { return None };
            let known = self.named(within, name, steps + 1);
            known.or_else(|| defines(within).then_some(Target::Item(within)))
        })
    }

    /// Whether a module imports a name from another crate.
    fn is_from_elsewhere(&self, at: usize, name: &str) -> bool {
        self.modules[at].source.imports.iter().any(|it| it.name == name && !is_itself(it))
    }

    /// The circles of more than so many files, the largest first.
    ///
    /// # Errors
    /// When a name makes no expression.
    pub fn circles(&self, more_than: usize) -> Result<Vec<Circle>, regex::Error> {
        Ok(circles(&self.uses()?, more_than))
    }
}

/// A macro that is made a name of its module, as `pub(crate) use body;` does.
fn is_itself(import: &Import) -> bool {
    import.path.len() == 1 && import.path[0] == import.name
}

fn is_named(code: &str, name: &str) -> Result<bool, regex::Error> {
    Ok(name != "*" && Regex::new(&format!(r"\b{}\b", regex::escape(name)))?.is_match(code))
}

fn folder_of_children(file: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        name => format!("{folder}/{}", name.trim_end_matches(".rs")),
    }
}

/// The circles of more than so many files, the largest first.
pub fn circles(uses: &BTreeMap<String, BTreeSet<String>>, more_than: usize) -> Vec<Circle> {
    let reached: BTreeMap<_, _> =
        uses.keys().map(|file| (file, reached_from(uses, file))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (file, others) in &reached {
        if seen.contains(*file) || !others.contains(*file) {
            continue;
        }
        let back = |other: &&String| reached.get(other).is_some_and(|it| it.contains(*file));
        let members: BTreeSet<String> = others.iter().copied().filter(back).cloned().collect();
        seen.extend(members.iter().cloned());
        if members.len() > more_than {
            let within = |file: &String| uses[file].intersection(&members).cloned().collect();
            found.push(Circle(members.iter().map(|it| (it.clone(), within(it))).collect()));
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.0.len()));
    found
}

fn reached_from<'a>(
    uses: &'a BTreeMap<String, BTreeSet<String>>,
    file: &str,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = uses.get(file).into_iter().flatten().collect();
    while let Some(file) = next.pop() {
        if found.insert(file) {
            next.extend(uses.get(file).into_iter().flatten());
        }
    }
    found
}

impl fmt::Display for Circle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "a circle of {} files:", self.0.len())?;
        for (file, used) in &self.0 {
            let used: Vec<_> = used.iter().map(String::as_str).collect();
            writeln!(to, "  {file} uses {}", used.join(", "))?;
        }
        Ok(())
    }
}
