//! Citations and links lead somewhere.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::PathBuf;

use weft_pages::citation::{FOLDER, Grammar};
use weft_pages::files::{self, File};
use weft_pages::link;

/// Pages with sections.
const PAGES: usize = 10;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

/// The mistakes in citations of the first file.
fn wrong(files: &[File]) -> Vec<String> {
    let grammar = Grammar::new().unwrap();
    let pages = grammar.pages(files);
    let cited = grammar.citations(&files[0]);
    cited.into_iter().filter_map(|it| pages.judge(it)).map(|it| it.to_string()).collect()
}

#[test]
fn every_citation_leads_to_a_section() {
    let (grammar, files) = (Grammar::new().unwrap(), files::all().unwrap());
    let pages = grammar.pages(&files);
    assert_eq!(pages.len(), PAGES, "pages in {FOLDER}: say here if one was added");
    let cited: Vec<_> = files.iter().flat_map(|file| grammar.citations(file)).collect();
    assert!(cited.len() > 600, "{} citations: are they still found?", cited.len());
    let wrong = cited.into_iter().filter_map(|it| pages.judge(it));
    let wrong: Vec<_> = wrong.map(|it| it.to_string()).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let files = files::all().unwrap();
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let (mut count, mut wrong) = (0, Vec::new());
    for document in documents {
        for link in link::links(document).unwrap() {
            count += 1;
            let from_root = link.target(&document.path);
            let target = files::root().join(&from_root);
            let place = format!("{}:{}: links to", document.path, link.line);
            if !target.exists() {
                wrong.push(format!("{place} {}: there is no such file", from_root.display()));
            } else if !link.heading.is_empty() {
                let headings = link::headings(&std::fs::read_to_string(&target).unwrap());
                if !headings.contains(&link.heading) {
                    let (file, heading) = (from_root.display(), &link.heading);
                    wrong.push(format!("{place} {file}#{heading}: there is no such heading"));
                }
            }
        }
    }
    assert!(count > 50, "{count} links: are they still found?");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_leads_nowhere_is_named_with_its_place() {
    let page = || file(&format!("{FOLDER}sdk.md"), "# SDKs\n## 4. Types\n### 4.1 More\n## 5. Ids");
    let code = |text: &str| file("a.rs", &text.replace("sdk.md", &format!("{FOLDER}sdk.md")));
    let told = |text: &str| wrong(&[code(text), page()]);

    assert!(
        told("// Right (sdk.md 4).\n//! (sdk.md 4, 4.1; sdk.md 4 to 5, header 1025).").is_empty()
    );
    assert_eq!(
        told("\n// One (sdk.md 4.2)."),
        [format!(
            "a.rs:2: cites `{FOLDER}sdk.md 4.2`: the page has no heading with the number 4.2"
        )]
    );
    let across = told("    /// It ends (sdk.md 4,\n    /// 6).");
    assert_eq!(across.len(), 1, "the second number is on the next line: {across:?}");
    assert!(told("/// As in sdk.md\n/// 7.")[0].contains("no heading with the number 7"));
    assert!(told("// All of it (sdk.md).")[0].ends_with("it names no section"));
    let other = wrong(&[file("b.py", &format!("# {FOLDER}sdks.md 4")), page()]);
    assert_eq!(other, [format!("b.py:1: cites `{FOLDER}sdks.md 4`: there is no such page")]);
}

#[test]
fn pages_cite_themselves_and_each_other() {
    let other = || file(&format!("{FOLDER}auth.md"), "## 1. HTTP\n");
    let told = |text: &str| {
        let text = format!("## 2. Here\n{text}");
        wrong(&[file(&format!("{FOLDER}sdk.md"), &text), other()])
    };
    assert!(told("See §2, section 2, auth.md 1 and `auth.md` §1.").is_empty());
    assert!(told("See §1.")[0].contains("sdk.md 1`"));
    assert!(told("See sections 2 and 3.")[0].contains("number 3"));
    assert!(told("See `auth.md` 2.")[0].contains("auth.md 2`"));
    assert!(told("See other.md 2.")[0].contains("no such page"));
}

#[test]
fn tables_are_cited_as_a_whole() {
    let table = || file(&format!("{FOLDER}client-operations.csv"), "id,path\n1,/x\n");
    let told = |path: &str, text: &str| wrong(&[file(path, text), table()]);
    let page = format!("{FOLDER}auth.md");

    assert!(told("a.rs", &format!("// As in {FOLDER}client-operations.csv.")).is_empty());
    assert!(told(&page, "In `client-operations.csv` [c](client-operations.csv).").is_empty());
    let gone = told("a.rs", &format!("// As in {FOLDER}old-operations.csv."));
    assert!(gone[0].ends_with("there is no such page"), "{gone:?}");
    assert!(told(&page, "In `old-operations.csv`.")[0].ends_with("there is no such page"));
    let section = told("a.rs", &format!("// As in {FOLDER}client-operations.csv 2."));
    assert!(section[0].ends_with("no heading with the number 2"), "{section:?}");
}

#[test]
fn links_are_told_from_code() {
    let text = "# A `b`, c\n[x](y.md#a-b-c) [z](#d)\n```\n[n](n.md)\n# Not one\n```\n`[n](n)` [u](https://u)";
    let document = file("docs/x.md", text);
    let links = link::links(&document).unwrap();
    let shown: Vec<_> =
        links.iter().map(|it| (it.line, it.target(&document.path), it.heading.as_str())).collect();
    let expected = [(2, PathBuf::from("docs/y.md"), "a-b-c"), (2, "docs/x.md".into(), "d")];
    assert_eq!(shown, expected);
    assert_eq!(link::headings(text), ["a-b-c"]);
}
