//! `weft export`: the network as a file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;
use weft_contract::resource::change::{MAX_PROBLEMS, NetworkExport, SECTIONS};
use weft_contract::resource::{self};

use super::file::{FORMAT, HEADER};
use super::openziti::{self, LeftNetwork};
use super::operation::row;
use crate::cli::{DocumentForm, DocumentFormat, ExportArgs};
use crate::failure::{Failure, Result};
use crate::output::progress::spinner;
use crate::output::{self, counted};
use crate::yaml;

/// Entities per request.
const PAGE: &str = "2000";
/// Most tries, as the network may change between two requests.
const TRIES: u32 = 3;

/// Reads the network and writes the file.
pub(crate) async fn export(args: ExportArgs) -> Result<()> {
    let sections = sections(&args.kinds)?;
    if let Some(path) = &args.out {
        check(path)?;
    }
    let client = args.session.client().await?;
    let network = network(&client, &sections).await?;
    let (text, left) = match (args.form, args.format) {
        (DocumentForm::Weft, DocumentFormat::Json) => {
            (format!("{:#}\n", with_header(network)), None)
        }
        (DocumentForm::Weft, DocumentFormat::Yaml) => (text(network), None),
        (DocumentForm::Openziti, format) => {
            let wanted: Vec<&str> = sections.split(',').filter(|it| !it.is_empty()).collect();
            let left = openziti::leave(network, |it| wanted.is_empty() || wanted.contains(&it));
            (text_for_openziti(&left.document, format), Some(left))
        }
    };
    match &args.out {
        Some(path) => write(path, &text)?,
        None => output::print(&text),
    }
    if let Some(left) = left {
        tell(&left, args.format);
    }
    Ok(())
}

/// First line of a document for `ziti ops import`.
const FOR_OPENZITI: &str = "# A weft network, for `ziti ops import FILE --input-format yaml`";

fn text_for_openziti(document: &Map<String, Value>, format: DocumentFormat) -> String {
    let document = Value::Object(document.clone());
    match format {
        DocumentFormat::Json => format!("{document:#}\n"),
        DocumentFormat::Yaml => format!("{FOR_OPENZITI}\n{}", yaml::write(&document)),
    }
}

/// Says on standard error what stayed behind, who enrolls anew, and how the document is read.
fn tell(left: &LeftNetwork, format: DocumentFormat) {
    for loss in left.losses.iter().take(MAX_PROBLEMS) {
        output::say(format_args!("weft: {loss}"));
    }
    if let Some(more @ 1..) = left.losses.len().checked_sub(MAX_PROBLEMS) {
        output::say(format_args!("weft: and {more} more that the document has no place for"));
    }
    output::say(format_args!(
        "weft: {} and {} enroll anew: certificates, passwords, second factors and open enrollments \
         stay here",
        counted(left.identities, "identity", "identities"),
        counted(left.routers, "edge router", "edge routers"),
    ));
    let format = match format {
        DocumentFormat::Json => "",
        DocumentFormat::Yaml => " --input-format yaml",
    };
    output::say(format_args!("weft: `ziti ops import FILE{format}` reads the document"));
}

/// Sections of the network at one revision; all of them if none is named.
pub(super) async fn network(
    client: &ManagementClient,
    sections: &str,
) -> Result<Map<String, Value>> {
    let progress = spinner("reading the network");
    let mut network = None;
    for _ in 0..TRIES {
        network = read(client, sections, &progress).await?;
        if network.is_some() {
            break;
        }
    }
    progress.finish_and_clear();
    network.ok_or_else(|| {
        Failure::refused("the network changed again and again while it was read; try again")
    })
}

/// Sections of the named kinds, in any spelling.
fn sections(kinds: &[String]) -> Result<String> {
    let plural = |name: &String| {
        let kind = resource::kind(name);
        let plural = kind.map(|kind| kind.plural).filter(|plural| SECTIONS.contains(plural));
        plural.ok_or_else(|| {
            let failure = Failure::usage(match kind {
                Some(kind) => format!("files hold no {}", kind.plural),
                None => format!("there is no kind `{name}`"),
            });
            let failure = match weft_config::nearest(name, SECTIONS.iter().copied()) {
                Some(near) => failure.and(format!("did you mean `{near}`?")),
                None => failure,
            };
            failure.and(format!("the kinds are {}", SECTIONS.join(", ")))
        })
    };
    Ok(kinds.iter().map(plural).collect::<Result<Vec<_>>>()?.join(","))
}

/// The whole network at one revision; `None` if it changed between two pages.
async fn read(
    client: &ManagementClient,
    sections: &str,
    progress: &ProgressBar,
) -> Result<Option<Map<String, Value>>> {
    let operation = row("exportNetwork")?;
    let mut network: Map<String, Value> = Map::new();
    let mut after = String::new();
    let mut revision = None;
    loop {
        let query = [("sections", sections), ("after", after.as_str()), ("limit", PAGE)];
        let page: NetworkExport = client.call_in(Api::Weft, operation, &[], &query, None).await?;
        if *revision.get_or_insert(page.revision) != page.revision {
            return Ok(None);
        }
        for (section, entities) in page.network {
            let Value::Array(entities) = entities else { continue };
            let known = network.entry(section).or_insert_with(|| json!([]));
            if let Value::Array(known) = known {
                known.extend(entities);
            }
        }
        let count: usize = network.values().filter_map(Value::as_array).map(Vec::len).sum();
        let entities = counted(count, "entity", "entities");
        progress.set_message(format!("reading the network: {entities}"));
        match page.next {
            Some(next) => after = next,
            None => return Ok(Some(network)),
        }
    }
}

