//! Writes the Rust types of `proto/*.proto` to `generated`: `cargo run -p weft-wire --example proto`.
//!
//! They are written once, and not by each build, which would first have to compile a compiler of such files.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Messages with secrets in them, and the fields that their `Debug` shows.
const SECRET: [(&str, &[&str]); 15] = [
    (
        "weft.ctrl.CreateTerminatorRequest",
        &["service_id", "binding", "address", "cost", "precedence", "instance_id"],
    ),
    ("weft.edge_ctrl.ApiSession", &["id", "identity_id"]),
    ("weft.edge_ctrl.ApiSessionRemoved", &["ids"]),
    ("weft.edge_ctrl.ApiSessionHeartbeat", &[]),
    ("weft.edge_ctrl.SessionRemoved", &["ids"]),
    ("weft.edge_ctrl.ValidateSessionsRequest", &[]),
    ("weft.edge_ctrl.CreateCircuitRequest", &["terminator_instance_id"]),
    ("weft.edge_ctrl.CreateTerminatorV2Request", &["address", "cost", "precedence", "instance_id"]),
    (
        "weft.edge_ctrl.UpdateTerminatorRequest",
        &["terminator_id", "cost", "precedence", "update_cost", "update_precedence"],
    ),
    ("weft.edge_ctrl.RemoveTerminatorRequest", &["terminator_id"]),
    ("weft.edge_ctrl.HealthEventRequest", &["terminator_id", "check_passed"]),
    (
        "weft.edge_ctrl.CreateTunnelTerminatorRequestV2",
        &["service_id", "address", "cost", "precedence", "instance_id"],
    ),
    ("weft.edge_client.TotpToken", &[]),
    ("weft.etcd.AuthenticateRequest", &["name"]),
    ("weft.etcd.AuthenticateResponse", &[]),
];

/// The enumeration whose values are also in configs, as words.
const PRECEDENCE: &str = "weft.ctrl.TerminatorPrecedence";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = folder("generated");
    std::fs::create_dir_all(&folder)?;
    for (name, text) in types(&folder)? {
        std::fs::write(folder.join(&name), text)?;
        println!("crates/shared/wire/generated/{name}");
    }
    Ok(())
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names and texts of the files of types, which are made in a folder.
fn types(made_in: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let proto = folder("proto");
    let descriptions = files_in(&proto)?;
    let descriptors = protox::compile(&descriptions, [&proto])?;
    prost_build::Config::new()
        .btree_map(["."])
        .bytes(["."])
        .skip_debug(SECRET.map(|(message, _)| message))
        .type_attribute(PRECEDENCE, "#[derive(serde::Deserialize)]")
        .type_attribute(PRECEDENCE, "#[serde(rename_all = \"lowercase\")]")
        .out_dir(made_in)
        .compile_fds(descriptors)?;
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let package = name.trim_end_matches(".rs");
        let mut text = std::fs::read_to_string(&path)?;
        for (message, shown) in SECRET {
            if let Some((_, message)) = message.rsplit_once('.').filter(|(of, _)| *of == package) {
                text += &debug(message, shown);
            }
        }
        Ok((name, text))
    };
    files_in(made_in)?.into_iter().map(read).collect()
}

/// The `Debug` of a message, which shows these fields only.
fn debug(message: &str, shown: &[&str]) -> String {
    let fields =
        shown.iter().map(|field| format!("\n            .field(\"{field}\", &self.{field})"));
    let fields: String = fields.collect();
    format!(
        "impl ::core::fmt::Debug for {message} {{
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{
        f.debug_struct(\"{message}\"){fields}
            .finish_non_exhaustive()
    }}
}}
"
    )
}

fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let files: std::io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    files.map(|mut files| {
        files.sort();
        files
    })
}

#[test]
fn the_types_are_those_of_the_descriptions() {
    let made_in = tempfile::tempdir().unwrap();
    let made = types(made_in.path()).unwrap();
    let kept = files_in(&folder("generated")).unwrap();
    assert_eq!(made.len(), kept.len());
    for (name, text) in made {
        let kept = std::fs::read_to_string(folder("generated").join(&name)).unwrap();
        assert!(kept == text, "{name} is old: cargo run -p weft-wire --example proto");
    }
}
