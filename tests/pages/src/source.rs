//! Rust source, reduced to the code that ships, from which the used names are read.

use regex::Regex;

/// The patterns that find the parts of a source.
pub struct Reader {
    noise: Regex,
    only_tests: Regex,
    module: Regex,
    import: Regex,
    path: Regex,
    makro: Regex,
}

/// A path in a file, as its segments.
pub type Path = Vec<String>;

/// A path that a `use` brings in, under a name; the name of a glob is `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The imported path.
    pub path: Path,
    /// The name it has in the file.
    pub name: String,
    /// Whether other modules may import the name from here (`pub use`).
    pub is_public: bool,
}

/// The declarations and names of a file.
#[derive(Debug, Default)]
pub struct Source {
    /// Modules that have a file of their own.
    pub modules: Vec<String>,
    /// The imports of the file.
    pub imports: Vec<Import>,
    /// Paths of two segments or more, outside of imports.
    pub paths: Vec<Path>,
    /// Macros that the file defines for the whole crate.
    pub exported_macros: Vec<String>,
    /// The code without imports.
    pub code: String,
}

impl Reader {
    /// The expressions.
    ///
    /// # Errors
    /// When one of the regular expressions is invalid.
    pub fn new() -> Result<Self, regex::Error> {
        let noise = [
            r"//[^\n]*",
            r"/\*.*?\*/",
            r#"\b(?:b|c)?r"[^"]*""#,
            r##"\b(?:b|c)?r#".*?"#"##,
            r###"\b(?:b|c)?r##".*?"##"###,
            r#""(?:[^"\\]|\\.)*""#,
            r"'(?:[^'\\\n]|\\(?:u\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{2}|[^ux\n]))'",
        ];
        Ok(Self {
            noise: Regex::new(&format!("(?s){}", noise.join("|")))?,
            only_tests: Regex::new(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")?,
            module: Regex::new(r"\bmod\s+(\w+)\s*([;{])")?,
            import: Regex::new(r"(?:\b(pub)(?:\s*\([^)]*\))?\s+)?\buse\s+([^;]+);")?,
            path: Regex::new(r"\b[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+")?,
            makro: Regex::new(r"#\[macro_export\][^;{]*?macro_rules!\s*(\w+)")?,
        })
    }

    /// Reads one file.
    pub fn read(&self, text: &str) -> Source {
        let code = self.without_tests(&self.without_noise(text));
        let inner = self.inline_modules(&code);
        let depth = |at: usize| inner.iter().filter(|block| block.contains(&at)).count();
        let mut found = Source::default();
        for it in self.module.captures_iter(&code) {
            if &it[2] == ";" {
                found.modules.push(it[1].to_owned());
            }
        }
        let mut rest = code.clone();
        for it in self.import.captures_iter(&code) {
            let whole = it.get(0).map_or(0..0, |all| all.range());
            let is_public = it.get(1).is_some();
            for (path, name) in leaves(&it[2]) {
                let path = outward(path, depth(whole.start));
                found.imports.push(Import { path, name, is_public });
            }
            blank(&mut rest, whole);
        }
        for it in self.path.find_iter(&rest) {
            let path = it.as_str().split("::").map(|segment| segment.trim().to_owned()).collect();
            found.paths.push(outward(path, depth(it.start())));
        }
        found.exported_macros =
            self.makro.captures_iter(&rest).map(|it| it[1].to_owned()).collect();
        found.code = rest;
        found
    }

    /// Blanks comments and literals.
    fn without_noise(&self, text: &str) -> String {
        let blanked = |it: &regex::Captures<'_>| " ".repeat(it[0].len());
        self.noise.replace_all(text, blanked).into_owned()
    }

    /// Blanks the code for tests.
    fn without_tests(&self, code: &str) -> String {
        let mut kept = code.to_owned();
        for it in self.only_tests.find_iter(code) {
            blank(&mut kept, it.start()..end_of_item(code, it.end()));
        }
        kept
    }

    /// The ranges of the modules that have no file of their own.
    fn inline_modules(&self, code: &str) -> Vec<std::ops::Range<usize>> {
        let blocks = self.module.captures_iter(code).filter(|it| &it[2] == "{");
        let starts = blocks.filter_map(|it| it.get(2).map(|brace| brace.start()));
        starts.map(|start| start..end_of_item(code, start)).collect()
    }
}

fn blank(code: &mut String, range: std::ops::Range<usize>) {
    let spaces = " ".repeat(range.len());
    code.replace_range(range, &spaces);
}

/// The end of the item that begins at an offset: its semicolon or its last brace.
fn end_of_item(code: &str, from: usize) -> usize {
    let mut depth = 0_i32;
    for (at, one) in code.bytes().enumerate().skip(from) {
        match one {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => {}
        }
        match one {
            b';' if depth == 0 => return at + 1,
            b'}' if depth == 0 => return at + 1,
            _ if depth < 0 => return at,
            _ => {}
        }
    }
    code.len()
}

/// A path as the file itself would write it, from inside of so many modules of the file.
fn outward(path: Path, depth: usize) -> Path {
    let inner = depth.min(path.iter().take_while(|segment| *segment == "super").count());
    if inner == 0 {
        return path;
    }
    std::iter::once("self".to_owned()).chain(path.into_iter().skip(inner)).collect()
}

/// The paths of a tree of imports, each with its name.
fn leaves(tree: &str) -> Vec<(Path, String)> {
    let tree = tree.trim();
    if let Some((before, inside)) = tree.split_once('{') {
        let before = segments(before);
        let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
        let found = branches(inside).into_iter().flat_map(leaves);
        return found
            .map(|(path, name)| {
                let path: Path = before.iter().cloned().chain(path).collect();
                match path.split_last() {
                    // `x::{self}` is `x`.
                    Some((last, path)) if last == "self" && !path.is_empty() => {
                        let own = path.last().cloned().unwrap_or_default();
                        (path.to_vec(), if name == "self" { own } else { name })
                    }
                    _ => (path, name),
                }
            })
            .collect();
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let path = segments(path);
    let Some(last) = path.last().cloned() else { return Vec::new() };
    vec![(path, alias.unwrap_or(last))]
}

fn segments(path: &str) -> Path {
    path.split("::").map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Splits a text at the commas outside of braces.
fn branches(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, one) in text.bytes().enumerate() {
        match one {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}
