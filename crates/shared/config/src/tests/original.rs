//! Files of the original's controller become files of weft's.

use super::none;
use crate::ControllerConfig;
use crate::original::{
    Conversion, ConvertedFile, KeyFate, KeyOutcome, OriginalDatabase, ReferenceSource,
    original_keys,
};

mod files;
mod layout;
mod table;

const STORE: &str = "/var/lib/weft/weft.db";

/// The least that a file of the original has, without a final section.
const LEAST: &str = "v: 3
db: /old/ctrl.db
identity: {cert: c.pem, server_cert: s.pem, key: k.pem, ca: a.pem}
ctrl: {listener: 'tls:0.0.0.0:6262'}
";

fn convert(text: &str) -> ConvertedFile {
    Conversion::new(STORE, &none).convert(text).unwrap()
}

/// The notes of a file, one a line; that of the store is left out.
fn notes(converted: &ConvertedFile) -> String {
    let others = converted.notes.iter().filter(|note| note.key != "db");
    others.map(|note| format!("{note}\n")).collect()
}

/// Reads the text as weft's controller does, and gives mistakes, warnings and keys without effect.
fn read(converted: &ConvertedFile) -> String {
    let path = "weft.yml".as_ref();
    let examined = ControllerConfig::examine(&converted.text, path, &none).unwrap();
    let all = examined.problems.iter().chain(&examined.warnings).chain(&examined.not_acted_upon);
    all.map(|about| format!("{about}\n")).collect()
}