fn with_header(network: Map<String, Value>) -> Value {
    let mut all = Map::new();
    all.insert(HEADER.to_owned(), FORMAT.into());
    all.extend(network);
    Value::Object(all)
}

/// The text of the file: a comment, and the sections with blank lines between them.
fn text(network: Map<String, Value>) -> String {
    let mut text = format!(
        "# A weft network: `weft diff FILE` says what would change to make it so, `weft apply FILE`\n\
         # makes it so. What an entity does not say has its default.\n{HEADER}: {FORMAT}\n"
    );
    for (section, entities) in network {
        let mut one = Map::new();
        one.insert(section, entities);
        text.push('\n');
        text.push_str(&yaml::write(&Value::Object(one)));
    }
    text
}

/// Refuses a name that was meant as the format, and a file that no export wrote.
fn check(path: &Path) -> Result<()> {
    if let Some(name) = ["json", "yaml", "table"].iter().find(|name| path == Path::new(name)) {
        return Err(Failure::usage(format!(
            "-o {name}: -o names the file of an export, `--output json` the format; a file of this name \
             is ./{name}"
        )));
    }
    let Ok(there) = fs::metadata(path) else { return Ok(()) };
    if !there.is_file() || there.len() == 0 || is_export(path) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} exists and is no export: it stays as it is. Name another file, or remove this one",
        path.display()
    )))
}

/// Whether a file begins like an export of weft's form, or like one in YAML for OpenZiti. JSON for OpenZiti has no mark.
fn is_export(path: &Path) -> bool {
    let mut start = [0; 1024];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut start));
    let start = read.map(|count| String::from_utf8_lossy(start.get(..count).unwrap_or_default()));
    start.is_ok_and(|start| {
        if start.starts_with(FOR_OPENZITI) {
            return true;
        }
        let mut lines = start.lines().map(|line| line.trim().replace('"', ""));
        lines.any(|line| line.strip_suffix(',').unwrap_or(&line) == format!("{HEADER}: {FORMAT}"))
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    // A symbolic link is followed, so that it stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_file = fs::metadata(&target).map_or(true, |there| there.is_file());
    let written = match target.file_name().filter(|_| is_file) {
        Some(name) => whole(&target, name, text),
        // `/dev/stdout` and similar.
        None => fs::write(&target, text),
    };
    written.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    output::line(format!("the network is in {}", path.display()));
    Ok(())
}

/// Writes a new file beside the old one and renames it: if the disk is full, the old file stays.
fn whole(target: &Path, name: &OsStr, text: &str) -> io::Result<()> {
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    let beside = target.with_file_name(beside);
    let written = fs::write(&beside, text).and_then(|()| {
        if let Ok(old) = fs::metadata(target) {
            fs::set_permissions(&beside, old.permissions())?;
        }
        fs::rename(&beside, target)
    });
    written.inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.yaml");
        write(&path, "one").unwrap();
        write(&path, "other").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "other");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("no/network.yaml"), "one").is_err());
        assert!(write(folder.path(), "one").is_err());
    }

    #[test]
    fn only_exports_are_replaced_and_formats_are_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network");
        let mut network = Map::new();
        network.insert("services".to_owned(), json!([]));
        let json = format!("{:#}\n", with_header(network.clone()));
        check(&path).unwrap();
        for there in [text(network.clone()), json, String::new(), "# mine\nweft: 1\n".to_owned()] {
            fs::write(&path, &there).unwrap();
            check(&path).unwrap_or_else(|error| panic!("{there}: {error}"));
        }
        let left = openziti::leave(network, |_| true).document;
        fs::write(&path, text_for_openziti(&left, DocumentFormat::Yaml)).unwrap();
        check(&path).unwrap();
        // It may be an export of another network, by OpenZiti's own program.
        let json = text_for_openziti(&left, DocumentFormat::Json);
        for there in ["a letter\n", "{\n  \"weft\": 17\n}\n", "services: []\n", &json] {
            fs::write(&path, there).unwrap();
            assert!(check(&path).unwrap_err().to_string().contains("is no export"), "{there}");
        }
        let error = check(Path::new("json")).unwrap_err().to_string();
        assert!(error.contains("`--output json`"), "{error}");
    }

    #[test]
    fn files_say_what_they_are() {
        let mut network = Map::new();
        network.insert("services".to_owned(), json!([{"name": "web"}]));
        let text = text(network);
        assert!(text.starts_with("# A weft network"), "{text}");
        assert!(text.ends_with("weft: 1\n\nservices:\n  - name: web\n"), "{text}");
        let read = yaml::read(&text).unwrap();
        assert_eq!(read[0].to_json()["weft"], 1);
    }

    #[test]
    fn kinds_are_taken_in_any_spelling() {
        let given = ["service".to_owned(), "ers".to_owned(), "service-policies".to_owned()];
        assert_eq!(sections(&given).unwrap(), "services,edge-routers,service-policies");
        for unknown in ["x", "terminators"] {
            assert!(sections(&[unknown.to_owned()]).is_err());
        }
    }
}
